// What the diagnosis says of a run, in one line: the most important finding, or that there is none.
import { el, nameText } from "./dom.js";
import { whole } from "./format.js";
import { link } from "./state.js";

const plain = (cause) => cause.replaceAll("_", " ");

// In the list of runs and in the navigation. verdict: as the list of runs has it; null before a diagnosis.
export function badge(verdict) {
    if (!verdict) {
        return null;
    }
    return verdict.count
        ? el("span", { class: `badge ${verdict.severity}` }, nameText(plain(verdict.cause), 40))
        : el("span", { class: "badge good" }, "✓ nothing unusual");
}

// The number of findings, beside the name of their page.
export function findingCount(run) {
    const count = (run.findings || []).length;
    return count ? el("span", { class: `count ${run.findings[0].severity}` }, whole(count)) : null;
}

// What was seen first, where it is another word than the cause.
function symptomOf(finding) {
    let first = "";
    try {
        first = JSON.parse(finding.symptoms || "[]")[0] || "";
    } catch {
        return "";
    }
    return first === finding.cause ? "" : plain(first);
}

// On top of a run's first page.
export function verdictLine(context) {
    const { run, time } = context,
        findings = run.findings || [],
        first = findings[0];
    if (!first) {
        return run.notes.run.diagnosed
            ? el(
                  "p",
                  { class: "verdict good" },
                  "✓ The diagnosis found nothing unusual",
                  run.notes.run["diagnosed.checks"] ? ` in ${run.notes.run["diagnosed.checks"]} checks` : "",
                  ".",
              )
            : null;
    }
    const symptom = symptomOf(first);
    return el(
        "p",
        { class: `verdict ${first.severity}` },
        symptom ? [el("strong", {}, nameText(symptom)), " "] : "",
        first.since
            ? [
                  "since ",
                  el(
                      "button",
                      { class: "plain jump", type: "button", onclick: () => time.scrub(first.since, true) },
                      `step ${whole(first.since)}`,
                  ),
                  ": ",
              ]
            : "",
        el("strong", {}, nameText(plain(first.cause))),
        first.layer ? [" in ", nameText(first.layer, 40)] : "",
        first.confidence ? ` (${first.confidence})` : "",
        ". ",
        first.remedy ? ["Try ", el("code", {}, nameText(first.remedy, 160)), " "] : "",
        el(
            "a",
            { href: link("findings", run.id) },
            findings.length > 1 ? `all ${whole(findings.length)} findings` : "the evidence",
        ),
    );
}
