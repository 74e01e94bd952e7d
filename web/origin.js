// Where a NaN, an infinity or a spike came from: the steps before it are executed again.
import { choice, code, el, message, nameText, numeral, replace } from "./dom.js";
import { whole } from "./format.js";
import { execute } from "./source.js";
import { link, set, value } from "./state.js";
import { canReplay } from "./replay.js";

const MOST_INPUTS = 12;

// The place of an element in a tensor: "[2, 0]".
export function indexText(shape, element) {
    const index = [];
    for (let axis = shape.length - 1; axis >= 0; axis--) {
        const size = Math.max(shape[axis], 1);
        index.unshift(element % size);
        element = Math.floor(element / size);
    }
    return shape.length ? `[${index.join(", ")}]` : "";
}

// "conv2d of layer conv1, forward (operation 7 of step 12)"
export function operationLine(run, operation) {
    const layer = operation.layer
        ? el(
              "a",
              { href: link("layer", run.id, { layer: operation.layer, step: operation.step }) },
              nameText(operation.layer),
          )
        : "the loss";
    return operation.kind
        ? el(
              "p",
              {},
              el("strong", {}, operation.kind),
              operation.layer ? " of layer " : " of ",
              layer,
              `, ${operation.phase} (operation ${whole(operation.sequence)} of step ${whole(operation.step)})`,
          )
        : el("p", {}, `${operation.phase}: `, nameText(operation.tensor));
}

export function inputsTable(operation) {
    const columns = ["min", "max", "mean", "norm", "nan", "inf"];
    if (!operation.inputs.length) {
        return "";
    }
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
                    el("th", { class: "left" }, "reads"),
                    columns.map((name) => el("th", {}, name)),
                ),
            ),
            el(
                "tbody",
                {},
                operation.inputs.slice(0, MOST_INPUTS).map((read) =>
                    el(
                        "tr",
                        {},
                        el("td", { class: "left" }, nameText(read.name, 60)),
                        columns.map((name) => el("td", {}, numeral(read[name] ?? NaN))),
                    ),
                ),
            ),
        ),
    );
}

function rowsList(found) {
    if (!found.rows.length) {
        return "";
    }
    const spike = found.what === "spike";
    return [
        el("h2", {}, spike ? "Rows of the batch, by their own loss" : "Rows"),
        el(
            "ol",
            { class: "rows" },
            found.rows.map((row) =>
                el(
                    "li",
                    {},
                    nameText(row.place || `row ${row.row}`, 120),
                    spike ? [": ", numeral(row.loss ?? NaN)] : "",
                ),
            ),
        ),
        found.bad_rows > found.rows.length
            ? el("p", { class: "quiet" }, `and ${whole(found.bad_rows - found.rows.length)} more`)
            : "",
    ];
}

function result(context, found) {
    const { run } = context,
        { operation } = found;
    return [
        el("p", {}, el("strong", {}, found.text)),
        found.differs_at
            ? el("p", { class: "bad" }, `Step ${whole(found.differs_at)} is not what was recorded: ${found.reason}`)
            : "",
        operation
            ? [
                  operationLine(run, operation),
                  el(
                      "p",
                      {},
                      nameText(operation.tensor),
                      operation.shape.length
                          ? ` (${operation.shape.join(", ")}), element ${indexText(operation.shape, operation.element)}`
                          : "",
                      `: ${whole(found.nan)} NaN, ${whole(found.inf)} infinite`,
                  ),
                  inputsTable(operation),
              ]
            : "",
        found.steepest ? el("p", {}, "The gradient that grew most: ", nameText(found.steepest)) : "",
        rowsList(found),
        found.step
            ? [
                  el(
                      "p",
                      {},
                      el(
                          "a",
                          { href: link("layer", run.id, { layer: operation?.layer, step: found.step }) },
                          `the layers at step ${whole(found.step)}`,
                      ),
                      ". To go on from the step before it with other settings:",
                  ),
                  code(`tapedeck train --from ${run.folder}@${Math.max(found.step - 1, 1)} --set KEY=VALUE`),
              ]
            : "",
    ];
}

export const originPage = {
    name: "origin",
    title: "Origin",
    timeless: true,
    isFor: canReplay,
    open(context) {
        const { run } = context;
        if (!canReplay(run) || !context.list().executes) {
            replace(
                context.main,
                message(
                    canReplay(run)
                        ? "This viewer does not execute steps"
                        : "Steps of this run cannot be executed again",
                    canReplay(run)
                        ? "In a terminal:"
                        : "Runs of `tapedeck train` can; of a PyTorch or Keras training, capsules can.",
                    canReplay(run) ? code(`tapedeck origin ${run.folder}`) : "",
                ),
            );
            return;
        }
        const answer = el("section", { "aria-label": "origin", role: "status" }),
            condition = el("input", {
                type: "text",
                value: value("when", ""),
                placeholder: "loss > 3 and step > 100",
                "aria-label": "condition of a spike",
                onchange: () => set({ when: condition.value }, true),
            });
        let turn = 0;
        const find = async () => {
            const mine = ++turn,
                what = value("what", "");
            replace(answer, el("p", { class: "quiet" }, "executing the steps before it again…"));
            try {
                const found = await execute(run.id, "origin", {
                    what: what || undefined,
                    when: what === "spike" && condition.value.trim() ? condition.value.trim() : undefined,
                });
                if (mine === turn) {
                    replace(answer, result(context, found));
                }
            } catch (error) {
                if (mine === turn) {
                    replace(answer, el("p", { class: "bad" }, error.message));
                }
            }
        };
        const bar = el("div", { class: "controls" });
        const controls = () =>
            replace(
                bar,
                choice(
                    "what",
                    [
                        ["", "the first NaN or infinity"],
                        ["nan", "the first NaN"],
                        ["inf", "the first infinity"],
                        ["spike", "a spike of the loss"],
                    ],
                    value("what", ""),
                    (what) => {
                        set({ what });
                        controls();
                    },
                ),
                value("what", "") === "spike" ? condition : "",
                el("button", { type: "button", onclick: find }, "find its origin"),
            );
        controls();
        replace(
            context.main,
            bar,
            el(
                "p",
                { class: "quiet" },
                "The steps before it are executed again from the nearest checkpoint, and compared with what was recorded. The run is only read.",
            ),
            answer,
        );
        context.onclose(() => turn++);
    },
};
