// Runs against each other: what differs in their experiments, where they part, differences over time.
import { choice, code, el, message, nameText, numeral, replace, thead } from "./dom.js";
import { whole } from "./format.js";
import { categories } from "./colour.js";
import { Chart, lineOf } from "./chart.js";
import { fetchRun, fetchSeries, fetchComparison, fetchSettings } from "./source.js";
import { link, set, value } from "./state.js";
import { FORMS, isMetric } from "./layers.js";

function others(context) {
    const known = context.list().runs.filter((run) => run.id !== context.run.id && !run.loading && !run.error);
    const wanted = value("with", "")
        .split(",")
        .filter((id) => known.some((run) => run.id === id));
    const chosen = wanted.includes(value("against")) ? value("against") : wanted[0];
    return { known, wanted, chosen: chosen ?? known[0]?.id };
}

// What differs in the settings of any number of runs: "key: a → b" for two, a table for more.
async function differing(runs) {
    const known = (await fetchSettings()).runs,
        of = (run, key) => known[run.id]?.[key] ?? "–",
        keys = [...new Set(runs.flatMap((run) => Object.keys(known[run.id] || {})))].filter(
            (key) => key !== "name" && runs.some((run) => of(run, key) !== of(runs[0], key)),
        );
    if (!keys.length) {
        return el("p", { class: "quiet" }, "No setting differs.");
    }
    if (runs.length === 2) {
        return el(
            "ul",
            { class: "changes" },
            keys.map((key) =>
                el(
                    "li",
                    {},
                    nameText(key, 80),
                    ": ",
                    nameText(of(runs[0], key), 80),
                    " → ",
                    el("strong", {}, nameText(of(runs[1], key), 80)),
                ),
            ),
        );
    }
    return el(
        "div",
        { class: "scroll low", tabindex: 0, role: "region", "aria-label": "settings that differ" },
        el(
            "table",
            {},
            thead(
                el("th", {}, "setting"),
                runs.map((run) => el("th", {}, nameText(run.name, 24))),
            ),
            el(
                "tbody",
                {},
                keys.map((key) =>
                    el(
                        "tr",
                        {},
                        el("td", {}, nameText(key, 60)),
                        runs.map((run) => el("td", {}, nameText(of(run, key), 24))),
                    ),
                ),
            ),
        ),
    );
}

function settings(comparison, names) {
    if (!comparison.settings.length) {
        return el("p", { class: "quiet" }, "Their experiments are the same.");
    }
    return el(
        "div",
        { class: "scroll" },
        el(
            "table",
            {},
            thead(names.map((name) => el("th", { class: "left" }, "only ", nameText(name, 40)))),
            el(
                "tbody",
                {},
                el(
                    "tr",
                    {},
                    names.map((name, run) =>
                        el(
                            "td",
                            { class: "left" },
                            comparison.settings
                                .filter((s) => s.run === run)
                                .map((s) => el("div", {}, nameText(s.text, 120))),
                        ),
                    ),
                ),
            ),
        ),
    );
}

function partings(comparison, context, names) {
    if (!comparison.partings.length) {
        return el(
            "p",
            {},
            comparison.compared
                ? `All ${whole(comparison.compared)} signals that both recorded are the same, bit for bit.`
                : "They have no signal in common.",
        );
    }
    const first = comparison.partings[0];
    return [
        el(
            "p",
            {},
            "They part at step ",
            el("strong", {}, whole(first.step)),
            ", first in ",
            nameText(first.signal),
            `; ${whole(comparison.count)} of ${whole(comparison.compared)} common signals part.`,
        ),
        el(
            "div",
            { class: "scroll low", tabindex: 0, "aria-label": "where signals part" },
            el(
                "table",
                {},
                thead(
                    el("th", {}, "signal"),
                    el("th", {}, "step"),
                    el("th", {}, "by"),
                    names.map((name) => el("th", {}, nameText(name, 24))),
                ),
                el(
                    "tbody",
                    {},
                    comparison.partings.map((p) =>
                        el(
                            "tr",
                            {},
                            el("td", {}, nameText(p.signal, 60)),
                            el(
                                "td",
                                {},
                                el("a", { href: link("layers", context.run.id, { step: p.step }) }, whole(p.step)),
                            ),
                            el("td", {}, p.by),
                            [p.a, p.b].map((v) => el("td", {}, p.by === "hash" ? "–" : numeral(v))),
                        ),
                    ),
                ),
            ),
        ),
    ];
}

// The difference of two lines, where both have a value.
function difference(a, b) {
    let k = 0;
    const mean = Float64Array.from(a.mean, (v, i) => {
        while (k + 1 < b.count && b.first[k + 1] <= a.first[i]) {
            k++;
        }
        return b.count ? v - b.mean[k] : NaN;
    });
    return { ...a, mean, min: mean, max: mean };
}

export const comparePage = {
    name: "compare",
    title: "Compare",
    async open(context) {
        const { run, time } = context,
            { known, wanted, chosen } = others(context);
        if (!chosen) {
            replace(
                context.main,
                message(
                    "No other run here",
                    "Train once more, with another seed or setting, and see where they part:",
                    code("tapedeck train examples/demo/demo.yaml --set seed=8"),
                ),
            );
            return;
        }
        const bar = el(
            "div",
            { class: "controls" },
            choice(
                "with",
                known.map((entry) => [entry.id, entry.name.slice(0, 60)]),
                chosen,
                (id) => {
                    set(wanted.includes(id) ? { against: id } : { with: id, against: "" });
                    context.again();
                },
            ),
            wanted.length > 1
                ? wanted.map((id) =>
                      el(
                          "button",
                          {
                              type: "button",
                              "aria-pressed": id === chosen ? "true" : "false",
                              onclick: () => {
                                  set({ against: id });
                                  context.again();
                              },
                          },
                          nameText(known.find((entry) => entry.id === id).name, 30),
                      ),
                  )
                : "",
        );
        const other = await fetchRun(chosen),
            names = [run.name, other.name];
        const said = el("section", { "aria-label": "where they part" }),
            differ = el("section", { "aria-label": "settings" }),
            charts = el("section", { "aria-label": "differences over time" });
        replace(context.main, bar, said, differ, charts);
        const comparison = await fetchComparison(run.id, chosen).catch((error) => ({ failed: error.message }));
        replace(
            said,
            el("h2", {}, "Where they part"),
            comparison.failed ? el("p", { class: "quiet" }, comparison.failed) : partings(comparison, context, names),
        );
        replace(
            differ,
            el("h2", {}, "What differs in the settings"),
            await differing([
                run,
                ...(wanted.length ? wanted : [chosen]).map((id) => known.find((entry) => entry.id === id)),
            ]),
            comparison.failed || !comparison.settings.length
                ? ""
                : el(
                      "details",
                      { class: "panel" },
                      el(
                          "summary",
                          {},
                          "line by line, with the environments, of ",
                          nameText(names[0], 40),
                          " and ",
                          nameText(names[1], 40),
                      ),
                      settings(comparison, names),
                  ),
        );
        const common = run.signals
            .map((s) => [s, other.signals.find((o) => o.name === s.name)])
            .filter(([s, o]) => o && s.forms & o.forms & (FORMS.scalar | FORMS.stats))
            .sort((a, b) => isMetric(b[0]) - isMetric(a[0]))
            .slice(0, 24);
        const made = common.map(([signal, twin]) => ({
            signal,
            twin,
            stat: isMetric(signal) ? "" : "norm",
            chart: new Chart(time, { title: signal.name + (isMetric(signal) ? "" : " norm"), height: 150 }),
            apart: new Chart(time, {
                title: `${signal.name} difference`,
                heading: el("span", { class: "quiet" }, "difference"),
                height: 90,
                log: false,
            }),
        }));
        replace(
            charts,
            el("h2", {}, "Over time"),
            el(
                "div",
                { class: "multiples" },
                made.map(({ chart, apart }) => el("div", {}, chart.element, apart.element)),
            ),
        );
        context.onclose(() =>
            made.forEach(({ chart, apart }) => {
                chart.remove();
                apart.remove();
            }),
        );
        const load = () =>
            Promise.all(
                made.map(async ({ signal, twin, stat, chart, apart }) => {
                    const range = [stat, Math.floor(time.from), Math.ceil(time.to), Math.round(chart.width * 2)];
                    const [[a], [b]] = await Promise.all([
                        fetchSeries(run.id, [signal.id], ...range),
                        fetchSeries(chosen, [twin.id], ...range),
                    ]);
                    chart.set([
                        lineOf(a, time, { name: run.name, colour: categories[0] }),
                        lineOf(b, time, { name: other.name, colour: categories[1], dash: [5, 3] }),
                    ]);
                    apart.set([lineOf(difference(a, b), time, { name: "difference", colour: categories[3] })]);
                }),
            );
        context.onrange(() => load().catch(context.fail));
        await load();
    },
};
