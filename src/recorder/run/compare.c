/* Two runs: what differs in their experiments, and where their signals part. The records of both are
 * walked side by side, once. */
#include "base/crc32c.h"
#include "base/memory.h"
#include "base/options.h"
#include "run/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PATH = 512, MAX_FACTS = 1 << 20 };

/* ---- Settings ------------------------------------------------------------------------------- */

/* Lines of the experiment, each with the lines it stands below:
 * "train: optimizer: adam: learning_rate: 0.001". */
typedef struct facts {
    char **lines;
    size_t count, capacity;
    char **sorted;
    bool failed;
} facts;

static void add_fact(facts *f, const char *text) {
    char *line = td__strdup(text);
    if (!line || !td__grow(&f->lines, &f->capacity, f->count + 1, MAX_FACTS, sizeof *f->lines)) {
        td__free(line);
        f->failed = true;
        return;
    }
    f->lines[f->count++] = line;
}

static void add_lines(facts *f, const char *yaml) {
    enum { DEEPEST = 32 };
    int indents[DEEPEST], depth = 0;
    size_t lengths[DEEPEST]; /* of the path up to and with that level */
    char path[MAX_PATH] = "";
    for (size_t length; *yaml; yaml += length + (yaml[length] == '\n')) {
        length = strcspn(yaml, "\n");
        size_t indent = strspn(yaml, " ");
        if (indent == length || yaml[indent] == '#' || indent > MAX_PATH) {
            continue;
        }
        while (depth > 0 && indents[depth - 1] >= (int)indent) {
            depth--;
        }
        size_t base = depth ? lengths[depth - 1] : 0;
        size_t rest = length - indent < MAX_PATH ? length - indent : MAX_PATH;
        (void)snprintf(path + base, sizeof path - base, "%s%.*s", base ? " " : "", (int)rest,
                       yaml + indent);
        if (yaml[length - 1] != ':') {
            add_fact(f, path);
        }
        if (depth < DEEPEST) {
            indents[depth] = (int)indent;
            lengths[depth++] = strlen(path);
        }
    }
}

/* A line of a value. One that is too long is cut, with a checksum of all of it: two that differ
 * only behind the cut differ. */
static void keep_line(facts *f, const char *key, const char *line, size_t length) {
    enum { MAX_LINE = MAX_PATH / 2 };
    char text[MAX_PATH];
    if (length < MAX_LINE) {
        (void)snprintf(text, sizeof text, "%.200s: %.*s", key, (int)length, line);
    } else {
        (void)snprintf(text, sizeof text, "%.200s: %.*s… (%zu bytes, CRC %08x)", key, MAX_LINE / 2,
                       line, length, td__crc32c(0, line, length));
    }
    add_fact(f, text);
}

static void keep_fact(void *user, const char *key, const char *value) {
    /* Of no consequence: when and how it ran, what the loop was seen to do, and what follows from the model. */
    static const char *const alike[] = {"name",      "started",          "ended",   "state",
                                        "loop",      "warnings",         "parent",  "parent.step",
                                        "diagnosed", "diagnosed.checks", "network", "statistics"};
    bool skip = strncmp(key, "deck.", 5) == 0;
    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++) {
        skip |= strcmp(key, alike[i]) == 0;
    }
    for (size_t length; !skip && *value; value += length + (value[length] == '\n')) {
        length = strcspn(value, "\n");
        size_t blank = strspn(value, " ");
        if (blank < length) {
            keep_line(user, key, value + blank, length - blank);
        }
    }
}

/* Changes to the source code are one fact, by their checksum. */
static void keep_environment(void *user, const char *key, const char *value) {
    char text[64];
    if (strcmp(key, "git.diff") == 0) {
        (void)snprintf(text, sizeof text, *value ? "%zu bytes, CRC %08x" : "none", strlen(value),
                       td__crc32c(0, value, strlen(value)));
        value = text;
    }
    keep_fact(user, key, value);
}

/* A run's settings: an experiment's file, from which the other notes follow, or notes alone. */
typedef struct settings {
    facts *facts;
    bool file;
} settings;

static void keep_file(void *user, const char *key, const char *value) {
    settings *s = user;
    if (strcmp(key, "yaml") == 0) {
        add_lines(s->facts, value);
        s->file = true;
    }
}

static void keep_setting(void *user, const char *key, const char *value) {
    settings *s = user;
    char name[MAX_PATH];
    (void)snprintf(name, sizeof name, "experiment.%.200s", key);
    keep_fact(s->facts, name, value);
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort_facts(facts *f) {
    f->sorted = td__calloc(f->count + 1, sizeof *f->sorted);
    f->failed |= !f->sorted;
    if (!f->failed && f->count) {
        memcpy(f->sorted, f->lines, f->count * sizeof *f->sorted);
        qsort(f->sorted, f->count, sizeof *f->sorted, by_text);
    }
}

static facts environment_of(td_run *run) {
    facts f = {0};
    (void)td_run_notes(run, "environment", keep_environment, &f, NULL);
    sort_facts(&f);
    return f;
}

static facts settings_of(td_run *run) {
    facts f = {0};
    (void)td_run_notes(run, "run", keep_fact, &f, NULL);
    settings s = {.facts = &f};
    (void)td_run_notes(run, "experiment", keep_file, &s, NULL);
    if (!s.file) {
        (void)td_run_settings(run, keep_setting, &s, NULL);
    }
    sort_facts(&f);
    return f;
}

static void release_facts(facts *f) {
    for (size_t i = 0; i < f->count; i++) {
        td__free(f->lines[i]);
    }
    td__free(f->lines);
    td__free(f->sorted);
}

/* ---- The comparison ------------------------------------------------------------------------- */

typedef struct comparison {
    td_comparison base;
    td_parting *partings;
    td_difference *differences;
    size_t difference_capacity;
    int64_t *sequences; /* of the partings' signals, until they are sorted */
} comparison;

/* Lines of one run that the other does not have; they are taken over. */
static bool add_missing(comparison *c, facts *from, const facts *in, int run) {
    for (size_t i = 0; i < from->count; i++) {
        char **line = &from->lines[i];
        if (in->count && bsearch(line, in->sorted, in->count, sizeof *in->sorted, by_text)) {
            continue;
        }
        if (!td__grow(&c->differences, &c->difference_capacity, c->base.difference_count + 1,
                      MAX_FACTS, sizeof *c->differences)) {
            return false;
        }
        c->differences[c->base.difference_count++] = (td_difference){run, td__strdup(*line)};
        if (!c->differences[c->base.difference_count - 1].text) {
            return false;
        }
    }
    return true;
}

static bool compare_facts(comparison *c, td_run *a, td_run *b, facts (*facts_of)(td_run *run)) {
    facts first = facts_of(a), second = facts_of(b);
    bool good = !first.failed && !second.failed && add_missing(c, &first, &second, 0) &&
                add_missing(c, &second, &first, 1);
    release_facts(&first);
    release_facts(&second);
    return good;
}

static bool compare_settings(comparison *c, td_run *a, td_run *b) {
    bool good = compare_facts(c, a, b, environment_of);
    c->base.environment_count = c->base.difference_count;
    return good && compare_facts(c, a, b, settings_of);
}

static bool values_differ(double a, double b, double tolerance) {
    if (isnan(a) || isnan(b)) {
        return isnan(a) != isnan(b);
    }
    return a != b && !(fabs(a - b) <= tolerance * fmax(fabs(a), fabs(b)));
}

/* How a signal is compared: by these columns of its rows, the first that differs. */
typedef struct manner {
    td_form form;
    td__source source;
    struct {
        int column;
        const char *by;
    } columns[2];
} manner;
static const manner manners[] = {{TD_HASH, TD__HASHES, {{1, "hash"}}},
                                 {TD_SCALAR, TD__SCALARS, {{1, "value"}}},
                                 {TD_STATS, TD__STATISTICS, {{6, "norm"}, {2, "mean"}}}};
enum { MANNERS = sizeof manners / sizeof *manners };

/* Whether two rows of one step differ. */
static bool rows_differ(const manner *how, td__rows *a, td__rows *b, double tolerance,
                        td_parting *found) {
    if (how->form == TD_HASH) {
        found->by = how->columns[0].by;
        found->a = found->b = NAN;
        return strcmp(td__run_text(a, 1), td__run_text(b, 1)) != 0;
    }
    for (size_t i = 0; i < 2 && how->columns[i].by; i++) {
        found->by = how->columns[i].by;
        found->a = td__rows_real(a, how->columns[i].column);
        found->b = td__rows_real(b, how->columns[i].column);
        if (values_differ(found->a, found->b, tolerance)) {
            return true;
        }
    }
    return false;
}

static td__rows *rows_of(td_run *run, const td_run_signal *signal, td__source source) {
    td__rows *rows = td__run_select(run, &(td__query){.source = source});
    if (rows) {
        td__rows_bind(rows, signal->id, INT64_MIN, INT64_MAX, -1);
    }
    return rows;
}

/* The first step in both at which the signal parts; false when it does not. */
static bool find_parting(td_run *runs[2], const td_run_signal *signals[2], const manner *how,
                         double tolerance, td_parting *found) {
    td__rows *rows[2];
    int64_t steps[2] = {0};
    bool parted = false, more = true;
    for (int i = 0; i < 2; i++) {
        rows[i] = rows_of(runs[i], signals[i], how->source);
    }
    for (bool next[2] = {true, true}; more && !parted;) {
        for (int i = 0; i < 2 && more; i++) {
            if (next[i]) {
                more = td__run_next(runs[i], rows[i]);
                steps[i] = more ? td__rows_integer(rows[i], 0) : 0;
            }
        }
        parted =
            more && steps[0] == steps[1] && rows_differ(how, rows[0], rows[1], tolerance, found);
        next[0] = steps[0] <= steps[1];
        next[1] = steps[1] <= steps[0];
    }
    found->signal = signals[0]->name;
    found->step = steps[0];
    td__rows_end(rows[0]);
    td__rows_end(rows[1]);
    return parted;
}

/* Indices of partings, by step and within a step by execution order. Signals without a sequence number
 * come behind the others, in the order in which they were first recorded. */
static int by_step(const void *a, const void *b, void *user) {
    const comparison *c = user;
    uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    const td_parting *first = &c->partings[i], *second = &c->partings[k];
    if (first->step != second->step) {
        return first->step < second->step ? -1 : 1;
    }
    uint64_t x = (uint64_t)c->sequences[i] - 1, y = (uint64_t)c->sequences[k] - 1; /* 0 is last */
    return x != y ? (x < y ? -1 : 1) : i < k ? -1 : i > k;
}

static bool sort_partings(comparison *c) {
    size_t count = c->base.parting_count;
    uint32_t *order = td__calloc(count + 1, sizeof *order);
    td_parting *sorted = td__calloc(count + 1, sizeof *sorted);
    bool good = order && sorted;
    for (size_t i = 0; i < count && good; i++) {
        order[i] = (uint32_t)i;
    }
    if (good) {
        qsort_r(order, count, sizeof *order, by_step, c);
    }
    for (size_t i = 0; i < count && good; i++) {
        sorted[i] = c->partings[order[i]];
    }
    td__free(order);
    td__free(c->partings);
    c->partings = sorted;
    return good;
}

static bool compare_signals(comparison *c, td_run *runs[2], const td_compare_options *options) {
    for (size_t i = 0; i < runs[0]->signal_count; i++) {
        const td_run_signal *signals[2] = {&runs[0]->signals[i], NULL};
        signals[1] = td_run_signal_find(runs[1], signals[0]->name);
        uint32_t both = signals[1] ? signals[0]->forms & signals[1]->forms : 0;
        size_t k = 0;
        while (k < MANNERS && !(manners[k].form & both)) {
            k++;
        }
        /* Load of the machine is compared only where it is asked for. */
        bool left_out = !options->what && signals[0]->info->kind == TD_SIGNAL_SYSTEM;
        if (k == MANNERS || left_out || !td_run_matches(options->what, signals[0]->name)) {
            continue;
        }
        c->base.compared++;
        c->sequences[c->base.parting_count] = signals[0]->info->sequence;
        c->base.parting_count += find_parting(runs, signals, &manners[k], options->tolerance,
                                              &c->partings[c->base.parting_count]);
    }
    return sort_partings(c);
}

td_comparison *td_run_compare(td_run *a, td_run *b, const td_compare_options *options,
                              td_error *error) {
    td_compare_options full;
    (void)td__options(&full, sizeof full, options);
    comparison *c = td__calloc(1, sizeof *c);
    if (c) {
        c->partings = td__calloc(a->signal_count + 1, sizeof *c->partings);
        c->sequences = td__calloc(a->signal_count + 1, sizeof *c->sequences);
    }
    if (!c || !c->partings || !c->sequences || !compare_settings(c, a, b) ||
        !compare_signals(c, (td_run *[2]){a, b}, &full)) {
        td_comparison_destroy((td_comparison *)c);
        td_error_set(error, TD_MEMORY, "out of memory for comparing runs");
        return NULL;
    }
    c->base.partings = c->partings;
    c->base.differences = c->differences;
    return &c->base;
}

void td_comparison_destroy(td_comparison *base) {
    comparison *c = (comparison *)base;
    if (!c) {
        return;
    }
    for (size_t i = 0; i < c->base.difference_count; i++) {
        td__free((void *)(uintptr_t)c->differences[i].text);
    }
    td__free(c->differences);
    td__free(c->sequences);
    td__free(c->partings);
    td__free(c);
}
