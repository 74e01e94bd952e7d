// Dashboards: charts that somebody chose, under a name, kept in the run or in the browser. A line of its text is a chart:
// names of signals with commas between them, * for any text, and at the end a statistic of those that are tensors:
//   loss, val_loss
//   conv*.gradient std
import { choice, dialog, el, replace } from "./dom.js";
import { whole } from "./format.js";
import { saveRemark } from "./source.js";
import { set, value } from "./state.js";

const KEY = "tapedeck.boards",
    MOST_CHARTS = 200,
    MOST_LINES = 40,
    STATISTICS = ["norm", "mean", "std", "max", "min", "zeros", "nan", "inf"];

// { name: text }, whatever stands there: the storage and the note are not only ours.
function parse(text) {
    try {
        const made = JSON.parse(text || "{}"),
            entries = made && typeof made === "object" ? Object.entries(made) : [];
        return Object.fromEntries(entries.filter(([, lines]) => typeof lines === "string"));
    } catch {
        return {};
    }
}

function inBrowser() {
    try {
        return parse(localStorage.getItem(KEY));
    } catch {
        return {}; // no storage: a report from a file
    }
}

// Those of the run hide those of the browser that have the same name.
export function boardsOf(run) {
    return { ...inBrowser(), ...parse(run.notes.run.dashboards) };
}

// Whether a name is of a pattern, in one walk: the text between asterisks comes in this order.
function matcher(pattern) {
    const parts = pattern.split("*"),
        first = parts[0],
        last = parts[parts.length - 1];
    return (name) => {
        const end = name.length - last.length;
        let at = first.length;
        if (parts.length === 1 || at > end || !name.startsWith(first) || !name.endsWith(last)) {
            return name === pattern;
        }
        return parts.slice(1, -1).every((part) => {
            const found = name.indexOf(part, at);
            at = found + part.length;
            return found >= 0 && at <= end;
        });
    };
}

// The charts of a dashboard's text: { groups: [{ title, signals, stat, all }], missing: lines without a signal }.
// wanted(signal): whether it has numbers at all.
export function chartsOf(text, signals, wanted) {
    const groups = [],
        missing = [],
        lines = text
            .split("\n")
            .map((line) => line.trim())
            .filter(Boolean);
    for (const line of lines.slice(0, MOST_CHARTS)) {
        const found = /^(.*\S)\s+(\S+)$/.exec(line),
            stat = found && STATISTICS.includes(found[2]) ? found[2] : "",
            patterns = (stat ? found[1] : line)
                .split(",")
                .map((part) => part.trim())
                .filter(Boolean)
                .map(matcher),
            all = signals.filter((s) => wanted(s) && patterns.some((matches) => matches(s.name)));
        if (all.length) {
            groups.push({ title: line, signals: all.slice(0, MOST_LINES), stat, all: all.length });
        } else {
            missing.push(line);
        }
    }
    return { groups, missing: [...missing, ...lines.slice(MOST_CHARTS)] };
}

function keepInBrowser(name, text) {
    const next = { ...inBrowser(), [name]: text };
    if (!text) {
        delete next[name];
    }
    localStorage.setItem(KEY, JSON.stringify(next));
}

async function keepInRun(run, name, text) {
    const next = { ...parse(run.notes.run.dashboards), [name]: text };
    if (!text) {
        delete next[name];
    }
    const all = Object.keys(next).length ? JSON.stringify(next) : "";
    await saveRemark(run.id, "dashboards", all);
    run.notes.run.dashboards = all;
}

// first: what stands in the text of a new one.
function edit(context, name, first, wanted, onchange) {
    const { run } = context,
        before = boardsOf(run)[name],
        title = el("input", { type: "text", value: name, "aria-label": "name of the dashboard" }),
        text = el("textarea", { rows: 10, "aria-label": "charts, one a line", spellcheck: "false" }, before ?? first),
        about = el("p", { class: "quiet", role: "status" }),
        problem = el("p", { class: "bad", role: "alert" }),
        names = el(
            "datalist",
            { id: "board-signals" },
            run.signals
                .filter(wanted)
                .slice(0, 2000)
                .map((signal) => el("option", { value: signal.name.slice(0, 200) })),
        ),
        adding = el("input", { type: "text", list: "board-signals", "aria-label": "a signal to add" });
    const describe = () => {
        const { groups, missing } = chartsOf(text.value, run.signals, wanted);
        about.textContent =
            `${whole(groups.length)} charts` +
            (missing.length ? `; nothing in this run for: ${missing.slice(0, 3).join("; ").slice(0, 200)}` : "");
    };
    const keep = async (save, lines) => {
        const chosen = title.value.trim();
        if (!chosen) {
            problem.textContent = "A dashboard needs a name.";
            title.focus();
            return;
        }
        try {
            await save(chosen, lines);
            set({ board: lines ? chosen : "" });
            box.close();
            onchange();
        } catch (error) {
            problem.textContent = error.message;
        }
    };
    const button = (label, save, lines) =>
        el("button", { type: "button", onclick: () => keep(save, lines ?? text.value.trim()) }, label);
    const add = () => {
        const wish = adding.value.trim();
        if (wish) {
            text.value = `${text.value.trimEnd()}${text.value.trim() ? "\n" : ""}${wish}`;
            adding.value = "";
            describe();
        }
    };
    text.addEventListener("input", describe);
    adding.addEventListener("keydown", (event) => event.key === "Enter" && add());
    const toRun = (chosen, lines) => keepInRun(run, chosen, lines),
        toBrowser = async (chosen, lines) => keepInBrowser(chosen, lines),
        ofRun = parse(run.notes.run.dashboards)[name] !== undefined,
        writable = context.list().writable && !run.events;
    const box = dialog(
        el("h2", {}, before === undefined ? "New dashboard" : "Dashboard"),
        el("label", { class: "field" }, "name", title),
        el(
            "label",
            { class: "field" },
            "charts, one a line: signals with commas between them, * for any text, then norm, mean, std, max, min, zeros, nan or inf",
            text,
        ),
        names,
        el(
            "div",
            { class: "controls add-signal" },
            el("label", { class: "choice" }, "add", adding),
            el("button", { type: "button", onclick: add }, "add the signal"),
        ),
        about,
        problem,
        el(
            "div",
            { class: "controls" },
            writable ? button("keep in the run", toRun) : "",
            button("keep in this browser", toBrowser),
            before === undefined || (ofRun && !writable)
                ? ""
                : button(ofRun ? "remove from the run" : "remove", ofRun ? toRun : toBrowser, ""),
        ),
    );
    describe();
    (name ? text : title).focus();
}

// The choice of a dashboard: draws itself into a box. wanted as for chartsOf; suggestion(): lines of a new one.
export function boardPicker(context, wanted, suggestion, onchange) {
    const box = el("span", { class: "boards" });
    const changed = () => {
        draw();
        onchange();
    };
    const draw = () => {
        const names = Object.keys(boardsOf(context.run)),
            now = names.includes(value("board")) ? value("board") : "";
        replace(
            box,
            choice("charts", [["", "all metrics"], ...names.map((name) => [name, name.slice(0, 60)])], now, (name) => {
                set({ board: name });
                changed();
            }),
            el(
                "button",
                { type: "button", onclick: () => edit(context, now, suggestion(), wanted, changed) },
                now ? "edit" : "new dashboard",
            ),
        );
    };
    draw();
    return box;
}
