// All runs: how they are doing, and the metrics of those that are picked over each other.
import { choice, code, el, message, nameText, numeral, replace, toggle } from "./dom.js";
import { bytes, when, whole } from "./format.js";
import { categories, theme } from "./colour.js";
import { Chart, smoothed } from "./chart.js";
import { Time } from "./time.js";
import { Screen } from "./surface.js";
import { fetchRun, fetchSeries, fetchSteps } from "./source.js";
import { link, set, value, number } from "./state.js";
import { metricGroups, smoothing } from "./layers.js";
import { badge } from "./verdict.js";

const MOST_PICKED = 8;

function picked() {
    return value("pick", "").split(",").filter(Boolean);
}

function spark(run) {
    const canvas = el("canvas", {
        class: "spark",
        role: "img",
        "aria-label": run.metrics.length ? `${run.metrics[0].name} over time` : "no metric",
    });
    const screen = new Screen(canvas),
        values = (run.spark || []).filter((v) => v !== null && Number.isFinite(v));
    const low = Math.min(...values),
        high = Math.max(...values);
    requestAnimationFrame(() => {
        screen.begin(96, 22);
        const points = values.flatMap((v, i) => [
            2 + (i / Math.max(values.length - 1, 1)) * 92,
            high > low ? 19 - ((v - low) / (high - low)) * 16 : 11,
        ]);
        screen.line(points, theme().accent, 1.5);
    });
    return canvas;
}

function metricNames(runs) {
    const names = new Map();
    for (const run of runs) {
        for (const metric of run.metrics || []) {
            names.set(metric.name, (names.get(metric.name) || 0) + 1);
        }
    }
    return [...names]
        .sort((a, b) => b[1] - a[1])
        .map(([name]) => name)
        .filter((name) => name !== "learning_rate")
        .slice(0, 4);
}

const columns = [
    { key: "name", text: "run", of: (run) => run.name },
    { key: "state", text: "state", of: (run) => run.state },
    { key: "step", text: "step", of: (run) => run.step },
    { key: "started", text: "started", of: (run) => run.started },
    { key: "bytes", text: "size", of: (run) => run.bytes },
    { key: "verdict", text: "verdict", of: (run) => run.verdict?.cause ?? (run.verdict ? " " : "") },
];

function metricOf(run, name) {
    return (run.metrics || []).find((metric) => metric.name === name);
}

function sorted(runs, metrics) {
    const key = value("sort", "started"),
        down = value("down", "1") === "1";
    const column = columns.find((c) => c.key === key);
    // A metric that is not finite or missing stands last, whichever way the list is sorted.
    const best = (run) => metricOf(run, key)?.best,
        of = column
            ? column.of
            : (run) => (Number.isFinite(best(run)) ? best(run) : down ? -Number.MAX_VALUE : Number.MAX_VALUE);
    return [...runs].sort((a, b) => {
        const x = of(a),
            y = of(b),
            less = typeof x === "string" ? x.localeCompare(y ?? "", [], { numeric: true }) : (x ?? 0) - (y ?? 0);
        return down ? -less : less;
    });
}

function table(context, runs) {
    const metrics = metricNames(runs),
        key = value("sort", "started"),
        down = value("down", "1") === "1";
    const sorter = (name, text) =>
        el(
            "th",
            {
                scope: "col",
                "aria-sort": name === key ? (down ? "descending" : "ascending") : null,
                class: name === "name" || name === "state" ? "left" : "",
            },
            el(
                "button",
                {
                    type: "button",
                    onclick: () => {
                        set({ sort: name, down: name === key ? (down ? "0" : "1") : name === "name" ? "0" : "1" });
                        context.redraw();
                    },
                },
                nameText(text, 24),
                name === key ? (down ? " ↓" : " ↑") : "",
            ),
        );
    const chosen = picked();
    const row = (run) => {
        const at = chosen.indexOf(run.id),
            box = el("input", {
                type: "checkbox",
                "aria-label": `overlay ${run.name.slice(0, 60)}`,
                disabled: at < 0 && chosen.length >= MOST_PICKED,
                onchange: () => {
                    set({ pick: (box.checked ? [...chosen, run.id] : chosen.filter((id) => id !== run.id)).join(",") });
                    context.redraw(true);
                },
            });
        box.checked = at >= 0;
        const cells =
            run.loading || run.error
                ? [
                      el(
                          "td",
                          { class: "left quiet", colspan: 6 + metrics.length },
                          run.error ? `cannot be read: ${run.error}` : "is being read…",
                      ),
                  ]
                : [
                      el(
                          "td",
                          { class: "left" },
                          el("span", { class: `dot ${run.state}` }),
                          run.events ? "event files" : run.state,
                          run.problem ? el("span", { class: "bad", title: run.problem }, " · damaged") : "",
                      ),
                      el("td", {}, whole(run.step)),
                      el("td", {}, when(run.started)),
                      el("td", {}, bytes(run.bytes)),
                      el("td", {}, badge(run.verdict)),
                      metrics.map((name) => {
                          const metric = metricOf(run, name);
                          return el(
                              "td",
                              { title: metric ? `last, and best at step ${whole(metric.bestStep)}` : "" },
                              metric ? [numeral(metric.last), " ", el("small", {}, numeral(metric.best))] : "–",
                          );
                      }),
                      el("td", {}, spark(run)),
                  ];
        const made = el(
            "tr",
            { class: at >= 0 ? "picked" : "" },
            el("td", {}, box, " ", el("a", { href: link("layers", run.id) }, nameText(run.name, 60))),
            cells,
        );
        made.style.setProperty("--mark", at >= 0 ? categories[at] : "");
        return made;
    };
    const find = value("find", "").toLowerCase();
    const rows = sorted(
        runs.filter((run) => !find || run.name.toLowerCase().includes(find) || (run.state || "").includes(find)),
        metrics,
    );
    return el(
        "div",
        { class: "scroll" },
        el(
            "table",
            {},
            el(
                "thead",
                {},
                el(
                    "tr",
                    {},
                    columns.map((c) => sorter(c.key, c.text)),
                    metrics.map((name) => sorter(name, name)),
                    el("th", {}, ""),
                ),
            ),
            el("tbody", {}, rows.slice(0, 2000).map(row)),
        ),
        rows.length > 2000
            ? el("p", { class: "quiet" }, `2 000 of ${whole(rows.length)} runs: filter to see the others`)
            : "",
    );
}

// ---- Overlays --------------------------------------------------------------------------------------------

// The runs' own axes: a step is an epoch or a time in each of them.
class OverlayTime extends Time {
    toAxis(step) {
        return step;
    }

    fromAxis(place) {
        return place;
    }
}

async function overlay(context, box, runs) {
    const chosen = picked()
        .map((id) => runs.find((run) => run.id === id))
        .filter((run) => run && !run.loading && !run.error);
    if (!chosen.length) {
        replace(
            box,
            el("p", { class: "quiet" }, "Pick runs to see their metrics over each other; a name opens a run."),
        );
        return { close: () => {}, refresh: () => {} };
    }
    const readAll = () =>
        Promise.all([
            Promise.all(chosen.map((run) => fetchRun(run.id))),
            Promise.all(chosen.map((run) => fetchSteps(run.id))),
        ]);
    let [details, tables] = await readAll();
    const axis = value("x", "step");
    const time = new OverlayTime(0, 1);
    const place = (i, step) => {
        const own = new Time(0, 1);
        own.axis = axis;
        own.table = tables[i];
        return own.toAxis(step);
    };
    const step = (i, at) => {
        const own = new Time(0, 1);
        own.axis = axis;
        own.table = tables[i];
        return own.fromAxis(at);
    };
    const firsts = details.map((run, i) => place(i, tables[i].step[0] ?? 1)),
        lasts = details.map((run, i) => place(i, run.step));
    Object.assign(time, { first: Math.min(...firsts), last: Math.max(...lasts), axis });
    time.from = number("from", time.first);
    time.to = number("to", time.last);
    const names = new Map();
    details.forEach((run, i) =>
        metricGroups(run.signals).forEach((group) =>
            group.signals.forEach((signal) => {
                const entry = names.get(group.title) || [];
                names.set(group.title, [...entry, { run: i, signal }]);
            }),
        ),
    );
    const charts = [...names].slice(0, 24).map(([title, members]) => {
        const chart = new Chart(time, { title, height: 190, timeless: true, onclick: () => {} });
        return { chart, members };
    });
    const load = () =>
        charts.forEach(async ({ chart, members }) => {
            const lines = await Promise.all(
                members.map(async ({ run, signal }) => {
                    const [series] = await fetchSeries(
                        details[run].id,
                        [signal.id],
                        "",
                        Math.floor(step(run, time.from)),
                        Math.ceil(step(run, time.to)),
                        Math.round(chart.width * 2),
                    );
                    const validation = /^(val|valid|validation|test|eval)[_/.-]/.test(signal.name);
                    return {
                        name: `${chosen[run].name} ${members.length > chosen.length ? signal.name : ""}`.trim(),
                        colour: categories[picked().indexOf(chosen[run].id)],
                        dash: validation ? [5, 3] : null,
                        x: Float64Array.from(series.last, (last, k) => place(run, (last + series.first[k]) / 2)),
                        mean: series.mean,
                        min: series.min,
                        max: series.max,
                        bad: series.bad,
                        smooth: smoothed(series.mean, number("smooth", 0)),
                    };
                }),
            );
            chart.set(lines);
        });
    time.on((kind) => kind === "range" && load());
    replace(
        box,
        el(
            "div",
            { class: "controls" },
            choice(
                "over",
                [
                    ["step", "step"],
                    ["epoch", "epoch"],
                    ["time", "wall time"],
                ],
                axis,
                (name) => {
                    set({ x: name === "step" ? "" : name, from: "", to: "" });
                    context.redraw(true);
                },
            ),
            toggle("log x", time.log, (on) => time.setLog(on)),
            smoothing(load),
            chosen.length > 1
                ? el(
                      "a",
                      {
                          href: link("compare", chosen[0].id, {
                              with: chosen
                                  .slice(1)
                                  .map((run) => run.id)
                                  .join(","),
                          }),
                      },
                      chosen.length > 2 ? "compare the first with the others" : "compare these",
                  )
                : "",
        ),
        el(
            "div",
            { class: "multiples" },
            charts.map(({ chart }) => chart.element),
        ),
    );
    load();
    return {
        close: () => charts.forEach(({ chart }) => chart.remove()),
        // The runs have grown.
        refresh: async () => {
            [details, tables] = await readAll();
            const whole = time.to >= time.last;
            time.last = Math.max(...details.map((run, i) => place(i, run.step)));
            time.to = whole ? time.last : time.to;
            load();
        },
    };
}

export function emptyFolder(folder) {
    return message(
        "No run yet",
        el(
            "p",
            {},
            "Nothing that was recorded is in ",
            nameText(folder || "this folder"),
            ". Start one, and it appears here by itself:",
        ),
        code("tapedeck train examples/demo/demo.yaml"),
        "TensorBoard's event files are shown as well.",
    );
}

export const runsPage = {
    name: "runs",
    title: "Runs",
    async open(context) {
        const box = el("section", { "aria-label": "metrics of the picked runs" }),
            list = el("section", { "aria-label": "runs" });
        let shown = { close: () => {}, refresh: () => {} };
        const find = el("input", {
            type: "search",
            placeholder: "filter runs",
            "aria-label": "filter runs",
            value: value("find", ""),
            oninput: () => {
                set({ find: find.value });
                context.redraw();
            },
        });
        context.redraw = async (overlays) => {
            const { runs, folder, problem } = context.list();
            document.title = "tapedeck";
            if (!runs.length) {
                replace(list, problem ? message("The folder cannot be read", problem) : emptyFolder(folder));
                replace(box);
                find.hidden = true;
                return;
            }
            find.hidden = runs.length < 4 && !value("find");
            replace(list, table(context, runs));
            if (overlays) {
                shown.close();
                shown = await overlay(context, box, runs);
            }
        };
        replace(context.main, el("div", { class: "controls" }, find), list, box);
        context.onclose(() => shown.close());
        context.onnews((news) => {
            context.redraw(false);
            if (news.reset || (news.runs || []).some((run) => picked().includes(run.id))) {
                return shown.refresh();
            }
        });
        if (!value("pick") && context.list().runs.length === 1 && !context.list().runs[0].loading) {
            set({ pick: context.list().runs[0].id }, true);
        }
        await context.redraw(true);
    },
};
