// A training of several processes: any signal over time, rank by rank, and which rank was first.
import { el, replace, choice, message, nameText, thead } from "./dom.js";
import { whole } from "./format.js";
import { Heat } from "./heat.js";
import { FORMS, isMetric, metricsWith, statistics } from "./layers.js";
import { fetchRanks, isReport } from "./source.js";
import { set, value, number } from "./state.js";

const TIME = 0; // instead of a signal's id: seconds from one step to the next

// "rank 3: …" is how events of such a run begin.
function rankOf(event) {
    const found = /^rank (\d+): (.*)$/s.exec(event.text || "");
    return found ? { rank: Number(found[1]), text: found[2], step: event.step } : null;
}

function firstOf(events) {
    return events.reduce((best, event) => (!best || event.step < best.step ? event : best), null);
}

// What happened first, and on which rank: one line for each condition that fired.
function firings(run) {
    const byText = new Map();
    for (const event of (run.events_ || []).filter((each) => each.kind === "trigger")) {
        const found = rankOf(event);
        if (found) {
            byText.set(found.text, [...(byText.get(found.text) || []), found]);
        }
    }
    return [...byText].map(([text, events]) => ({ text, ...firstOf(events) }));
}

function firstList(run, bad, name) {
    const lines = firings(run).map((first) =>
        el("li", {}, nameText(first.text), ` fired first on rank ${first.rank}, step ${whole(first.step)}`),
    );
    if (bad) {
        lines.unshift(
            el("li", {}, nameText(name), ` is not finite first on rank ${bad.rank}, step ${whole(bad.step)}`),
        );
    }
    for (const finding of run.findings || []) {
        const rank = (finding.evidence || []).map((each) => each.text).find((text) => /\brank \d/.test(text || ""));
        if (rank) {
            lines.push(el("li", {}, nameText(finding.cause.replaceAll("_", " ")), ": ", rank));
        }
    }
    return lines.length ? el("ul", {}, lines) : "";
}

function table(run) {
    const columns = ["rank", "attempt", "node", "mesh", "state", "last step"];
    return el(
        "table",
        {},
        thead(columns.map((name) => el("th", {}, name))),
        el(
            "tbody",
            {},
            run.ranks.map((each) =>
                el(
                    "tr",
                    {},
                    [each.rank, each.attempt, each.node, each.mesh, each.state, whole(each.lastStep)].map((text) =>
                        el("td", {}, String(text)),
                    ),
                ),
            ),
        ),
    );
}

export const ranksPage = {
    name: "ranks",
    title: "Ranks",
    isFor: (run) => run.ranks?.length > 0,
    open(context) {
        const { run, time } = context;
        if (!run.ranks?.length || isReport) {
            replace(
                context.main,
                isReport
                    ? message("Ranks are not in a report", "tapedeck view shows them.")
                    : message(
                          "One process wrote this run",
                          "A training of several processes has a row here for each of them.",
                      ),
            );
            return undefined;
        }
        const signals = run.signals.filter((signal) => signal.forms & (FORMS.scalar | FORMS.stats));
        const main = metricsWith(run, "")[0]?.signals[0] ?? signals[0],
            chosen = () => signals.find((signal) => signal.id === number("signal", main?.id ?? TIME));
        const heat = new Heat(time, {
            title: "ranks × time",
            label: "",
            height: 430,
            hint: "point at a cell; drag to zoom",
        });
        const bar = el("div", { class: "controls" }),
            first = el("div", {});
        let turn = 0;
        const load = async () => {
            const mine = ++turn,
                signal = chosen(),
                stat = signal && !isMetric(signal) ? value("stat", "norm") : "",
                label = signal ? signal.name + (stat ? ` ${stat}` : "") : "seconds from step to step";
            const from = Math.floor(time.from),
                to = Math.ceil(time.to),
                columns = Math.max(1, Math.min(to - from + 1, Math.round(heat.width - heat.left), 1200));
            const found = await fetchRanks(run.id, signal?.id ?? TIME, stat, from, to, columns);
            if (mine !== turn) {
                return;
            }
            heat.options.label = label;
            replace(
                heat.caption,
                el("strong", {}, "Ranks × time "),
                el(
                    "span",
                    { class: "quiet" },
                    nameText(label),
                    found.whole ? "" : " — too many records: zoom in for all of them",
                ),
            );
            heat.set(found.rows.map((row) => ({ ...row, name: `rank ${row.rank}`, until: signal?.last ?? time.last })));
            replace(first, firstList(run, found.bad, label));
        };
        const controls = () =>
            replace(
                bar,
                choice(
                    "signal",
                    [...signals.map((signal) => [String(signal.id), signal.name]), [String(TIME), "time of a step"]],
                    String(chosen()?.id ?? TIME),
                    (id) => {
                        set({ signal: id });
                        controls();
                        load().catch(context.fail);
                    },
                ),
                chosen() && !isMetric(chosen())
                    ? choice("show", statistics, value("stat", "norm"), (name) => {
                          set({ stat: name });
                          load().catch(context.fail);
                      })
                    : "",
            );
        controls();
        replace(context.main, bar, heat.element, first, table(run));
        context.onclose(() => heat.remove());
        context.onrange(() => load().catch(context.fail));
        return load();
    },
};
