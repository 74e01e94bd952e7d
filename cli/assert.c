/* tapedeck assert: whether a run is as it should be, for scripts and CI. */
#include "json.h"
#include "options.h"
#include "output.h"
#include "reading.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "tapedeck assert RUN EXPRESSION… [--junit FILE] [--json]\n"
    "tapedeck assert RUN '~=' RUN [--tolerance T] [--what GLOBS] [--junit FILE] [--json]\n"
    "\n"
    "Judges a run that has ended, for CI: exit status 0 when everything holds, 1 when something "
    "does\n"
    "not or the run could not be read, 2 when an expression is none.\n"
    "\n"
    "Expressions are those of `when:` (docs/recording.md): comparisons of signals and their\n"
    "statistics, joined with and, or, not. A signal is the last value recorded of it; mean(x, n) "
    "and\n"
    "delta(x) are over its last values; nan(GLOB) and inf(GLOB) count over all steps. A "
    "comparison\n"
    "with a glob holds when it holds for one of its signals: max(GLOB) < x is about all of them. A "
    "name\n"
    "or a glob that the run has nothing of is a mistake.\n"
    "\n"
    "'~=' (or ≈) compares two runs: every metric, statistic and hash that both recorded, at every "
    "step\n"
    "that both have, may differ by T times the larger (default 0: not at all).\n"
    "\n"
    "  --junit FILE   write the result as JUnit XML, a test case for each term; - is standard "
    "output.\n"
    "                 Another FILE than such a result is only replaced with --force\n"
    "  --to FILE, -o FILE   write what is printed to FILE; - is standard output\n"
    "  --force        with --to or --junit: replace a file that is there already\n"
    "  --what GLOBS   of ~=: only these signals\n"
    "  --json         for programs\n"
    "\n"
    "Examples\n"
    "  tapedeck assert runs/demo 'val_accuracy > 0.97 and not nan(*)'\n"
    "  tapedeck assert runs/demo 'mean(loss, 5) < 0.1' 'max(*.gradient.norm) < 100' --junit "
    "result.xml\n"
    "  tapedeck assert runs/demo '~=' runs/demo-2 --what '*loss' --tolerance 1e-3\n";

typedef struct outcome {
    char *text, *values;
    bool holds;
} outcome;

typedef struct outcomes {
    const char *name; /* of the run, or of the two */
    outcome *items;
    size_t count, capacity, failed;
    bool exhausted; /* memory */
} outcomes;

static void add_outcome(outcomes *all, const char *text, bool holds, const char *values) {
    if (all->count == all->capacity) {
        size_t capacity = all->capacity ? 2 * all->capacity : 16;
        outcome *items = realloc(all->items, capacity * sizeof *items);
        all->exhausted = all->exhausted || !items;
        if (!items) {
            return;
        }
        all->items = items;
        all->capacity = capacity;
    }
    outcome *item = &all->items[all->count++];
    *item = (outcome){strdup(text), strdup(values), holds};
    all->exhausted = all->exhausted || !item->text || !item->values;
    all->failed += !holds;
}

static void add_term(void *user, const td_term *term) {
    add_outcome(user, term->text, term->holds, term->values);
}

/* ---- Results -------------------------------------------------------------------------------- */

static void print_outcomes(const outcomes *all) {
    for (size_t i = 0; i < all->count; i++) {
        const outcome *item = &all->items[i];
        printf("%s  %s\n", item->holds ? "holds " : "FAILED", item->text);
        if (*item->values) {
            printf("        %s\n", item->values);
        }
    }
}

static void print_json(const outcomes *all, bool holds) {
    (void)fputs("{\"run\":", stdout);
    print_json_text(all->name);
    printf(",\"holds\":%s,\"terms\":[", holds ? "true" : "false");
    for (size_t i = 0; i < all->count; i++) {
        printf("%s{\"text\":", i ? "," : "");
        print_json_text(all->items[i].text);
        printf(",\"holds\":%s,\"values\":", all->items[i].holds ? "true" : "false");
        print_json_text(all->items[i].values);
        (void)fputs("}", stdout);
    }
    (void)fputs("]}\n", stdout);
}

/* In quotes, as the value of an attribute; without what XML cannot hold. */
static void write_attribute(FILE *file, const char *text) {
    char *shown = malloc(TD_VISIBLE_SIZE(strlen(text)));
    (void)fputc('"', file);
    if (shown) {
        td_visible(shown, text, strlen(text), false);
    }
    for (const char *c = shown ? shown : ""; *c; c++) {
        const char *escaped = *c == '&'   ? "&amp;"
                              : *c == '<' ? "&lt;"
                              : *c == '>' ? "&gt;"
                              : *c == '"' ? "&quot;"
                                          : NULL;
        if (escaped) {
            (void)fputs(escaped, file);
        } else {
            (void)fputc(*c, file);
        }
    }
    (void)fputc('"', file);
    free(shown);
}

static void write_cases(FILE *file, const outcomes *all) {
    (void)fprintf(file,
                  "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite "
                  "name=\"tapedeck assert\" tests=\"%zu\" failures=\"%zu\" errors=\"0\" "
                  "skipped=\"0\">\n",
                  all->count, all->failed);
    for (size_t i = 0; i < all->count; i++) {
        (void)fputs("<testcase classname=", file);
        write_attribute(file, all->name);
        (void)fputs(" name=", file);
        write_attribute(file, all->items[i].text);
        if (all->items[i].holds) {
            (void)fputs("/>\n", file);
            continue;
        }
        (void)fputs("><failure message=", file);
        write_attribute(file, all->items[i].values);
        (void)fputs("/></testcase>\n", file);
    }
    (void)fputs("</testsuite>\n</testsuites>\n", file);
}

/* The file is complete or not there. */
static int write_junit(const char *path, const outcomes *all) {
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    if (file) {
        write_cases(file, all);
    }
    int status = file && fclose(file) == 0 ? output_write(path, text, size)
                                           : fail(EXIT_BAD, "out of memory");
    free(text);
    return status;
}

/* Whether what is there is an earlier result, which may be replaced. */
static bool is_junit(const char *path) {
    char text[200] = "";
    FILE *file = fopen(path, "rb");
    size_t got = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file) {
        (void)fclose(file);
    }
    return got && strstr(text, "<testsuite name=\"tapedeck assert\"");
}

/* ---- What is judged ------------------------------------------------------------------------- */

static int judge_run(td_run *run, char **expressions, size_t count, outcomes *all, bool *holds) {
    for (size_t i = 0; i < count; i++) {
        td_error error = {0};
        bool one = false;
        td_status status = td_run_assert(run, expressions[i], &one, add_term, all, &error);
        if (status) {
            return fail(status == TD_INVALID || status == TD_NOT_FOUND ? EXIT_USAGE : EXIT_BAD,
                        "%s", error.text);
        }
        *holds = *holds && one;
    }
    return EXIT_GOOD;
}

static int judge_pair(td_run *a, td_run *b, const td_compare_options *options, outcomes *all,
                      bool *holds) {
    td_error error = {0};
    td_comparison *found = td_run_compare(a, b, options, &error);
    if (!found) {
        return fail(EXIT_BAD, "%s", error.text);
    }
    char text[600], values[200], first[32], second[32];
    for (size_t i = 0; i < found->parting_count; i++) {
        const td_parting *p = &found->partings[i];
        (void)snprintf(text, sizeof text, "%.500s: %s", p->signal, p->by);
        if (isnan(p->a) && isnan(p->b)) {
            (void)snprintf(values, sizeof values, "differs from step %lld on", (long long)p->step);
        } else {
            (void)snprintf(values, sizeof values, "step %lld: %s, %s", (long long)p->step,
                           format_number(first, p->a), format_number(second, p->b));
        }
        add_outcome(all, text, false, values);
    }
    size_t same = found->compared - found->parting_count;
    (void)snprintf(text, sizeof text, "%zu of %zu signals agree", same, found->compared);
    add_outcome(all, text, found->compared > 0 && found->parting_count == 0,
                found->compared ? "" : "the runs recorded no signal of the same name");
    *holds = found->compared > 0 && found->parting_count == 0;
    td_comparison_destroy(found);
    return EXIT_GOOD;
}

static int judge(int count, char **arguments, const td_compare_options *options, const char *junit,
                 bool json) {
    bool pair = count == 3 && (!strcmp(arguments[1], "~=") || !strcmp(arguments[1], "≈"));
    td_run *runs[2] = {open_run(arguments[0]), NULL};
    runs[1] = runs[0] && pair ? open_run(arguments[2]) : NULL;
    if (!runs[0] || (pair && !runs[1])) {
        td_run_close(runs[0]);
        return EXIT_BAD;
    }
    td_run_info about[2] = {{.size = sizeof *about}, {.size = sizeof *about}};
    char name[600];
    td_run_about(runs[0], &about[0]);
    if (pair) {
        td_run_about(runs[1], &about[1]);
    }
    (void)snprintf(name, sizeof name, "%.250s%s%.250s", about[0].name, pair ? " ~= " : "",
                   pair ? about[1].name : "");
    outcomes all = {.name = name};
    bool holds = true;
    int status = pair ? judge_pair(runs[0], runs[1], options, &all, &holds)
                      : judge_run(runs[0], arguments + 1, (size_t)count - 1, &all, &holds);
    size_t reported[2] = {0, 0};
    for (int i = 0; !status && i <= pair; i++) {
        const char *const *problems;
        size_t count_of_problems = td_run_problems(runs[i], &problems);
        for (size_t k = 0; k < count_of_problems; k++) { /* what is missing may be what fails */
            add_outcome(&all, "everything of the run can be read", false, problems[k]);
        }
        report_problems(runs[i], &reported[i]);
        holds = holds && count_of_problems == 0;
    }
    if (!status && all.exhausted) {
        status = fail(EXIT_BAD, "out of memory");
    }
    if (!status) {
        if (json) {
            print_json(&all, holds);
        } else if (!junit || strcmp(junit, "-") != 0) {
            print_outcomes(&all);
        }
        status = junit ? write_junit(junit, &all) : EXIT_GOOD;
    }
    for (size_t i = 0; i < all.count; i++) {
        free(all.items[i].text);
        free(all.items[i].values);
    }
    free(all.items);
    td_run_close(runs[0]);
    td_run_close(runs[1]);
    return status ? status : holds ? EXIT_GOOD : EXIT_BAD;
}

static int run_assert(int count, char **arguments) {
    td_compare_options compare = {.size = sizeof compare};
    const char *tolerance = NULL, *junit = NULL, *to = NULL;
    bool json = false, force = false;
    const option options[] = {
        {.name = "what", .text = &compare.what}, {.name = "tolerance", .text = &tolerance},
        {.name = "junit", .text = &junit},       {.name = "to", .text = &to},
        {.name = "force", .flag = &force},       {.name = "json", .flag = &json}};
    if (!parse_options(&command_assert, options, sizeof options / sizeof *options, &count,
                       arguments)) {
        return EXIT_USAGE;
    }
    if (count < 2) {
        return misuse(&command_assert, "expected a run and what should hold of it");
    }
    bool pair = !strcmp(arguments[1], "~=") || !strcmp(arguments[1], "≈");
    if (pair && count != 3) {
        return misuse(&command_assert, "expected RUN '~=' RUN");
    }
    if (!pair && (tolerance || compare.what)) {
        return misuse(&command_assert, "--tolerance and --what are for RUN '~=' RUN");
    }
    if (junit && !strcmp(junit, "-") && (json || to)) {
        return misuse(&command_assert, "--junit - and --%s both write the output",
                      json ? "json" : "to");
    }
    if (junit && check_free(junit, force || is_junit(junit))) {
        return EXIT_BAD;
    }
    if (to && !output_redirect(to, force)) {
        return EXIT_BAD;
    }
    char *end = NULL;
    compare.tolerance = tolerance ? strtod(tolerance, &end) : 0;
    if (tolerance && (end == tolerance || *end || !(compare.tolerance >= 0))) {
        return misuse(&command_assert, "--tolerance is a number from 0 on");
    }
    return judge(count, arguments, &compare, junit, json);
}

const command command_assert = {
    .name = "assert",
    .summary = "whether a run is as it should be: exit status and JUnit XML for CI",
    .help = help,
    .run = run_assert,
};
