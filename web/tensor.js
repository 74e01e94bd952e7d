// Any recorded tensor at any step: pick axes, slice, zoom to numbers; the difference of two steps or runs.
import { choice, el, message, nameText, numeral, recipe, replace, thead } from "./dom.js";
import { exact, isBad, short, whole } from "./format.js";
import { colouring, BAD, css } from "./colour.js";
import { exportMenu } from "./export.js";
import { fetchTensor, fetchRun, isReport, Missing } from "./source.js";
import { canReplay, literal, offer } from "./replay.js";
import { set, value, number } from "./state.js";
import { FORMS } from "./layers.js";
import { Projection } from "./projection.js";

function rangeOf(values) {
    let low = Infinity,
        high = -Infinity,
        least = Infinity;
    for (const v of values) {
        if (Number.isFinite(v)) {
            low = Math.min(low, v);
            high = Math.max(high, v);
            least = v > 0 && v < least ? v : least;
        }
    }
    return low <= high ? colouring(low, high, Math.max(least, high)) : null;
}

function pixelsOf(tensor, colours) {
    const pixels = new ImageData(Math.max(1, tensor.columns), Math.max(1, tensor.rows));
    for (let i = 0; i < tensor.rows * tensor.columns; i++) {
        const v = tensor.values[i],
            finite = Number.isFinite(v) && colours;
        const at = finite ? 3 * Math.max(0, Math.min(255, Math.round(colours.share(v) * 255))) : 0;
        for (let k = 0; k < 3; k++) {
            pixels.data[4 * i + k] = finite ? colours.scale[at + k] : BAD[k];
        }
        pixels.data[4 * i + 3] = 255;
    }
    return pixels;
}

// Calls place(pixels, x, y) for each slice, in rows of about as many as there are rows, a pixel apart. The size of all.
function tiles(tensor, place) {
    const across = Math.ceil(Math.sqrt(tensor.slices)),
        down = Math.ceil(tensor.slices / across),
        each = tensor.rows * tensor.columns,
        colours = rangeOf(tensor.values);
    for (let i = 0; i < tensor.slices; i++) {
        const part = { ...tensor, values: tensor.values.subarray(i * each, (i + 1) * each) },
            column = i % across;
        place(pixelsOf(part, colours), column * (tensor.columns + 1), Math.floor(i / across) * (tensor.rows + 1));
    }
    return [Math.max(1, across * (tensor.columns + 1) - 1), Math.max(1, down * (tensor.rows + 1) - 1)];
}

// A slice as a picture, about `size` pixels wide; in colours of its own where none are given.
export function pictureOf(tensor, size, colours) {
    const finite = tensor.values.filter(Number.isFinite),
        low = finite.reduce((least, v) => Math.min(least, v), finite[0] ?? NaN),
        high = finite.reduce((most, v) => Math.max(most, v), finite[0] ?? NaN);
    const canvas = el("canvas", {
        class: "pixel",
        width: Math.max(1, tensor.columns),
        height: Math.max(1, tensor.rows),
        role: "img",
        "aria-label": `${tensor.rows} by ${tensor.columns} values from ${short(low)} to ${short(high)}`,
    });
    canvas.getContext("2d").putImageData(pixelsOf(tensor, colours ?? rangeOf(tensor.values)), 0, 0);
    const longest = Math.max(tensor.columns, tensor.rows),
        scale = longest > size ? size / longest : Math.floor(size / longest);
    canvas.style.width = `${tensor.columns * scale}px`;
    return canvas;
}

// Which number has which colour.
function colourBar(colours) {
    const bar = el("canvas", { width: 128, height: 10, class: "bar" }),
        context = bar.getContext("2d");
    for (let i = 0; i < 128; i++) {
        context.fillStyle = css(colours.scale, i / 127);
        context.fillRect(i, 0, 1, 10);
    }
    return el("div", { class: "key" }, el("span", {}, short(colours.low)), bar, el("span", {}, short(colours.high)));
}

// All slices of a tensor beside each other, in one scale of colours; label(i) names slice i.
export function gallery(tensor, size, label) {
    const each = tensor.rows * tensor.columns,
        colours = rangeOf(tensor.values);
    return el(
        "div",
        {},
        el(
            "div",
            { class: "pictures" },
            Array.from({ length: tensor.slices }, (unused, i) => {
                const part = { ...tensor, values: tensor.values.subarray(i * each, (i + 1) * each) };
                return el("figure", {}, pictureOf(part, size, colours), el("figcaption", {}, label(i)));
            }),
        ),
        colours ? colourBar(colours) : el("p", { class: "bad" }, "nothing in it is finite"),
    );
}

function numbers(tensor, top, left) {
    const rows = Math.min(tensor.rows - top, 24),
        columns = Math.min(tensor.columns - left, 16),
        colours = rangeOf(tensor.values);
    const index = (k) => Array.from({ length: k }, (unused, i) => i);
    return el(
        "div",
        { class: "scroll" },
        el(
            "table",
            { class: "grid" },
            thead(
                el("td", {}),
                index(columns).map((c) => el("th", {}, String(left + c))),
            ),
            el(
                "tbody",
                {},
                index(rows).map((r) =>
                    el(
                        "tr",
                        {},
                        el("th", { scope: "row" }, String(top + r)),
                        index(columns).map((c) => {
                            const v = tensor.values[(top + r) * tensor.columns + left + c],
                                cell = el("td", {}, numeral(v));
                            if (colours && Number.isFinite(v)) {
                                cell.style.boxShadow = `inset 0 -3px 0 ${css(colours.scale, colours.share(v))}`;
                            }
                            return cell;
                        }),
                    ),
                ),
            ),
        ),
    );
}

function minus(a, b) {
    if (a.rows !== b.rows || a.columns !== b.columns) {
        throw new Error("the two tensors have different shapes");
    }
    const values = a.values.map((v, i) => v - b.values[i]),
        finite = values.filter(Number.isFinite),
        largest = finite.reduce((top, v) => Math.max(top, Math.abs(v)), 0);
    const sum = finite.reduce((all, v) => all + (v / (largest || 1)) ** 2, 0);
    return {
        ...a,
        values,
        min: finite.reduce((low, v) => Math.min(low, v), finite[0] ?? NaN),
        max: finite.reduce((high, v) => Math.max(high, v), finite[0] ?? NaN),
        norm: finite.length ? largest * Math.sqrt(sum) : NaN,
        nan: values.reduce((count, v) => count + Number.isNaN(v), 0),
        inf: values.reduce((count, v) => count + (v === Infinity || v === -Infinity), 0),
    };
}

async function otherOf(context, signal, at) {
    const step = number("minus"),
        run = value("other");
    if (step === undefined && !run) {
        return null;
    }
    if (!run) {
        return fetchTensor(context.run.id, signal.id, step, at);
    }
    const found = (await fetchRun(run)).signals.find((s) => s.name === signal.name && s.forms & FORMS.tensor);
    if (!found) {
        throw new Missing("the other run did not record this tensor");
    }
    return fetchTensor(run, found.id, step ?? context.time.step, at);
}

export const tensorPage = {
    name: "tensor",
    title: "Tensor",
    async open(context) {
        const { run, time } = context,
            signals = run.signals.filter((s) => s.forms & FORMS.tensor);
        if (!signals.length) {
            replace(
                context.main,
                message(
                    "No tensors in this run",
                    "A track with the form tensor keeps all values:",
                    recipe(
                        run,
                        'record:\n  - {what: "*.kernel", every: 1 epoch, form: tensor, to: [npy]}',
                        'deck.track("*.weight", every=1000, form="tensor", to="npy")',
                    ),
                ),
            );
            return;
        }
        const signal = signals.find((s) => s.id === Number(value("signal"))) || signals[0];
        const bar = el("div", { class: "controls picker" }),
            axes = el("div", { class: "controls" }),
            about = el("p", { class: "quiet" }),
            box = el("div", {}),
            grid = el("div", {}),
            plane = el("div", {}),
            projection = ["output", "preactivation", "error", "prediction", "input", "other"].includes(signal.kind)
                ? new Projection(context, signal)
                : null;
        const canvas = el("canvas", { class: "pixel", tabindex: 0 }),
            said = el("output", { class: "readout" });
        let shown = null,
            top = 0,
            left = 0;
        const chart = {
            title: signal.name,
            canvas,
            draw: (surface) => {
                surface.begin(canvas.width, canvas.height);
                tiles(shown, (pixels, x, y) => surface.image(pixels, x, y, pixels.width, pixels.height));
            },
            // Of several slices each row begins with the number of its slice.
            rows: () =>
                Array.from({ length: shown.slices * shown.rows }, (unused, r) => [
                    ...(shown.slices > 1 ? [Math.floor(r / shown.rows)] : []),
                    ...shown.values.subarray(r * shown.columns, (r + 1) * shown.columns),
                ]),
        };
        const drawNumbers = () => replace(grid, shown.slices > 1 ? "" : numbers(shown, top, left));
        canvas.addEventListener("pointermove", (event) => {
            const c = Math.floor((event.offsetX / canvas.clientWidth) * shown.columns),
                r = Math.floor((event.offsetY / canvas.clientHeight) * shown.rows);
            if (r >= 0 && r < shown.rows && c >= 0 && c < shown.columns) {
                const v = shown.values[r * shown.columns + c];
                said.textContent = `[${r}, ${c}] = ${exact(v)}`;
                said.classList.toggle("bad", isBad(v));
            }
        });
        canvas.addEventListener("click", (event) => {
            left = Math.max(0, Math.floor((event.offsetX / canvas.clientWidth) * shown.columns) - 4);
            top = Math.max(0, Math.floor((event.offsetY / canvas.clientHeight) * shown.rows) - 4);
            drawNumbers();
        });
        const missing = canReplay(run)
            ? offer(context, {
                  record: literal(signal.name),
                  form: "tensor",
                  first: () => time.step,
                  last: () => time.step,
              })
            : null;
        const load = async () => {
            const at = value("at", "sheet");
            let tensor = null,
                other = null;
            try {
                tensor = await fetchTensor(run.id, signal.id, time.step, at || undefined);
                controls(tensor);
                other = await otherOf(context, signal, at || undefined);
                shown = other ? minus(tensor, other) : tensor;
            } catch (error) {
                if (error instanceof TypeError) {
                    throw error;
                }
                missing?.show();
                replace(box, message(tensor ? "No difference to show" : "Nothing to show at this step", error.message));
                replace(grid);
                return;
            }
            if (tensor.step === time.step) {
                missing?.hide();
            } else {
                missing?.show();
            }
            const sheet = shown.slices > 1;
            [canvas.width, canvas.height] = tiles(shown, () => {});
            tiles(shown, (pixels, x, y) => canvas.getContext("2d").putImageData(pixels, x, y));
            const scale = Math.max(
                1,
                Math.min(
                    32,
                    Math.floor(
                        Math.min(640, context.main.clientWidth - 40) / Math.max(shown.columns, shown.rows * 0.8),
                    ),
                ),
            );
            canvas.style.width = `${shown.columns * scale}px`;
            canvas.setAttribute("aria-label", `${shown.rows} by ${shown.columns} values`);
            const cut = tensor.rows < tensor.shape[tensor.rowAxis] || tensor.columns < tensor.shape[tensor.columnAxis];
            replace(
                about,
                `${tensor.dtype} (${tensor.shape.join(", ")}), recorded at step ${whole(tensor.step)}`,
                other ? ` minus step ${whole(other.step)}` : "",
                ": from ",
                numeral(shown.min),
                " to ",
                numeral(shown.max),
                ", norm ",
                numeral(shown.norm),
                shown.nan + shown.inf
                    ? el("span", { class: "bad" }, `, ${whole(shown.nan)} NaN, ${whole(shown.inf)} infinite`)
                    : "",
                other && cut ? " (of the part that is shown)" : "",
                cut ? "; the first 1 024 of an axis are shown" : "",
            );
            const count = tensor.shape[tensor.at.indexOf("*")];
            replace(
                box,
                el(
                    "figure",
                    { class: "chart" },
                    el("figcaption", {}, said, exportMenu(chart)),
                    sheet
                        ? [
                              gallery(shown, 96, String),
                              count > shown.slices
                                  ? el("p", { class: "quiet" }, `the first ${shown.slices} of ${whole(count)}`)
                                  : "",
                          ]
                        : canvas,
                ),
            );
            if (projection && !isReport && tensor.shape.length > 1 && tensor.shape[0] > 2 && tensor.shape[1] > 1) {
                await projection
                    .load()
                    .then(() => replace(plane, projection.element))
                    .catch(() => replace(plane));
            }
            top = Math.min(top, Math.max(0, shown.rows - 1));
            left = Math.min(left, Math.max(0, shown.columns - 1));
            drawNumbers();
        };
        const controls = (tensor) => {
            const place = signals.indexOf(signal),
                beside = (by, text, label) =>
                    el(
                        "button",
                        {
                            type: "button",
                            "aria-label": label,
                            disabled: !signals[place + by],
                            onclick: () => {
                                set({ signal: signals[place + by].id, at: "" });
                                context.again();
                            },
                        },
                        text,
                    );
            replace(
                bar,
                beside(-1, "◀", "previous tensor"),
                beside(1, "▶", "next tensor"),
                choice(
                    "tensor",
                    signals.slice(0, 2000).map((s) => [String(s.id), s.name.slice(0, 80)]),
                    String(signal.id),
                    (id) => {
                        set({ signal: id, at: "" });
                        context.again();
                    },
                ),
                choice(
                    "minus",
                    [
                        ["", "nothing"],
                        ["step", "another step"],
                        ...context
                            .list()
                            .runs.filter((other) => other.id !== run.id && !other.loading)
                            .slice(0, 50)
                            .map((other) => [other.id, other.name.slice(0, 60)]),
                    ],
                    value("other") || (value("minus") ? "step" : ""),
                    (other) => {
                        set(
                            other === ""
                                ? { minus: "", other: "" }
                                : other === "step"
                                  ? { minus: signal.first, other: "" }
                                  : { other, minus: "" },
                        );
                        load().catch(context.fail);
                    },
                ),
                value("minus")
                    ? el(
                          "label",
                          { class: "choice" },
                          "step",
                          el("input", {
                              type: "number",
                              value: value("minus"),
                              "aria-label": "step to subtract",
                              onchange: (event) => {
                                  set({ minus: event.target.value });
                                  load().catch(context.fail);
                              },
                          }),
                      )
                    : "",
            );
            const parts = tensor.at;
            replace(
                axes,
                tensor.shape.length > 1
                    ? tensor.shape.map((size, axis) =>
                          el(
                              "label",
                              { class: "choice" },
                              el("span", {}, `axis ${axis}`),
                              el(
                                  "select",
                                  {
                                      "aria-label": `axis ${axis}`,
                                      onchange: (event) => {
                                          const next = [...parts];
                                          next[axis] = event.target.value;
                                          const open = next
                                              .map((part, i) => (part === ":" ? i : -1))
                                              .filter((i) => i >= 0);
                                          if (open.length > 2) {
                                              next[open.find((i) => i !== axis)] = "0";
                                          }
                                          const sheets = next.filter((part) => part === "*").length;
                                          if (sheets > 1 || (sheets && open.length < 2)) {
                                              next.forEach((part, i) => {
                                                  next[i] = part === "*" && i !== axis ? "0" : part;
                                              });
                                          }
                                          set({ at: next.join(",") });
                                          load().catch(context.fail);
                                      },
                                  },
                                  el("option", { value: ":", selected: parts[axis] === ":" }, `all ${size}`),
                                  tensor.shape.length > 2
                                      ? el("option", { value: "*", selected: parts[axis] === "*" }, "side by side")
                                      : "",
                                  Array.from({ length: Math.min(size, 512) }, (unused, i) =>
                                      el(
                                          "option",
                                          { value: String(i), selected: parts[axis] === String(i) },
                                          axis === 0 && tensor.samples[i] !== undefined
                                              ? `${i} (row ${tensor.samples[i]})`
                                              : String(i),
                                      ),
                                  ),
                              ),
                          ),
                      )
                    : "",
            );
        };
        replace(
            context.main,
            bar,
            el("h1", {}, nameText(signal.name)),
            about,
            missing ? missing.element : "",
            axes,
            box,
            plane,
            grid,
        );
        let waiting = 0;
        context.onclose(
            time.on((kind) => {
                if (kind === "step") {
                    clearTimeout(waiting);
                    waiting = setTimeout(() => load().catch(context.fail), 90);
                }
            }),
        );
        await load();
    },
};
