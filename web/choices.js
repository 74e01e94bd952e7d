// What somebody chose for charts: the axis, the range, outliers, pins. Kept in the browser, by the chart's title, so that
// it is there for the next run too.
import { choice, dialog, el, nameText, toggle } from "./dom.js";

const KEY = "tapedeck.charts";

function read() {
    try {
        const made = JSON.parse(localStorage.getItem(KEY) || "{}");
        return made && typeof made === "object" ? made : {};
    } catch {
        return {}; // no storage (a report from a file), or not ours
    }
}

const all = read(),
    none = {};

// { y: "linear" | "log" | "symlog", clip, low, high, pin }
export function chartChoice(title) {
    return all[title] || none;
}

export function choose(title, values) {
    const next = { ...all[title], ...values };
    for (const [key, value] of Object.entries(next)) {
        if (value === "" || value === false || value === undefined) {
            delete next[key];
        }
    }
    delete all[title];
    if (Object.keys(next).length) {
        all[title] = next;
    }
    try {
        localStorage.setItem(KEY, JSON.stringify(all));
    } catch {
        // It holds for this page.
    }
}

// Titles that are pinned, in the order they were.
export function pinned() {
    return Object.keys(all).filter((title) => all[title].pin);
}

function settings(chart) {
    const now = chartChoice(chart.title);
    const change = (values) => {
        choose(chart.title, values);
        chart.redraw();
    };
    const end = (key, text) =>
        el(
            "label",
            { class: "choice" },
            text,
            el("input", {
                type: "number",
                step: "any",
                value: now[key] ?? "",
                "aria-label": `${text} of the values`,
                onchange: (event) => change({ [key]: event.target.value === "" ? "" : Number(event.target.value) }),
            }),
        );
    dialog(
        el("h2", {}, nameText(chart.title, 60)),
        el(
            "div",
            { class: "fields" },
            choice(
                "values",
                [
                    ["", "axis by itself"],
                    ["linear", "linear"],
                    ["log", "logarithmic"],
                    ["symlog", "symmetric logarithmic"],
                ],
                now.y || "",
                (y) => change({ y }),
            ),
            toggle("cut off outliers", Boolean(now.clip), (clip) => change({ clip })),
            end("low", "from"),
            end("high", "to"),
            toggle("pin: stands first on Layers, of every run", Boolean(now.pin), (pin) => change({ pin })),
        ),
        el("p", { class: "quiet" }, "Kept in this browser, for charts of this name."),
    );
}

async function fill(chart) {
    if (document.fullscreenElement) {
        await document.exitFullscreen();
        return;
    }
    const height = chart.box.style.height;
    await chart.element.requestFullscreen();
    chart.box.style.height = "calc(100vh - 110px)";
    const back = () => {
        if (!document.fullscreenElement) {
            chart.box.style.height = height;
            document.removeEventListener("fullscreenchange", back);
        }
    };
    document.addEventListener("fullscreenchange", back);
}

// Buttons beside those that save.
export function chartMenu(chart) {
    const button = (text, label, onclick) =>
        el(
            "button",
            { class: "plain", type: "button", title: label, "aria-label": `${label}: ${chart.title}`, onclick },
            text,
        );
    return [
        button("axis", "axis, range, outliers, pin", () => settings(chart)),
        button("full", "full screen", () => fill(chart).catch(() => {})),
    ];
}
