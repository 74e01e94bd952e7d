// The page around the pages: which run, which page, time, keys, news.
import { el, replace, message, nameText, code, dialog } from "./dom.js";
import { whole, duration } from "./format.js";
import { fetchRuns, fetchRun, fetchSteps, follow, isReport, leftOut, openingView } from "./source.js";
import { state, go, link, onstate } from "./state.js";
import { Time, scrubber } from "./time.js";
import { runsPage } from "./runs.js";
import { FORMS, layersPage } from "./layers.js";
import { layerPage } from "./layer.js";
import { networkPage } from "./network.js";
import { tensorPage } from "./tensor.js";
import { transformerPage } from "./transformer.js";
import { gather, triggersPage } from "./triggers.js";
import { examplesPage } from "./examples.js";
import { mediaPage } from "./media.js";
import { comparePage } from "./compare.js";
import { findingsPage } from "./findings.js";
import { recorderPage } from "./recorder.js";
import { ranksPage } from "./ranks.js";
import { originPage } from "./origin.js";
import { diffPage } from "./diff.js";
import { findingCount } from "./verdict.js";

const pages = [
    layersPage,
    layerPage,
    transformerPage,
    networkPage,
    tensorPage,
    triggersPage,
    examplesPage,
    mediaPage,
    comparePage,
    findingsPage,
    recorderPage,
    ranksPage,
    originPage,
    diffPage,
];
const all = [runsPage, ...pages];

const app = document.getElementById("app");
const header = el("header", {}),
    main = el("main", { id: "main", tabindex: -1 }),
    footer = el("footer", {});
replace(app, header, main, footer);
document.body.prepend(
    el(
        "a",
        {
            class: "skip",
            href: "#main",
            onclick: (event) => {
                event.preventDefault();
                main.focus();
            },
        },
        "skip to the content",
    ),
);

let listing = { runs: [], folder: "", problem: "" },
    current = null,
    connection = "";

// ---- The head --------------------------------------------------------------------------------------------

function stateText(run) {
    const texts = {
        running: "training",
        finished: "finished",
        interrupted: "interrupted",
        failed: "failed",
        crashed: "crashed",
        unknown: "event files",
    };
    const rate = current && current.table && current.table.time.length > 1 ? speed(current.table) : NaN;
    return [
        el("span", { class: `dot ${run.state}` }),
        `${texts[run.state] || run.state}, step ${whole(run.step)}`,
        Number.isFinite(rate) ? `, ${duration(rate)}/step` : "",
        run.state === "running" ? (connection === "gone" ? " · the viewer has gone" : " · live") : "",
    ];
}

function speed(table) {
    const last = table.step.length - 1,
        first = Math.max(0, last - 32);
    return (table.time[last] - table.time[first]) / (table.step[last] - table.step[first]);
}

function drawHeader() {
    const run = current && current.run;
    replace(
        header,
        el("h1", {}, el("a", { href: link("runs", ""), "aria-current": run ? null : "page" }, "tapedeck")),
        run
            ? el("a", { class: "run-name plain", href: link("layers", run.id) }, nameText(run.name, 60))
            : el("span", { class: "quiet" }, nameText(listing.folder, 60)),
        run
            ? el(
                  "nav",
                  { "aria-label": "pages" },
                  pages
                      .filter((page) => !page.isFor || page.isFor(run))
                      .map((page) =>
                          el(
                              "a",
                              { href: link(page.name, run.id), "aria-current": page === current.page ? "page" : null },
                              page.title,
                              page === findingsPage ? findingCount(run) : "",
                          ),
                      ),
              )
            : "",
        el(
            "span",
            { class: "state", role: "status" },
            run ? stateText(run) : connection === "gone" ? "the viewer has gone" : "",
            isReport
                ? el("span", { class: "quiet" }, ` report${leftOut ? `: ${whole(leftOut)} items found no room` : ""}`)
                : "",
            el("button", { class: "plain", type: "button", "aria-label": "keys", onclick: showKeys }, "?"),
        ),
    );
}

// ---- Opening a page --------------------------------------------------------------------------------------

function fail(error) {
    if (error && error.name !== "AbortError") {
        replace(
            main,
            message(
                "This could not be shown",
                error.message || String(error),
                el("p", {}, el("button", { type: "button", onclick: show }, "try again")),
            ),
        );
    }
}

function close() {
    if (current) {
        current.time?.pause();
        current.closers.forEach((closer) => closer());
        current = null;
    }
}

function contextOf(page) {
    const closers = [],
        newsListeners = [];
    return {
        page,
        main,
        closers,
        newsListeners,
        list: () => listing,
        // What a page that was left asked for may still fail: that is nobody's business any more.
        fail: (error) => (current?.closers === closers ? fail(error) : undefined),
        again: show,
        onclose: (closer) => closers.push(closer),
        onnews: (listener) => newsListeners.push(listener),
        onrange: (listener) => {
            let waiting = 0;
            closers.push(
                current.time.on((kind) => {
                    if (kind === "range") {
                        clearTimeout(waiting);
                        waiting = setTimeout(listener, 60);
                    }
                }),
            );
        },
    };
}

// Findings and triggers, as marks on the time axis.
function marksOf(context) {
    const run = context.run;
    return [
        ...gather((run.events_ || []).filter((event) => event.kind === "trigger")).map((event) => ({
            step: event.first,
            last: event.last,
            kind: "trigger",
            colour: "#e69f00",
            text: `${event.text.slice(0, 100)}: step ${whole(event.first)}${event.count > 1 ? ` and ${whole(event.count - 1)} more until ${whole(event.last)}` : ""}`,
        })),
        ...(run.events_ || [])
            .filter((event) => ["alert", "drop", "sink error"].includes(event.kind) && event.step > 0)
            .slice(0, 200)
            .map((event) => ({
                step: event.step,
                last: event.step,
                kind: "finding",
                colour: "#cc79a7",
                text: `${event.kind} at step ${whole(event.step)}: ${event.text.slice(0, 120)}`,
            })),
        ...(run.findings || [])
            .filter((finding) => finding.since > 0)
            .map((finding) => ({
                step: finding.since,
                last: finding.since,
                kind: "finding",
                colour: "#d55e00",
                text: `${finding.cause.replaceAll("_", " ")}${finding.layer ? ` in ${finding.layer.slice(0, 60)}` : ""}, since step ${whole(finding.since)}`,
            })),
    ];
}

// The layers of the run's models: note `network`, PREFIX.network of a model with a prefix.
function networksOf(notes) {
    return Object.entries(notes)
        .filter(([key]) => /(^|\.)network$/.test(key))
        .flatMap(([key, text]) => {
            const prefix = key.slice(0, -"network".length);
            try {
                return JSON.parse(text).map((layer) => ({
                    ...layer,
                    name: layer.name.startsWith(prefix) ? layer.name : prefix + layer.name,
                }));
            } catch {
                return [];
            }
        });
}

function learn(run) {
    run.network = networksOf(run.notes.run);
    for (const signal of run.signals.filter((each) => !each.kind)) {
        signal.kind = "other";
        if (!signal.layer && signal.forms & FORMS.histogram) {
            signal.layer = signal.name; // so it has a page
        }
    }
    return run;
}

let turn = 0;

async function open() {
    const mine = ++turn,
        page = all.find((candidate) => candidate.name === state.page) || runsPage;
    close();
    current = contextOf(page);
    if (page === runsPage) {
        replace(footer);
        drawHeader();
        await page.open(current);
        return;
    }
    replace(main, el("p", { class: "quiet", role: "status" }, "reading the run…"));
    const context = current,
        [run, table] = await Promise.all([fetchRun(state.run), fetchSteps(state.run)]);
    if (mine !== turn) {
        return;
    }
    context.run = learn(run);
    context.table = table;
    context.time = new Time(table.step.length ? table.step[0] : 1, Math.max(run.step, 1));
    context.time.table = table;
    context.time.marks = marksOf(context);
    document.title = `${run.name.slice(0, 60)} · ${page.title} · tapedeck`;
    drawHeader();
    replace(footer, page.timeless ? "" : scrubber(context.time));
    replace(main);
    await page.open(context);
    if (mine === turn) {
        banners(run);
    }
}

// What somebody should know before they look.
function banners(run) {
    const made = [];
    if (run.state === "crashed") {
        made.push(
            el(
                "div",
                { class: "banner warn", role: "alert" },
                el(
                    "p",
                    {},
                    `The program that wrote this run ended without closing it, after step ${whole(run.step)}. Everything until then is here. To go on:`,
                ),
                code(
                    run.notes.experiment.yaml
                        ? `tapedeck train --resume ${run.folder}`
                        : `# the model and the optimizer come from your own checkpoint\ndeck = tapedeck.watch(model, ${JSON.stringify(run.folder)}, resume=True)`,
                ),
            ),
        );
    }
    if (run.problems.length) {
        made.push(
            el(
                "div",
                { class: "banner warn" },
                run.problems.slice(0, 5).map((text) => el("p", {}, nameText(text, 300))),
            ),
        );
    }
    main.prepend(...made);
}

function show() {
    const mine = turn + 1;
    open().catch((error) => (mine === turn ? fail(error) : undefined));
}

// ---- News ------------------------------------------------------------------------------------------------

let refreshing = null,
    again = false;

async function refresh(news) {
    if (refreshing) {
        again = true;
        return;
    }
    refreshing = (async () => {
        do {
            again = false;
            listing = await fetchRuns();
            if (current && current.page === runsPage) {
                current.newsListeners.forEach((listener) => listener(news));
                drawHeader();
            } else if (
                current &&
                current.run &&
                (news.reset || (news.runs || []).some((run) => run.id === current.run.id))
            ) {
                await refreshRun(news);
            }
            // A page that asks all the time takes from the training that it shows.
            await new Promise((resolve) => setTimeout(resolve, 800));
        } while (again);
    })();
    try {
        await refreshing;
    } catch (error) {
        if (!current || !current.run) {
            fail(error);
        }
    }
    refreshing = null;
}

// The page stays as it is; charts are notified that there is more.
async function refreshRun(news) {
    const context = current,
        run = await fetchRun(context.run.id),
        table = await fetchSteps(run.id);
    if (context !== current) {
        return;
    }
    const grown = run.step !== context.run.step,
        more = run.signals.length !== context.run.signals.length,
        state = run.state !== context.run.state,
        judged = run.notes.run.diagnosed !== context.run.notes.run.diagnosed;
    Object.assign(context.run, learn(run));
    context.table = context.time.table = table;
    drawHeader();
    if (more || state || judged) {
        await open();
    } else if (grown) {
        context.time.marks = marksOf(context);
        context.time.grow(run.step);
        context.newsListeners.forEach((listener) => listener(news));
    }
}

// ---- Keys ------------------------------------------------------------------------------------------------

const keys = [
    ["← →", "one step back, on"],
    ["Shift + ← →", "a hundredth of the range"],
    ["Home, End", "first, last step"],
    ["Space", "play, pause"],
    ["0", "show the whole run"],
    ["/", "search signals, or filter runs"],
    ["1 … 9", "the pages of a run"],
    ["r", "all runs"],
    ["Esc", "close"],
    ["?", "this list"],
];

function showKeys() {
    dialog(
        el("h2", {}, "Keys"),
        el(
            "dl",
            {},
            keys.map(([key, text]) => [el("dt", {}, key), el("dd", {}, text)]),
        ),
        el(
            "p",
            { class: "quiet" },
            "In charts: point to read values, click to go to a step, drag to zoom, double click for the whole run.",
        ),
    );
}

function showSearch() {
    const run = current.run,
        list = el("ul", { class: "found" });
    const input = el("input", {
        type: "search",
        "aria-label": "search signals",
        placeholder: `search ${whole(run.signals.length)} signals`,
    });
    const target = (signal) =>
        signal.layer
            ? link("layer", run.id, { layer: signal.layer, signal: signal.id })
            : signal.forms & 64
              ? link("layers", run.id, { find: signal.name.slice(0, 200) })
              : link("tensor", run.id, { signal: signal.id });
    const box = dialog(el("h2", {}, "Signals"), input, list);
    const find = () => {
        const words = input.value.toLowerCase().split(/\s+/);
        const found = run.signals.filter((signal) => words.every((word) => signal.name.toLowerCase().includes(word)));
        replace(
            list,
            found
                .slice(0, 100)
                .map((signal) =>
                    el(
                        "li",
                        {},
                        el(
                            "a",
                            { href: target(signal), onclick: () => box.close() },
                            nameText(signal.name, 70),
                            el("span", { class: "quiet" }, ` ${signal.kind}`),
                        ),
                    ),
                ),
            found.length > 100 ? el("li", { class: "quiet" }, `and ${whole(found.length - 100)} more`) : "",
            found.length ? "" : el("li", { class: "quiet" }, "none"),
        );
    };
    input.addEventListener("input", find);
    input.addEventListener("keydown", (event) => {
        if (event.key === "Enter") {
            list.querySelector("a")?.click();
        }
    });
    find();
    input.focus();
}

function pressTime(event, time) {
    const by = event.shiftKey ? Math.max(1, Math.round((time.to - time.from) / 100)) : 1;
    const moves = {
        ArrowLeft: () => time.scrub(time.step - by, true),
        ArrowRight: () => time.scrub(time.step + by),
        Home: () => time.scrub(time.first, true),
        End: () => time.scrub(time.last),
        " ": () => time.play(),
        0: () => time.unzoom(),
    };
    if (moves[event.key]) {
        moves[event.key]();
        event.preventDefault();
        return true;
    }
    return false;
}

addEventListener("keydown", (event) => {
    const typing = event.target.matches("input:not([type=range]):not([type=checkbox]), select, textarea");
    if (typing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) {
        return;
    }
    const onButton = event.target.matches("button, a") && (event.key === " " || event.key === "Enter");
    if (
        current &&
        current.time &&
        !onButton &&
        !event.target.matches("input[type=range]") &&
        pressTime(event, current.time)
    ) {
        return;
    }
    if (event.key === "?") {
        showKeys();
    } else if (event.key === "/" && current) {
        event.preventDefault();
        if (current.run) {
            showSearch();
        } else {
            main.querySelector("input[type=search]")?.focus();
        }
    } else if (event.key === "r") {
        go("runs", "");
    } else if (event.key >= "1" && event.key <= "9" && current && current.run) {
        go(pages[Number(event.key) - 1].name, current.run.id);
    }
});

// ---- Beginning -------------------------------------------------------------------------------------------

onstate((kind) => kind === "page" && show());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);

async function begin() {
    listing = await fetchRuns();
    // Of one run alone, an address without a run ("#/layers", or nothing) is that run's.
    const page = location.hash || openingView ? state.page : "layers",
        [first] = listing.runs;
    if (openingView && !listing.runs.some((run) => run.id === state.run)) {
        state.run = ""; // the view was chosen where the run has another id
    }
    if (page !== "runs" && !state.run && (listing.runs.length === 1 || openingView) && first && !first.loading) {
        history.replaceState(null, "", link(page, first.id, Object.fromEntries(state.values)));
        Object.assign(state, { page, run: first.id });
    }
    await open();
    follow(refresh, (now) => {
        connection = now;
        drawHeader();
    });
}

begin().catch(fail);
