#include "findings.h"

#include "json.h"
#include "options.h"
#include "terminal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- For programs --------------------------------------------------------------------------- */

static void print_text_or_null(const char *text) {
    if (text) {
        print_json_text(text);
    } else {
        printf("null");
    }
}

static void print_row(int64_t row) {
    if (row >= 0) {
        printf("%lld", (long long)row);
    } else {
        printf("null");
    }
}

static void print_json_texts(const char *key, const char *const *texts, size_t count) {
    printf("\"%s\": [", key);
    for (size_t i = 0; i < count; i++) {
        printf("%s", i ? ", " : "");
        print_json_text(texts[i]);
    }
    printf("]");
}

static void print_json_evidence(const td_evidence *evidence, size_t count) {
    printf("\"evidence\": [");
    for (size_t i = 0; i < count; i++) {
        printf("%s{\"text\": ", i ? ", " : "");
        print_json_text(evidence[i].text);
        printf(", \"signal\": ");
        print_text_or_null(evidence[i].signal);
        printf(", \"step\": %lld, \"value\": ", (long long)evidence[i].step);
        print_json_number(evidence[i].value);
        printf("}");
    }
    printf("]");
}

static void print_json_origin(const td_finding_origin *origin) {
    if (!origin) {
        printf("\"origin\": null");
        return;
    }
    printf("\"origin\": {\"cause\": \"%s\", \"layer\": ", origin->cause);
    print_text_or_null(origin->layer);
    printf(", \"parameter\": ");
    print_text_or_null(origin->parameter);
    printf(", \"row\": ");
    print_row(origin->row);
    printf(", \"step\": %lld}", (long long)origin->step);
}

static void print_json_trial(const td_finding_trial *trial) {
    if (!trial) {
        printf("\"trial\": null");
        return;
    }
    printf("\"trial\": {\"steps\": %lld, \"score_before\": ", (long long)trial->steps);
    print_json_number(trial->score_before);
    printf(", \"score_after\": ");
    print_json_number(trial->score_after);
    printf(", \"loss_before\": ");
    print_json_number(trial->loss_before);
    printf(", \"loss_after\": ");
    print_json_number(trial->loss_after);
    printf("}");
}

static void print_json_finding(const td_diagnosis_finding *f) {
    printf("{\"rule\": \"%s\", \"cause\": \"%s\", \"layer\": ", f->rule, f->cause);
    print_text_or_null(f->layer);
    printf(", \"unit\": ");
    print_row(f->unit);
    printf(", \"since_step\": %lld, \"confidence\": \"%s\", ", (long long)f->since_step,
           td_confidence_name(f->confidence));
    print_json_texts("symptoms", f->symptoms, f->symptom_count);
    printf(", ");
    print_json_evidence(f->evidence, f->evidence_count);
    printf(", \"remedy\": ");
    print_text_or_null(f->remedy);
    printf(", ");
    print_json_texts("edits", f->edits, f->edit_count);
    printf(", ");
    print_json_origin(f->origin);
    printf(", ");
    print_json_trial(f->trial);
    printf("}");
}

/* Only where there was a baseline. */
static void print_json_unusual(const td_diagnosis *diagnosis) {
    if (!td_diagnosis_baseline_count(diagnosis)) {
        return;
    }
    printf(", \"baseline\": %zu, \"unusual\": [", td_diagnosis_baseline_count(diagnosis));
    for (size_t i = 0; i < td_diagnosis_unusual_count(diagnosis); i++) {
        const td_unusual *u = td_diagnosis_unusual_at(diagnosis, i);
        printf("%s{\"text\": ", i ? ", " : "");
        print_text_or_null(u->text);
        printf(", \"signal\": ");
        print_text_or_null(u->signal);
        printf(", \"statistic\": ");
        print_text_or_null(u->statistic);
        printf(", \"step\": %lld, \"value\": ", (long long)u->step);
        print_json_number(u->value);
        printf(", \"low\": ");
        print_json_number(u->low);
        printf(", \"high\": ");
        print_json_number(u->high);
        printf(", \"size\": ");
        print_json_number(u->size);
        printf("}");
    }
    printf("]");
}

void print_json_diagnosis(const td_diagnosis *diagnosis) {
    const char *const *notes;
    size_t count = td_diagnosis_finding_count(diagnosis);
    size_t noted = td_diagnosis_notes(diagnosis, &notes);
    printf("{\"findings\": [");
    for (size_t i = 0; i < count; i++) {
        const td_diagnosis_finding *finding = td_diagnosis_finding_at(diagnosis, i);
        printf("%s", i ? ", " : "");
        print_json_finding(finding);
    }
    printf("], \"rules\": %zu, \"skipped\": %zu, ", td_diagnosis_rule_count(diagnosis),
           td_diagnosis_skipped_count(diagnosis));
    print_json_texts("notes", notes, noted);
    print_json_unusual(diagnosis);
    printf("}\n");
}

static bool is_broken(const td_unusual *unusual) {
    return unusual->signal && !isfinite(unusual->size);
}

size_t count_certain(const td_diagnosis *diagnosis) {
    size_t count = td_diagnosis_finding_count(diagnosis), certain = 0;
    for (size_t i = 0; i < count; i++) {
        const td_diagnosis_finding *finding = td_diagnosis_finding_at(diagnosis, i);
        certain += finding->confidence > TD_MAYBE;
    }
    for (size_t i = 0; i < td_diagnosis_unusual_count(diagnosis); i++) {
        certain += is_broken(td_diagnosis_unusual_at(diagnosis, i));
    }
    return certain;
}

/* ---- For people ----------------------------------------------------------------------------- */

enum { TITLE = 32, INDENT = 4, LEAST = 40, MOST_UNUSUAL = 16 };

/* Names of layers are anybody's: no escapes for the terminal. */
static void print_plain(const char *text) {
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        putchar(c < 0x20 || c == 0x7f ? '?' : c);
    }
}

static void print_line(const char *mark, const char *text) {
    printf("%*s%s", INDENT, "", mark);
    print_plain(text);
    putchar('\n');
}

static void print_trial(const td_finding_trial *trial) {
    printf("%*s  tried for %lld step%s: ", INDENT, "", (long long)trial->steps,
           plural(trial->steps));
    if (isfinite(trial->loss_before) && isfinite(trial->loss_after)) {
        printf("loss %.3g instead of %.3g, ", trial->loss_after, trial->loss_before);
    }
    printf("%.0f %% learnt instead of %.0f %%\n", 100 * fmax(trial->score_after, 0),
           100 * fmax(trial->score_before, 0));
}

/* Eight heights from the least to the greatest value; of sizes that differ a hundredfold the heights
 * of their logarithms. What changes by less than a fifth of its size stays small. */
static void print_plot(const td_finding_plot *plot) {
    static const char *const bars[] = {"\u2581", "\u2582", "\u2583", "\u2584",
                                       "\u2585", "\u2586", "\u2587", "\u2588"};
    double min = INFINITY, max = -INFINITY, last = NAN;
    for (size_t i = 0; i < plot->count; i++) {
        if (isfinite(plot->values[i])) {
            min = fmin(min, plot->values[i]);
            max = fmax(max, plot->values[i]);
            last = plot->values[i];
        }
    }
    if (!(max > min)) {
        return;
    }
    bool logarithmic = min > 0 && max > 100 * min;
    double low = logarithmic ? log(min) : min, high = logarithmic ? log(max) : max;
    double spare = logarithmic ? 0 : fmax(0, fmax(fabs(min), fabs(max)) / 5 - (high - low));
    low -= spare / 2;
    high += spare / 2;
    printf("%*s", INDENT, "");
    print_plain(plot->signal);
    printf("%s%s ", plot->statistic ? "." : "", plot->statistic ? plot->statistic : "");
    for (size_t i = 0; i < plot->count; i++) {
        double value = logarithmic ? log(plot->values[i]) : plot->values[i];
        double height = (value - low) / (high - low) * 7.99;
        (void)fputs(isfinite(height) ? bars[(int)fmin(fmax(height, 0), 7)] : " ", stdout);
    }
    printf(" %.3g \u2026 %.3g%s, at last %.3g; steps %lld\u2013%lld\n", min, max,
           logarithmic ? " (log)" : "", last, (long long)plot->first_step,
           (long long)plot->last_step);
}

static void print_finding(const td_diagnosis_finding *f, bool colour) {
    static const char *const marks[] = {"?", "\u2717", "\u2717"};
    static const char *const colours[] = {"33", "31", "31"};
    terminal_paint(colour, colours[f->confidence]);
    printf("%s %-*s", marks[f->confidence], TITLE, f->text);
    terminal_paint(colour, "0");
    putchar(' ');
    if (f->layer) {
        printf("layer ");
        print_plain(f->layer);
        printf(", ");
    }
    if (f->unit >= 0) {
        printf("unit %lld, ", (long long)f->unit);
    }
    if (f->since_step > 1) {
        printf("since step %lld, ", (long long)f->since_step);
    }
    printf("%s\n", td_confidence_name(f->confidence));
    for (size_t i = 0; i < f->evidence_count; i++) {
        print_line("", f->evidence[i].text);
    }
    if (f->plot) {
        print_plot(f->plot);
    }
    if (f->remedy) {
        print_line("\u2192 ", f->remedy);
    }
    if (f->trial) {
        print_trial(f->trial);
    }
}

/* What is not as in the runs that went well. */
static void print_unusual(const td_diagnosis *diagnosis, bool colour) {
    size_t others = td_diagnosis_baseline_count(diagnosis);
    size_t count = td_diagnosis_unusual_count(diagnosis);
    if (!others) {
        return;
    }
    terminal_paint(colour, count ? "33" : "32");
    (void)fputs(count ? "\u2260" : "\u2713", stdout);
    terminal_paint(colour, "0");
    printf(" %s in %zu run%s that went well\n", count ? "not as" : "all as", others,
           plural((int64_t)others));
    for (size_t i = 0; i < count && i < MOST_UNUSUAL; i++) {
        print_line("", td_diagnosis_unusual_at(diagnosis, i)->text);
    }
    if (count > MOST_UNUSUAL) {
        printf("%*s\u2026 and %zu more: --json has all\n", INDENT, "", count - MOST_UNUSUAL);
    }
}

void print_diagnosis(const td_diagnosis *diagnosis, bool colour) {
    const char *const *notes;
    size_t count = td_diagnosis_finding_count(diagnosis);
    size_t noted = td_diagnosis_notes(diagnosis, &notes);
    for (size_t i = 0; i < count; i++) {
        const td_diagnosis_finding *finding = td_diagnosis_finding_at(diagnosis, i);
        print_finding(finding, colour);
    }
    size_t ran = td_diagnosis_rule_count(diagnosis), others = ran > count ? ran - count : 0;
    size_t skipped = td_diagnosis_skipped_count(diagnosis);
    if (others || !ran) {
        terminal_paint(colour, ran ? "32" : "33");
        (void)fputs(ran ? "\u2713" : "?", stdout);
        terminal_paint(colour, "0");
    }
    if (!ran) {
        printf(" none of %zu check%s could run\n", skipped, plural((int64_t)skipped));
    } else if (others && skipped) {
        printf(" %zu %sof %zu checks: nothing unusual\n", others,
               count ? others == 1 ? "other " : "others " : "", ran + skipped);
    } else if (others) {
        printf(" %zu %scheck%s: nothing unusual\n", others, count ? "other " : "",
               plural((int64_t)others));
    }
    print_unusual(diagnosis, colour);
    for (size_t i = 0; i < noted; i++) {
        printf("  ");
        print_plain(notes[i]);
        putchar('\n');
    }
}
