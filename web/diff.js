// The first step, operation and element at which two runs part.
import { branchTree } from "./branches.js";
import { choice, code, el, message, nameText, numeral, replace } from "./dom.js";
import { whole } from "./format.js";
import { execute, isReport } from "./source.js";
import { link, set, value } from "./state.js";
import { indexText, operationLine } from "./origin.js";

function element(found, names, run) {
    const { a, b } = found;
    if (!a) {
        return "";
    }
    return [
        operationLine(run, a),
        a.shape.join() === b.shape.join()
            ? found.elements
                ? el(
                      "p",
                      {},
                      nameText(a.tensor),
                      ` (${a.shape.join(", ")}), element ${indexText(a.shape, a.element)}; ${whole(found.differing)} of ${whole(found.elements)} differ`,
                      found.ulps === null ? "" : `; ${whole(found.ulps)} ulp apart`,
                      found.max_ulps === null ? "" : `, at most ${whole(found.max_ulps)}`,
                  )
                : ""
            : el("p", {}, `shapes: (${a.shape.join(", ")}) and (${b.shape.join(", ")})`),
        el(
            "ul",
            {},
            [a, b].map((side, i) =>
                el(
                    "li",
                    {},
                    nameText(names[i], 60),
                    ": ",
                    numeral(side.value ?? NaN),
                    side.place ? [" (", nameText(side.place, 100), ")"] : "",
                ),
            ),
        ),
    ];
}

function layerList(found, names) {
    if (!found.layers.length) {
        return "";
    }
    return [
        el("h2", {}, "Layers"),
        el(
            "ul",
            {},
            found.layers.map((layer) =>
                el(
                    "li",
                    {},
                    nameText(layer.a ?? layer.b),
                    ` (${layer.type}) `,
                    layer.a && layer.b
                        ? ["is ", nameText(layer.b), " in ", nameText(names[1], 60)]
                        : ["is only in ", nameText(names[layer.a ? 0 : 1], 60)],
                ),
            ),
        ),
    ];
}

function settingsList(found, names) {
    return ["environment", "experiment"].map((of) => {
        const own = found.settings.filter((entry) => entry.of === of);
        return own.length
            ? [
                  el("h2", {}, of),
                  el(
                      "ul",
                      { class: "changes" },
                      own.map((entry) => el("li", {}, nameText(names[entry.run], 60), ": ", nameText(entry.text, 160))),
                  ),
              ]
            : "";
    });
}

function result(found, names, run) {
    const where = !found.step
        ? `The same up to step ${whole(found.same_to)}.`
        : found.after === found.step - 1
          ? `They part at step ${whole(found.step)}.`
          : `They part after step ${whole(found.after)}, at the latest with step ${whole(found.step)}.`;
    return [
        el(
            "p",
            {},
            el("strong", {}, where),
            found.step
                ? [
                      " First in ",
                      el("a", { href: link("layers", run.id, { step: found.step }) }, nameText(found.signal)),
                  ]
                : "",
        ),
        found.cause ? el("p", {}, found.is_cause ? "Cause: " : "", found.cause) : "",
        element(found, names, run),
        found.reason ? el("p", { class: "quiet" }, found.reason) : "",
        layerList(found, names),
        settingsList(found, names),
    ];
}

function diffPart(context, known) {
    const { run } = context,
        chosen = known.some((entry) => entry.id === value("with")) ? value("with") : known[0].id,
        other = known.find((entry) => entry.id === chosen),
        names = [run.name, other.name],
        answer = el("section", { "aria-label": "where they part", role: "status" });
    let turn = 0;
    const find = async () => {
        const mine = ++turn;
        replace(answer, el("p", { class: "quiet" }, "executing both runs again where they part…"));
        try {
            const found = await execute(run.id, "diff", { other: chosen });
            if (mine === turn) {
                replace(answer, result(found, names, run));
            }
        } catch (error) {
            if (mine === turn) {
                replace(answer, el("p", { class: "bad" }, error.message));
            }
        }
    };
    context.onclose(() => turn++);
    return [
        el(
            "div",
            { class: "controls" },
            choice(
                "with",
                known.map((entry) => [entry.id, entry.name.slice(0, 60)]),
                chosen,
                (id) => {
                    set({ with: id });
                    context.again();
                },
            ),
            context.list().executes
                ? el("button", { type: "button", onclick: find }, "find where they part")
                : code(`tapedeck diff ${run.folder} ${other.name}`),
        ),
        answer,
    ];
}

export const diffPage = {
    name: "diff",
    title: "Diff",
    timeless: true,
    isFor: () => !isReport,
    open(context) {
        const known = context
            .list()
            .runs.filter((run) => run.id !== context.run.id && !run.loading && !run.error && !run.events);
        replace(
            context.main,
            known.length
                ? [
                      diffPart(context, known),
                      el(
                          "p",
                          { class: "quiet" },
                          "Runs of `tapedeck train` are executed again side by side; others are compared by what both recorded. Both are only read.",
                      ),
                  ]
                : message("No other run here", "A diff is of two runs below the viewer's folder."),
            branchTree(context.list().runs, context.run.id) || "",
        );
    },
};
