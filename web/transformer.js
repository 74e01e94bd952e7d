// What people who train transformers look for: attention by head, spectra, which rows the loss comes from.
import { choice, el, message, nameText, numeral, recipe, replace, thead } from "./dom.js";
import { short, whole } from "./format.js";
import { categories, lineStyle } from "./colour.js";
import { Chart, lineOf } from "./chart.js";
import { Heat } from "./heat.js";
import { lazily, whenVisible } from "./panels.js";
import { fetchExamples, fetchHeat, fetchImage, fetchSeries, fetchTensor, fetchUnits } from "./source.js";
import { go, link, set, value } from "./state.js";
import { FORMS } from "./layers.js";
import { gallery } from "./tensor.js";

const MOST_LINES = 24,
    MOST_ROWS = 50,
    MOST_MAPS = 8;

// Signals SOURCE.word, as the deck derives them.
function derived(run, word, forms) {
    return run.signals.filter((s) => s.name.endsWith(`.${word}`) && s.kind !== "metric" && s.forms & forms);
}

function lossRows(run) {
    return run.signals.find((s) => s.name === "loss.rows" && s.forms & FORMS.rows);
}

function columnsOf(time) {
    return Math.max(1, Math.min(600, time.to - time.from + 1));
}

// ---- Attention by head -----------------------------------------------------------------------------------

// A row for each head, from the tensors (examples, heads) of a signal.
async function headRows(context, signal) {
    const { time } = context,
        units = await fetchUnits(context.run.id, signal.id),
        columns = columnsOf(time);
    return Array.from({ length: units.shown }, (unused, head) => {
        const made = () => new Float64Array(columns).fill(NaN),
            row = { values: made(), bad: made().fill(-1), from: made(), to: made() };
        units.steps.forEach((step, i) => {
            const c = Math.floor(((step - time.from) / (time.to - time.from + 1)) * columns),
                mean = units.values[2 * (i * units.shown + head)];
            if (c >= 0 && c < columns) {
                row.values[c] = mean;
                row.bad[c] = Number.isFinite(mean) ? 0 : 1;
                row.from[c] = row.to[c] = step;
            }
        });
        return { ...row, name: `h${head} · ${signal.layer}`, layer: signal.layer, until: signal.last };
    });
}

// Without tensors a row for each layer: the statistic over examples and heads.
async function layerRows(context, signals, stat) {
    const { run, time } = context,
        ids = signals.map((s) => s.id),
        rows = await fetchHeat(run.id, ids, stat, time.from, time.to, columnsOf(time));
    return rows.map((row, i) => ({
        ...row,
        name: signals[i].layer,
        layer: signals[i].layer,
        until: signals[i].last,
    }));
}

// stat: of a layer whose heads were not recorded one by one.
function attentionPanel(context, word, { title, label, stat, says }) {
    const { run, time } = context,
        signals = derived(run, word, FORMS.tensor | FORMS.stats);
    if (!signals.length) {
        return null;
    }
    const merged = signals.filter((s) => !(s.forms & FORMS.tensor)),
        heat = new Heat(time, {
            title,
            label,
            height: 420,
            linear: word === "entropy", // 0.01 nats are as little as 1e-9
            onopen: (row) => go("layer", run.id, { layer: row.layer }),
        });
    context.onclose(() => heat.remove());
    return {
        element: el(
            "section",
            { "aria-label": title },
            el("h2", {}, title),
            el("p", { class: "quiet" }, says),
            heat.element,
            merged.length
                ? el(
                      "p",
                      { class: "quiet" },
                      `${whole(merged.length)} of ${whole(signals.length)} layers have one row, the ${stat} over heads: to see heads, record `,
                      el("code", {}, `*.${word}`),
                      " in form tensor.",
                  )
                : "",
        ),
        load: async () => {
            const rows = [];
            for (const signal of signals.filter((s) => s.forms & FORMS.tensor)) {
                rows.push(...(await headRows(context, signal)));
            }
            rows.push(...(merged.length ? await layerRows(context, merged, stat) : []));
            heat.set(rows);
            replace(heat.caption, el("span", {}, rows.length > merged.length ? "heads × time" : "layers × time"));
        },
    };
}

// ---- Attention maps --------------------------------------------------------------------------------------

function mapsPanel(context) {
    const { run, time } = context,
        signals = derived(run, "map", FORMS.tensor | FORMS.image).slice(0, MOST_MAPS);
    if (!signals.length) {
        return null;
    }
    const boxes = signals.map((signal) => ({ signal, box: el("div", {}) }));
    const drawOne = async ({ signal, box }) => {
        if (signal.forms & FORMS.tensor) {
            const maps = await fetchTensor(run.id, signal.id, time.step, "0,*,:,:");
            replace(
                box,
                el("p", { class: "quiet" }, `step ${whole(maps.step)}, the first example that was recorded`),
                gallery(maps, 132, (head) => `head ${head}`),
            );
            return;
        }
        const bitmap = await fetchImage(run.id, signal.id, time.step),
            canvas = el("canvas", {
                class: "pixel",
                role: "img",
                "aria-label": `${signal.name}, heads beside each other`,
            });
        canvas.width = bitmap.width;
        canvas.height = bitmap.height;
        canvas.getContext("2d").drawImage(bitmap, 0, 0);
        replace(box, canvas);
    };
    const draw = () =>
        Promise.all(
            boxes.map((each) =>
                drawOne(each).catch((error) => replace(each.box, el("p", { class: "quiet" }, error.message))),
            ),
        );
    context.onclose(lazily(time, draw));
    return {
        element: el(
            "section",
            { "aria-label": "attention maps" },
            el("h2", {}, "Attention maps"),
            el(
                "p",
                { class: "quiet" },
                "A row is a query, a column a key. At the scrubbed step, or the last before it.",
            ),
            boxes.map(({ signal, box }) =>
                el(
                    "figure",
                    { class: "chart" },
                    el(
                        "figcaption",
                        {},
                        nameText(signal.name, 60),
                        signal.forms & FORMS.tensor
                            ? el(
                                  "a",
                                  { class: "note", href: link("tensor", run.id, { signal: signal.id }) },
                                  "open the tensor",
                              )
                            : "",
                    ),
                    box,
                ),
            ),
        ),
        load: draw,
    };
}

// ---- Spectra ---------------------------------------------------------------------------------------------

const spectra = [
    ["effective_rank", "Effective rank", "How many directions a tensor spans; near 1 all rows look alike."],
    ["stable_rank", "Stable rank", "Sum of the squared singular values by the largest one squared."],
    ["spectral_norm", "Spectral norm", "The largest singular value: how far the matrix can stretch a vector."],
    ["max_eigenvalue", "Curvature", "Largest eigenvalue of the loss's Hessian: steps beyond 2 / it do not settle."],
    ["update_curvature", "Curvature along the update", "Second derivative of the loss along the last update."],
];

function spectrumPanel(context, [word, title, says]) {
    const { run, time } = context,
        signals = run.signals.filter((s) => s.name.endsWith(`.${word}`) && s.forms & FORMS.scalar),
        shown = signals.slice(0, MOST_LINES);
    if (!signals.length) {
        return null;
    }
    const chart = new Chart(time, { title, heading: el("span", {}, word.replaceAll("_", " ")), height: 200 });
    context.onclose(() => chart.remove());
    return {
        element: el(
            "section",
            { "aria-label": title },
            el("h2", {}, title),
            el("p", { class: "quiet" }, says),
            chart.element,
            signals.length > shown.length
                ? el(
                      "p",
                      { class: "quiet" },
                      `${whole(shown.length)} of ${whole(signals.length)} signals; search with /`,
                  )
                : "",
        ),
        load: async () => {
            const ids = shown.map((s) => s.id),
                range = [Math.floor(time.from), Math.ceil(time.to)],
                series = await fetchSeries(run.id, ids, "", ...range, Math.round(chart.width * 2));
            chart.set(
                series.map((each, i) =>
                    lineOf(each, time, { name: shown[i].name.slice(0, -word.length - 1), ...lineStyle(i) }),
                ),
            );
        },
    };
}

// ---- The loss of rows ------------------------------------------------------------------------------------

// The step at which a line stands out most from the median of its neighbours.
export function spikeOf(steps, values) {
    const AROUND = 10;
    let best = -1,
        most = 0;
    for (let i = 0; i < values.length; i++) {
        const near = Array.from(values.slice(Math.max(0, i - AROUND), i + AROUND + 1))
            .filter(Number.isFinite)
            .sort((a, b) => a - b);
        const median = near[near.length >> 1],
            over = Number.isFinite(values[i]) ? values[i] / Math.max(median, 1e-30) : Infinity;
        if (near.length > 2 && over > most) {
            best = i;
            most = over;
        }
    }
    return best < 0 ? null : { step: steps[best], times: most };
}

// asked: the step that was asked for; rows may be of one before it.
function rowsTable(examples, step, asked) {
    const rows = examples.map((e) => ({ ...e, loss: e.values.length === 1 ? e.values[0] : NaN }));
    const sum = rows.reduce((all, row) => all + (Number.isFinite(row.loss) ? row.loss : 0), 0),
        badness = (row) => (Number.isFinite(row.loss) ? row.loss : Infinity);
    rows.sort((a, b) => (badness(a) === badness(b) ? a.sample - b.sample : badness(b) - badness(a)));
    return [
        el(
            "p",
            {},
            `Step ${whole(step)}: the largest of ${whole(rows.length)} losses first. `,
            el("span", { class: "quiet" }, `Their mean is ${short(sum / Math.max(1, rows.length))}.`),
            step === asked ? "" : el("span", { class: "bad" }, ` The rows of step ${whole(asked)} were not recorded.`),
        ),
        el(
            "div",
            { class: "scroll low", tabindex: 0, role: "region", "aria-label": "rows and their losses" },
            el(
                "table",
                {},
                thead(
                    el("th", {}, "row of the data"),
                    el("th", {}, "label"),
                    el("th", {}, "loss"),
                    el("th", {}, "share of the batch"),
                ),
                el(
                    "tbody",
                    {},
                    rows
                        .slice(0, MOST_ROWS)
                        .map((row) =>
                            el(
                                "tr",
                                {},
                                el("td", {}, whole(row.sample)),
                                el("td", {}, row.label === null ? "–" : numeral(row.label)),
                                el("td", { class: Number.isFinite(row.loss) ? "" : "bad" }, numeral(row.loss)),
                                el(
                                    "td",
                                    {},
                                    sum > 0 && Number.isFinite(row.loss)
                                        ? `${((100 * row.loss) / sum).toFixed(1)} %`
                                        : "–",
                                ),
                            ),
                        ),
                ),
            ),
        ),
        rows.length > MOST_ROWS ? el("p", { class: "quiet" }, `${MOST_ROWS} of ${whole(rows.length)} rows`) : "",
    ];
}

function rowsPanel(context) {
    const { run, time } = context,
        signal = lossRows(run);
    if (!signal) {
        return null;
    }
    const loss = run.signals.find((s) => s.name === "loss" && s.forms & FORMS.scalar),
        box = el("div", { "aria-live": "polite" }),
        note = el("span", { class: "quiet" }),
        chart = loss ? new Chart(time, { title: "loss", height: 150 }) : null;
    let spike = null;
    const button = el(
        "button",
        { type: "button", disabled: true, onclick: () => spike && time.scrub(spike.step, true) },
        "which rows caused the largest spike?",
    );
    const draw = async () => {
        const got = await fetchExamples(run.id, signal.id, time.step).catch((error) => error);
        replace(
            box,
            got instanceof Error
                ? el("p", { class: "quiet" }, `Nothing at or before step ${whole(time.step)}: ${got.message}`)
                : rowsTable(got.examples, got.step, time.step),
        );
    };
    if (chart) {
        context.onclose(() => chart.remove());
    }
    context.onclose(lazily(time, draw));
    return {
        element: el(
            "section",
            { "aria-label": "losses of rows" },
            el("h2", {}, "Which rows the loss comes from"),
            el(
                "p",
                { class: "quiet" },
                "Click a spike in the loss: the table has the rows of that step, or of the last recorded one before it. In a terminal: ",
                el("code", {}, "tapedeck show RUN loss.rows --step N"),
            ),
            chart ? chart.element : "",
            chart ? el("p", { class: "controls" }, button, note) : "",
            box,
        ),
        load: async () => {
            if (chart) {
                const range = [Math.floor(time.from), Math.ceil(time.to)],
                    [series] = await fetchSeries(run.id, [loss.id], "", ...range, Math.round(chart.width * 2));
                chart.set([lineOf(series, time, { name: "loss", colour: categories[0] })]);
                spike = spikeOf(series.last, series.max);
                button.disabled = !spike;
                note.textContent = spike
                    ? ` step ${whole(spike.step)}, ${short(spike.times)} times its neighbours`
                    : " the loss has too few steps";
            }
            await draw();
        },
    };
}

// ---- The page --------------------------------------------------------------------------------------------

const sections = {
    attention: (context) => [
        attentionPanel(context, "entropy", {
            title: "Entropy of attention",
            label: "nats, mean",
            stat: "mean",
            says: "How many tokens a head attends to: ln n for n tokens alike, 0 for one. A layer that stays at 0 passes no gradient back.",
        }),
        attentionPanel(context, "max_logit", {
            title: "Largest score",
            label: "largest score, mean",
            stat: "max",
            says: "Before the softmax. Up to a few tens is usual; growth without limit ends in one token a head.",
        }),
        mapsPanel(context),
    ],
    spectra: (context) => spectra.map((each) => spectrumPanel(context, each)),
    rows: (context) => [rowsPanel(context)],
};

function sectionsOf(run) {
    const has = {
        attention: ["entropy", "max_logit", "map"].some((word) => derived(run, word, ~0).length),
        spectra: spectra.some(([word]) => run.signals.some((s) => s.name.endsWith(`.${word}`))),
        rows: Boolean(lossRows(run)),
    };
    return Object.keys(sections).filter((name) => has[name]);
}

export const transformerPage = {
    name: "transformer",
    title: "Transformer",
    isFor: (run) => sectionsOf(run).length > 0,
    async open(context) {
        const { run } = context,
            there = sectionsOf(run);
        if (!there.length) {
            replace(
                context.main,
                message(
                    "Nothing of this in the run",
                    "Entropy of attention, spectra and the losses of rows are recorded where a track names them:",
                    recipe(
                        run,
                        'record:\n  - {what: ["*.entropy", "*.max_logit"], every: 10 steps, form: tensor, to: [npy]}\n  - {what: "*.output.effective_rank", every: 10 steps, to: [sqlite]}\n  - {what: loss.rows, every: 10 steps, form: rows, to: [sqlite]}',
                        'deck.track("*.entropy,*.max_logit", every=10, form="tensor", to="npy")\ndeck.track("*.output.effective_rank", every=10)\ndeck.track("loss.rows", every=10, form="rows", to="sqlite")',
                    ),
                ),
            );
            return;
        }
        const chosen = there.includes(value("section")) ? value("section") : "all",
            panels = (chosen === "all" ? there : [chosen]).flatMap((name) => sections[name](context)).filter(Boolean);
        replace(
            context.main,
            there.length > 1
                ? el(
                      "div",
                      { class: "controls" },
                      choice(
                          "show",
                          ["all", ...there].map((name) => [name, name]),
                          chosen,
                          (section) => {
                              set({ section: section === "all" ? "" : section });
                              context.again();
                          },
                      ),
                  )
                : "",
            panels.map((panel) => panel.element),
        );
        const { load, close } = whenVisible(panels, context.fail);
        context.onclose(close);
        context.onrange(load);
        context.onnews(load);
    },
};
