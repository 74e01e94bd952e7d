// The network: layers as boxes from input to output, coloured by a statistic at the scrubbed step.
import { el, svg, replace, choice, code, message, nameText, toggle } from "./dom.js";
import { exact, isBad, short, whole } from "./format.js";
import { colouring, css, BAD_TEXT, theme } from "./colour.js";
import { fetchHeat } from "./source.js";
import { go, set, value } from "./state.js";
import { kinds, statisticsOf, layerNames, layerSignals } from "./layers.js";

const WIDE = 250,
    TALL = 48,
    GAP = 30,
    SIDE = 40;

// Layers with what they read from; a run that does not say is a chain.
function graphOf(run) {
    if (run.network.length) {
        return run.network;
    }
    const names = layerNames(run);
    return names.map((name, i) => ({ name, kind: "", shape: "", parameters: null, from: i ? [names[i - 1]] : [] }));
}

const MANY = 40;

// "encoder.3.attention" is of block "encoder.3"; "block17" is one of "block".
const blockOf = (name) => /^(.*?\d+)[._/]/.exec(name)?.[1] ?? stemOf(name);
const stemOf = (name) => /^(.*?)[._/]?\d+$/.exec(name)?.[1] ?? name;

// Neighbours of one block become one box, unless it is open. A box has its layers as members.
function foldBy(graph, key, least, open) {
    const boxes = [];
    for (const layer of graph) {
        const name = key(layer.name),
            last = boxes[boxes.length - 1];
        if (last && last.key === name && !open.has(name)) {
            last.parts.push(layer);
        } else {
            boxes.push({ key: name, parts: [layer] });
        }
    }
    const home = new Map();
    const made = boxes.flatMap(({ key: name, parts }) => {
        const members = parts.flatMap((part) => part.members || [part.name]);
        if (parts.length < least) {
            parts.forEach((part) => home.set(part.name, part.name));
            return parts;
        }
        const title =
            parts[0].members || name !== stemOf(parts[0].name)
                ? name
                : `${parts[0].name} … ${parts[parts.length - 1].name}`;
        parts.forEach((part) => home.set(part.name, title));
        return [
            {
                name: title,
                block: name,
                kind: `${whole(members.length)} layers`,
                shape: parts[parts.length - 1].shape,
                parameters: parts.reduce((sum, part) => sum + (part.parameters || 0), 0),
                from: parts.flatMap((part) => part.from),
                members,
            },
        ];
    });
    return made.map((layer) => ({
        ...layer,
        from: [...new Set(layer.from.map((name) => home.get(name) ?? name))].filter((name) => name !== layer.name),
    }));
}

function folded(graph, open) {
    const once = foldBy(graph, blockOf, 2, open);
    return once.length > MANY ? foldBy(once, stemOf, 3, open) : once;
}

// Rank by the longest way from the input; layers of one rank stand side by side. A graph that is higher than the page
// goes on in columns: up the first, and then from the bottom of the next.
function place(graph, space) {
    const rank = new Map(),
        rows = [];
    for (const layer of graph) {
        const level = Math.max(-1, ...layer.from.map((name) => rank.get(name) ?? -1)) + 1;
        rank.set(layer.name, level);
        (rows[level] = rows[level] || []).push(layer);
    }
    const widest = Math.max(...rows.map((row) => row.length)),
        across = widest * (WIDE + GAP) + SIDE,
        wanted = Math.ceil((rows.length * (TALL + GAP)) / space.height),
        columns = Math.max(1, Math.min(wanted, Math.floor(space.width / (0.92 * across)))),
        tall = Math.ceil(rows.length / columns),
        places = new Map();
    rows.forEach((row, level) => {
        const column = Math.floor(level / tall);
        row.forEach((layer, i) =>
            places.set(layer.name, {
                x: SIDE + column * across + ((widest - row.length) * (WIDE + GAP)) / 2 + i * (WIDE + GAP),
                y: GAP + (tall - 1 - (level % tall)) * (TALL + GAP),
                level,
                column,
            }),
        );
    });
    return { places, width: SIDE + columns * across, height: GAP + tall * (TALL + GAP) };
}

// From the layer at a to the one at b that reads it.
function edge(a, b) {
    const x1 = a.x + WIDE / 2,
        y1 = a.y,
        x2 = b.x + WIDE / 2,
        y2 = b.y + TALL,
        near = b.level - a.level === 1;
    if (a.column !== b.column) {
        const aisle = b.x - SIDE + (near ? 8 : 0), // between the columns
            start = near ? `M${x1} ${y1}V${y1 - GAP / 2}` : `M${a.x + WIDE} ${a.y + TALL / 2}`;
        return `${start}H${aisle}V${y2 + GAP / 2}H${x2}V${y2}`;
    }
    if (near) {
        return `M${x1} ${y1}C${x1} ${y1 - GAP / 2} ${x2} ${y2 + GAP / 2} ${x2} ${y2}`;
    }
    const out = Math.max(a.x, b.x) + WIDE + 26; // a skip connection goes around what it skips
    return `M${a.x + WIDE} ${a.y + TALL / 2}C${out} ${a.y} ${out} ${b.y + TALL} ${b.x + WIDE} ${b.y + TALL / 2}`;
}

// One box of the graph: { group, box, bar, number }.
function drawBox(layer, at, onselect, onopen) {
    const box = svg("rect", { x: at.x, y: at.y, width: 14, height: TALL, rx: 4 }),
        length = svg("rect", { x: at.x + 24, y: at.y + TALL - 5, width: 0, height: 3, rx: 1.5 }),
        number = svg("text", { class: "sub", x: at.x + WIDE - 6, y: at.y + 18, "text-anchor": "end" });
    const about = [layer.kind, layer.shape, layer.parameters ? `${whole(layer.parameters)} p` : ""];
    const group = svg(
        "g",
        {
            class: layer.members ? "node folded" : "node",
            tabindex: 0,
            role: "button",
            onclick: onselect,
            ondblclick: onopen,
            onkeydown: (event) => event.key === "Enter" && onopen(),
            onfocus: onselect,
        },
        svg("title", {}, layer.name.slice(0, 500)),
        layer.members
            ? svg("rect", { x: at.x + 5, y: at.y - 5, width: WIDE, height: TALL, rx: 4, fill: theme().line })
            : "",
        svg("rect", { x: at.x, y: at.y, width: WIDE, height: TALL, rx: 4, fill: theme().none }),
        box,
        length,
        svg(
            "text",
            { x: at.x + 24, y: at.y + 18 },
            layer.name.length > 24 ? layer.name.slice(0, 23) + "…" : layer.name,
        ),
        svg("text", { class: "sub", x: at.x + 24, y: at.y + 35 }, about.filter(Boolean).join(" · ").slice(0, 38)),
        number,
    );
    return { group, box, bar: length, number };
}

// Moves and scales what is seen of an SVG picture: drag, Ctrl + wheel, and buttons.
function pannable(picture, width, height) {
    const view = { x: 0, y: 0, scale: 1 };
    const size = () => [picture.clientWidth || 800, picture.clientHeight || 500];
    const apply = () => {
        const [w, h] = size();
        picture.setAttribute("viewBox", `${view.x} ${view.y} ${w / view.scale} ${h / view.scale}`);
    };
    const fit = () => {
        const [w, h] = size();
        // The whole picture, but never smaller than can be read: then the top, which is the output.
        view.scale = Math.min(1.2, Math.max(0.92, Math.min(w / width, h / height)));
        view.x = width / 2 - w / view.scale / 2;
        view.y = height * view.scale < h ? height / 2 - h / view.scale / 2 : 0;
        apply();
    };
    const zoom = (factor, px, py) => {
        const [w, h] = size(),
            [x, y] = [px ?? w / 2, py ?? h / 2],
            next = Math.max(0.05, Math.min(4, view.scale * factor));
        view.x += x / view.scale - x / next;
        view.y += y / view.scale - y / next;
        view.scale = next;
        apply();
    };
    let drag = null;
    picture.addEventListener(
        "wheel",
        (event) => {
            const box = picture.getBoundingClientRect();
            if (event.ctrlKey) {
                zoom(Math.exp(-event.deltaY / 300), event.clientX - box.left, event.clientY - box.top);
            } else {
                view.x += event.deltaX / view.scale;
                view.y += event.deltaY / view.scale;
                apply();
            }
            event.preventDefault();
        },
        { passive: false },
    );
    picture.addEventListener("pointerdown", (event) => {
        drag = [event.clientX, event.clientY];
    });
    picture.addEventListener("pointermove", (event) => {
        if (drag && event.buttons) {
            view.x -= (event.clientX - drag[0]) / view.scale;
            view.y -= (event.clientY - drag[1]) / view.scale;
            drag = [event.clientX, event.clientY];
            apply();
        }
    });
    picture.addEventListener("pointerup", () => {
        drag = null;
    });
    const observer = new ResizeObserver(fit);
    observer.observe(picture);
    return { fit, zoom, close: () => observer.disconnect() };
}

export const networkPage = {
    name: "network",
    title: "Network",
    async open(context) {
        const { run, time } = context,
            layers = graphOf(run);
        if (!layers.length) {
            replace(
                context.main,
                message(
                    "No network in this run",
                    "It recorded metrics only. In Python, two lines record the layers:",
                    code('deck = tapedeck.watch(model, "runs/mine", optimizer=optimizer)\ndeck.log(loss=loss)'),
                ),
            );
            return;
        }
        const open = new Set(value("open", "").split("|").filter(Boolean)),
            fold = value("fold", layers.length > MANY ? "1" : "") === "1",
            graph = fold ? folded(layers, open) : layers,
            { places, width, height } = place(graph, {
                width: context.main.clientWidth - (innerWidth >= 1000 ? 340 : 40),
                height: Math.max(340, innerHeight - 235),
            }),
            present = kinds.filter(([kind]) => layerSignals(run, kind).length);
        const boxes = new Map(),
            key = el("p", { class: "quiet" }),
            bar = el("div", { class: "controls" }),
            about = el(
                "aside",
                { class: "about", "aria-label": "about the layer", "aria-live": "polite" },
                el("h2", {}, "Network"),
                el(
                    "dl",
                    { class: "facts" },
                    [
                        ["layers", whole(layers.length)],
                        ["parameters", whole(layers.reduce((sum, layer) => sum + (layer.parameters || 0), 0))],
                    ].map(([name, text]) => [el("dt", {}, name), el("dd", {}, text)]),
                ),
                el("p", { class: "quiet" }, "Click a layer to see what it is; Enter or a double click opens it."),
            );
        const enter = (layer) => {
            if (layer.members) {
                set({ open: [...open, layer.block].join("|"), fold: "1" });
                context.again();
            } else {
                go("layer", run.id, { layer: layer.name });
            }
        };
        const select = (layer) =>
            replace(
                about,
                el("h2", {}, nameText(layer.name, 60)),
                el(
                    "dl",
                    { class: "facts" },
                    [
                        ["kind", layer.kind],
                        ["output", layer.shape],
                        ["parameters", layer.parameters === null ? "" : whole(layer.parameters)],
                        ["reads", layer.from.join(", ")],
                        ["made with", layer.about],
                        [
                            "layers",
                            layer.members ? `${layer.members[0]} … ${layer.members[layer.members.length - 1]}` : "",
                        ],
                        ["now", boxes.get(layer.name)?.number.textContent],
                    ]
                        .filter(([, text]) => text)
                        .map(([name, text]) => [el("dt", {}, name), el("dd", {}, nameText(String(text), 200))]),
                ),
                el(
                    "button",
                    { type: "button", onclick: () => enter(layer) },
                    layer.members ? "unfold" : "open the layer",
                ),
            );
        const picture = svg(
            "svg",
            { class: "canvas", role: "group", "aria-label": "network" },
            graph.flatMap((layer) =>
                layer.from
                    .filter((name) => places.has(name))
                    .map((name) => svg("path", { class: "edge", d: edge(places.get(name), places.get(layer.name)) })),
            ),
            graph.map((layer) => {
                const made = drawBox(
                    layer,
                    places.get(layer.name),
                    () => select(layer),
                    () => enter(layer),
                );
                boxes.set(layer.name, made);
                (layer.members || []).forEach((name) => boxes.set(name, { ...made, shared: layer.name }));
                return made.group;
            }),
        );
        let rows = [],
            colours = null;
        const kind = () => (present.some(([name]) => name === value("kind")) ? value("kind") : present[0]?.[0]);
        // The box of a signal's layer: a part of an output, "lstm.0", is of its layer.
        const boxOf = (name) => {
            for (let at = name; at; at = at.slice(0, Math.max(0, at.search(/[.@][^.@]*$/)))) {
                if (boxes.has(at)) {
                    return [at, boxes.get(at)];
                }
            }
            return [name, null];
        };
        const paint = () => {
            const column = (row) =>
                Math.max(
                    0,
                    Math.min(
                        row.values.length - 1,
                        Math.floor(((time.step - time.first) / (time.last - time.first + 1)) * row.values.length),
                    ),
                );
            // Of several layers in one box: the value of greatest magnitude, and what is not finite before all.
            const now = new Map();
            for (const row of rows) {
                const [own, found] = boxOf(row.layer),
                    c = column(row);
                if (found && row.bad[c] >= 0) {
                    const name = found.shared || own,
                        before = now.get(name);
                    if (
                        !before ||
                        row.bad[c] > before.bad ||
                        (row.bad[c] === before.bad && Math.abs(row.values[c]) > Math.abs(before.value))
                    ) {
                        now.set(name, { found, value: row.values[c], bad: row.bad[c] });
                    }
                }
            }
            for (const [name, { box, bar: length, number, shared }] of boxes) {
                const at = now.get(name);
                if (shared) {
                    continue;
                }
                const share = at && colours ? colours.share(at.value) : 0,
                    colour = !at
                        ? theme().line
                        : at.bad > 0
                          ? BAD_TEXT
                          : colours
                            ? css(colours.scale, share)
                            : theme().quiet;
                box.setAttribute("fill", colour);
                length.setAttribute("fill", colour);
                length.setAttribute("width", at ? (at.bad > 0 ? 1 : Math.max(0, Math.min(1, share))) * (WIDE - 32) : 0);
                number.textContent = at
                    ? short(at.value) + (at.bad > 0 && !isBad(at.value) ? " and NaN or ∞" : "")
                    : "";
                number.setAttribute("data-exact", at ? exact(at.value) : "");
            }
        };
        const load = async () => {
            if (!present.length) {
                return;
            }
            const signals = layerSignals(run, kind()),
                columns = Math.min(signals.length > 200 ? 200 : 800, time.last - time.first + 1);
            const parts = [];
            for (let i = 0; i < signals.length; i += 64) {
                parts.push(signals.slice(i, i + 64));
            }
            rows = (
                await Promise.all(
                    parts.map(async (part) => {
                        const got = await fetchHeat(
                            run.id,
                            part.map((s) => s.id),
                            value("stat", "norm"),
                            time.first,
                            time.last,
                            columns,
                        );
                        return got.map((row, k) => ({ ...hold(row), layer: part[k].layer }));
                    }),
                )
            ).flat();
            const all = rows.flatMap((row) => Array.from(row.values).filter(Number.isFinite)),
                positive = all.filter((v) => v > 0);
            colours = all.length ? colouring(least(all), most(all), positive.length ? least(positive) : 0) : null;
            const each = Math.ceil((time.last - time.first + 1) / columns),
                of = each > 1 ? `, of each ${whole(each)} steps the value of greatest magnitude` : "";
            key.textContent = colours
                ? `colour and bar: ${value("stat", "norm")}${of}, from ${short(colours.low)} to ${short(colours.high)}${colours.kind === "log" ? ", logarithmic" : ""}. Press play and see it travel.`
                : "";
            paint();
        };
        const moving = pannable(picture, width, height);
        context.onclose(moving.close);
        const controls = () =>
            replace(
                bar,
                present.length
                    ? [
                          choice("colour by", present, kind(), (name) => {
                              set({ kind: name });
                              controls();
                              load().catch(context.fail);
                          }),
                          choice("show", statisticsOf(run), value("stat", "norm"), (name) => {
                              set({ stat: name });
                              controls();
                              load().catch(context.fail);
                          }),
                      ]
                    : "",
                toggle("fold blocks", fold, (on) => {
                    set({ fold: on ? "1" : "0", open: "" });
                    context.again();
                }),
                el("button", { type: "button", "aria-label": "larger", onclick: () => moving.zoom(1.25) }, "+"),
                el("button", { type: "button", "aria-label": "smaller", onclick: () => moving.zoom(0.8) }, "−"),
                el("button", { type: "button", onclick: moving.fit }, "fit"),
                el("span", { class: "quiet" }, `${whole(layers.length)} layers`),
            );
        controls();
        replace(context.main, bar, key, el("div", { class: "network" }, picture, about));
        context.onclose(time.on((what) => what === "step" && paint()));
        context.onrange(() => load().catch(context.fail));
        await load();
    },
};

function least(values) {
    return values.reduce((a, b) => (b < a ? b : a), Infinity);
}

function most(values) {
    return values.reduce((a, b) => (b > a ? b : a), -Infinity);
}

// The last value holds.
function hold(row) {
    const values = Float64Array.from(row.values),
        bad = Float64Array.from(row.bad);
    for (let c = 1; c < values.length; c++) {
        if (bad[c] < 0 && bad[c - 1] >= 0) {
            values[c] = values[c - 1];
            bad[c] = bad[c - 1];
        }
    }
    return { values, bad };
}
