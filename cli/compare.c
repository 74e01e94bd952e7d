/* tapedeck compare: metrics side by side, what differs in the experiments, where signals part. */
#include "json.h"
#include "options.h"
#include "reading.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "tapedeck compare RUN RUN… [--what GLOBS] [--tolerance T] [--json]\n"
    "\n"
    "Compares runs with the first: the last and (in brackets) best value of each metric; what "
    "differs\n"
    "in their experiments; and for each signal that both recorded the first step at which they "
    "part.\n"
    "Hashes part when they differ at all, metrics and statistics (norm, mean) when they differ by\n"
    "more than T times the larger of the two (default 0: at all).\n"
    "\n"
    "Exit status 0 when nothing parts, 1 when something does.\n"
    "\n"
    "Examples\n"
    "  tapedeck compare runs/demo runs/demo-2\n"
    "  tapedeck compare runs/a runs/b --what '*.gradient' --tolerance 1e-5\n";

enum { MOST_RUNS = 16, WINDOW = 10000, MOST_SHOWN = 20, MOST_PATH = 512 };

typedef struct comparison {
    td_run *runs[MOST_RUNS];
    const char *names[MOST_RUNS];
    size_t count;
    const char *what;
    double tolerance;
    bool json;
    td_point *a, *b; /* WINDOW each */
} comparison;

/* Where a signal parts, and what it was there. */
typedef struct parting {
    const char *signal, *how; /* "hash", "norm", "mean" or "value" */
    int64_t step;
    double a, b;
} parting;

/* ---- Metrics -------------------------------------------------------------------------------- */

static void print_metrics(const comparison *c) {
    const td_run_signal *signals;
    size_t count = td_run_signals(c->runs[0], &signals);
    int width = 6;
    for (size_t i = 0; i < count; i++) {
        int length = (int)strlen(signals[i].name);
        width = signals[i].forms & TD_SCALAR && length > width ? length : width;
    }
    printf("%-*s", width, "metric");
    for (size_t k = 0; k < c->count; k++) {
        printf("  %22s", c->names[k]);
    }
    putchar('\n');
    for (size_t i = 0; i < count; i++) {
        if (!(signals[i].forms & TD_SCALAR) || !td_run_matches(c->what, signals[i].name)) {
            continue;
        }
        printf("%-*s", width, signals[i].name);
        for (size_t k = 0; k < c->count; k++) {
            const td_run_signal *s = td_run_signal_find(c->runs[k], signals[i].name);
            td_extremes e;
            char last[32], best[32], cell[80] = "-";
            if (s && td_run_extremes(c->runs[k], s, &e)) {
                double top = larger_is_better(s->name) ? e.greatest : e.least;
                (void)snprintf(cell, sizeof cell, "%s (%s)", format_number(last, e.last),
                               format_number(best, top));
            }
            printf("  %22s", cell);
        }
        putchar('\n');
    }
}

/* ---- Experiments ---------------------------------------------------------------------------- */

/* Lines of the experiment, each with the lines it stands below:
 * "train: optimizer: adam: learning_rate: 0.001". */
typedef struct facts {
    char **lines;
    size_t count, capacity;
} facts;

static void add_fact(facts *f, const char *text) {
    if (f->count == f->capacity) {
        size_t capacity = f->capacity ? 2 * f->capacity : 64;
        char **lines = realloc(f->lines, capacity * sizeof *lines);
        if (!lines) {
            return;
        }
        f->lines = lines;
        f->capacity = capacity;
    }
    f->lines[f->count] = strdup(text);
    f->count += f->lines[f->count] != NULL;
}

static void add_lines(facts *f, const char *yaml) {
    enum { DEEPEST = 32 };
    int indents[DEEPEST], depth = 0;
    size_t lengths[DEEPEST]; /* of the path up to and with that level */
    char path[MOST_PATH] = "";
    for (size_t length; *yaml; yaml += length + (yaml[length] == '\n')) {
        length = strcspn(yaml, "\n");
        int indent = (int)strspn(yaml, " ");
        if ((size_t)indent == length || yaml[indent] == '#') {
            continue;
        }
        while (depth > 0 && indents[depth - 1] >= indent) {
            depth--;
        }
        size_t base = depth ? lengths[depth - 1] : 0;
        (void)snprintf(path + base, sizeof path - base, "%s%.*s", base ? " " : "",
                       (int)length - indent, yaml + indent);
        if (yaml[length - 1] != ':') {
            add_fact(f, path);
        }
        if (depth < DEEPEST) {
            indents[depth] = indent;
            lengths[depth++] = strlen(path);
        }
    }
}

static void keep_fact(void *user, const char *key, const char *value) {
    static const char *const alike[] = {"name", "started", "ended", "state"};
    facts *f = user;
    bool skip = strncmp(key, "deck.", 5) == 0;
    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++) {
        skip |= strcmp(key, alike[i]) == 0;
    }
    if (!skip && !strchr(value, '\n') && strlen(value) < MOST_PATH / 2) {
        char line[MOST_PATH];
        (void)snprintf(line, sizeof line, "%.200s: %s", key, value);
        add_fact(f, line);
    }
}

static void keep_file(void *user, const char *key, const char *value) {
    if (strcmp(key, "yaml") == 0) {
        add_lines(user, value);
    }
}

static facts facts_of(td_run *run) {
    facts f = {0};
    (void)td_run_notes(run, "run", keep_fact, &f, NULL);
    (void)td_run_notes(run, "experiment", keep_file, &f, NULL);
    return f;
}

static bool has_fact(const facts *f, const char *line) {
    for (size_t i = 0; i < f->count; i++) {
        if (strcmp(f->lines[i], line) == 0) {
            return true;
        }
    }
    return false;
}

static int print_missing(const facts *from, const facts *in, const char *name) {
    int printed = 0;
    for (size_t i = 0; i < from->count; i++) {
        if (!has_fact(in, from->lines[i])) {
            printf("  %s: %s\n", name, from->lines[i]);
            printed++;
        }
    }
    return printed;
}

static void release_facts(facts *f) {
    for (size_t i = 0; i < f->count; i++) {
        free(f->lines[i]);
    }
    free(f->lines);
}

static void print_experiments(const comparison *c) {
    facts first = facts_of(c->runs[0]);
    for (size_t k = 1; k < c->count; k++) {
        facts other = facts_of(c->runs[k]);
        printf("\nexperiment, %s and %s\n", c->names[0], c->names[k]);
        if (print_missing(&first, &other, c->names[0]) +
                print_missing(&other, &first, c->names[k]) ==
            0) {
            printf("  the same\n");
        }
        release_facts(&other);
    }
    release_facts(&first);
}

/* ---- Where they part ------------------------------------------------------------------------ */

static bool differ(double a, double b, double tolerance) {
    if (isnan(a) || isnan(b)) {
        return isnan(a) != isnan(b);
    }
    return a != b && !(fabs(a - b) <= tolerance * fmax(fabs(a), fabs(b)));
}

/* The first step in both at which the numbers part; false when they do not. Step by step, in
 * windows: points of a window are single steps. */
static bool find_parting(comparison *c, size_t other, const td_run_signal *a,
                         const td_run_signal *b, const char *statistic, parting *found) {
    int64_t first = a->first_step > b->first_step ? a->first_step : b->first_step;
    int64_t last = a->last_step < b->last_step ? a->last_step : b->last_step;
    for (int64_t from = first; from <= last; from += WINDOW) {
        int64_t to = from + WINDOW - 1;
        size_t in_a = td_run_points(c->runs[0], a, statistic, from, to, c->a, WINDOW, NULL);
        size_t in_b = td_run_points(c->runs[other], b, statistic, from, to, c->b, WINDOW, NULL);
        for (size_t i = 0, k = 0; i < in_a && k < in_b;) {
            if (c->a[i].step != c->b[k].step) {
                bool before = c->a[i].step < c->b[k].step;
                i += before;
                k += !before;
                continue;
            }
            if (differ(c->a[i].value, c->b[k].value, c->tolerance)) {
                *found = (parting){a->name, statistic ? statistic : "value", c->a[i].step,
                                   c->a[i].value, c->b[k].value};
                return true;
            }
            i++;
            k++;
        }
    }
    return false;
}

typedef struct hashed {
    int64_t step;
    uint64_t hash;
} hashed;

typedef struct hashes {
    hashed *list;
    size_t count, capacity;
} hashes;

static td_status keep_hash(void *user, const td_record *record, td_error *error) {
    hashes *h = user;
    if (h->count == h->capacity) {
        size_t capacity = h->capacity ? 2 * h->capacity : 1024;
        hashed *list = realloc(h->list, capacity * sizeof *list);
        if (!list) {
            return td_error_set(error, TD_MEMORY, "out of memory");
        }
        h->list = list;
        h->capacity = capacity;
    }
    h->list[h->count++] = (hashed){record->step, record->hash};
    return TD_OK;
}

static hashes load_hashes(td_run *run, const char *signal) {
    char name[1024];
    size_t used = 0;
    for (const char *p = signal; *p && used + 2 < sizeof name; p++) { /* a name, not a glob */
        if (strchr("*?[]\\,", *p)) {
            name[used++] = '\\';
        }
        name[used++] = *p;
    }
    name[used] = 0;
    hashes h = {0};
    td_run_query query = {.size = sizeof query, .what = name, .forms = TD_HASH};
    td_error error = {0};
    if (td_run_read(run, &query, keep_hash, &h, &error)) {
        (void)fail(EXIT_BAD, "%s", error.text);
    }
    return h;
}

static bool find_hash_parting(comparison *c, size_t other, const char *signal, parting *found) {
    hashes a = load_hashes(c->runs[0], signal), b = load_hashes(c->runs[other], signal);
    bool parted = false;
    for (size_t i = 0, k = 0; i < a.count && k < b.count && !parted;) {
        if (a.list[i].step == b.list[k].step) {
            parted = a.list[i].hash != b.list[k].hash;
            *found = (parting){signal, "hash", a.list[i].step, NAN, NAN};
            i++;
            k++;
        } else if (a.list[i].step < b.list[k].step) {
            i++;
        } else {
            k++;
        }
    }
    free(a.list);
    free(b.list);
    return parted;
}

static bool find_any(comparison *c, size_t other, const td_run_signal *a, const td_run_signal *b,
                     parting *found) {
    uint32_t both = a->forms & b->forms;
    if (both & TD_HASH) {
        return find_hash_parting(c, other, a->name, found);
    }
    if (both & TD_SCALAR) {
        return find_parting(c, other, a, b, NULL, found);
    }
    return both & TD_STATS && (find_parting(c, other, a, b, "norm", found) ||
                               find_parting(c, other, a, b, "mean", found));
}

static int by_step(const void *a, const void *b) {
    const parting *x = a, *y = b;
    return x->step < y->step ? -1 : x->step > y->step;
}

static void print_partings(const comparison *c, size_t other, const parting *all, size_t count,
                           size_t compared) {
    printf("\nfirst step apart, %s and %s: %zu of %zu signals part\n", c->names[0], c->names[other],
           count, compared);
    for (size_t i = 0; i < count && i < MOST_SHOWN; i++) {
        char a[32], b[32];
        printf("  step %-8lld %s", (long long)all[i].step, all[i].signal);
        if (isnan(all[i].a) && isnan(all[i].b)) {
            printf(": %s\n", all[i].how);
        } else {
            printf(": %s %s, %s\n", all[i].how, format_number(a, all[i].a),
                   format_number(b, all[i].b));
        }
    }
    if (count > MOST_SHOWN) {
        printf("  (%zu more)\n", count - MOST_SHOWN);
    }
}

static void print_json(const comparison *c, size_t other, const parting *all, size_t count,
                       size_t compared) {
    (void)fputs("{\"runs\":[", stdout);
    print_json_text(c->names[0]);
    (void)fputs(",", stdout);
    print_json_text(c->names[other]);
    printf("],\"compared\":%zu,\"parted\":[", compared);
    for (size_t i = 0; i < count; i++) {
        printf("%s{\"signal\":", i ? "," : "");
        print_json_text(all[i].signal);
        printf(",\"step\":%lld,\"by\":\"%s\",\"values\":[", (long long)all[i].step, all[i].how);
        print_json_number(all[i].a);
        (void)fputs(",", stdout);
        print_json_number(all[i].b);
        (void)fputs("]}", stdout);
    }
    (void)fputs("]}\n", stdout);
}

/* How many signals part from the first run's. */
static size_t compare_with(comparison *c, size_t other) {
    const td_run_signal *signals;
    size_t count = td_run_signals(c->runs[0], &signals), parted = 0, compared = 0;
    parting *all = calloc(count + 1, sizeof *all);
    for (size_t i = 0; all && i < count; i++) {
        const td_run_signal *b = td_run_signal_find(c->runs[other], signals[i].name);
        bool numbers = b && signals[i].forms & b->forms & (TD_HASH | TD_SCALAR | TD_STATS);
        if (!numbers || !td_run_matches(c->what, signals[i].name)) {
            continue;
        }
        compared++;
        parted += find_any(c, other, &signals[i], b, &all[parted]);
    }
    if (all && parted) {
        qsort(all, parted, sizeof *all, by_step);
    }
    if (c->json) {
        print_json(c, other, all, parted, compared);
    } else {
        print_partings(c, other, all, parted, compared);
    }
    free(all);
    return parted;
}

/* ---- The command ---------------------------------------------------------------------------- */

static int compare_all(comparison *c) {
    size_t parted = 0, said = 0;
    c->a = calloc(WINDOW, sizeof *c->a);
    c->b = calloc(WINDOW, sizeof *c->b);
    if (!c->a || !c->b) {
        return fail(EXIT_BAD, "out of memory");
    }
    if (!c->json) {
        print_metrics(c);
        print_experiments(c);
    }
    for (size_t k = 1; k < c->count; k++) {
        parted += compare_with(c, k);
    }
    (void)fflush(stdout);
    for (size_t k = 0; k < c->count; k++, said = 0) {
        say_problems(c->runs[k], &said);
    }
    free(c->a);
    free(c->b);
    return parted ? EXIT_BAD : EXIT_GOOD;
}

static int run(int count, char **arguments) {
    comparison c = {0};
    const char *tolerance = NULL;
    const option options[] = {{.name = "what", .text = &c.what},
                              {.name = "tolerance", .text = &tolerance},
                              {.name = "json", .flag = &c.json}};
    if (!parse_options(&command_compare, options, sizeof options / sizeof *options, &count,
                       arguments)) {
        return EXIT_USAGE;
    }
    if (count < 2 || count > MOST_RUNS) {
        return misuse(&command_compare, "expected two to %d runs", MOST_RUNS);
    }
    char *end = NULL;
    c.tolerance = tolerance ? strtod(tolerance, &end) : 0;
    if (tolerance && (end == tolerance || *end || !(c.tolerance >= 0))) {
        return misuse(&command_compare, "--tolerance is a number from 0 on");
    }
    int status = EXIT_GOOD;
    for (; c.count < (size_t)count && !status; c.count++) {
        td_run_info info = {.size = sizeof info};
        c.runs[c.count] = open_run(arguments[c.count]);
        if (!c.runs[c.count]) {
            status = EXIT_BAD;
            break;
        }
        td_run_about(c.runs[c.count], &info);
        c.names[c.count] = info.name;
    }
    if (!status) {
        status = compare_all(&c);
    }
    for (size_t k = 0; k < c.count; k++) {
        td_run_close(c.runs[k]);
    }
    return status;
}

const command command_compare = {
    .name = "compare",
    .summary = "runs side by side, and the first step at which they part",
    .help = help,
    .run = run,
};
