// Many runs at once: parallel coordinates over settings and metrics, and a metric against a setting.
import { choice, el, nameText, replace, svg } from "./dom.js";
import { isBad, short, ticks, tickText } from "./format.js";
import { categories, css, isDark, scales } from "./colour.js";
import { go, set, value } from "./state.js";

const TALL = 250,
    TOP = 26,
    BOTTOM = 30;

// The places of a column's values on an axis from 0 to 1: numbers by size, logarithmic where all are positive and far
// apart; texts by name.
function axisOf(column, runs) {
    const values = runs.map((run) => column.of(run)).filter((v) => v !== undefined && v !== "" && !badNumber(v)),
        numbers = values.every((v) => typeof v === "number");
    if (!values.length) {
        return null;
    }
    if (!numbers) {
        const names = [...new Set(values.map(String))].sort();
        return {
            column,
            names,
            share: (v) => (names.length > 1 ? names.indexOf(String(v)) / (names.length - 1) : 0.5),
            ticks: names.slice(0, 12).map((name) => [name, name]),
        };
    }
    const low = Math.min(...values),
        high = Math.max(...values),
        log = low > 0 && high / low >= 30,
        map = log ? Math.log10 : (v) => v,
        span = map(high) - map(low);
    const decades = log ? Array.from({ length: 40 }, (unused, i) => 10 ** (i - 20)) : [],
        marks = log ? [low, ...decades.filter((v) => v > 1.6 * low && v < high / 1.6), high] : ticks(low, high, 5);
    return {
        column,
        log,
        share: (v) => (span > 0 ? (map(v) - map(low)) / span : 0.5),
        ticks: marks.map((v) => [v, log ? short(v) : tickText(v)]),
    };
}

function badNumber(v) {
    return typeof v === "number" && isBad(v);
}

function colourOf(axis, run) {
    const v = axis?.column.of(run);
    return v === undefined || v === "" || badNumber(v)
        ? null
        : css(scales.viridis, isDark() ? 0.25 + 0.75 * axis.share(v) : 0.92 * axis.share(v));
}

function pick(runs, label, key, columns, fallback) {
    const found = columns.find((column) => column.key === value(key)) || fallback;
    return {
        column: found,
        control: (onchange) =>
            choice(
                label,
                columns.map((column) => [column.key, column.text]),
                found?.key,
                (name) => {
                    set({ [key]: name });
                    onchange();
                },
            ),
    };
}

// ---- Parallel coordinates --------------------------------------------------------------------------------

function parallel(runs, columns, metric, width) {
    const axes = [...columns.filter((column) => column !== metric).slice(0, 9), metric]
        .map((column) => axisOf(column, runs))
        .filter(Boolean);
    if (axes.length < 2) {
        return el("p", { class: "quiet" }, "These runs differ in no setting.");
    }
    const gap = (width - 120) / (axes.length - 1),
        x = (i) => 60 + i * gap,
        y = (axis, v) => TOP + (1 - axis.share(v)) * (TALL - TOP - BOTTOM),
        last = axes[axes.length - 1];
    const lines = runs.map((run) => {
        const points = axes
            .map((axis, i) => {
                const v = axis.column.of(run);
                return v === undefined || v === "" || badNumber(v)
                    ? null
                    : `${x(i).toFixed(1)} ${y(axis, v).toFixed(1)}`;
            })
            .filter(Boolean);
        const colour = colourOf(last, run),
            open = () => go("layers", run.id);
        return svg(
            "path",
            {
                d: points.length > 1 ? `M${points.join("L")}` : "",
                class: "strand",
                stroke: colour || "var(--bad)",
                "stroke-dasharray": colour ? null : "3 3",
                onclick: open,
            },
            svg("title", {}, `${run.name.slice(0, 80)}: ${metric.text} ${short(metric.of(run))}`),
        );
    });
    return svg(
        "svg",
        {
            viewBox: `0 0 ${width} ${TALL}`,
            width,
            height: TALL,
            role: "img",
            class: "sweep",
            "aria-label": `${runs.length} runs over their settings and ${metric.text}`,
        },
        lines,
        axes.map((axis, i) => [
            svg("line", { x1: x(i), x2: x(i), y1: TOP, y2: TALL - BOTTOM, class: "axis" }),
            axis.ticks.map(([v, text]) =>
                svg(
                    "text",
                    { class: "halo", x: x(i) + 5, y: y(axis, v) + 4 },
                    text.length > 14 ? `${text.slice(0, 13)}…` : text,
                ),
            ),
            svg(
                "text",
                {
                    class: "title",
                    x: x(i),
                    y: 14,
                    "text-anchor": i === 0 ? "start" : i === axes.length - 1 ? "end" : "middle",
                },
                (axis.column.text.length > 20 ? `…${axis.column.text.slice(-19)}` : axis.column.text) +
                    (axis.log ? " (log)" : ""),
            ),
        ]),
    );
}

// ---- Scatter ---------------------------------------------------------------------------------------------

function scatter(runs, across, up, width) {
    const axes = [across, up].map((column) => column && axisOf(column, runs));
    if (!axes[0] || !axes[1]) {
        return el("p", { class: "quiet" }, "No run has both.");
    }
    const plot = { left: 62, right: 14, top: 10, bottom: 34 },
        x = (v) => plot.left + axes[0].share(v) * (width - plot.left - plot.right),
        y = (v) => plot.top + (1 - axes[1].share(v)) * (TALL - plot.top - plot.bottom);
    const shown = runs.filter((run) =>
        [across, up].every(
            (column) => column.of(run) !== undefined && column.of(run) !== "" && !badNumber(column.of(run)),
        ),
    );
    return svg(
        "svg",
        {
            viewBox: `0 0 ${width} ${TALL}`,
            width,
            height: TALL,
            role: "img",
            class: "sweep",
            "aria-label": `${up.text} against ${across.text}`,
        },
        axes[1].ticks.map(([v, text]) => [
            svg("line", { x1: plot.left, x2: width - plot.right, y1: y(v), y2: y(v), class: "rule" }),
            svg("text", { x: plot.left - 6, y: y(v) + 4, "text-anchor": "end" }, text.slice(0, 9)),
        ]),
        axes[0].ticks.map(([v, text]) =>
            svg(
                "text",
                { x: x(v), y: TALL - 18, "text-anchor": "middle" },
                text.length > 12 ? `${text.slice(0, 11)}…` : text,
            ),
        ),
        svg(
            "text",
            { class: "title", x: width / 2, y: TALL - 3, "text-anchor": "middle" },
            across.text + (axes[0].log ? " (log)" : ""),
        ),
        shown.map((run) =>
            svg(
                "circle",
                {
                    cx: x(across.of(run)),
                    cy: y(up.of(run)),
                    r: 4.5,
                    class: "dot-run",
                    fill: categories[0],
                    onclick: () => go("layers", run.id),
                },
                svg(
                    "title",
                    {},
                    `${run.name.slice(0, 80)}: ${across.text} ${across.of(run)}, ${up.text} ${short(up.of(run))}`,
                ),
            ),
        ),
    );
}

// Draws both into box, for the runs that the list shows.
export function drawSweep(box, runs, columns) {
    const known = runs.filter((run) => !run.loading && !run.error),
        metrics = columns.filter((column) => column.kind === "metric"),
        settings = columns.filter((column) => column.differs);
    if (known.length < 2 || !metrics.length || !settings.length) {
        replace(
            box,
            el(
                "p",
                { class: "quiet" },
                "Two runs or more that differ in a setting, and have a metric, are shown over their settings here.",
            ),
        );
        return;
    }
    const again = () => drawSweep(box, runs, columns),
        up = pick(
            known,
            "metric",
            "metric",
            metrics,
            metrics.find((column) => /^val_|^eval/.test(column.key)) || metrics[0],
        ),
        across = pick(
            known,
            "against",
            "against",
            settings,
            settings.find((column) => typeof column.of(known[0]) === "number" && column.key !== "seed") || settings[0],
        ),
        width = Math.max(320, Math.min(1400, box.clientWidth || 700));
    const lost = known.filter((run) => badNumber(up.column.of(run))).length;
    replace(
        box,
        el("div", { class: "controls" }, up.control(again), across.control(again)),
        el(
            "figure",
            { class: "chart" },
            el(
                "figcaption",
                {},
                el("strong", {}, "Runs over their settings"),
                el("span", { class: "note" }, "colour: best ", nameText(up.column.text)),
                lost ? el("span", { class: "bad" }, `${lost} × NaN or ∞`) : "",
            ),
            el(
                "div",
                { class: "scroll", tabindex: 0, role: "region", "aria-label": "a line for each run" },
                parallel(known, settings, up.column, Math.max(width, 90 * Math.min(10, settings.length + 1))),
            ),
        ),
        el(
            "figure",
            { class: "chart" },
            el("figcaption", {}, el("strong", {}, nameText(up.column.text), " against ", nameText(across.column.text))),
            scatter(known, across.column, up.column, width),
        ),
    );
}
