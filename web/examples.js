// Examples: what the network predicted for them, which it got wrong, and which were in a step's batch.
import { choice, el, message, nameText, numeral, recipe, replace, thead } from "./dom.js";
import { whole } from "./format.js";
import { scales, css } from "./colour.js";
import { fetchExamples, fetchBatch, fetchTensor } from "./source.js";
import { set, value } from "./state.js";
import { FORMS } from "./layers.js";
import { gallery, pictureOf } from "./tensor.js";

function greatest(values) {
    return values.reduce((best, v, i) => (v > values[best] ? i : best), 0);
}

// What a row of scores says, and its crossentropy: of the softmax where the scores are no shares yet. Scores
// that are not finite say nothing: predicted is null.
function judge(example, signal) {
    const { values, label } = example;
    if (!values.every(Number.isFinite)) {
        return { predicted: null, loss: NaN };
    }
    if (values.length === 1 && signal.classes === 2) {
        const predicted = values[0] > signal.threshold ? 1 : 0;
        return { predicted, loss: Math.abs(values[0] - label) };
    }
    const predicted = greatest(values),
        sum = values.reduce((a, b) => a + b, 0);
    if (values.every((v) => v >= 0 && v <= 1) && Math.abs(sum - 1) < 1e-3) {
        // shares already
        return { predicted, loss: -Math.log(values[label] ?? NaN) };
    }
    const top = Math.max(...values),
        total = values.reduce((all, v) => all + Math.exp(v - top), 0);
    return {
        predicted,
        loss: label !== null && values[label] !== undefined ? Math.log(total) + top - values[label] : NaN,
    };
}

// chosen: [label, predicted] of the cell that filters the list; onchoose gets that of a cell, or null.
function confusion(rows, names, chosen, onchoose) {
    const size = names.length,
        counts = Array.from({ length: size }, () => new Array(size).fill(0));
    rows.forEach(
        ({ label, predicted }) =>
            predicted !== null && label >= 0 && label < size && predicted < size && counts[label][predicted]++,
    );
    const most = Math.max(1, ...counts.flat());
    return el(
        "figure",
        {},
        el(
            "figcaption",
            {},
            el("strong", {}, "Confusion"),
            el("span", { class: "quiet" }, "rows are labels, columns what was predicted"),
        ),
        el(
            "div",
            { class: "scroll" },
            el(
                "table",
                { class: "grid" },
                thead(
                    el("td", {}),
                    names.map((name) => el("th", { scope: "col" }, nameText(name, 10))),
                ),
                el(
                    "tbody",
                    {},
                    counts.map((line, r) =>
                        el(
                            "tr",
                            {},
                            el("th", { scope: "row" }, nameText(names[r], 10)),
                            line.map((count, c) => {
                                const own = chosen && chosen[0] === r && chosen[1] === c,
                                    cell = el(
                                        "td",
                                        { "data-own": own },
                                        count
                                            ? el(
                                                  "button",
                                                  {
                                                      type: "button",
                                                      title: `${names[r]} taken for ${names[c]}: ${count}; click to see them`,
                                                      "aria-pressed": own ? "true" : "false",
                                                      onclick: () => onchoose(own ? null : [r, c]),
                                                  },
                                                  String(count),
                                              )
                                            : "·",
                                    );
                                if (count) {
                                    cell.style.background = css(scales.cividis, count / most);
                                    cell.style.color = count / most > 0.55 ? "#111" : "#fff";
                                }
                                return cell;
                            }),
                        ),
                    ),
                ),
            ),
        ),
    );
}

// The rows of a batch as pictures, where `input` was recorded as a tensor.
async function batchPictures(context, step) {
    const signal = context.run.signals.find((s) => s.kind === "input" && s.forms & FORMS.tensor);
    if (!signal) {
        return "";
    }
    const rows = await fetchTensor(context.run.id, signal.id, step, "*,:,:,0").catch(() => null);
    return rows && rows.shape.length >= 3 ? gallery(rows, 64, (i) => `row ${rows.samples[i] ?? i}`) : "";
}

// The pictures of rows of the data set, by row, where `input` was recorded with them at some step.
async function picturesOf(context, samples) {
    const signal = context.run.signals.find((s) => s.kind === "input" && s.forms & FORMS.tensor),
        made = new Map();
    const got =
        signal && (await fetchTensor(context.run.id, signal.id, context.time.step, "*,:,:,0").catch(() => null));
    if (got && got.shape.length >= 3) {
        const each = got.rows * got.columns;
        for (let i = 0; i < got.slices; i++) {
            if (samples.has(got.samples[i])) {
                made.set(got.samples[i], { ...got, values: got.values.subarray(i * each, (i + 1) * each) });
            }
        }
    }
    return made;
}

export const examplesPage = {
    name: "examples",
    title: "Examples",
    async open(context) {
        const { run, time } = context,
            signals = run.signals
                .filter((s) => s.forms & FORMS.rows)
                .sort((a, b) => (b.kind === "prediction") - (a.kind === "prediction"));
        const signal = signals.find((s) => s.id === Number(value("signal"))) || signals[0];
        const bar = el("div", { class: "controls" }),
            box = el("div", {}),
            batch = el("section", { "aria-label": "batch" });
        const hint = message(
            "No examples in this run's database",
            "Rows of predictions that go to sqlite are shown here, with a confusion matrix and the worst of them first:",
            recipe(
                run,
                "record:\n  - {what: prediction, every: 1 epoch, form: rows, to: [csv, sqlite]}",
                'deck.track("prediction", every=1000, form="rows", to="sqlite")',
            ),
        );
        const drawExamples = async () => {
            const got = await fetchExamples(run.id, signal.id, time.step),
                classes = Math.max(0, ...got.examples.map((e) => e.values.length));
            const width = signal.classes || classes,
                isClass = (label) => Number.isInteger(label) && label >= 0 && label < width;
            const scores =
                signal.kind === "prediction" &&
                (signal.classes > 0 || (classes > 1 && got.examples.every((e) => isClass(e.label))));
            const names = signal.units.length ? signal.units : Array.from({ length: width }, (unused, i) => String(i));
            const rows = got.examples.map((example) => ({ ...example, ...(scores ? judge(example, signal) : {}) }));
            const classOf = (index) => names[index] ?? String(index),
                silent = rows.filter((row) => row.predicted === null),
                wrong = rows.filter(
                    (row) => scores && row.label !== null && row.predicted !== null && row.predicted !== row.label,
                );
            const badness = (row) => (row.predicted === null ? Infinity : row.loss || 0);
            rows.sort((a, b) => (badness(a) === badness(b) ? 0 : badness(b) - badness(a)));
            const cell = value("cell") ? value("cell").split("-").map(Number) : null,
                listed = cell ? rows.filter((row) => row.label === cell[0] && row.predicted === cell[1]) : rows;
            const choose = (next) => {
                set({ cell: next ? next.join("-") : "" });
                drawExamples().catch(context.fail);
            };
            const pictures = scores ? await picturesOf(context, new Set(listed.map((row) => row.sample))) : new Map();
            const wrongOnes = listed
                .filter((row) => pictures.has(row.sample) && (cell || row.predicted !== row.label))
                .slice(0, 48);
            replace(
                box,
                el(
                    "p",
                    { class: "quiet" },
                    `${whole(rows.length)}${got.all ? "" : " (the first)"} examples at step ${whole(got.step)}${scores ? `, ${whole(wrong.length)} wrong` : ""}; the worst first`,
                    silent.length
                        ? el("span", { class: "bad" }, `; ${whole(silent.length)} predictions are not finite`)
                        : "",
                ),
                cell
                    ? el(
                          "p",
                          {},
                          `${whole(listed.length)} of ${classOf(cell[0])} taken for ${classOf(cell[1])} `,
                          el("button", { type: "button", onclick: () => choose(null) }, "show all"),
                      )
                    : "",
                wrongOnes.length
                    ? el(
                          "figure",
                          {},
                          el("figcaption", {}, el("strong", {}, cell ? "These" : "Wrong ones")),
                          el(
                              "div",
                              { class: "pictures" },
                              wrongOnes.map((row) =>
                                  el(
                                      "figure",
                                      {},
                                      pictureOf(pictures.get(row.sample), 64),
                                      el(
                                          "figcaption",
                                          {},
                                          `${classOf(row.label)} → ${row.predicted === null ? "none" : classOf(row.predicted)}`,
                                      ),
                                  ),
                              ),
                          ),
                      )
                    : "",
                el(
                    "div",
                    { class: "split" },
                    el(
                        "div",
                        { class: "scroll low", tabindex: 0, role: "region", "aria-label": "examples" },
                        el(
                            "table",
                            {},
                            thead(
                                el("th", {}, "row of the data"),
                                el("th", {}, "label"),
                                scores ? el("th", {}, "predicted") : "",
                                scores ? el("th", {}, "loss") : "",
                                el("th", { class: "left" }, "values"),
                            ),
                            el(
                                "tbody",
                                {},
                                listed.slice(0, 200).map((row) =>
                                    el(
                                        "tr",
                                        {},
                                        el("td", {}, whole(row.sample)),
                                        el(
                                            "td",
                                            {},
                                            row.label === null
                                                ? "–"
                                                : scores
                                                  ? nameText(classOf(row.label), 20)
                                                  : numeral(row.label),
                                        ),
                                        scores
                                            ? el(
                                                  "td",
                                                  {
                                                      class:
                                                          row.label !== null && row.predicted !== row.label
                                                              ? "wrong"
                                                              : "",
                                                  },
                                                  row.predicted === null
                                                      ? numeral(NaN, "none")
                                                      : nameText(classOf(row.predicted), 20),
                                              )
                                            : "",
                                        scores ? el("td", {}, row.label === null ? "–" : numeral(row.loss)) : "",
                                        el(
                                            "td",
                                            { class: "left quiet" },
                                            row.values.slice(0, 6).map((v) => [numeral(v), "  "]),
                                            row.values.length > 6 ? "…" : "",
                                        ),
                                    ),
                                ),
                            ),
                        ),
                    ),
                    scores && width > 1 && width <= 40 ? confusion(rows, names.slice(0, width), cell, choose) : "",
                ),
            );
        };
        const drawBatch = async () => {
            const got = await fetchBatch(run.id, time.step),
                rows = got.samples || [];
            replace(
                batch,
                el("h2", {}, "The batch of a step"),
                rows.length
                    ? [
                          el(
                              "p",
                              { class: "quiet" },
                              `step ${whole(got.step)}: ${whole(rows.length)} rows of the data set, known from `,
                              nameText(got.signal || ""),
                          ),
                          el("p", {}, rows.slice(0, 256).map(whole).join(", ")),
                          await batchPictures(context, time.step),
                      ]
                    : el("p", { class: "quiet" }, "No tensor with its examples was recorded at or before this step."),
            );
        };
        const draw = async () => {
            if (signal) {
                await drawExamples().catch((error) => replace(box, message("Nothing at this step", error.message)));
            }
            await drawBatch().catch(() => replace(batch));
        };
        if (signals.length > 1) {
            replace(
                bar,
                choice(
                    "signal",
                    signals.map((s) => [String(s.id), s.name.slice(0, 60)]),
                    String(signal.id),
                    (id) => {
                        set({ signal: id });
                        context.again();
                    },
                ),
            );
        }
        replace(context.main, bar, signal ? box : hint, batch);
        let waiting = 0;
        context.onclose(
            time.on((kind) => {
                if (kind === "step") {
                    clearTimeout(waiting);
                    waiting = setTimeout(draw, 90);
                }
            }),
        );
        await draw();
    },
};
