// How values are distributed over time: bands of quantiles, ridgelines, the histogram at a step.
import { el } from "./dom.js";
import { symlog, symlogTicks, ticks, tickText, whole } from "./format.js";
import { theme, categories, scales, css } from "./colour.js";
import { Chart } from "./chart.js";
import { Sight } from "./sight.js";
import { Screen } from "./surface.js";
import { exportMenu } from "./export.js";

const MOST_RIDGES = 16,
    BINS = 96;

// ---- Quantile bands --------------------------------------------------------------------------------------

// From least to greatest, 5 to 95 %, 25 to 75 %, and the median.
export class Bands extends Chart {
    setRecords(records) {
        this.records = records;
        const column = (q) => Float64Array.from(records, (record) => record.quantiles[q]);
        const x = Float64Array.from(records, (record) => this.time.toAxis(record.step)),
            none = new Float64Array(records.length);
        // The legend says a band's ends; the line in it is the median's.
        const band = (name, low, high) => ({
            name,
            band: true,
            colour: categories[0],
            x,
            mean: column(3),
            min: column(low),
            max: column(high),
            bad: none,
        });
        this.set([
            { name: "median", colour: categories[0], x, mean: column(3), min: column(0), max: column(6), bad: none },
            band("5 … 95 %", 1, 5),
            band("25 … 75 %", 2, 4),
        ]);
    }
}

// An axis for the values of histograms: that of the bulk, because the tails are a few values. Symmetric logarithmic
// (small > 0) where the bulk is within a hundredth of it.
function axisOf(records) {
    const reach = (q, pick) => pick(...records.map((r) => r.quantiles[q]).filter(Number.isFinite)),
        [least, greatest] = [reach(0, Math.min), reach(6, Math.max)],
        bulk = reach(5, Math.max) - reach(1, Math.min),
        narrow = Math.max(...records.map((r) => Math.abs(r.quantiles[4] - r.quantiles[2]))),
        size = Math.max(Math.abs(least), Math.abs(greatest)),
        wide = narrow > 0 && size / narrow > 200;
    let low = wide ? least : Math.max(least, reach(1, Math.min) - bulk),
        high = wide ? greatest : Math.min(greatest, reach(5, Math.max) + bulk);
    if (!(high > low)) {
        [low, high] = [least - 0.5, greatest + 0.5];
    }
    const small = wide ? Math.max(narrow / 2, size * 1e-5) : 0,
        map = small ? (v) => symlog(v, small) : (v) => v,
        back = small ? (v) => Math.sign(v) * small * (10 ** Math.abs(v) - 1) : (v) => v,
        span = map(high) - map(low);
    return {
        small,
        share: (v) => (map(v) - map(low)) / span,
        at: (share) => back(map(low) + share * span),
        ticks: (most) => (small ? symlogTicks(low, high, small, 2) : ticks(low, high, most)),
    };
}

// How many values of a record are in each of `count` bins along an axis.
function density(record, axis, count) {
    const made = new Float64Array(count);
    for (let i = 0; i < record.bins.length; i += 3) {
        const [left, right, number] = record.bins.subarray(i, i + 3);
        const from = axis.share(left) * count,
            to = Math.max(axis.share(right) * count, from + 1e-9);
        for (let k = Math.max(0, Math.floor(from)); k < Math.min(count, Math.ceil(to)); k++) {
            made[k] += (number * (Math.min(to, k + 1) - Math.max(from, k))) / (to - from);
        }
    }
    return made;
}

// ---- Ridgelines ------------------------------------------------------------------------------------------

// Histograms behind each other, the latest in front: all at once, on one axis.
export class Ridges {
    constructor(time, title) {
        this.time = time;
        this.title = title;
        this.canvas = el("canvas", { class: "base", role: "img", "aria-label": `${title}: distributions over time` });
        this.screen = new Screen(this.canvas);
        this.box = el("div", { class: "plot" }, this.canvas);
        this.box.style.height = "240px";
        this.records = [];
        this.note = el("span", { class: "note" });
        this.element = el(
            "figure",
            { class: "chart" },
            el("figcaption", {}, el("span", {}, "distributions"), this.note, exportMenu(this)),
            this.box,
        );
        const redraw = () => this.draw(this.screen);
        this.sight = new Sight(this.box, time, {
            moved: () => (this.drawn === this.scrubbed() ? undefined : redraw()),
            resized: redraw,
        });
    }

    remove() {
        this.sight.remove();
    }

    // The record at or before the scrubbed step.
    scrubbed() {
        return this.records.reduce((best, record, i) => (record.step <= this.time.step ? i : best), 0);
    }

    // The latest sixteen of them, evenly over the run: more lie on top of each other.
    set(records) {
        const every = Math.max(1, (records.length - 1) / (MOST_RIDGES - 1));
        this.records = records.filter((record, i) => i === Math.round(Math.round(i / every) * every));
        this.axis = axisOf(this.records);
        this.densities = this.records.map((record) => density(record, this.axis, BINS));
        this.note.textContent = this.axis.small
            ? "symmetric logarithmic; the scrubbed step is marked"
            : "the scrubbed step is marked";
        this.draw(this.screen);
    }

    draw(surface) {
        const width = this.sight.width || 300,
            height = 240,
            page = theme(),
            left = 10,
            bottom = 22;
        surface.begin(width, height);
        if (!this.records.length) {
            return;
        }
        const plot = width - left - 66,
            x = (v) => left + this.axis.share(v) * plot;
        for (const tick of this.axis.ticks(Math.max(3, Math.floor(plot / 90)))) {
            surface.text(x(tick), height - 9, tickText(tick), page.quiet, "center", 12);
        }
        const scrubbed = this.scrubbed(),
            room = height - bottom - 60;
        this.drawn = scrubbed;
        this.records.forEach((record, i) => {
            const base = 58 + (room * (i + 1)) / this.records.length,
                all = this.densities[i],
                most = Math.max(...all) || 1,
                points = [left, base],
                own = i === scrubbed,
                colour = own ? page.accent : css(scales.viridis, 0.1 + (0.6 * i) / this.records.length);
            all.forEach((number, k) =>
                points.push(left + ((k + 0.5) / BINS) * plot, base - 54 * Math.sqrt(number / most)),
            );
            points.push(left + plot, base);
            surface.area(points, page.back, 1);
            surface.area(points, colour, own ? 0.55 : 0.3);
            surface.line(points, colour, own ? 2.2 : 1);
            if (own || i === 0 || i === this.records.length - 1) {
                surface.text(
                    width - 4,
                    base - 3,
                    whole(record.step),
                    own ? page.accent : page.quiet,
                    "right",
                    12,
                    own ? 600 : 400,
                );
            }
        });
    }

    rows() {
        return [
            ["step", "left", "right", "count"],
            ...this.records.flatMap((record) => {
                const rows = [];
                for (let i = 0; i < record.bins.length; i += 3) {
                    rows.push([record.step, ...record.bins.subarray(i, i + 3)]);
                }
                return rows;
            }),
        ];
    }
}

// ---- The histogram at the scrubbed step ------------------------------------------------------------------

export function drawHistogram(screen, width, record) {
    const page = theme(),
        height = 150;
    screen.begin(width, height);
    if (!record || !record.bins.length) {
        return;
    }
    const axis = axisOf([record]),
        x = (v) => 8 + axis.share(v) * (width - 16),
        bins = density(record, axis, 64),
        most = Math.max(...bins) || 1,
        wide = (width - 16) / bins.length;
    bins.forEach((count, i) => {
        const tall = Math.sqrt(count / most) * (height - 30);
        screen.rect(8 + i * wide, height - 22 - tall, wide - 1, tall, categories[0]);
    });
    for (const tick of axis.ticks(Math.max(3, Math.floor(width / 90)))) {
        screen.text(x(tick), height - 9, tickText(tick), page.quiet, "center", 12);
    }
}
