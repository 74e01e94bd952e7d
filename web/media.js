// Texts, pictures, sounds and curves that were recorded as such, at the scrubbed step; what a program printed is a log.
import { code, el, message, nameText, replace } from "./dom.js";
import { whole } from "./format.js";
import { categories, theme } from "./colour.js";
import { Screen } from "./surface.js";
import { address, fetchImage, fetchTensor, fetchTexts, isReport } from "./source.js";
import { value, set } from "./state.js";
import { FORMS } from "./layers.js";

const LINES = 64,
    isLog = (signal) => /^console\.|(^|[/.])log$/.test(signal.name),
    // What TensorBoard's plugins call a tensor is a note of the run.
    plugin = (signal, run) => (signal.forms & FORMS.tensor && run.notes.run[`tensorboard.${signal.name}`]) || "",
    isCurve = (signal, run) => plugin(signal, run) === "pr_curves",
    isSound = (signal, run) => plugin(signal, run).startsWith("audio ");

function frame(signal, body) {
    const at = el("span", { class: "note" });
    return {
        at,
        element: el("figure", { class: "chart" }, el("figcaption", {}, nameText(signal.name, 60), at), body),
    };
}

function textPanel(context, signal) {
    const log = isLog(signal),
        box = el("pre", {
            class: log ? "code log" : "code text",
            tabindex: 0,
            role: "region",
            "aria-label": signal.name.slice(0, 80),
        }),
        { at, element } = frame(signal, box);
    return {
        element,
        load: async () => {
            const texts = await fetchTexts(context.run.id, signal.id, context.time.step, log ? LINES : 1),
                below = box.scrollTop + box.clientHeight >= box.scrollHeight - 8;
            box.textContent = texts
                .map((entry) => entry.text)
                .reverse()
                .join("");
            at.textContent = `step ${whole(texts[0].step)}`;
            if (log && below) {
                box.scrollTop = box.scrollHeight;
            }
        },
    };
}

function imagePanel(context, signal) {
    const canvas = el("canvas", { class: "pixel", role: "img", "aria-label": signal.name.slice(0, 80) }),
        { at, element } = frame(signal, canvas);
    return {
        element,
        load: async () => {
            const bitmap = await fetchImage(context.run.id, signal.id, context.time.step),
                scale = Math.max(1, Math.min(8, Math.floor(300 / Math.max(bitmap.width, bitmap.height))));
            canvas.width = bitmap.width;
            canvas.height = bitmap.height;
            canvas.style.width = `${bitmap.width * scale}px`;
            canvas.getContext("2d").drawImage(bitmap, 0, 0);
            at.textContent = `${bitmap.width} × ${bitmap.height}`;
        },
    };
}

// TensorBoard's precision and recall: rows 4 and 5 of a [6, thresholds] tensor.
function curvePanel(context, signal) {
    const canvas = el("canvas", { role: "img", "aria-label": `${signal.name.slice(0, 80)}: precision over recall` }),
        screen = new Screen(canvas),
        { at, element } = frame(signal, canvas);
    return {
        element,
        load: async () => {
            const tensor = await fetchTensor(context.run.id, signal.id, context.time.step);
            if (tensor.shape.length !== 2 || tensor.rows !== 6) {
                at.textContent = "no curve: see Tensor";
                return;
            }
            const size = 260,
                page = theme(),
                row = (i) => tensor.values.subarray(i * tensor.columns, (i + 1) * tensor.columns),
                [precision, recall] = [row(4), row(5)],
                x = (v) => 40 + v * (size - 50),
                y = (v) => 8 + (1 - v) * (size - 40);
            screen.begin(size, size);
            for (const tick of [0, 0.5, 1]) {
                screen.line([40, y(tick), size - 10, y(tick)], page.line, 1);
                screen.text(34, y(tick), String(tick), page.quiet, "right", 12);
                screen.text(x(tick), size - 20, String(tick), page.quiet, "center", 12);
            }
            screen.text(size / 2, size - 6, "recall; upwards: precision", page.quiet, "center", 12);
            screen.line(
                Array.from(recall).flatMap((r, i) => [x(r), y(precision[i])]),
                categories[0],
                2,
            );
            at.textContent = `step ${whole(tensor.step)}`;
        },
    };
}

function soundPanel(context, signal) {
    const player = el("audio", { controls: true, preload: "none", "aria-label": signal.name.slice(0, 80) }),
        { at, element } = frame(signal, isReport ? "" : player);
    return {
        element,
        load: () => {
            const [, rate] = plugin(signal, context.run).split(" ");
            at.textContent = isReport ? "the report has no sound" : `${rate} Hz`;
            player.src = address("sound", { run: context.run.id, signal: signal.id, step: context.time.step, rate });
            return Promise.resolve();
        },
    };
}

const panels = [
    { title: "Log", of: (s) => s.forms & FORMS.text && isLog(s), make: textPanel },
    { title: "Texts", of: (s) => s.forms & FORMS.text && !isLog(s), make: textPanel },
    { title: "Pictures", of: (s) => s.forms & FORMS.image, make: imagePanel },
    { title: "Sounds", of: isSound, make: soundPanel },
    { title: "Precision and recall", of: isCurve, make: curvePanel },
];

const EMPTY = `deck = tapedeck.Deck("runs/mine", console=True)   # what Python prints is recorded
deck.log(note="a text", picture=tapedeck.Image(array))`;

export const mediaPage = {
    name: "media",
    title: "Media",
    open(context) {
        const { run, time } = context,
            wanted = value("find", "").toLowerCase(),
            found = (s) => !wanted || s.name.toLowerCase().includes(wanted);
        const groups = panels
            .map((kind) => ({ ...kind, signals: run.signals.filter((s) => kind.of(s, run) && found(s)) }))
            .filter((group) => group.signals.length);
        const find = el("input", {
            type: "search",
            placeholder: "filter by name",
            "aria-label": "filter by name",
            value: value("find", ""),
            onchange: () => {
                set({ find: find.value });
                context.again();
            },
        });
        if (!groups.length && !wanted) {
            replace(
                context.main,
                message("No texts or pictures in this run", "They are shown here when they are recorded:", code(EMPTY)),
            );
            return;
        }
        const entries = new Map();
        const load = async (entry) => {
            entry.stale = false;
            await entry.panel.load().catch((error) => {
                entry.panel.element.querySelector(".note").textContent = error.message;
            });
        };
        const watcher = new IntersectionObserver(
            (seen) =>
                seen.forEach(({ target, isIntersecting }) => {
                    const entry = entries.get(target);
                    entry.visible = isIntersecting;
                    if (isIntersecting && entry.stale) {
                        load(entry);
                    }
                }),
            { rootMargin: "200px" },
        );
        const make = (group, signal) => {
            const panel = group.make(context, signal);
            entries.set(panel.element, { panel, stale: true, visible: false });
            watcher.observe(panel.element);
            return panel.element;
        };
        replace(
            context.main,
            el("div", { class: "controls" }, find),
            groups.map((group) =>
                el(
                    "section",
                    { "aria-label": group.title },
                    el("h2", {}, group.title, el("span", { class: "quiet" }, ` ${whole(group.signals.length)}`)),
                    el(
                        "div",
                        { class: group.title === "Log" ? "" : "columns" },
                        group.signals.slice(0, 300).map((signal) => make(group, signal)),
                    ),
                    group.signals.length > 300
                        ? el("p", { class: "quiet" }, "The first 300; filter to see others.")
                        : "",
                ),
            ),
        );
        let waiting = 0;
        context.onclose(() => watcher.disconnect());
        context.onclose(
            time.on((kind) => {
                if (kind === "step") {
                    clearTimeout(waiting);
                    waiting = setTimeout(
                        () =>
                            entries.forEach((entry) => {
                                entry.stale = true;
                                if (entry.visible) {
                                    load(entry);
                                }
                            }),
                        90,
                    );
                }
            }),
        );
    },
};
