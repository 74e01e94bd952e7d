// All runs: how they are doing, what differs between them, and the metrics of those that are picked over each other.
import { choice, code, dialog, el, message, nameText, numeral, replace, toggle } from "./dom.js";
import { whole } from "./format.js";
import { lineStyle, theme } from "./colour.js";
import { Screen } from "./surface.js";
import { fetchSettings, saveRemark } from "./source.js";
import { link, set, value } from "./state.js";
import { filterOf } from "./filter.js";
import { columnsOf, defaultColumns, findColumn, markDiffering, shortNames, sortedBy } from "./columns.js";
import { overlay } from "./overlay.js";
import { drawSweep } from "./sweep.js";
import { branchTree } from "./branches.js";

const ROW = 33, // pixels: the rows of a long list are made when they come into sight
    FEW = 60;

// ---- What is shown ---------------------------------------------------------------------------------------

// The list as it is to be shown: { columns, shown (columns), rows, groups, picked, problem }.
function arrange(listing, settings) {
    const columns = shortNames(columnsOf(listing.runs, settings)),
        find = (name) => (name === "name" ? { of: (run) => run.name } : findColumn(columns, name));
    let keep = () => true,
        problem = "";
    try {
        keep = filterOf(value("find", ""), (name) => {
            const column = find(name);
            return column && ((run) => (run.loading || run.error ? undefined : column.of(run)));
        });
    } catch (error) {
        problem = error.message;
    }
    const archived = value("archived") === "1",
        visible = listing.runs.filter((run) => archived || run.remarks?.archived !== "1"),
        sort = find(value("sort", "started")) || find("started"),
        rows = sortedBy(visible.filter(keep), sort, value("down", "1") === "1");
    const ordered = markDiffering(columns, rows, settings);
    rows.sort((a, b) => (b.remarks?.starred === "1") - (a.remarks?.starred === "1"));
    const by = value("group") && find(value("group")),
        groups = by ? groupsOf(rows, by) : null,
        names = value("cols") ? value("cols").split(",") : defaultColumns(ordered, listing.runs);
    return {
        columns: ordered,
        shown: names.map((name) => columns.find((column) => column.key === name)).filter(Boolean),
        rows: groups ? groups.flatMap((group) => group.runs) : rows,
        groups,
        hidden: listing.runs.length - visible.length,
        problem,
    };
}

function groupsOf(rows, column) {
    const made = new Map();
    for (const run of rows) {
        const key = run.loading || run.error ? undefined : column.of(run),
            name = `${column.text} = ${key === undefined || key === "" ? "none" : key}`;
        made.set(name, [...(made.get(name) || []), run]);
    }
    return [...made].map(([name, runs]) => ({ name, runs }));
}

// The runs whose lines are drawn: those that are picked; "all" is every run of the list.
function pickedOf(view) {
    const text = value("pick", ""),
        ids = new Set(text.split(","));
    return view.rows.filter((run) => !run.loading && !run.error && (text === "all" || ids.has(run.id)));
}

function lineGroups(view) {
    const picked = pickedOf(view),
        known = new Set(picked);
    if (!view.groups) {
        return picked.map((run) => ({ name: run.name, runs: [run] }));
    }
    return view.groups
        .map((group) => ({
            name: group.name,
            runs: group.runs.filter((run) => !run.loading && !run.error && (!picked.length || known.has(run))),
        }))
        .filter((group) => group.runs.length);
}

// ---- The table -------------------------------------------------------------------------------------------

const sparks = new WeakMap(); // a run as the list has it: its canvas

function spark(run) {
    if (!sparks.has(run) || sparks.get(run).colour !== theme().accent) {
        sparks.set(run, { canvas: drawSpark(run), colour: theme().accent });
    }
    return sparks.get(run).canvas;
}

function drawSpark(run) {
    const canvas = el("canvas", {
        class: "spark",
        role: "img",
        "aria-label": run.metrics.length ? `${run.metrics[0].name} over time` : "no metric",
    });
    const screen = new Screen(canvas),
        values = (run.spark || []).filter((v) => v !== null && Number.isFinite(v));
    const low = Math.min(...values),
        high = Math.max(...values);
    screen.begin(96, 22);
    const points = values.flatMap((v, i) => [
        2 + (i / Math.max(values.length - 1, 1)) * 92,
        high > low ? 19 - ((v - low) / (high - low)) * 16 : 11,
    ]);
    screen.line(points, theme().accent, 1.5);
    return canvas;
}

function headCell(context, column) {
    const key = value("sort", "started"),
        down = value("down", "1") === "1",
        own = column.key === key;
    return el(
        "th",
        {
            scope: "col",
            "aria-sort": own ? (down ? "descending" : "ascending") : null,
            class: column.left ? "left" : "",
        },
        el(
            "button",
            {
                type: "button",
                title: column.key,
                onclick: () => {
                    set({ sort: column.key, down: own ? (down ? "0" : "1") : column.key === "name" ? "0" : "1" });
                    context.redraw();
                },
            },
            nameText(column.text, 24),
            own ? (down ? " ↓" : " ↑") : "",
        ),
    );
}

function togglePick(context, view, run, on) {
    const now = pickedOf(view).map((other) => other.id);
    set({ pick: (on ? [...now, run.id] : now.filter((id) => id !== run.id)).join(",") });
    context.redraw(true);
}

function runRow(context, view, run) {
    const place = view.marks.get(run.id),
        box = el("input", {
            type: "checkbox",
            "aria-label": `overlay ${run.name.slice(0, 60)}`,
            onchange: () => togglePick(context, view, run, box.checked),
        });
    box.checked = place !== undefined;
    const row = el(
        "tr",
        { class: place !== undefined ? "picked" : "" },
        el(
            "td",
            {},
            box,
            " ",
            run.remarks?.starred === "1" ? el("span", { class: "star", title: "starred" }, "★ ") : "",
            el("a", { href: link("layers", run.id) }, nameText(run.remarks?.title || run.name, 60)),
            context.list().writable && !run.loading && !run.error && !run.events
                ? el(
                      "button",
                      {
                          class: "plain edit",
                          type: "button",
                          "aria-label": `remarks on ${run.name.slice(0, 60)}`,
                          title: "tags, notes, star, archive",
                          onclick: () => editRemarks(context, run),
                      },
                      "✎",
                  )
                : "",
        ),
        run.loading || run.error
            ? el(
                  "td",
                  { class: "left quiet", colspan: view.shown.length + 1 },
                  run.error ? `cannot be read: ${run.error}` : "is being read…",
              )
            : [
                  view.shown.map((column) => el("td", { class: column.left ? "left" : "" }, column.show(run))),
                  el("td", {}, spark(run)),
              ],
    );
    row.style.setProperty("--mark", place !== undefined ? lineStyle(place).colour : "");
    return row;
}

// A line above the runs of a group: how many, and the mean and standard deviation of each metric's best.
function groupRow(view, group) {
    const cell = (column) => {
        const values = group.runs
            .map((run) => (run.loading || run.error ? undefined : column.of(run)))
            .filter(Number.isFinite);
        if (column.kind !== "metric" || !values.length) {
            return "";
        }
        const mean = values.reduce((a, b) => a + b, 0) / values.length,
            spread = Math.sqrt(values.reduce((sum, v) => sum + (v - mean) ** 2, 0) / Math.max(1, values.length - 1));
        return [
            numeral(mean),
            values.length > 1
                ? el("small", { title: "standard deviation of the best values" }, " ± ", numeral(spread))
                : "",
        ];
    };
    return el(
        "tr",
        { class: "group" },
        el("td", {}, nameText(group.name, 60), el("span", { class: "quiet" }, ` ${whole(group.runs.length)} runs`)),
        view.shown.map((column) => el("td", { class: column.left ? "left" : "" }, cell(column))),
        el("td", {}),
    );
}

// Everything in the order of the table: { group } or { run }.
function linesOf(view) {
    return view.groups
        ? view.groups.flatMap((group) => [{ group }, ...group.runs.map((run) => ({ run }))])
        : view.rows.map((run) => ({ run }));
}

// The table keeps its place while it is scrolled; of a long list only what is in sight is there.
function makeTable(context) {
    const head = el("thead", {}),
        body = el("tbody", {}),
        box = el(
            "div",
            { class: "rows", tabindex: 0, role: "region", "aria-label": "list of runs" },
            el("table", {}, head, body),
        );
    let view = null,
        lines = [],
        drawn = "";
    const fill = (force) => {
        const many = lines.length > FEW,
            from = many ? Math.max(0, Math.floor(box.scrollTop / ROW) - 8) : 0,
            to = many ? Math.min(lines.length, from + Math.ceil((box.clientHeight || 600) / ROW) + 16) : lines.length;
        if (!force && drawn === `${from} ${to}`) {
            return;
        }
        drawn = `${from} ${to}`;
        const space = (count) => {
            const row = el(
                "tr",
                { class: "space", "aria-hidden": "true" },
                el("td", { colspan: view.shown.length + 2 }),
            );
            row.style.height = `${count * ROW}px`;
            return row;
        };
        replace(
            body,
            from ? space(from) : "",
            lines.slice(from, to).map(({ group, run }) => (group ? groupRow(view, group) : runRow(context, view, run))),
            to < lines.length ? space(lines.length - to) : "",
        );
    };
    box.addEventListener("scroll", () => requestAnimationFrame(() => view && fill(false)));
    const all = el("input", {
        type: "checkbox",
        "aria-label": "all runs of the list",
        title: "all runs of the list",
        onchange: () => {
            set({ pick: all.checked ? "all" : "" });
            context.redraw(true);
        },
    });
    return {
        element: box,
        show: (next) => {
            view = next;
            lines = linesOf(view);
            const picked = pickedOf(view).length;
            all.checked = picked > 0 && picked >= view.rows.length;
            all.indeterminate = picked > 0 && picked < view.rows.length;
            const first = headCell(context, { key: "name", text: "run", left: true });
            first.prepend(all, " ");
            replace(
                head,
                el(
                    "tr",
                    {},
                    first,
                    view.shown.map((column) => headCell(context, column)),
                    el("th", {}, el("span", { class: "unseen" }, "trend")),
                ),
            );
            fill(true);
        },
    };
}

// ---- Remarks ---------------------------------------------------------------------------------------------

function editRemarks(context, run) {
    const tags = el("input", {
            type: "text",
            value: run.remarks.tags || "",
            "aria-label": "tags, separated by commas",
        }),
        notes = el("textarea", { rows: 5, "aria-label": "notes" }, run.remarks.notes || ""),
        flag = (key, text) => {
            const box = el("input", { type: "checkbox" });
            box.checked = run.remarks[key] === "1";
            return { box, label: el("label", { class: "choice" }, box, text) };
        },
        starred = flag("starred", "star: stands first"),
        archived = flag("archived", "archive: the list does not show it"),
        problem = el("p", { class: "bad" });
    const save = async () => {
        const now = {
            tags: tags.value.trim(),
            notes: notes.value.trim(),
            starred: starred.box.checked ? "1" : "",
            archived: archived.box.checked ? "1" : "",
        };
        try {
            for (const [key, text] of Object.entries(now)) {
                if (text !== (run.remarks[key] || "")) {
                    await saveRemark(run.id, key, text);
                    run.remarks[key] = text;
                }
            }
            box.close();
            context.redraw();
        } catch (error) {
            problem.textContent = error.message;
        }
    };
    const box = dialog(
        el("h2", {}, "Remarks on ", nameText(run.name, 40)),
        el("label", { class: "field" }, "tags, separated by commas", tags),
        el("label", { class: "field" }, "notes", notes),
        el("p", {}, starred.label, " ", archived.label),
        problem,
        el("button", { type: "button", onclick: save }, "keep in the run"),
    );
    tags.focus();
}

// ---- Controls --------------------------------------------------------------------------------------------

function columnChooser(context, view) {
    const shown = new Set(view.shown.map((column) => column.key)),
        all = value("every") === "1";
    const kinds = [
        ["facts", view.columns.filter((column) => column.kind === "fact")],
        ["metrics", view.columns.filter((column) => column.kind === "metric")],
        [
            "settings",
            view.columns.filter((column) => column.kind === "setting" && (all || column.differs)).slice(0, 300),
        ],
    ];
    const change = (key, on) => {
        const now = view.shown.map((column) => column.key);
        set({ cols: (on ? [...now, key] : now.filter((name) => name !== key)).join(",") });
        context.redraw();
    };
    return el(
        "details",
        { class: "menu" },
        el("summary", {}, "columns"),
        el(
            "div",
            {},
            toggle("only settings that differ", !all, (on) => {
                set({ every: on ? "" : "1" });
                context.redraw();
            }),
            kinds.map(([title, columns]) =>
                el(
                    "fieldset",
                    {},
                    el("legend", {}, title),
                    columns.length
                        ? columns.map((column) =>
                              toggle(column.key.slice(0, 60), shown.has(column.key), (on) => change(column.key, on)),
                          )
                        : el("span", { class: "quiet" }, "none"),
                ),
            ),
            el(
                "button",
                {
                    type: "button",
                    onclick: () => {
                        set({ cols: "" });
                        context.redraw();
                    },
                },
                "as at first",
            ),
        ),
    );
}

function controls(context, bar, view) {
    const open = bar.querySelector("details")?.open,
        differing = view.columns.filter((column) => column.differs).slice(0, 40),
        chooser = columnChooser(context, view);
    chooser.open = Boolean(open);
    replace(
        bar,
        chooser,
        choice(
            "group by",
            [
                ["", "nothing"],
                ...differing.map((column) => [column.key, column.text]),
                ["group", "group"],
                ["tags", "tags"],
                ["state", "state"],
            ],
            value("group", ""),
            (key) => {
                set({ group: key });
                context.redraw(true);
            },
        ),
        view.hidden || value("archived") === "1"
            ? toggle("archived", value("archived") === "1", (on) => {
                  set({ archived: on ? "1" : "" });
                  context.redraw();
              })
            : "",
        el(
            "span",
            { class: "quiet count-runs" },
            `${whole(view.rows.length)} of ${whole(context.list().runs.length)} runs`,
        ),
        view.problem ? el("span", { class: "wrong", role: "alert" }, view.problem) : "",
    );
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
        "Or from Python, with the model that you train:",
        code("import tapedeck\ndeck = tapedeck.watch(model)"),
        "TensorBoard's event files are shown as well.",
    );
}

const HINT = "filter: words, /regex/, loss < 0.2 and lr = 0.01";

export const runsPage = {
    name: "runs",
    title: "Runs",
    async open(context) {
        const lines = el("section", { "aria-label": "metrics of the picked runs" }),
            sweep = el("section", { "aria-label": "runs over their settings" }),
            charts = el("div", { class: "pane" }, lines, sweep),
            bar = el("div", { class: "controls" }),
            empty = el("div", { class: "banners" }),
            branches = el("div", {}),
            table = makeTable(context);
        let settings = {},
            shown = { close: () => {}, refresh: () => {} };
        const find = el("input", {
            type: "search",
            class: "filter",
            placeholder: HINT,
            title: HINT,
            "aria-label": "filter runs",
            value: value("find", ""),
            oninput: () => {
                set({ find: find.value });
                context.redraw(value("pick") === "all" || Boolean(value("group")), true);
            },
        });
        const list = el(
            "section",
            { class: "pane", "aria-label": "runs" },
            el("div", { class: "controls" }, find),
            bar,
            table.element,
            branches,
        );
        const panes = el("div", { class: "panes" }, list, charts);
        let waiting = 0;
        const drawCharts = async (view) => {
            shown.close();
            shown = await overlay(context, lines, lineGroups(view));
        };
        // charts: which runs are picked has changed; later: after the next keys.
        context.redraw = async (withCharts, later) => {
            const { runs, folder, problem } = context.list();
            document.title = "tapedeck";
            panes.hidden = !runs.length;
            replace(
                empty,
                runs.length ? "" : problem ? message("The folder cannot be read", problem) : emptyFolder(folder),
            );
            if (!runs.length) {
                return;
            }
            const view = arrange(context.list(), settings),
                groups = lineGroups(view);
            view.marks = new Map(groups.flatMap((group, i) => group.runs.map((run) => [run.id, i])));
            if (!value("pick") && value("group")) {
                view.marks.clear();
            }
            table.show(view);
            replace(branches, branchTree(context.list().runs) || "");
            controls(context, bar, view);
            clearTimeout(waiting);
            waiting = setTimeout(() => drawSweep(sweep, view.rows.slice(0, 2000), view.columns), later ? 250 : 0);
            if (withCharts && later) {
                setTimeout(() => drawCharts(view).catch(context.fail), 250);
            } else if (withCharts) {
                await drawCharts(view);
            }
        };
        const readSettings = async () => {
            settings = { ...settings, ...(await fetchSettings()).runs };
        };
        replace(context.main, empty, panes);
        context.onclose(() => {
            clearTimeout(waiting);
            shown.close();
        });
        context.onnews(async (news) => {
            if (news.listed || news.reset) {
                await readSettings();
            }
            await context.redraw(false);
            if (news.reset || (news.runs || []).some((run) => value("pick", "").includes(run.id))) {
                await shown.refresh();
            }
        });
        if (!value("pick") && !value("group") && context.list().runs.length === 1 && !context.list().runs[0].loading) {
            set({ pick: context.list().runs[0].id }, true);
        }
        await context.redraw(true);
        await readSettings();
        await context.redraw(Boolean(value("group")));
    },
};
