// The oscilloscope: each firing of a condition, with the steps before and after.
import { el, message, nameText, recipe, replace, thead } from "./dom.js";
import { whole, when } from "./format.js";
import { categories } from "./colour.js";
import { Chart, lineOf } from "./chart.js";
import { fetchSeries } from "./source.js";
import { link, set, number } from "./state.js";
import { FORMS, metricGroups } from "./layers.js";

// Firings that follow each other closely are one event: { first, last, text, count }
export function gather(events) {
    const made = [];
    for (const event of events) {
        const before = made[made.length - 1];
        if (before && before.text === event.text && event.step - before.last <= 2) {
            before.last = event.step;
            before.count++;
        } else {
            made.push({ first: event.step, last: event.step, text: event.text, time: event.time, count: 1 });
        }
    }
    return made;
}

export const triggersPage = {
    name: "triggers",
    title: "Triggers",
    async open(context) {
        const { run, time } = context,
            all = gather((run.events_ || []).filter((event) => event.kind === "trigger"));
        if (!all.length) {
            replace(
                context.main,
                message(
                    "No trigger has fired",
                    "A condition records a signal when something happens, and the steps before it too:",
                    recipe(
                        run,
                        'record:\n  - {what: "*.gradient", when: loss > 1.0, history: 5, form: [stats, histogram]}',
                        'deck.track("*.gradient", when="loss > 1.0", history=5, form="stats")',
                    ),
                ),
            );
            return;
        }
        const charts = el("div", { class: "multiples" }),
            list = el("div", { class: "scroll" }),
            heading = el("h2", {});
        let made = [];
        const open = async (index) => {
            const event = all[index],
                reach = Math.max(12, 2 * (event.last - event.first));
            set({ fired: index || "" }, true);
            time.zoom(event.first - reach, event.last + reach);
            time.scrub(event.first, true);
            replace(
                heading,
                "Steps ",
                whole(Math.max(time.first, event.first - reach)),
                " to ",
                whole(Math.min(time.last, event.last + reach)),
                " around ",
                nameText(event.text),
            );
            made.forEach((chart) => chart.remove());
            const groups = [
                ...metricGroups(run.signals).map((group) => ({ ...group, stat: "" })),
                ...run.signals
                    .filter((s) => s.forms & FORMS.stats)
                    .map((s) => ({ title: `${s.name} norm`, signals: [s], stat: "norm" })),
            ];
            made = groups.slice(0, 24).map((group) => new Chart(time, { title: group.title, height: 120 }));
            replace(
                charts,
                made.map((chart) => chart.element),
                groups.length > 24
                    ? el("p", { class: "quiet" }, `24 of ${groups.length} signals; the heat map of Layers has them all`)
                    : "",
            );
            await Promise.all(
                made.map(async (chart, i) => {
                    const group = groups[i],
                        lines = await fetchSeries(
                            run.id,
                            group.signals.map((s) => s.id),
                            group.stat,
                            Math.floor(time.from),
                            Math.ceil(time.to),
                            600,
                        );
                    chart.set(
                        lines.map((series, k) =>
                            lineOf(series, time, { name: group.signals[k].name, colour: categories[k % 8] }),
                        ),
                    );
                }),
            );
            [...list.querySelectorAll("tr[data-index]")].forEach((row) =>
                row.setAttribute("aria-current", Number(row.dataset.index) === index ? "true" : "false"),
            );
        };
        replace(
            list,
            el(
                "table",
                {},
                thead(el("th", {}, "condition"), el("th", {}, "steps"), el("th", {}, "firings"), el("th", {}, "when")),
                el(
                    "tbody",
                    {},
                    all.slice(0, 200).map((event, index) =>
                        el(
                            "tr",
                            { "data-index": index },
                            el(
                                "td",
                                {},
                                el(
                                    "button",
                                    {
                                        class: "plain",
                                        type: "button",
                                        onclick: () => open(index).catch(context.fail),
                                    },
                                    nameText(event.text, 60),
                                ),
                            ),
                            el(
                                "td",
                                {},
                                event.first === event.last
                                    ? whole(event.first)
                                    : `${whole(event.first)} – ${whole(event.last)}`,
                            ),
                            el("td", {}, whole(event.count)),
                            el("td", {}, when(event.time)),
                        ),
                    ),
                ),
            ),
        );
        replace(
            context.main,
            el(
                "p",
                { class: "quiet" },
                `${whole(all.length)} ${all.length === 1 ? "time" : "times"} a condition held${run.allEvents ? "" : ", of the first 2 000 events"}. Choose one; the scrubber below goes through its steps. `,
                el("a", { href: link("layers", run.id) }, "all layers at these steps"),
            ),
            list,
            heading,
            charts,
        );
        context.onclose(() => made.forEach((chart) => chart.remove()));
        // While the run trains, more may fire.
        const known = (run.events_ || []).length;
        context.onnews(() => (run.events_.length === known ? undefined : context.again()));
        await open(Math.min(number("fired", 0), all.length - 1));
    },
};
