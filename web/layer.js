// One layer: everything that was recorded of it, over time and at the scrubbed step.
import { choice, code, el, message, nameText, numeral, replace } from "./dom.js";
import { ticks, tickText, whole } from "./format.js";
import { theme, categories, scales, css } from "./colour.js";
import { Chart, lineOf } from "./chart.js";
import { Heat } from "./heat.js";
import { Screen } from "./surface.js";
import { exportMenu } from "./export.js";
import { fetchSeries, fetchHistograms, fetchStats, fetchUnits, fetchTensor, fetchImage } from "./source.js";
import { go, link, value } from "./state.js";
import { FORMS, layerNames } from "./layers.js";
import { gallery, pictureOf } from "./tensor.js";

// ---- Quantile bands --------------------------------------------------------------------------------------

// From least to greatest, 5 to 95 %, 25 to 75 %, and the median.
class Bands extends Chart {
    setRecords(records) {
        this.records = records;
        const column = (q) => Float64Array.from(records, (record) => record.quantiles[q]);
        const x = Float64Array.from(records, (record) => this.time.toAxis(record.step)),
            none = new Float64Array(records.length);
        this.set([
            { name: "median", colour: categories[0], x, mean: column(3), min: column(0), max: column(6), bad: none },
            { name: "5 … 95 %", colour: categories[0], x, mean: column(3), min: column(1), max: column(5), bad: none },
            { name: "25 … 75 %", colour: categories[0], x, mean: column(3), min: column(2), max: column(4), bad: none },
        ]);
    }
}

// How many values of a record are in each of so many bins from low to high.
function density(record, low, high, count) {
    const made = new Float64Array(count),
        width = (high - low) / count;
    for (let i = 0; i < record.bins.length; i += 3) {
        const [left, right, number] = record.bins.subarray(i, i + 3);
        const from = (left - low) / width,
            to = Math.max((right - low) / width, from + 1e-9);
        for (let k = Math.max(0, Math.floor(from)); k < Math.min(count, Math.ceil(to)); k++) {
            made[k] += (number * (Math.min(to, k + 1) - Math.max(from, k))) / (to - from);
        }
    }
    return made;
}

// ---- Ridgelines ------------------------------------------------------------------------------------------

// Histograms behind each other, the latest in front: all at once, on one axis.
class Ridges {
    constructor(time, title) {
        this.time = time;
        this.title = title;
        this.canvas = el("canvas", { class: "base", role: "img", "aria-label": `${title}: distributions over time` });
        this.screen = new Screen(this.canvas);
        this.box = el("div", { class: "plot" }, this.canvas);
        this.box.style.height = "240px";
        this.records = [];
        this.element = el(
            "figure",
            { class: "chart" },
            el(
                "figcaption",
                {},
                el("span", {}, "distributions"),
                el("span", { class: "note" }, "each line is a step; the scrubbed one is marked"),
                exportMenu(this),
            ),
            this.box,
        );
        this.observer = new ResizeObserver(() => this.draw(this.screen));
        this.observer.observe(this.box);
        this.stop = time.on((kind) => kind === "step" && this.draw(this.screen));
    }

    remove() {
        this.observer.disconnect();
        this.stop();
    }

    set(records) {
        this.records = records;
        const low = Math.min(...records.map((r) => r.quantiles[0])),
            high = Math.max(...records.map((r) => r.quantiles[6]));
        const reach = (q, pick) => pick(...records.map((r) => r.quantiles[q]));
        // The tails are a few values: the axis is that of the bulk, and says so.
        this.low = Math.max(low, reach(1, Math.min) - (reach(5, Math.max) - reach(1, Math.min)));
        this.high = Math.min(high, reach(5, Math.max) + (reach(5, Math.max) - reach(1, Math.min)));
        if (!(this.high > this.low)) {
            [this.low, this.high] = [low - 0.5, high + 0.5];
        }
        this.draw(this.screen);
    }

    draw(surface) {
        const width = this.box.clientWidth || 300,
            height = 240,
            page = theme(),
            left = 10,
            bottom = 22,
            count = 96;
        surface.begin(width, height);
        if (!this.records.length) {
            return;
        }
        const plot = width - left - 66,
            x = (v) => left + ((v - this.low) / (this.high - this.low)) * plot;
        for (const tick of ticks(this.low, this.high, Math.max(2, Math.floor(plot / 90)))) {
            surface.text(x(tick), height - 9, tickText(tick), page.quiet, "center", 12);
        }
        const scrubbed = this.records.reduce((best, record, i) => (record.step <= this.time.step ? i : best), 0);
        const room = height - bottom - 60;
        this.records.forEach((record, i) => {
            const base = 58 + (room * (i + 1)) / this.records.length,
                all = density(record, this.low, this.high, count),
                most = Math.max(...all) || 1,
                points = [x(this.low), base];
            all.forEach((number, k) =>
                points.push(
                    x(this.low + ((k + 0.5) / count) * (this.high - this.low)),
                    base - 54 * Math.sqrt(number / most),
                ),
            );
            points.push(x(this.high), base);
            surface.area(points, page.back, 0.85);
            const own = i === scrubbed;
            surface.line(
                points,
                own ? page.accent : css(scales.viridis, 0.1 + (0.6 * i) / this.records.length),
                own ? 2.2 : 1,
            );
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

function drawHistogram(canvas, record) {
    const screen = new Screen(canvas),
        page = theme(),
        width = canvas.parentElement.clientWidth || 320,
        height = 150;
    screen.begin(width, height);
    if (!record || !record.bins.length) {
        return;
    }
    const [low, , , , , , high] = record.quantiles,
        q05 = record.quantiles[1],
        q95 = record.quantiles[5],
        reach = q95 - q05 || Math.abs(q95) || 1;
    const from = Math.max(low, q05 - reach),
        to = Math.min(high, q95 + reach),
        x = (v) => 8 + ((v - from) / (to - from || 1)) * (width - 16);
    const bins = density(record, from, to, 64),
        most = Math.max(...bins) || 1,
        wide = (width - 16) / bins.length;
    bins.forEach((count, i) => {
        const tall = Math.sqrt(count / most) * (height - 30);
        screen.rect(8 + i * wide, height - 22 - tall, wide - 1, tall, categories[0]);
    });
    for (const tick of ticks(from, to, Math.max(2, Math.floor(width / 90)))) {
        screen.text(x(tick), height - 9, tickText(tick), page.quiet, "center", 12);
    }
}

// ---- Panels ----------------------------------------------------------------------------------------------

const order = ["output", "preactivation", "error", "parameter", "gradient", "update"];
const words = {
    output: "output",
    preactivation: "before the activation",
    error: "error (dLoss / dOutput)",
    parameter: "weights",
    gradient: "gradient",
    update: "update",
};

function signalPanel(context, signal) {
    const { run, time } = context,
        title = words[signal.kind] || signal.name,
        parts = [];
    const heading = el(
        "h2",
        {},
        title,
        signal.parameter ? el("span", { class: "quiet" }, " ", nameText(signal.parameter)) : "",
    );
    const box = el("section", { "aria-label": signal.name }, heading),
        loads = [];
    if (signal.forms & FORMS.stats) {
        const chart = new Chart(time, { title: `${signal.name} norm`, heading: el("span", {}, "norm"), height: 130 });
        parts.push(chart);
        loads.push(async () => {
            const [norm] = await fetchSeries(
                run.id,
                [signal.id],
                "norm",
                Math.floor(time.from),
                Math.ceil(time.to),
                Math.round(chart.width * 2),
            );
            chart.set([lineOf(norm, time, { name: "norm", colour: categories[0] })]);
        });
    }
    if (signal.forms & FORMS.histogram) {
        const bands = new Bands(time, {
            title: `${signal.name} quantiles`,
            heading: el("span", {}, "quantiles"),
            height: 160,
            log: false,
        });
        const ridges = new Ridges(time, signal.name),
            canvas = el("canvas", {}),
            at = el("span", { class: "note" });
        const now = el(
            "figure",
            { class: "chart" },
            el("figcaption", {}, el("span", {}, "histogram"), at),
            el("div", {}, canvas),
        );
        parts.push(bands, ridges, { element: now, remove: context.time.on((kind) => kind === "step" && pick()) });
        let records = [];
        const pick = () => {
            const record = records.reduce((best, r) => (r.step <= time.step ? r : best), records[0]);
            at.textContent = record ? `step ${whole(record.step)}, height is the root of the count` : "";
            drawHistogram(canvas, record);
        };
        loads.push(async () => {
            records = await fetchHistograms(run.id, signal.id, Math.floor(time.from), Math.ceil(time.to), 48, true);
            bands.setRecords(records);
            if (records.length) {
                ridges.set(records);
            }
            pick();
        });
    }
    if (signal.forms & FORMS.image) {
        const canvas = el("canvas", { class: "pixel" }),
            box2 = el(
                "figure",
                { class: "chart" },
                el("figcaption", {}, el("span", {}, "picture at the step")),
                canvas,
            );
        const draw = async () => {
            const bitmap = await fetchImage(run.id, signal.id, time.step);
            const scale = Math.max(1, Math.min(6, Math.floor(420 / bitmap.width)));
            canvas.width = bitmap.width;
            canvas.height = bitmap.height;
            canvas.style.width = `${bitmap.width * scale}px`;
            canvas.getContext("2d").drawImage(bitmap, 0, 0);
        };
        parts.push({ element: box2, remove: lazily(time, draw) });
        loads.push(() => draw().catch(() => {}));
    }
    if (signal.forms & FORMS.tensor) {
        parts.push(...tensorParts(context, signal, loads));
    }
    box.append(
        el(
            "div",
            { class: "columns" },
            parts.map((part) => part.element),
        ),
    );
    context.onclose(() => parts.forEach((part) => typeof part.remove === "function" && part.remove()));
    return { element: box, load: () => Promise.all(loads.map((load) => load())) };
}

// Calls draw a moment after the scrubber has come to rest.
function lazily(time, draw) {
    let waiting = 0;
    return time.on((kind) => {
        if (kind === "step") {
            clearTimeout(waiting);
            waiting = setTimeout(() => draw().catch(() => {}), 90);
        }
    });
}

function tensorParts(context, signal, loads) {
    const { run, time } = context,
        made = [];
    const pictures = el("div", { class: "pictures" });
    const figure = el(
        "figure",
        { class: "chart" },
        el(
            "figcaption",
            {},
            el("span", {}, signal.kind === "parameter" ? "values" : "first example"),
            el("a", { class: "note", href: link("tensor", run.id, { signal: signal.id }) }, "open the tensor"),
        ),
        pictures,
    );
    const draw = async () => {
        replace(pictures, await slices(context, signal));
    };
    made.push({ element: figure, remove: lazily(time, draw) });
    loads.push(() => draw().catch(() => {}));
    if (signal.kind === "output" || signal.kind === "preactivation" || signal.kind === "error") {
        const units = unitsPanel(context, signal);
        made.push(units);
        loads.push(units.load);
    }
    return made;
}

// A kernel [h, w, in, out] or the channels of the first picture [n, h, w, c] beside each other; all else as one.
async function slices(context, signal) {
    const kernel = signal.kind === "parameter" || signal.kind === "gradient" || signal.kind === "update",
        ask = (at) => fetchTensor(context.run.id, signal.id, context.time.step, at),
        tensor = await ask(kernel ? ":,:,0,*" : "0,:,:,*").catch(() => ask());
    if (tensor.shape.length !== 4 || tensor.slices * tensor.rows * tensor.columns !== tensor.values.length) {
        return [pictureOf(tensor.shape.length === 4 ? tensor : await ask(), 300)];
    }
    const all = tensor.shape[3];
    return [
        gallery(tensor, kernel ? 44 : 64, String),
        all > tensor.slices ? el("p", { class: "quiet" }, `${tensor.slices} of ${all}`) : "",
    ];
}

// Units x time: which are dead, which are loud.
function unitsPanel(context, signal) {
    const { run, time } = context;
    const heat = new Heat(time, {
        title: `units of ${signal.name}`,
        label: "mean magnitude",
        height: 260,
        hint: "a row is a unit",
    });
    const said = el("p", { class: "quiet" });
    const element = el("div", {}, heat.element, said);
    let describe = () => {};
    const stop = time.on((kind) => kind === "step" && describe());
    return {
        element,
        remove: () => {
            stop();
            heat.remove();
        },
        load: async () => {
            const units = await fetchUnits(run.id, signal.id),
                count = units.steps.length;
            if (!count) {
                return;
            }
            const columns = Math.max(1, Math.min(600, time.to - time.from + 1)),
                zeros = (i, u) => units.values[2 * (i * units.shown + u) + 1],
                rows = [];
            for (let u = 0; u < units.shown; u++) {
                const made = () => new Float64Array(columns).fill(NaN),
                    row = { values: made(), bad: made().fill(-1), from: made(), to: made() };
                units.steps.forEach((step, i) => {
                    const c = Math.floor(((step - time.from) / (time.to - time.from + 1)) * columns),
                        magnitude = units.values[2 * (i * units.shown + u)];
                    if (c >= 0 && c < columns) {
                        row.values[c] = magnitude;
                        row.bad[c] = Number.isFinite(magnitude) ? 0 : 1;
                        row.from[c] = row.to[c] = step;
                    }
                });
                rows.push({ ...row, name: `unit ${u}`, until: signal.last });
            }
            heat.set(rows);
            replace(heat.caption, el("span", {}, "units × time"));
            describe = () => {
                const at = Math.max(
                        0,
                        units.steps.findLastIndex((step) => step <= time.step),
                    ),
                    index = Array.from({ length: units.shown }, (unused, u) => u),
                    now = index.filter((u) => zeros(at, u) >= 1),
                    always = index.filter((u) => units.steps.every((step, i) => zeros(i, u) >= 1)),
                    nearly = index.filter((u) => zeros(at, u) >= 0.99 && zeros(at, u) < 1);
                said.textContent =
                    `Step ${whole(units.steps[at])}: ` +
                    (now.length
                        ? `${now.length} of ${units.shown} units are zero for every recorded example`
                        : "no unit is zero for every recorded example") +
                    (nearly.length ? `, ${nearly.length} more for at least 99 % of them` : "") +
                    `. ${always.length ? always.length : "No unit"} in all ${whole(count)} recorded tensors` +
                    (units.shown < units.units ? `; the first ${units.shown} of ${units.units} units are shown.` : ".");
            };
            describe();
        },
    };
}

// |update| / |weight|, where both are recorded; else |gradient| / |weight|.
function ratioPanel(context, signals) {
    const { run, time } = context,
        pairs = [];
    for (const weight of signals.filter((s) => s.kind === "parameter" && s.forms & FORMS.stats)) {
        const of = (kind) =>
            signals.find((s) => s.kind === kind && s.parameter === weight.parameter && s.forms & FORMS.stats);
        const change = of("update") || of("gradient");
        if (change) {
            pairs.push({ weight, change });
        }
    }
    if (!pairs.length) {
        return null;
    }
    const update = pairs[0].change.kind === "update",
        title = update ? "update / weight" : "gradient / weight";
    const chart = new Chart(time, { title, height: 150 });
    context.onclose(() => chart.remove());
    return {
        element: el(
            "section",
            { "aria-label": title },
            chart.element,
            el(
                "p",
                { class: "quiet" },
                update ? "Norms; about 1e−3 is healthy." : "Norms of what the loss asks for, before the optimizer.",
            ),
        ),
        load: async () => {
            const lines = [];
            for (const [i, { weight, change }] of pairs.entries()) {
                const [w, c] = await fetchSeries(
                    run.id,
                    [weight.id, change.id],
                    "norm",
                    Math.floor(time.from),
                    Math.ceil(time.to),
                    1000,
                );
                let k = 0;
                const ratio = Float64Array.from(c.mean, (norm, at) => {
                    while (k + 1 < w.count && w.first[k + 1] <= c.first[at]) {
                        k++;
                    }
                    return w.count ? norm / w.mean[k] : NaN;
                });
                lines.push(
                    lineOf({ ...c, mean: ratio, min: ratio, max: ratio }, time, {
                        name: weight.parameter,
                        colour: categories[i % 8],
                    }),
                );
            }
            chart.set(lines);
        },
    };
}

function statsTable(context, signals) {
    const { run, time } = context,
        box = el("section", { "aria-label": "numbers at the step", class: "scroll" });
    const columns = ["norm", "mean", "std", "min", "max", "zeros", "nan", "inf", "count"];
    const draw = async () => {
        const rows = await fetchStats(
            run.id,
            signals.filter((s) => s.forms & (FORMS.stats | FORMS.histogram)),
            time.step,
        );
        replace(
            box,
            rows.length
                ? el(
                      "table",
                      {},
                      el(
                          "thead",
                          {},
                          el(
                              "tr",
                              {},
                              el("th", {}, `at step ${whole(time.step)}`),
                              el("th", {}, "recorded at"),
                              columns.map((name) => el("th", {}, name)),
                          ),
                      ),
                      el(
                          "tbody",
                          {},
                          rows.map((row) =>
                              el(
                                  "tr",
                                  {},
                                  el("td", {}, nameText(row.name, 50)),
                                  el("td", {}, whole(row.step)),
                                  columns.map((name) =>
                                      el(
                                          "td",
                                          { class: (name === "nan" || name === "inf") && row[name] > 0 ? "bad" : "" },
                                          numeral(row[name]),
                                      ),
                                  ),
                              ),
                          ),
                      ),
                  )
                : "",
        );
    };
    context.onclose(lazily(time, draw));
    return { element: box, load: draw };
}

export const layerPage = {
    name: "layer",
    title: "Layer",
    async open(context) {
        const { run } = context,
            names = layerNames(run),
            layer = names.includes(value("layer")) ? value("layer") : names[names.length - 1];
        if (!layer) {
            replace(
                context.main,
                message(
                    "No layers in this run",
                    "Record signals of layers to see them here:",
                    code('record:\n  - {what: "*.output", every: 20 steps, form: [stats, histogram]}'),
                ),
            );
            return;
        }
        const signals = run.signals
            .filter((s) => s.layer === layer)
            .sort((a, b) => order.indexOf(a.kind) - order.indexOf(b.kind) || a.id - b.id);
        const wanted = Number(value("signal")),
            first = signals.findIndex((s) => s.id === wanted || (!wanted && s.kind === value("kind")));
        if (first > 0) {
            signals.unshift(...signals.splice(first, 1));
        }
        const about = (run.network || []).find((entry) => entry.name === layer);
        const chips =
            names.length > 60
                ? choice(
                      "layer",
                      names.map((name) => [name, name.slice(0, 80)]),
                      layer,
                      (name) => go("layer", run.id, { layer: name }),
                  )
                : el(
                      "ul",
                      { class: "chips", "aria-label": "layers" },
                      names.map((name) =>
                          el(
                              "li",
                              {},
                              el(
                                  "a",
                                  {
                                      href: link("layer", run.id, { layer: name }),
                                      "aria-current": name === layer ? "true" : null,
                                  },
                                  nameText(name, 40),
                              ),
                          ),
                      ),
                  );
        const panels = [
            statsTable(context, signals),
            ratioPanel(context, signals),
            ...signals.slice(0, 24).map((signal) => signalPanel(context, signal)),
        ].filter(Boolean);
        replace(
            context.main,
            chips,
            el(
                "h1",
                {},
                nameText(layer),
                about
                    ? el(
                          "span",
                          { class: "quiet" },
                          ` ${about.kind} → ${about.shape}, ${whole(about.parameters)} parameters`,
                      )
                    : "",
            ),
            panels.map((panel) => panel.element),
            signals.length > 24 ? el("p", { class: "quiet" }, `24 of ${signals.length} signals; search with /`) : "",
        );
        const load = () => Promise.all(panels.map((panel) => panel.load())).catch(context.fail);
        context.onrange(load);
        await load();
    },
};
