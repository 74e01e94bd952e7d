// The recorder about itself: what it cost, what it dropped, which files there are; and what ran.
import { el, replace, nameText, code, thead } from "./dom.js";
import { whole, bytes, duration } from "./format.js";
import { fetchFiles } from "./source.js";
import { categories } from "./colour.js";
import { Chart } from "./chart.js";
import { tracksSection } from "./tracks.js";
import { metricsPanel, metricsWith } from "./layers.js";

function facts(entries) {
    return el(
        "dl",
        { class: "facts" },
        entries
            .filter((entry) => entry && entry[1] !== undefined)
            .map(([key, text]) => [
                el("dt", {}, key),
                el("dd", {}, typeof text === "string" ? nameText(text, 400) : text),
            ]),
    );
}

// How long steps took, and the load of the machine (the signals system.*).
function loadSection(context) {
    const { run, time } = context,
        chart = new Chart(time, { title: "seconds", heading: el("strong", {}, "time of a step"), height: 150 }),
        system = run.signals.some((s) => s.name.startsWith("system."))
            ? metricsPanel(context, () => metricsWith(run, "system."))
            : null;
    const draw = () => {
        const { step, time: clock } = context.table,
            count = Math.max(0, step.length - 1),
            each = (of) => Float64Array.from({ length: count }, (unused, i) => of(i)),
            taken = each((i) => Math.max(0, clock[i + 1] - clock[i]) / (step[i + 1] - step[i]));
        const x = each((i) => time.toAxis((step[i] + step[i + 1]) / 2));
        chart.set([
            { name: "mean", colour: categories[0], x, mean: taken, min: taken, max: taken, bad: each(() => 0) },
        ]);
        system?.reload();
    };
    context.onclose(() => chart.remove());
    context.onnews(draw);
    context.onrange(draw);
    return {
        draw,
        element: el(
            "section",
            { "aria-label": "load" },
            el("h2", {}, "Load"),
            el("div", { class: "multiples" }, chart.element),
            system ? system.element : "",
        ),
    };
}

export const recorderPage = {
    name: "recorder",
    title: "Recorder",
    timeless: true,
    async open(context) {
        const { run } = context,
            notes = run.notes.run,
            n = (key) => (notes[`deck.${key}`] === undefined ? undefined : Number(notes[`deck.${key}`]));
        const cost = n("cost_seconds"),
            steps = n("step_seconds"),
            count = (key) => (n(key) === undefined ? undefined : whole(n(key)));
        const own = el(
            "section",
            { "aria-label": "cost" },
            el("h2", {}, "What recording cost"),
            cost === undefined
                ? el(
                      "p",
                      { class: "quiet" },
                      run.events
                          ? "Event files do not say."
                          : run.state === "running"
                            ? "Written when the run ends."
                            : "The run was not closed: it does not say.",
                  )
                : facts([
                      [
                          "of the training's time",
                          steps > 0
                              ? `${((100 * cost) / steps).toPrecision(3)} % (${duration(cost)} of ${duration(steps)})`
                              : "no step was made",
                      ],
                      ["waiting for room", duration(n("wait_seconds"))],
                      ["the writer thread", duration(n("writer_seconds"))],
                      ["records", count("submitted")],
                      ["dropped", n("dropped") ? el("span", { class: "bad" }, whole(n("dropped"))) : "none"],
                      [
                          "in a smaller form",
                          n("degraded") ? el("span", { class: "bad" }, whole(n("degraded"))) : "none",
                      ],
                      ["history lost", n("history_lost") ? whole(n("history_lost")) : "none"],
                      ["triggers", count("triggers")],
                      [
                          "queue at its fullest",
                          n("queue_bytes_peak") === undefined ? undefined : bytes(n("queue_bytes_peak")),
                      ],
                  ]),
        );
        const odd = (run.events_ || []).filter((event) => event.kind !== "trigger");
        const events = el(
            "section",
            { "aria-label": "events" },
            el("h2", {}, "What happened"),
            odd.length
                ? el(
                      "div",
                      { class: "scroll" },
                      el(
                          "table",
                          {},
                          thead(
                              el("th", {}, "event"),
                              el("th", {}, "step"),
                              el("th", {}, "records"),
                              el("th", { class: "left" }, "what"),
                          ),
                          el(
                              "tbody",
                              {},
                              odd
                                  .slice(0, 300)
                                  .map((event) =>
                                      el(
                                          "tr",
                                          {},
                                          el("td", {}, event.kind),
                                          el("td", {}, whole(event.step)),
                                          el("td", {}, whole(event.count)),
                                          el("td", { class: "left" }, nameText(event.text, 200)),
                                      ),
                                  ),
                          ),
                      ),
                  )
                : el("p", { class: "quiet" }, "No drops, no degradations, no errors."),
        );
        const files = el("section", { "aria-label": "files" }, el("h2", {}, "Files"));
        const settings = el(
            "section",
            { "aria-label": "experiment" },
            el("h2", {}, "What ran"),
            facts([
                ["run", run.folder],
                ["started", notes.started],
                ["ended", notes.ended],
                ["version", notes.version],
                ...Object.entries(run.notes.environment),
                ...Object.entries(run.notes.experiment).filter(([key]) => key !== "yaml"),
            ]),
            run.notes.experiment.yaml
                ? el(
                      "div",
                      { class: "low", tabindex: 0, "aria-label": "experiment file" },
                      code(run.notes.experiment.yaml.slice(0, 20000)),
                  )
                : "",
        );
        const load = loadSection(context),
            known = (run.events_ || []).length;
        context.onnews(() => (run.events_.length === known ? undefined : context.again()));
        replace(
            context.main,
            el("div", { class: "newspaper" }, own, tracksSection(context), events, files, settings, load.element),
        );
        load.draw();
        const list = await fetchFiles(run.id),
            sorted = list.files.sort((a, b) => b.bytes - a.bytes);
        files.append(
            el(
                "p",
                { class: "quiet" },
                `${whole(sorted.length)}${list.all ? "" : " and more"} files, ${bytes(sorted.reduce((sum, file) => sum + file.bytes, 0))}`,
            ),
            el(
                "div",
                { class: "scroll low", tabindex: 0, "aria-label": "files" },
                el(
                    "table",
                    {},
                    el(
                        "tbody",
                        {},
                        sorted
                            .slice(0, 200)
                            .map((file) =>
                                el("tr", {}, el("td", {}, nameText(file.name, 120)), el("td", {}, bytes(file.bytes))),
                            ),
                    ),
                ),
            ),
        );
    },
};
