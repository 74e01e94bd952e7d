// The network: layers as boxes from input to output, coloured by a statistic at the scrubbed step.
import { el, svg, replace, choice, message } from "./dom.js";
import { isBad, short, whole } from "./format.js";
import { colouring, css, BAD_TEXT, theme } from "./colour.js";
import { fetchHeat } from "./source.js";
import { go, set, value } from "./state.js";
import { kinds, statistics, layerNames, layerSignals } from "./layers.js";

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

// Rank by the longest way from the input; layers of one rank stand side by side.
function place(graph) {
    const rank = new Map(),
        rows = [];
    for (const layer of graph) {
        const level = Math.max(-1, ...layer.from.map((name) => rank.get(name) ?? -1)) + 1;
        rank.set(layer.name, level);
        (rows[level] = rows[level] || []).push(layer);
    }
    const widest = Math.max(...rows.map((row) => row.length)),
        places = new Map();
    rows.forEach((row, level) =>
        row.forEach((layer, i) =>
            places.set(layer.name, {
                x: SIDE + ((widest - row.length) * (WIDE + GAP)) / 2 + i * (WIDE + GAP),
                y: 10 + (rows.length - 1 - level) * (TALL + GAP),
                level,
            }),
        ),
    );
    return { places, width: 2 * SIDE + widest * (WIDE + GAP), height: 20 + rows.length * (TALL + GAP) };
}

function edge(a, b) {
    const x1 = a.x + WIDE / 2,
        y1 = a.y,
        x2 = b.x + WIDE / 2,
        y2 = b.y + TALL;
    if (b.level - a.level === 1) {
        return `M${x1} ${y1}C${x1} ${y1 - GAP / 2} ${x2} ${y2 + GAP / 2} ${x2} ${y2}`;
    }
    const out = Math.max(a.x, b.x) + WIDE + 26; // a skip connection goes around what it skips
    return `M${a.x + WIDE} ${a.y + TALL / 2}C${out} ${a.y} ${out} ${b.y + TALL} ${b.x + WIDE} ${b.y + TALL / 2}`;
}

export const networkPage = {
    name: "network",
    title: "Network",
    async open(context) {
        const { run, time } = context,
            graph = graphOf(run);
        if (!graph.length) {
            replace(context.main, message("No network in this run", "It recorded metrics only."));
            return;
        }
        const { places, width, height } = place(graph),
            present = kinds.filter(([kind]) => layerSignals(run, kind).length);
        const boxes = new Map(),
            key = el("p", { class: "quiet" }),
            bar = el("div", { class: "controls" });
        const picture = svg(
            "svg",
            { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": "network" },
            graph.flatMap((layer) =>
                layer.from
                    .filter((name) => places.has(name))
                    .map((name) => svg("path", { class: "edge", d: edge(places.get(name), places.get(layer.name)) })),
            ),
            graph.map((layer) => {
                const at = places.get(layer.name),
                    box = svg("rect", { x: at.x, y: at.y, width: 14, height: TALL, rx: 4 }),
                    length = svg("rect", { x: at.x + 24, y: at.y + TALL - 5, width: 0, height: 3, rx: 1.5 });
                const number = svg("text", { class: "sub", x: at.x + WIDE - 6, y: at.y + 18, "text-anchor": "end" });
                boxes.set(layer.name, { box, bar: length, number });
                return svg(
                    "g",
                    {
                        class: "node",
                        tabindex: 0,
                        role: "link",
                        "aria-label": layer.name.slice(0, 80),
                        onclick: () => go("layer", run.id, { layer: layer.name }),
                        onkeydown: (event) => event.key === "Enter" && go("layer", run.id, { layer: layer.name }),
                    },
                    svg("title", {}, layer.name.slice(0, 500)),
                    svg("rect", { x: at.x, y: at.y, width: WIDE, height: TALL, rx: 4, fill: theme().none }),
                    box,
                    length,
                    svg(
                        "text",
                        { x: at.x + 24, y: at.y + 18 },
                        layer.name.length > 20 ? layer.name.slice(0, 19) + "…" : layer.name,
                    ),
                    svg(
                        "text",
                        { class: "sub", x: at.x + 24, y: at.y + 35 },
                        [layer.kind, layer.shape, layer.parameters ? `${whole(layer.parameters)} p` : ""]
                            .filter(Boolean)
                            .join(" · ")
                            .slice(0, 38),
                    ),
                    number,
                );
            }),
        );
        let rows = [],
            colours = null;
        const kind = () => (present.some(([name]) => name === value("kind")) ? value("kind") : present[0]?.[0]);
        const paint = () => {
            const column = (row) =>
                Math.max(
                    0,
                    Math.min(
                        row.values.length - 1,
                        Math.floor(((time.step - time.first) / (time.last - time.first + 1)) * row.values.length),
                    ),
                );
            for (const { box, bar: length, number } of boxes.values()) {
                box.setAttribute("fill", theme().line);
                length.setAttribute("width", 0);
                number.textContent = "";
            }
            for (const row of rows) {
                const found = boxes.get(row.layer),
                    c = column(row);
                if (found && row.bad[c] >= 0) {
                    const share = colours ? colours.share(row.values[c]) : 0;
                    const colour = row.bad[c] > 0 ? BAD_TEXT : colours ? css(colours.scale, share) : theme().quiet;
                    found.box.setAttribute("fill", colour);
                    found.bar.setAttribute("fill", colour);
                    found.bar.setAttribute(
                        "width",
                        (row.bad[c] > 0 ? 1 : Math.max(0, Math.min(1, share))) * (WIDE - 32),
                    );
                    found.number.textContent =
                        short(row.values[c]) + (row.bad[c] > 0 && !isBad(row.values[c]) ? " and NaN or ∞" : "");
                }
            }
        };
        const load = async () => {
            if (!present.length) {
                return;
            }
            const signals = layerSignals(run, kind()),
                columns = Math.min(800, time.last - time.first + 1);
            rows = [];
            for (let i = 0; i < signals.length; i += 64) {
                const part = signals.slice(i, i + 64),
                    got = await fetchHeat(
                        run.id,
                        part.map((s) => s.id),
                        value("stat", "norm"),
                        time.first,
                        time.last,
                        columns,
                    );
                rows.push(...got.map((row, k) => ({ ...hold(row), layer: part[k].layer })));
            }
            const all = rows.flatMap((row) => Array.from(row.values).filter(Number.isFinite)),
                positive = all.filter((v) => v > 0);
            colours = all.length ? colouring(least(all), most(all), positive.length ? least(positive) : 0) : null;
            key.textContent = colours
                ? `colour and bar: ${value("stat", "norm")}, from ${short(colours.low)} to ${short(colours.high)}${colours.kind === "log" ? ", logarithmic" : ""}. Press play and see it travel.`
                : "";
            paint();
        };
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
                          choice("show", statistics, value("stat", "norm"), (name) => {
                              set({ stat: name });
                              controls();
                              load().catch(context.fail);
                          }),
                      ]
                    : "",
            );
        controls();
        replace(context.main, bar, key, el("div", { class: "network" }, picture));
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
