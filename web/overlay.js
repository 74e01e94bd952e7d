// Metrics of several runs over each other: a line for each run, or for each group of runs its mean and the band of
// all of them.
import { choice, el, replace, toggle } from "./dom.js";
import { lineStyle } from "./colour.js";
import { Chart, smoothed } from "./chart.js";
import { Time } from "./time.js";
import { pinned } from "./choices.js";
import { fetchRun, fetchSeries, fetchSteps } from "./source.js";
import { link, number, set, value } from "./state.js";
import { isValidation, metricGroups, smoothing, standing } from "./layers.js";

const MOST_RUNS = 200,
    MOST_CHARTS = 24;

// The runs' own axes: a step is an epoch or a time in each of them.
class OverlayTime extends Time {
    toAxis(step) {
        return step;
    }

    fromAxis(place) {
        return place;
    }
}

// The value of a line at a place between its points; NaN outside.
function valueAt(line, place) {
    const { x, mean } = line,
        count = x.length;
    if (!count || place < x[0] || place > x[count - 1]) {
        return NaN;
    }
    let low = 0,
        high = count - 1;
    while (high - low > 1) {
        const middle = (low + high) >> 1;
        if (x[middle] <= place) {
            low = middle;
        } else {
            high = middle;
        }
    }
    const share = x[high] > x[low] ? (place - x[low]) / (x[high] - x[low]) : 0;
    return mean[low] + share * (mean[high] - mean[low]);
}

// The mean of several lines, and a band from the least to the greatest of them.
function meanOf(lines, points) {
    const first = Math.min(...lines.map((line) => line.x[0] ?? Infinity)),
        last = Math.max(...lines.map((line) => line.x[line.x.length - 1] ?? -Infinity));
    if (!(last >= first)) {
        return { ...lines[0] };
    }
    const own = [...new Set(lines.flatMap((line) => Array.from(line.x)))].sort((a, b) => a - b),
        grid =
            own.length <= points
                ? own
                : Array.from({ length: points }, (unused, i) => first + ((last - first) * i) / (points - 1));
    const made = { x: Float64Array.from(grid), mean: [], min: [], max: [], bad: [] };
    for (const place of grid) {
        const values = lines.map((line) => valueAt(line, place)),
            finite = values.filter(Number.isFinite),
            here = lines.filter((line) => line.x.length && place >= line.x[0] && place <= line.x[line.x.length - 1]);
        made.mean.push(finite.length ? finite.reduce((a, b) => a + b, 0) / finite.length : NaN);
        made.min.push(finite.length ? Math.min(...finite) : NaN);
        made.max.push(finite.length ? Math.max(...finite) : NaN);
        made.bad.push(here.length - finite.length);
    }
    for (const name of ["mean", "min", "max", "bad"]) {
        made[name] = Float64Array.from(made[name]);
    }
    return made;
}

// groups: [{ name, runs }], of the list's runs. Draws into box; { close, refresh }.
export async function overlay(context, box, groups) {
    const all = groups.flatMap((group) => group.runs),
        chosen = all.slice(0, MOST_RUNS);
    if (!chosen.length) {
        replace(
            box,
            el("p", { class: "quiet" }, "Pick runs to see their metrics over each other; a name opens a run."),
        );
        return { close: () => {}, refresh: () => {} };
    }
    const axis = value("x", "step");
    const readAll = () =>
        Promise.all([
            Promise.all(chosen.map((run) => fetchRun(run.id))),
            axis === "step" ? chosen.map(() => null) : Promise.all(chosen.map((run) => fetchSteps(run.id))),
        ]);
    let [details, tables] = await readAll();
    const time = new OverlayTime(0, 1);
    const own = (i) => {
        const made = new Time(0, 1);
        made.axis = axis;
        made.table = tables[i];
        return made;
    };
    const first = (run) => run.signals.reduce((least, s) => (s.first < least ? s.first : least), run.step);
    const firsts = details.map((run, i) => own(i).toAxis(first(run))),
        lasts = details.map((run, i) => own(i).toAxis(run.step));
    Object.assign(time, { first: Math.min(...firsts), last: Math.max(...lasts), axis });
    time.from = number("from", time.first);
    time.to = number("to", time.last);
    const names = new Map();
    details.forEach((run, i) =>
        metricGroups(run.signals).forEach((group) =>
            group.signals.forEach((signal) =>
                names.set(group.title, [...(names.get(group.title) || []), { run: i, signal }]),
            ),
        ),
    );
    const pins = pinned(),
        place = ([title]) => (pins.includes(title) ? pins.indexOf(title) : pins.length),
        ordered = [...names].sort((a, b) => place(a) - place(b) || standing(a[0]) - standing(b[0]));
    const charts = ordered.slice(0, MOST_CHARTS).map(([title, members]) => {
        const chart = new Chart(time, { title, height: 190, timeless: true, onclick: () => {} });
        return { chart, members };
    });
    const load = async () => {
        const points = Math.round((charts[0]?.chart.width || 400) * 2);
        // One request for each run: all of its metrics.
        const series = await Promise.all(
            details.map(async (run, i) => {
                const wanted = charts.flatMap(({ members }) => members.filter((m) => m.run === i).map((m) => m.signal)),
                    mine = own(i),
                    got = await fetchSeries(
                        run.id,
                        wanted.map((signal) => signal.id),
                        "",
                        Math.floor(mine.fromAxis(time.from)),
                        Math.ceil(mine.fromAxis(time.to)),
                        points,
                    );
                return new Map(
                    got.map((line, k) => [
                        wanted[k].id,
                        {
                            ...line,
                            x: Float64Array.from(line.last, (last, j) => mine.toAxis((last + line.first[j]) / 2)),
                        },
                    ]),
                );
            }),
        );
        charts.forEach(({ chart, members }) => {
            const lines = [];
            let base = 0;
            groups.forEach((group, g) => {
                const style = lineStyle(g),
                    within = members.filter((m) => m.run >= base && m.run < base + group.runs.length);
                for (const validation of [false, true]) {
                    const part = within.filter((m) => isValidation(m.signal.name) === validation);
                    if (part.length) {
                        const those = part.map((m) => series[m.run].get(m.signal.id)),
                            line = those.length > 1 ? meanOf(those, points) : those[0];
                        lines.push({
                            ...line,
                            ...style,
                            dash: validation ? [5, 3] : style.dash,
                            name:
                                group.name +
                                (those.length > 1 ? ` (mean of ${those.length})` : "") +
                                (within.length > part.length ? ` ${part[0].signal.name}` : ""),
                            smooth: smoothed(line.mean, number("smooth", 0)),
                        });
                    }
                }
                base += group.runs.length;
            });
            chart.set(lines);
        });
    };
    const show = () => load().catch(context.fail);
    time.on((kind) => kind === "range" && show());
    replace(
        box,
        el(
            "div",
            { class: "controls" },
            choice(
                "over",
                [
                    ["step", "step"],
                    ["epoch", "epoch"],
                    ["time", "wall time"],
                ],
                axis,
                (name) => {
                    set({ x: name === "step" ? "" : name, from: "", to: "" });
                    context.redraw(true);
                },
            ),
            toggle("log x", time.log, (on) => time.setLog(on)),
            smoothing(show),
            chosen.length > 1
                ? el(
                      "a",
                      {
                          href: link("compare", chosen[0].id, {
                              with: chosen
                                  .slice(1, 40)
                                  .map((run) => run.id)
                                  .join(","),
                          }),
                      },
                      chosen.length > 2 ? `compare these ${Math.min(chosen.length, 40)}` : "compare these",
                  )
                : "",
            all.length > MOST_RUNS ? el("span", { class: "quiet" }, `${MOST_RUNS} of ${all.length} runs`) : "",
        ),
        el(
            "div",
            { class: "multiples" },
            charts.map(({ chart }) => chart.element),
        ),
    );
    show();
    return {
        close: () => charts.forEach(({ chart }) => chart.remove()),
        // The runs have grown.
        refresh: async () => {
            [details, tables] = await readAll();
            const whole = time.to >= time.last;
            time.last = Math.max(...details.map((run, i) => own(i).toAxis(run.step)));
            time.to = whole ? time.last : time.to;
            await load();
        },
    };
}
