// What the list of runs can show of a run: facts, metrics, settings. A column is
// { key, text, kind, of(run): a number or a text, show(run): what stands in the cell, left }.
import { el, nameText, numeral } from "./dom.js";
import { bytes, duration, isBad, when, whole } from "./format.js";
import { badge } from "./verdict.js";

function stateCell(run) {
    return [
        el("span", { class: `dot ${run.state}` }),
        run.events ? "event files" : run.state,
        run.problem ? el("span", { class: "bad", title: run.problem }, " · damaged") : "",
    ];
}

const lasted = (run) => (run.started > 0 && run.lastRecord > run.started ? run.lastRecord - run.started : undefined);

function tagsCell(run) {
    return (run.remarks.tags || "")
        .split(",")
        .map((tag) => tag.trim())
        .filter(Boolean)
        .map((tag) => el("span", { class: "tag" }, nameText(tag, 24)));
}

const facts = [
    { key: "state", text: "state", left: true, of: (run) => run.state, show: stateCell },
    { key: "step", text: "step", of: (run) => run.step, show: (run) => whole(run.step) },
    { key: "started", text: "started", of: (run) => run.started, show: (run) => when(run.started) },
    {
        key: "verdict",
        text: "verdict",
        left: true,
        of: (run) => run.verdict?.cause ?? (run.verdict ? " " : ""),
        show: (run) => badge(run.verdict),
    },
    { key: "tags", text: "tags", left: true, of: (run) => run.remarks.tags || "", show: tagsCell },
    {
        key: "notes",
        text: "notes",
        left: true,
        of: (run) => run.remarks.notes || "",
        show: (run) => nameText(run.remarks.notes || "", 60),
    },
    {
        key: "group",
        text: "group",
        left: true,
        of: (run) => run.remarks.group || "",
        show: (run) => nameText(run.remarks.group || "", 40),
    },
    {
        key: "parent",
        text: "branch of",
        left: true,
        of: (run) => run.remarks.parent || "",
        show: (run) => nameText(run.remarks.parent || "", 40),
    },
    {
        key: "duration",
        text: "duration",
        of: lasted,
        show: (run) => (lasted(run) === undefined ? "–" : duration(lasted(run))),
    },
    { key: "bytes", text: "size", of: (run) => run.bytes, show: (run) => bytes(run.bytes) },
    { key: "signals", text: "signals", of: (run) => run.signalCount, show: (run) => whole(run.signalCount) },
];

function metricColumn(name) {
    const find = (run) => (run.metrics || []).find((metric) => metric.name === name);
    return {
        key: name,
        text: name,
        kind: "metric",
        // A metric that is not finite is shown, and stands last when the list is sorted.
        of: (run) => find(run)?.best,
        last: (run) => find(run)?.last,
        show: (run) => {
            const metric = find(run);
            return metric
                ? [
                      numeral(metric.last),
                      Object.is(metric.best, metric.last)
                          ? ""
                          : el(
                                "small",
                                { title: `best, at step ${whole(metric.bestStep)}` },
                                " ",
                                numeral(metric.best),
                            ),
                  ]
                : "–";
        },
    };
}

// Numbers are sorted and compared as such.
export function numberOr(text) {
    return text !== undefined && text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
}

function settingColumn(key, settings) {
    return {
        key,
        text: key,
        kind: "setting",
        left: true,
        of: (run) => numberOr(settings[run.id]?.[key]),
        show: (run) => {
            const text = settings[run.id]?.[key];
            return text === undefined ? "–" : nameText(text, 28);
        },
    };
}

const irrelevant = new Set(["name"]);

// settings: { run id: { key: text } }.
export function columnsOf(runs, settings) {
    const metrics = new Map(),
        keys = new Set();
    for (const run of runs) {
        // A run's metrics come in the order of their importance.
        (run.metrics || []).forEach((metric, i) => {
            metrics.set(metric.name, (metrics.get(metric.name) || 0) + 8 - i);
        });
        Object.keys(settings[run.id] || {}).forEach((key) => keys.add(key));
    }
    const made = [
        ...facts.map((column) => ({ kind: "fact", ...column })),
        ...[...metrics].sort((a, b) => b[1] - a[1]).map(([name]) => metricColumn(name)),
        ...[...keys].filter((key) => !irrelevant.has(key)).map((key) => settingColumn(key, settings)),
    ];
    const names = new Set();
    return made.filter((column) => !names.has(column.key) && names.add(column.key));
}

// Which settings differ between these runs is what people compare them by; those come first. Runs without any settings
// say nothing.
export function markDiffering(columns, runs, settings) {
    const known = runs.map((run) => settings[run.id]).filter((own) => own && Object.keys(own).length);
    for (const column of columns) {
        column.differs = column.kind === "setting" && known.some((own) => own[column.key] !== known[0][column.key]);
    }
    const setting = (column) => column.kind === "setting";
    return [
        ...columns.filter((column) => !setting(column)),
        ...columns.filter((column) => column.differs),
        ...columns.filter((column) => setting(column) && !column.differs),
    ];
}

// The end of a setting's name is enough where no other has it: learning_rate.
export function shortNames(columns) {
    const count = new Map(),
        end = (key) => key.split(".").pop();
    columns.forEach((column) => count.set(end(column.key), (count.get(end(column.key)) || 0) + 1));
    columns
        .filter((column) => column.kind === "setting" && count.get(end(column.key)) === 1)
        .forEach((column) => {
            column.text = end(column.key);
        });
    return columns;
}

export function findColumn(columns, name) {
    const wanted = name.toLowerCase();
    return (
        columns.find((column) => column.key.toLowerCase() === wanted) ||
        columns.find((column) => column.text.toLowerCase() === wanted) ||
        columns.find((column) => column.key.toLowerCase().endsWith(`.${wanted}`))
    );
}

// Which settings people ask for first: numbers of the training rather than seeds, threads and paths.
function curiosity(column, runs) {
    const text = runs.map((run) => (run.loading || run.error ? undefined : column.of(run))).find((value) => value);
    return /(^|\.)(seed|threads)$/.test(column.key) ? 1 : typeof text === "string" && text.includes("/") ? 2 : 0;
}

// What is there by itself: how it is, what is different, how well it went.
export function defaultColumns(columns, runs) {
    const some = (column) => runs.some((run) => !run.loading && !run.error && column.of(run));
    const named = (...keys) => columns.filter((column) => keys.includes(column.key) && some(column));
    return [
        ...named("state", "verdict"),
        ...columns
            .filter((column) => column.differs)
            .sort((a, b) => curiosity(a, runs) - curiosity(b, runs))
            .slice(0, 3),
        ...columns.filter((column) => column.kind === "metric" && column.key !== "learning_rate").slice(0, 4),
        ...named("step", "tags", "started"),
    ].map((column) => column.key);
}

// Sorted by a column: what is missing or not finite stands last, whichever way.
export function sortedBy(runs, column, down) {
    const key = (run) => {
        const value = run.loading || run.error ? undefined : column.of(run);
        return value === undefined || value === "" || (typeof value === "number" && isBad(value)) ? null : value;
    };
    return [...runs]
        .map((run) => [key(run), run])
        .sort(([a], [b]) => {
            if (a === null || b === null) {
                return (a === null) - (b === null);
            }
            const less =
                typeof a === "number" && typeof b === "number"
                    ? a - b
                    : String(a).localeCompare(String(b), "en", { numeric: true });
            return down ? -less : less;
        })
        .map(([, run]) => run);
}
