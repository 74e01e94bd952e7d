// The rows of a tensor as points: the plane in which they differ most (PCA), coloured by their labels.
import { el, replace } from "./dom.js";
import { ticks, tickText, whole } from "./format.js";
import { categories, css, scales, theme } from "./colour.js";
import { Screen } from "./surface.js";
import { exportMenu } from "./export.js";
import { fetchExamples, fetchProjection } from "./source.js";
import { FORMS } from "./layers.js";

const SIZE = 420,
    EDGE = 46;

export class Projection {
    constructor(context, signal) {
        this.context = context;
        this.signal = signal;
        this.title = `${signal.name} projection`;
        this.canvas = el("canvas", { role: "img", "aria-label": `${signal.name}: projection of its rows` });
        this.screen = new Screen(this.canvas);
        this.note = el("span", { class: "note" });
        this.key = el("div", { class: "key" });
        this.element = el(
            "figure",
            { class: "chart" },
            el("figcaption", {}, el("strong", {}, "Projection"), this.note, exportMenu(this)),
            this.canvas,
            this.key,
        );
        this.canvas.addEventListener("pointermove", (event) => this.point(event.offsetX, event.offsetY));
    }

    async load() {
        const { run, time } = this.context,
            data = await fetchProjection(run.id, this.signal.id, time.step);
        if (!data.labels.length) {
            data.labels = await this.labelsOf(data.samples);
        }
        this.data = data;
        this.classes = [...new Set(data.labels.filter((label) => label !== null))].sort((a, b) => a - b);
        const percent = data.explained.map((share) => `${(100 * share).toPrecision(3)} %`);
        this.note.textContent =
            `PCA of ${whole(data.rows)} rows${data.rows < data.all ? ` of ${whole(data.all)}` : ""} × ${whole(data.features)} values` +
            `${data.features < data.allFeatures ? ` of ${whole(data.allFeatures)}` : ""}, step ${whole(data.step)}: ` +
            `across ${percent[0]} of the variance, upwards ${percent[1]}`;
        this.draw(this.screen);
        replace(
            this.key,
            this.classes.length && this.classes.length <= 20
                ? this.classes.map((label) =>
                      el(
                          "span",
                          { class: "entry" },
                          el("span", { class: "swatch", style: { borderColor: this.colour(label) } }),
                          String(label),
                      ),
                  )
                : el("span", { class: "quiet" }, this.classes.length ? "colour: the label" : "labels are not known"),
        );
    }

    // Labels of rows of the data set, from recorded predictions.
    async labelsOf(samples) {
        const { run, time } = this.context,
            signal = run.signals.find((s) => s.kind === "prediction" && s.forms & FORMS.rows),
            got = signal && (await fetchExamples(run.id, signal.id, time.step).catch(() => null)),
            known = new Map((got?.examples || []).map((example) => [example.sample, example.label]));
        return samples.some((sample) => known.has(sample)) ? samples.map((sample) => known.get(sample) ?? null) : [];
    }

    colour(label) {
        const at = this.classes.indexOf(label);
        return at < 0
            ? theme().quiet
            : this.classes.length <= 8
              ? categories[at]
              : css(scales.viridis, at / (this.classes.length - 1));
    }

    scale() {
        const [xs, ys] = this.data.places,
            ends = (values) => [values.reduce((a, b) => Math.min(a, b), 0), values.reduce((a, b) => Math.max(a, b), 0)],
            [left, right] = ends(xs),
            [low, high] = ends(ys),
            span = Math.max(right - left, high - low) || 1;
        // One scale for both: distances are comparable.
        return {
            left,
            low,
            span,
            x: (v) => EDGE + ((v - left) / span) * (SIZE - EDGE - 12),
            y: (v) => SIZE - 26 - ((v - low) / span) * (SIZE - 40),
        };
    }

    draw(surface) {
        const page = theme(),
            { left, low, span, x, y } = this.scale(),
            [xs, ys] = this.data.places;
        surface.begin(SIZE, SIZE);
        for (const tick of ticks(left, left + span, 5)) {
            surface.text(x(tick), SIZE - 10, tickText(tick), page.quiet, "center", 12);
        }
        for (const tick of ticks(low, low + span, 5)) {
            surface.line([EDGE, y(tick), SIZE - 8, y(tick)], page.line, 1);
            surface.text(EDGE - 6, y(tick), tickText(tick), page.quiet, "right", 12);
        }
        xs.forEach((v, i) => surface.rect(x(v) - 2.5, y(ys[i]) - 2.5, 5, 5, this.colour(this.data.labels[i]), 0.8));
    }

    point(px, py) {
        if (!this.data) {
            return;
        }
        const { x, y } = this.scale(),
            [xs, ys] = this.data.places;
        let best = -1,
            near = 64;
        xs.forEach((v, i) => {
            const far = (x(v) - px) ** 2 + (y(ys[i]) - py) ** 2;
            if (far < near) {
                [best, near] = [i, far];
            }
        });
        const label = this.data.labels[best];
        this.canvas.title =
            best < 0
                ? ""
                : `row ${this.data.samples[best]}${label === undefined || label === null ? "" : `, label ${label}`}`;
    }

    rows() {
        const { places, samples, labels } = this.data;
        return [
            ["row", "label", "first", "second", "third"],
            ...samples.map((sample, i) => [sample, labels[i] ?? null, places[0][i], places[1][i], places[2][i]]),
        ];
    }
}
