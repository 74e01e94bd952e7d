// The tree of branches: which run goes on from which step of another one.
import { el, svg } from "./dom.js";
import { whole } from "./format.js";
import { link } from "./state.js";

const LANE = 26,
    LEFT = 8,
    WIDTH = 640,
    LABEL = 210;

// The run that another one branches off from: its name beside that one, or the end of a path.
function parentOf(runs, run) {
    const parent = run.remarks?.parent;
    if (!parent) {
        return undefined;
    }
    const beside = parent.includes("/") ? null : run.name.replace(/[^/]*$/, parent);
    return runs.find((other) => other !== run && (beside ? other.name === beside : parent.endsWith(`/${other.name}`)));
}

// Runs with parents or children, each below its parent: [{ run, parent, from, lane }]. Of one family where id is given.
function lanesOf(runs, id) {
    const known = runs.filter((run) => !run.loading && !run.error),
        parents = new Map(),
        children = new Map(), // by parent, in the order of the steps that they go on from
        lanes = [];
    for (const run of known) {
        const parent = parentOf(known, run);
        if (parent) {
            parents.set(run, parent);
            children.set(parent, [...(children.get(parent) || []), run]);
        }
    }
    if (!parents.size) {
        return lanes;
    }
    const rootOf = (run) => {
        let at = run;
        for (let depth = 0; parents.get(at) && depth < known.length; depth++) {
            at = parents.get(at);
        }
        return at;
    };
    const own = id && known.find((run) => run.id === id),
        root = own && rootOf(own);
    const add = (run, parent) => {
        if (lanes.some((lane) => lane.run === run)) {
            return; // parents in a circle
        }
        lanes.push({ run, parent, from: parent ? Number(run.remarks["parent.step"]) || 0 : 0, lane: lanes.length });
        (children.get(run) || [])
            .sort((a, b) => (Number(a.remarks["parent.step"]) || 0) - (Number(b.remarks["parent.step"]) || 0))
            .forEach((child) => add(child, run));
    };
    known.filter((run) => children.has(run) && !parents.get(run) && (!root || run === root)).forEach((run) => add(run));
    return lanes;
}

// A line for each run over its steps; a branch leaves its parent's line at the step that it goes on from. null: no run
// branches off from another one.
export function branchTree(runs, id) {
    const lanes = lanesOf(runs, id);
    if (!lanes.length) {
        return null;
    }
    const last = Math.max(1, ...lanes.map(({ run }) => run.step)),
        x = (step) => LEFT + (step / last) * (WIDTH - LEFT),
        y = (lane) => LANE * (lane + 0.5),
        place = new Map(lanes.map((lane) => [lane.run, lane]));
    return el(
        "section",
        { "aria-label": "branches" },
        el("h2", {}, "Branches"),
        el(
            "div",
            { class: "scroll", tabindex: 0, role: "region", "aria-label": "tree of branches" },
            svg(
                "svg",
                {
                    class: "branches",
                    width: WIDTH + LABEL,
                    height: LANE * lanes.length,
                    viewBox: `0 0 ${WIDTH + LABEL} ${LANE * lanes.length}`,
                    role: "img",
                    "aria-label": lanes
                        .map(
                            ({ run, parent, from }) =>
                                run.name + (parent ? ` branches off from ${parent.name} after step ${from}` : ""),
                        )
                        .join("; "),
                },
                lanes.map(({ run, parent, from, lane }) => {
                    const above = parent && y(place.get(parent).lane),
                        begin = x(from);
                    return svg(
                        "g",
                        { class: run.id === id ? "own" : "" },
                        parent
                            ? svg("path", {
                                  d: `M${begin} ${above} V${y(lane) - 6} q0 6 6 6 H${Math.max(x(run.step), begin + 8)}`,
                              })
                            : svg("path", { d: `M${begin} ${y(lane)} H${x(run.step)}` }),
                        parent ? svg("circle", { cx: begin, cy: above, r: 3.5 }) : "",
                        svg(
                            "a",
                            { href: link("layers", run.id, {}) },
                            svg(
                                "text",
                                { x: Math.max(x(run.step), begin + 8) + 8, y: y(lane) + 4 },
                                `${run.name.slice(0, 30)}${parent ? ` @${whole(from)}` : ""}`,
                            ),
                        ),
                    );
                }),
            ),
        ),
    );
}
