// What the diagnosis says: cause, layer, since when, the numbers, and what to do.
import { code, copy, el, message, nameText, numeral, replace } from "./dom.js";
import { whole } from "./format.js";
import { categories } from "./colour.js";
import { Chart, lineOf } from "./chart.js";
import { FORMS, isMetric } from "./layers.js";
import { fetchSeries } from "./source.js";
import { link } from "./state.js";

function list(text) {
    try {
        const made = JSON.parse(text || "[]");
        return Array.isArray(made) ? made : [made];
    } catch {
        return [];
    }
}

function evidence(context, item) {
    const { run } = context,
        signal = run.signals.find((s) => s.name === item.signal);
    const target =
        signal &&
        (signal.layer
            ? link("layer", run.id, { layer: signal.layer, signal: signal.id, step: item.step || undefined })
            : link("layers", run.id, { step: item.step || undefined }));
    return el(
        "li",
        {},
        nameText(item.text || "", 400),
        item.value !== undefined && item.value !== null ? [" (", numeral(item.value), ")"] : "",
        target ? [" ", el("a", { href: target }, item.step ? `step ${whole(item.step)}` : "see")] : "",
    );
}

// What the evidence is about, over time: the first signals that it names, or the loss.
function charts(context, finding) {
    const { run, time } = context,
        named = list(finding.evidence).map((item) => run.signals.find((s) => s.name === item.signal)),
        usable = [...named, run.signals.find((s) => s.name === "loss")].filter(
            (signal) => signal && signal.forms & (FORMS.scalar | FORMS.stats),
        );
    return el(
        "div",
        { class: "multiples" },
        [...new Set(usable)].slice(0, 2).map((signal) => {
            const stat = isMetric(signal) ? "" : "norm",
                title = stat ? `norm of ${signal.name}` : signal.name,
                chart = new Chart(time, { title, height: 130 });
            context.onclose(() => chart.remove());
            fetchSeries(run.id, [signal.id], stat, time.first, time.last, 600)
                .then(([series]) => chart.set([lineOf(series, time, { name: signal.name, colour: categories[0] })]))
                .catch(() => chart.element.remove());
            return chart.element;
        }),
    );
}

function remedy(text) {
    const button = el("button", { type: "button", onclick: () => copy(text, button) }, "copy");
    return el("p", {}, el("strong", {}, "What to do: "), nameText(text, 600), " ", button);
}

export const findingsPage = {
    name: "findings",
    title: "Findings",
    timeless: true,
    open(context) {
        const { run } = context;
        if (!(run.findings || []).length) {
            const when = run.notes.run.diagnosed;
            replace(
                context.main,
                when
                    ? message(
                          "The diagnosis found nothing unusual",
                          `It was made on ${new Date(when).toLocaleString([], { dateStyle: "medium", timeStyle: "short" })}. To make it again:`,
                          code(`tapedeck diagnose ${run.folder}`),
                      )
                    : message(
                          "This run has not been diagnosed",
                          "The diagnosis looks for what goes wrong inside of networks, with evidence:",
                          code(`tapedeck diagnose ${run.folder}`),
                      ),
            );
            return;
        }
        replace(
            context.main,
            run.findings.map((finding) =>
                el(
                    "article",
                    { class: `finding ${finding.severity}` },
                    el(
                        "h2",
                        {},
                        nameText(finding.cause.replaceAll("_", " ")),
                        finding.layer
                            ? [
                                  " in ",
                                  el(
                                      "a",
                                      {
                                          href: link("layer", run.id, {
                                              layer: finding.layer,
                                              step: finding.since || undefined,
                                          }),
                                      },
                                      nameText(finding.layer),
                                  ),
                              ]
                            : "",
                        finding.unit >= 0 ? `, unit ${finding.unit}` : "",
                    ),
                    el(
                        "p",
                        { class: "quiet" },
                        [
                            finding.severity,
                            finding.confidence,
                            finding.since ? `since step ${whole(finding.since)}` : "",
                        ]
                            .filter(Boolean)
                            .join(" · "),
                    ),
                    el(
                        "ul",
                        {},
                        list(finding.evidence).map((item) => evidence(context, item)),
                    ),
                    charts(context, finding),
                    finding.remedy ? remedy(finding.remedy) : "",
                    list(finding.symptoms).length
                        ? el(
                              "p",
                              { class: "quiet" },
                              `symptoms: ${list(finding.symptoms).join(", ").replaceAll("_", " ")}`,
                          )
                        : "",
                ),
            ),
        );
    },
};
