// Steps that are executed again: offered where something was not recorded, with what it costs.
import { choice, code, el, replace } from "./dom.js";
import { duration, whole } from "./format.js";
import { execute, isReport } from "./source.js";

const SETTLE = 300; // milliseconds that the scrubber rests before the cost is asked for

// Of runs that `tapedeck train` made, steps can be executed again.
export function canReplay(run) {
    return !isReport && Boolean(run.notes.experiment.yaml);
}

// A name as a pattern that means just this name.
export function literal(name) {
    return name.replace(/[\\*?[\],]/g, "\\$&");
}

function quote(text) {
    return /^[\w./@:+,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

const forms = {
    stats: { text: "statistics", form: "stats,histogram", to: "sqlite" },
    tensor: { text: "tensors", form: "tensor", to: "npy" },
};

function commandOf(run, wish) {
    const words = [
        "--steps",
        `${wish.first}..${wish.last}`,
        "--record",
        wish.record,
        "--form",
        wish.form,
        "--to",
        wish.to,
    ];
    return `tapedeck replay ${quote(run.folder)} ${words.map(quote).join(" ")}`;
}

function stepsText(first, last) {
    return first === last ? `step ${whole(first)}` : `steps ${whole(first)} to ${whole(last)}`;
}

function costText(plan) {
    return [
        plan.seconds === null ? "" : `about ${duration(Math.max(plan.seconds, 0.1))}`,
        plan.bytes >= 1e6 ? `at most ${whole(Math.ceil(plan.bytes / 1e6))} MB` : "",
    ]
        .filter(Boolean)
        .join(", ");
}

function resultText(result, first, last) {
    if (result.differs_at) {
        return `Step ${whole(result.differs_at)} is not what was recorded: ${result.signal}${result.reason ? `; ${result.reason}` : ""}. Nothing was added to the run.`;
    }
    return `${stepsText(first, last)}: ${whole(result.records)} records in ${result.out}`;
}

// "Not recorded at step 1 213: replay (about 2 s)". wish: { record: pattern, form: "stats" or "tensor", choose: whether
// the form can be chosen, title, first and last: functions }. Returns { element, show }.
export function offer(context, wish) {
    const { run } = context,
        { executes, writable } = context.list(),
        box = el("section", { class: "offer", "aria-label": "replay" });
    let turn = 0,
        waiting = 0,
        form = wish.form || "stats",
        busy = false;
    const parameters = () => ({
        first: Math.max(1, wish.first()),
        last: Math.min(Math.max(1, wish.last()), Math.max(run.step, 1)),
        record: wish.record,
        form: forms[form].form,
        to: forms[form].to,
    });
    const go = async (asked, said) => {
        busy = true;
        replace(said, "executing the steps again…");
        try {
            const result = await execute(run.id, "replay", asked);
            replace(said, resultText(result, asked.first, asked.last));
            if (!result.differs_at && run.state !== "running") {
                context.again();
            }
        } catch (error) {
            replace(said, el("span", { class: "bad" }, error.message));
        }
        busy = false;
    };
    const show = () => {
        if (busy) {
            return;
        }
        const mine = ++turn,
            asked = parameters(),
            said = el("span", { role: "status", class: "quiet" }),
            cost = el("span", {}),
            does = executes && writable;
        replace(
            box,
            el("span", {}, wish.title ? wish.title() : `Not recorded at ${stepsText(asked.first, asked.last)}. `),
            wish.choose
                ? choice(
                      "as",
                      Object.entries(forms).map(([key, entry]) => [key, entry.text]),
                      form,
                      (key) => {
                          form = key;
                          show();
                      },
                  )
                : "",
            does
                ? el("button", { type: "button", onclick: () => go(asked, said) }, "replay", cost)
                : [cost, code(commandOf(run, asked))],
            " ",
            said,
        );
        if (!executes) {
            return;
        }
        clearTimeout(waiting);
        waiting = setTimeout(async () => {
            try {
                const plan = await execute(run.id, "replay", { ...asked, dry: 1 });
                const text = costText(plan);
                if (mine === turn && text) {
                    replace(cost, does ? ` (${text})` : `replay takes ${text}:`);
                }
            } catch (error) {
                if (mine === turn && !busy) {
                    replace(said, error.message);
                }
            }
        }, SETTLE);
    };
    context.onclose(() => clearTimeout(waiting));
    return {
        element: box,
        show,
        hide: () => {
            turn++;
            clearTimeout(waiting);
            if (!busy) {
                replace(box);
            }
        },
    };
}
