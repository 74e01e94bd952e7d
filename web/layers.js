// A run at first sight: its metrics, and layers x time.
import { el, replace, choice, toggle, message, nameText, recipe } from "./dom.js";
import { categories, lineStyle } from "./colour.js";
import { boardPicker, boardsOf, chartsOf } from "./boards.js";
import { Chart, lineOf, smoothed } from "./chart.js";
import { Heat } from "./heat.js";
import { pinned } from "./choices.js";
import { fetchHeat, fetchSeries } from "./source.js";
import { go, set, value, number } from "./state.js";
import { verdictLine } from "./verdict.js";
import { canReplay, offer } from "./replay.js";

export const FORMS = {
    tensor: 1,
    rows: 2,
    long: 4,
    stats: 8,
    histogram: 16,
    image: 32,
    scalar: 64,
    hash: 128,
    text: 256,
};

export const statistics = [
    ["norm", "norm"],
    ["mean", "mean"],
    ["std", "standard deviation"],
    ["max", "maximum"],
    ["min", "minimum"],
    ["zeros", "zeros"],
    ["nan", "NaN"],
    ["inf", "infinities"],
];
// TensorBoard's histograms do not show what is zero or not finite.
export function statisticsOf(run) {
    return statistics.filter(([name]) => !run.events || !["zeros", "nan", "inf"].includes(name));
}

export const kinds = [
    ["error", "errors"],
    ["output", "outputs"],
    ["preactivation", "pre-activations"],
    ["gradient", "gradients"],
    ["parameter", "weights"],
    ["update", "updates"],
    ["other", "other tensors"],
];

// Names of layers from the input on: as the network has them, or else as they were recorded, outputs on the way
// there and errors on the way back.
export function layerNames(run) {
    const known = new Map(),
        forward = ["output", "preactivation", "parameter"];
    (run.network || []).forEach((layer, i) => known.set(layer.name, i));
    for (const signal of run.signals) {
        if (signal.layer && signal.order && !known.has(signal.layer)) {
            known.set(signal.layer, signal.order);
        }
    }
    // What a program printed, say, has a name with a dot, but is no layer.
    const shown = run.signals.filter((s) => s.layer && s.forms & ~FORMS.text),
        seen = (wanted) => [...new Set(shown.filter(wanted).map((s) => s.layer))];
    const ahead = seen((s) => forward.includes(s.kind)),
        back = seen((s) => !forward.includes(s.kind)).reverse();
    const order = back.length > ahead.length ? [...back, ...ahead] : [...ahead, ...back];
    return [...new Set(order)]
        .map((name, i) => [known.get(name) ?? 1e9 + i, name])
        .sort((a, b) => a[0] - b[0])
        .map(([, name]) => name);
}

// Signals of a kind from the output (top) to the input (bottom).
export function layerSignals(run, kind) {
    const place = new Map(layerNames(run).map((name, i) => [name, i]));
    return run.signals
        .filter((s) => s.kind === kind && s.layer && s.forms & (FORMS.stats | FORMS.histogram))
        .sort((a, b) => place.get(b.layer) - place.get(a.layer) || a.id - b.id);
}

// ---- Metrics ---------------------------------------------------------------------------------------------

// Of a tensor that was recorded as a scalar too the scalar is its mean: its statistics say more.
export function isMetric(signal) {
    return Boolean(signal.forms & FORMS.scalar) && !(signal.layer && signal.forms & FORMS.stats);
}

// Train and validation of a metric belong together: { title, signals }
export function metricGroups(signals) {
    const groups = new Map();
    for (const signal of signals.filter((s) => s.forms & FORMS.scalar && !s.layer)) {
        // of a tensor it is the mean: see its layer
        const base = signal.name
            .replace(/^(val|valid|validation|test|eval|train)[_/.-]/, "")
            .replace(/[_/.-](val|valid|validation|test|eval|train)$/, "");
        groups.set(base, [...(groups.get(base) || []), signal]);
    }
    return [...groups]
        .map(([title, members]) => ({ title, signals: members }))
        .sort((a, b) => standing(a.title) - standing(b.title));
}

// Losses first, then what else was logged, the learning rate, and last what the recorder notes about itself.
export function standing(title) {
    const own = /^(stale_gradients|training_mode|micro_batches|skipped_steps|local_seconds|system\..*)$/;
    return own.test(title) ? 3 : /^(learning_rate|lr)$/.test(title) ? 2 : /(^|[^a-z])loss/i.test(title) ? 0 : 1;
}

export function isValidation(name) {
    return /^(val|valid|validation|test|eval)[_/.-]|[_/.-](val|valid|validation|test|eval)$/.test(name);
}

// Whether a signal has a number, or statistics, at each of its steps.
export function hasNumbers(signal) {
    return Boolean(signal.forms & (FORMS.scalar | FORMS.stats | FORMS.histogram));
}

// Metrics whose name contains a text; those that are pinned first.
export function metricsWith(run, text) {
    const pins = pinned(),
        rank = (group) => (pins.includes(group.title) ? pins.indexOf(group.title) : pins.length),
        wanted = (text || "").toLowerCase();
    return metricGroups(run.signals.filter((s) => s.name.toLowerCase().includes(wanted))).sort(
        (a, b) => rank(a) - rank(b),
    );
}

async function linesOf(context, group, points) {
    const { run, time } = context;
    const series = await Promise.all(
        group.signals.map(async (signal) => {
            const stat = isMetric(signal) ? "" : group.stat || "norm";
            const [got] = await fetchSeries(
                run.id,
                [signal.id],
                stat,
                Math.floor(time.from),
                Math.ceil(time.to),
                points,
            );
            return got;
        }),
    );
    return series.map((each, i) => {
        const name = group.signals[i].name,
            style = lineStyle(i);
        const own = isValidation(name)
            ? { colour: categories[1], dash: [5, 3] }
            : { colour: i % 8 === 1 ? categories[2] : style.colour, dash: style.dash };
        const line = lineOf(each, time, { name, ...(group.signals.length > 2 ? style : own) });
        return { ...line, smooth: smoothed(line.mean, number("smooth", 0)) };
    });
}

// groupsOf(): [{ title, signals, stat, all }], a chart each; all: how many signals there are.
export function metricsPanel(context, groupsOf) {
    const { time } = context,
        box = el("div", { class: "multiples" }),
        charts = new Map();
    const shown = el("p", { class: "quiet" });
    let most = 12;
    const load = async (entry) => {
        const { chart, group } = entry;
        chart.set(await linesOf(context, group, Math.max(200, Math.round(chart.width * 2))));
    };
    const watcher = new IntersectionObserver(
        (entries) => {
            for (const seen of entries) {
                const entry = charts.get(seen.target);
                if (entry) {
                    entry.visible = seen.isIntersecting;
                    if (entry.visible && entry.stale) {
                        entry.stale = false;
                        load(entry).catch(context.fail);
                    }
                }
            }
        },
        { rootMargin: "200px" },
    );
    const more = (groups) => [
        `${most} of ${groups.length} metrics. `,
        el(
            "button",
            {
                type: "button",
                onclick: () => {
                    most += 48;
                    build();
                },
            },
            "show more",
        ),
        " or search with /",
    ];
    const build = () => {
        const groups = groupsOf();
        for (const [, { chart }] of charts) {
            chart.remove();
        }
        charts.clear();
        watcher.disconnect();
        replace(
            box,
            groups.slice(0, most).map((group) => {
                const chart = new Chart(time, { title: group.title, height: 150 });
                if (group.all > group.signals.length) {
                    chart.about = `the first ${group.signals.length} of ${group.all} signals`;
                }
                charts.set(chart.element, { chart, group, stale: true });
                watcher.observe(chart.element);
                return chart.element;
            }),
        );
        replace(shown, groups.length > most ? more(groups) : "");
    };
    const reload = () => {
        for (const [, entry] of charts) {
            entry.stale = true;
            if (entry.visible) {
                entry.stale = false;
                load(entry).catch(context.fail);
            }
        }
    };
    build();
    context.onclose(() => {
        watcher.disconnect();
        charts.forEach(({ chart }) => chart.remove());
    });
    return { element: el("section", { "aria-label": "metrics" }, box, shown), reload, build };
}

// ---- Layers x time ---------------------------------------------------------------------------------------

export function heatPanel(context) {
    const { run, time } = context;
    const present = kinds.filter(([kind]) => layerSignals(run, kind).length);
    if (!present.length) {
        return { element: el("section", {}, nothing(run), offerOf(context)), reload: () => {} };
    }
    const kind = () => (present.some(([name]) => name === value("kind")) ? value("kind") : present[0][0]);
    const heat = new Heat(time, {
        title: "layers × time",
        label: value("stat", "norm"),
        height: 430,
        hint: "point at a cell; click to open its layer at that step; drag to zoom",
        onopen: (row, step) => go("layer", run.id, { layer: row.layer, step, kind: kind() }),
    });
    const bar = el("div", { class: "controls" });
    const controls = () =>
        replace(
            bar,
            choice("of", present, kind(), (name) => {
                set({ kind: name });
                controls();
                load();
            }),
            choice("show", statisticsOf(run), value("stat", "norm"), (name) => {
                set({ stat: name });
                controls();
                load();
            }),
            toggle("cividis", value("scale") === "cividis", (on) => {
                set({ scale: on ? "cividis" : "" });
                load();
            }),
        );
    let turn = 0;
    const load = async () => {
        const mine = ++turn,
            signals = layerSignals(run, kind()),
            stat = value("stat", "norm");
        const from = Math.floor(time.from),
            to = Math.ceil(time.to),
            columns = Math.max(1, Math.min(to - from + 1, Math.round(heat.width - heat.left), 1200));
        const rows = [];
        for (let i = 0; i < signals.length && mine === turn; i += 64) {
            const part = signals.slice(i, i + 64),
                got = await fetchHeat(
                    run.id,
                    part.map((s) => s.id),
                    stat,
                    from,
                    to,
                    columns,
                );
            got.forEach((row, k) =>
                rows.push({ ...row, name: label(part[k]), layer: part[k].layer, until: part[k].last }),
            );
            if (mine === turn) {
                heat.options.label = stat;
                heat.options.scale = value("scale", "viridis");
                replace(
                    heat.caption,
                    el("strong", {}, "Layers × time"),
                    el(
                        "span",
                        { class: "quiet" },
                        ` ${stat} of ${Object.fromEntries(kinds)[kind()]}, output on top, input at the bottom`,
                        run.notes.run.statistics ? `; ${run.notes.run.statistics}` : "",
                    ),
                );
                heat.set(rows);
            }
        }
    };
    controls();
    context.onclose(() => heat.remove());
    return { element: el("section", { "aria-label": "layers and time" }, bar, heat.element), reload: load, heat };
}

function label(signal) {
    return signal.parameter ? `${signal.layer}.${signal.parameter}` : signal.layer;
}

// What was not recorded, over the range of steps that is shown.
function offerOf(context) {
    const { run, time } = context;
    if (!canReplay(run)) {
        return "";
    }
    const made = offer(context, {
        record: "*.output,*.gradient,*.error",
        title: () => "Or execute its steps again, and record them now: ",
        first: () => Math.floor(time.from),
        last: () => Math.ceil(time.to),
    });
    made.show();
    context.onrange(made.show);
    return made.element;
}

function nothing(run) {
    if (run.events && !run.signals.some((s) => s.forms & FORMS.histogram)) {
        return message(
            "No layers in these event files",
            "They hold scalars only. What happens inside of the network is seen when histograms are written, or when Tapedeck records the run.",
        );
    }
    return message(
        "No layer signals in this run",
        "Two lines show what happens inside of the network:",
        recipe(
            run,
            'record:\n  - {what: ["*.error", "*.output", "*.gradient"], every: 10 steps, form: stats}',
            'deck = tapedeck.watch(model, "runs/mine", optimizer=optimizer, every=100)\ndeck.log(loss=loss)',
        ),
    );
}

export const layersPage = {
    name: "layers",
    title: "Layers",
    open(context) {
        const { run } = context,
            find = () => value("find", ""),
            absent = el("p", { class: "quiet" });
        const groups = () => {
            const board = boardsOf(run)[value("board")],
                { groups: chosen, missing } = chartsOf(board || "", run.signals, hasNumbers);
            replace(absent, missing.length ? `Nothing in this run for: ${missing.join("; ").slice(0, 400)}` : "");
            return board === undefined || find() ? metricsWith(run, find()) : chosen;
        };
        const metrics = metricsPanel(context, groups),
            heat = heatPanel(context);
        const suggestion = () =>
            metricsWith(run, "")
                .slice(0, 6)
                .map((group) => group.signals.map((signal) => signal.name).join(", "))
                .join("\n");
        const axis = el(
            "div",
            { class: "controls" },
            choice("over", context.time.axes(), context.time.axis, (name) => context.time.setAxis(name)),
            toggle("log x", context.time.log, (on) => context.time.setLog(on)),
            smoothing(() => metrics.reload()),
            boardPicker(context, hasNumbers, suggestion, metrics.build),
        );
        replace(
            context.main,
            verdictLine(context),
            find()
                ? el(
                      "p",
                      {},
                      "metrics with ",
                      nameText(find()),
                      " ",
                      el(
                          "button",
                          {
                              type: "button",
                              onclick: () => {
                                  set({ find: "" });
                                  context.again();
                              },
                          },
                          "show all",
                      ),
                  )
                : "",
            heat.heat ? [heat.element, axis, metrics.element, absent] : [axis, metrics.element, absent, heat.element],
        );
        context.onrange(() => {
            metrics.reload();
            heat.reload();
        });
        metrics.reload();
        return heat.reload();
    },
};

export function smoothing(onchange) {
    const slider = el("input", {
        type: "range",
        min: 0,
        max: 0.99,
        step: 0.01,
        "aria-label": "smoothing",
        oninput: () => {
            set({ smooth: Number(slider.value) || "" }, true);
            onchange();
        },
    });
    slider.value = number("smooth", 0);
    return el("label", { class: "choice" }, el("span", {}, "smooth"), slider);
}
