/* tapedeck compare: metrics side by side, what differs in the experiments, where signals part. */
#include "json.h"
#include "options.h"
#include "reading.h"
#include "tables.h"
#include "terminal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char help[] =
    "tapedeck compare RUN RUN… [--what GLOBS] [--tolerance T] [--json]\n"
    "tapedeck compare FILE FILE [--tensors] [--tolerance T] [--json]\n"
    "\n"
    "Compares runs with the first: the last and (in brackets) best value of each metric; what "
    "differs\n"
    "in their environments (command, machine, versions, commit) and experiments; and for each "
    "signal that both recorded the first step at which they "
    "part.\n"
    "Hashes part when they differ at all, metrics and statistics (norm, mean) when they differ by\n"
    "more than T times the larger of the two (default 0: at all).\n"
    "\n"
    "Where one of two is a file of weights or a saved model, both are compared tensor by tensor, "
    "by\n"
    "name: those that differ by more than T times the larger of two numbers, or that only one "
    "has.\n"
    "\n"
    "  --tensors   compare weights as the files have them: names and layouts are not made those of "
    "a\n"
    "              model; of two runs too\n"
    "  --rank N    of trainings of several processes, what this one recorded\n"
    "\n"
    "Exit status 0 when nothing parts, 1 when something does, could not be read, or nothing could "
    "be\n"
    "compared.\n"
    "\n"
    "Examples\n"
    "  tapedeck compare runs/demo runs/demo-2\n"
    "  tapedeck compare runs/a runs/b --what '*.gradient' --tolerance 1e-5\n"
    "  tapedeck compare epoch1.pt epoch2.pt\n";

enum { MAX_SHOWN = 20, RUN_WIDTH = 22 };

typedef struct comparing {
    td_run **runs;
    const char **names;
    td_run_info *infos;
    size_t count;
    td_compare_options options;
    bool json;
} comparing;

static int pad_to(const char *text, int width) {
    int columns = terminal_columns(text);
    return columns < width ? width - columns : 0;
}

static void print_metrics(const comparing *c) {
    size_t count = td_run_signal_count(c->runs[0]);
    int width = 6;
    for (size_t i = 0; i < count; i++) {
        const td_run_signal *signal = td_run_signal_at(c->runs[0], i);
        int length = terminal_columns(signal->name);
        width = signal->forms & TD_SCALAR && length > width ? length : width;
    }
    printf("%-*s", width, "metric");
    for (size_t k = 0; k < c->count; k++) {
        printf("  %*s%s", pad_to(c->names[k], RUN_WIDTH), "", c->names[k]);
    }
    putchar('\n');
    for (size_t i = 0; i < count; i++) {
        const td_run_signal *signal = td_run_signal_at(c->runs[0], i);
        if (!(signal->forms & TD_SCALAR) || !td_run_matches(c->options.what, signal->name)) {
            continue;
        }
        terminal_print_padded(signal->name, width);
        for (size_t k = 0; k < c->count; k++) {
            const td_run_signal *s = td_run_signal_find(c->runs[k], signal->name);
            td_extremes e;
            char last[32], best[32], cell[80] = "-";
            if (s && td_run_extremes(c->runs[k], s, &e)) {
                (void)snprintf(cell, sizeof cell, "%s (%s)", format_number(last, e.last),
                               format_number(best, td_run_best(s, &e, NULL)));
            }
            printf("  %*s", RUN_WIDTH, cell);
        }
        putchar('\n');
    }
}

static bool is_parent(const td_run_info *parent, const td_run_info *child) {
    const char *slash = child->parent ? strrchr(child->parent, '/') : NULL;
    return child->parent && !strcmp(slash ? slash + 1 : child->parent, parent->name);
}

/* Where two runs have a common past. */
static void print_fork(const td_run_info *a, const td_run_info *b) {
    if (is_parent(a, b) || is_parent(b, a)) {
        const td_run_info *parent = is_parent(a, b) ? a : b, *child = parent == a ? b : a;
        printf("\n%s branches off from %s after step %lld\n", child->name, parent->name,
               (long long)child->parent_step);
    } else if (a->parent && b->parent && !strcmp(a->parent, b->parent)) {
        const td_run_info *first = a->parent_step < b->parent_step ? a : b;
        printf("\n%s and %s both branch off from %s; their common past ends with step %lld\n",
               a->name, b->name, a->parent, (long long)first->parent_step);
    }
}

static void print_differences(const comparing *c, size_t other, const td_difference *differences,
                              size_t count) {
    for (size_t i = 0; i < count; i++) {
        printf("  %s: %s\n", c->names[differences[i].run ? other : 0], differences[i].text);
    }
}

static void print_settings(const comparing *c, size_t other, const td_comparison *found) {
    size_t environment = found->environment_count;
    if (environment) {
        printf("\nenvironment, %s and %s\n", c->names[0], c->names[other]);
        print_differences(c, other, found->differences, environment);
    }
    printf("\nexperiment, %s and %s\n", c->names[0], c->names[other]);
    print_differences(c, other, found->differences + environment,
                      found->difference_count - environment);
    if (found->difference_count == environment) {
        printf("  the same\n");
    }
}

static void print_partings(const comparing *c, size_t other, const td_comparison *found) {
    if (found->compared == 0) {
        printf("\n%s and %s: nothing can be compared; they recorded no signal of the same name%s\n",
               c->names[0], c->names[other], c->options.what ? " that --what asks for" : "");
        return;
    }
    printf("\nfirst step apart, %s and %s: %zu of %zu signal%s part%s\n", c->names[0],
           c->names[other], found->parting_count, found->compared, found->compared == 1 ? "" : "s",
           found->parting_count == 1 || found->compared == 1 ? "s" : "");
    for (size_t i = 0; i < found->parting_count && i < MAX_SHOWN; i++) {
        const td_parting *p = &found->partings[i];
        char a[32], b[32];
        printf("  step %-8lld %s", (long long)p->step, p->signal);
        if (isnan(p->a) && isnan(p->b)) {
            printf(": %s\n", p->by);
        } else {
            printf(": %s %s, %s\n", p->by, format_number(a, p->a), format_number(b, p->b));
        }
    }
    if (found->parting_count > MAX_SHOWN) {
        printf("  (%zu more)\n", found->parting_count - MAX_SHOWN);
    }
}

static void print_json(const comparing *c, size_t other, const td_comparison *found) {
    (void)fputs("{\"runs\":[", stdout);
    print_json_text(c->names[0]);
    (void)fputs(",", stdout);
    print_json_text(c->names[other]);
    (void)fputs("],\"differences\":[", stdout);
    for (size_t i = 0; i < found->difference_count; i++) {
        const td_difference *setting = &found->differences[i];
        printf("%s{\"run\":%d,\"text\":", i ? "," : "", setting->run);
        print_json_text(setting->text);
        (void)fputs("}", stdout);
    }
    printf("],\"compared\":%zu,\"parted\":[", found->compared);
    for (size_t i = 0; i < found->parting_count; i++) {
        const td_parting *p = &found->partings[i];
        printf("%s{\"signal\":", i ? "," : "");
        print_json_text(p->signal);
        printf(",\"step\":%lld,\"by\":\"%s\",\"values\":[", (long long)p->step, p->by);
        print_json_number(p->a);
        (void)fputs(",", stdout);
        print_json_number(p->b);
        (void)fputs("]}", stdout);
    }
    (void)fputs("]}\n", stdout);
}

static int compare_all(const comparing *c) {
    int status = EXIT_GOOD;
    if (!c->json) {
        print_metrics(c);
    }
    for (size_t k = 1; k < c->count; k++) {
        td_error error = {0};
        td_comparison *found = td_run_compare(c->runs[0], c->runs[k], &c->options, &error);
        if (!found) {
            return fail(EXIT_BAD, "%s", error.text);
        }
        if (c->json) {
            print_json(c, k, found);
        } else {
            print_fork(&c->infos[0], &c->infos[k]);
            print_settings(c, k, found);
            print_partings(c, k, found);
        }
        status = found->parting_count || !found->compared ? EXIT_BAD : status;
        td_comparison_destroy(found);
    }
    (void)fflush(stdout);
    for (size_t k = 0; k < c->count; k++) {
        size_t reported = 0;
        report_problems(c->runs[k], &reported);
        status = reported ? EXIT_BAD : status; /* the runs may differ in what could not be read */
    }
    return status;
}

/* Weights rather than a run: a file (but for one that is a run), or what a folder or a name stands for. */
static bool is_weights(const char *path) {
    struct stat about;
    char name[4096];
    bool found = stat(path, &about) == 0 && S_ISREG(about.st_mode) && !strstr(path, "tfevents") &&
                 !td_run_foreign(path);
    for (int i = 0; i < 2 && !found; i++) {
        int length = snprintf(name, sizeof name, "%s%s", path, i ? ".index" : "/saved_model.pb");
        found = length > 0 && (size_t)length < sizeof name && stat(name, &about) == 0;
    }
    return found;
}

static int run_compare(int count, char **arguments) {
    comparing c = {.options.size = sizeof c.options};
    const char *tolerance = NULL, *rank = NULL;
    bool tensors = false;
    const option options[] = {{.name = "what", .text = &c.options.what},
                              {.name = "tolerance", .text = &tolerance},
                              {.name = "tensors", .flag = &tensors},
                              {.name = "rank", .text = &rank},
                              {.name = "json", .flag = &c.json}};
    if (!parse_options(&command_compare, options, sizeof options / sizeof *options, &count,
                       arguments)) {
        return EXIT_USAGE;
    }
    if (count < 2) {
        return misuse(&command_compare, "expected two runs or more");
    }
    bool weights = tensors;
    char *end = NULL;
    c.options.tolerance = tolerance ? strtod(tolerance, &end) : 0;
    if (tolerance && (end == tolerance || *end || !(c.options.tolerance >= 0))) {
        return misuse(&command_compare, "--tolerance is a number from 0 on");
    }
    for (int i = 0; i < count; i++) {
        weights = weights || is_weights(arguments[i]);
    }
    if (weights && (count != 2 || c.options.what || rank)) {
        return misuse(&command_compare,
                      "weights are compared two at a time, without --what and --rank");
    }
    if (weights) {
        const char *const paths[] = {arguments[0], arguments[1]};
        return compare_tables(paths, tensors, c.options.tolerance, c.json);
    }
    if (!choose_rank(&command_compare, rank, count, (const char **)arguments)) {
        return EXIT_BAD;
    }
    c.runs = calloc((size_t)count, sizeof *c.runs);
    c.names = calloc((size_t)count, sizeof *c.names);
    c.infos = calloc((size_t)count, sizeof *c.infos);
    int status = c.runs && c.names && c.infos ? EXIT_GOOD : fail(EXIT_BAD, "out of memory");
    for (; c.count < (size_t)count && !status; c.count++) {
        td_run_info *info = &c.infos[c.count];
        info->size = sizeof *info;
        c.runs[c.count] = open_run(arguments[c.count]);
        if (!c.runs[c.count]) {
            status = EXIT_BAD;
            break;
        }
        td_run_about(c.runs[c.count], info);
        c.names[c.count] = info->name;
    }
    if (!status) {
        status = compare_all(&c);
    }
    for (size_t k = 0; k < c.count; k++) {
        td_run_close(c.runs[k]);
    }
    free(c.runs);
    free(c.names);
    free(c.infos);
    return status;
}

const command command_compare = {
    .name = "compare",
    .summary =
        "runs side by side, and the first step at which they part; weights, tensor by tensor",
    .help = help,
    .run = run_compare,
};
