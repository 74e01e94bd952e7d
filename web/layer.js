// One layer: everything that was recorded of it, over time and at the scrubbed step.
import { choice, el, message, nameText, numeral, recipe, replace, thead } from "./dom.js";
import { whole } from "./format.js";
import { categories } from "./colour.js";
import { Chart, lineOf } from "./chart.js";
import { Bands, drawHistogram, Ridges } from "./distributions.js";
import { Heat } from "./heat.js";
import { lazily, whenVisible } from "./panels.js";
import { Sight } from "./sight.js";
import { Screen } from "./surface.js";
import { fetchSeries, fetchHistograms, fetchStats, fetchUnits, fetchTensor, fetchImage } from "./source.js";
import { go, link, value } from "./state.js";
import { FORMS, layerNames } from "./layers.js";
import { gallery, pictureOf } from "./tensor.js";
import { canReplay, literal, offer } from "./replay.js";

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
    const box = el("details", { open: true, class: "panel", "aria-label": signal.name }, el("summary", {}, heading)),
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
            screen = new Screen(el("canvas", {})),
            place = el("div", {}, screen.canvas),
            at = el("span", { class: "note" });
        const now = el("figure", { class: "chart" }, el("figcaption", {}, el("span", {}, "histogram"), at), place);
        let records = [],
            picked = null;
        const draw = () => drawHistogram(screen, sight.width || 320, picked);
        const pick = () => {
            const record = records.reduce((best, r) => (r.step <= time.step ? r : best), records[0]);
            if (record === picked) {
                return;
            }
            picked = record;
            at.textContent = record ? `step ${whole(record.step)}, height is the root of the count` : "";
            draw();
        };
        const sight = new Sight(place, time, { moved: pick, resized: draw });
        parts.push(bands, ridges, { element: now, remove: () => sight.remove() });
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

// A kernel's channels, or those of the first picture, beside each other; all else as one.
async function slices(context, signal) {
    const tensor = await fetchTensor(context.run.id, signal.id, context.time.step, "sheet"),
        axis = (tensor.at || []).indexOf("*");
    if (axis < 0 || tensor.slices * tensor.rows * tensor.columns !== tensor.values.length) {
        return [pictureOf(tensor, 300)];
    }
    const kernel = signal.kind === "parameter" || signal.kind === "gradient" || signal.kind === "update",
        all = tensor.shape[axis];
    return [
        gallery(tensor, kernel ? 44 : tensor.slices > 16 ? 34 : 64, String),
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

function statsTable(context, layer, signals) {
    const { run, time } = context,
        missing = canReplay(run)
            ? offer(context, {
                  record: `${literal(layer)}.*`,
                  choose: true,
                  first: () => time.step,
                  last: () => time.step,
              })
            : null,
        box = el("section", { "aria-label": "numbers at the step", class: "scroll" });
    const columns = ["norm", "mean", "std", "min", "max", "zeros", "nan", "inf", "count"];
    const draw = async () => {
        const rows = await fetchStats(
            run.id,
            signals.filter((s) => s.forms & (FORMS.stats | FORMS.histogram)),
            time.step,
        );
        if (rows.some((row) => row.step === time.step)) {
            missing?.hide();
        } else {
            missing?.show();
        }
        replace(
            box,
            rows.length
                ? el(
                      "table",
                      {},
                      thead(
                          el("th", {}, `at step ${whole(time.step)}`),
                          el("th", {}, "recorded at"),
                          columns.map((name) => el("th", {}, name)),
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
                                          row[name] < 0 && name === "zeros" ? "–" : numeral(row[name]),
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
    return { element: el("div", {}, missing ? missing.element : "", box), load: draw };
}

// Also layers of which nothing was recorded, where that can be made up for.
function namesOf(run) {
    const names = layerNames(run);
    return canReplay(run) ? [...new Set([...run.network.map((layer) => layer.name), ...names])] : names;
}

export const layerPage = {
    name: "layer",
    title: "Layer",
    async open(context) {
        const { run } = context,
            names = namesOf(run),
            layer = names.includes(value("layer")) ? value("layer") : names[names.length - 1];
        if (!layer) {
            replace(
                context.main,
                message(
                    "No layers in this run",
                    "Record signals of layers to see them here:",
                    recipe(
                        run,
                        'record:\n  - {what: "*.output", every: 20 steps, form: [stats, histogram]}',
                        'deck = tapedeck.watch(model, "runs/mine", optimizer=optimizer, every=20)',
                    ),
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
        const chips = layerPicker(run, names, layer);
        const panels = [
            statsTable(context, layer, signals),
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
        const { load, close } = whenVisible(panels, context.fail);
        context.onclose(close);
        context.onrange(load);
    },
};

// Stays on top: the layer before and after, and all of them.
function layerPicker(run, names, layer) {
    const at = names.indexOf(layer),
        open = (name) => go("layer", run.id, { layer: name });
    const beside = (by, text, label) =>
        el(
            "button",
            {
                type: "button",
                "aria-label": label,
                title: names[at + by] ?? "",
                disabled: names[at + by] === undefined,
                onclick: () => open(names[at + by]),
            },
            text,
        );
    return el(
        "div",
        { class: "picker" },
        beside(-1, "◀", "previous layer"),
        beside(1, "▶", "next layer"),
        names.length > 24
            ? choice(
                  "layer",
                  names.map((name) => [name, name.slice(0, 80)]),
                  layer,
                  open,
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
              ),
    );
}
