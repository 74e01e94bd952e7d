/* tapedeck runs: a table of the runs below a folder. */
#include "facts.h"
#include "json.h"
#include "options.h"
#include "reading.h"
#include "terminal.h"

#include <stdlib.h>
#include <string.h>

static const char help[] =
    "tapedeck runs [FOLDER] [--filter EXPR]… [--sort KEY] [--columns LIST | --over KEYS] [--csv | "
    "--json]\n"
    "\n"
    "Lists the runs at and below FOLDER (default: runs): when they started, how they are doing, "
    "how\n"
    "far they came, and the last and (in brackets) best value of their metrics.\n"
    "\n"
    "States: running; finished; interrupted (Ctrl-C); failed (stopped by an error); crashed "
    "(nobody\n"
    "writes it and it was never closed; everything recorded can be read). Folders of TensorBoard\n"
    "event files are listed too, without a state.\n"
    "\n"
    "A branch (`tapedeck train --from RUN@STEP`) stands below its parent, with the step after "
    "which "
    "it\n"
    "begins.\n"
    "\n"
    "  --filter EXPR   only runs of which this holds; all of several: KEY=TEXT (a glob), "
    "KEY!=TEXT, KEY < "
    "NUMBER,\n"
    "                  or an expression of `tapedeck assert` over what was recorded\n"
    "  --sort KEY      by this key, the smallest first; -KEY: the largest first\n"
    "  --columns LIST  these keys, separated by commas: names or globs, or `differing`, which is "
    "all\n"
    "                  settings that are not the same in all runs\n"
    "  --over KEYS     runs that are equal in all settings but these (seed, say) as one: mean and "
    "standard deviation\n"
    "  --csv           with a header, quoted as RFC 4180 has it\n"
    "  --json          everything about each run\n"
    "\n"
    "Keys are name, folder, state, started, epoch, step, bytes, dropped; a metric's name for its "
    "last "
    "value,\n"
    "METRIC.best and METRIC.best_step; tags, notes, group, title; and every setting, as in\n"
    "train.optimizer.adam.learning_rate (or config.KEY, as in Python's table of runs).\n"
    "\n"
    "Examples\n"
    "  tapedeck runs\n"
    "  tapedeck runs --filter 'val_accuracy > 0.97' --filter tags=baseline --sort -val_accuracy\n"
    "  tapedeck runs --columns name,differing,val_loss.best --csv > runs.csv\n"
    "  tapedeck runs --over seed\n"
    "  tapedeck runs --json | jq '.[] | select(.state == \"crashed\").folder'\n";

typedef struct row {
    char *folder, *name;
    char *parent; /* the path of the run it branches off from; NULL: none */
    char *full;   /* its own path, where branches are looked for */
    int depth;    /* below how many of the listed runs it stands */
    bool placed;
    td_run_info info;                              /* its texts are not used */
    td_run_metric metrics[TD_RUN_SUMMARY_METRICS]; /* names are copies */
    size_t metric_count;
    facts notes, settings; /* for JSON */
    facts facts;           /* for columns, filters and order */
} row;

typedef struct table {
    row *rows;
    size_t count, capacity;
    bool json;    /* notes are wanted, too */
    bool chosen;  /* so are facts: there are columns, filters or an order */
    bool unread;  /* something could not be read, and was reported */
    int left_out; /* by a filter that is about what a run does not have */
    const char *filters[MAX_VALUES];
    size_t filter_count;
} table;

static void add_note(void *user, const char *key, const char *value) {
    facts_add(user, key, value);
}

/* The parent's path: one without a slash is the name of a run beside. */
static char *parent_path(const td_run_info *info) {
    char path[4200];
    const char *slash = info->parent ? strrchr(info->folder, '/') : NULL;
    if (!info->parent) {
        return NULL;
    }
    (void)snprintf(path, sizeof path, "%.*s%s",
                   slash && !strchr(info->parent, '/') ? (int)(slash - info->folder + 1) : 0,
                   info->folder, info->parent);
    char *full = realpath(path, NULL);
    return full ? full : copy_text(path);
}

static void release_row(row *r) {
    free(r->folder);
    free(r->name);
    free(r->parent);
    free(r->full);
    facts_release(&r->notes);
    facts_release(&r->settings);
    facts_release(&r->facts);
    for (size_t k = 0; k < r->metric_count; k++) {
        free((char *)(uintptr_t)r->metrics[k].name);
    }
}

/* What no fact answers is an expression over what was recorded. 1 or 0; -1: an error. */
static int is_recorded(table *t, const row *r, const char *expression, td_error *error) {
    bool holds = false;
    td_run *run = td_run_open(r->folder, error);
    td_status status = run ? td_run_refresh(run, error) : error->status;
    status = status ? status : td_run_assert(run, expression, &holds, NULL, NULL, error);
    td_run_close(run);
    if (status == TD_NOT_FOUND) { /* it recorded nothing of the name */
        t->left_out++;
        *error = (td_error){0};
        return 0;
    }
    return status ? -1 : holds;
}

static int is_wanted(table *t, const row *r, td_error *error) {
    int wanted = 1;
    for (size_t i = 0; i < t->filter_count && wanted == 1; i++) {
        wanted = facts_match(&r->facts, t->filters[i]);
        if (wanted < 0 && facts_named(t->filters[i])) {
            t->left_out++;
            wanted = 0;
        } else if (wanted < 0) {
            wanted = is_recorded(t, r, t->filters[i], error);
        }
    }
    return wanted;
}

/* A run that cannot be read is reported, and the others are listed. */
static td_status add_run(void *user, const td_run_summary *summary, td_error *error) {
    table *t = user;
    t->unread |= summary->problem_count > 0 || summary->error;
    for (size_t i = 0; i < summary->problem_count; i++) {
        complain("%s: %s", summary->info->folder, summary->problems[i]);
    }
    if (summary->error) {
        complain("%s", summary->error);
        return TD_OK;
    }
    if (t->count == t->capacity) {
        size_t capacity = t->capacity ? 2 * t->capacity : 16;
        row *rows = realloc(t->rows, capacity * sizeof *rows);
        if (!rows) {
            return td_error_set(error, TD_MEMORY, "out of memory");
        }
        t->rows = rows;
        t->capacity = capacity;
    }
    row *r = &t->rows[t->count++];
    *r = (row){.folder = copy_text(summary->info->folder),
               .name = copy_text(summary->info->name),
               .parent = parent_path(summary->info),
               .info = *summary->info,
               .metric_count = summary->metric_count};
    for (size_t i = 0; i < r->metric_count; i++) {
        r->metrics[i] = summary->metrics[i];
        r->metrics[i].name = copy_text(summary->metrics[i].name);
    }
    td_status status = t->chosen ? facts_collect(&r->facts, summary, error) : TD_OK;
    if (!status && t->json && !summary->info->events) {
        status = td_run_notes(summary->run, "run", add_note, &r->notes, error);
        status = status ? status
                        : td_run_notes(summary->run, "experiment", add_note, &r->settings, error);
    }
    int matches = status || !t->filter_count ? 1 : is_wanted(t, r, error);
    if (matches < 0) {
        status = error->status;
    }
    if (matches <= 0) {
        release_row(r);
        t->count--;
    }
    return status;
}

/* Places a run, and below it those that branch off from it. */
static void place_run(const table *t, row *ordered, size_t *count, size_t index, int depth) {
    row *r = &t->rows[index];
    r->placed = true;
    r->depth = depth;
    ordered[(*count)++] = *r;
    for (size_t i = 0; r->full && i < t->count; i++) {
        const row *child = &t->rows[i];
        if (!child->placed && child->parent && !strcmp(child->parent, r->full)) {
            place_run(t, ordered, count, i, depth + 1);
        }
    }
}

static bool has_parent(const table *t, const row *r) {
    bool found = false;
    for (size_t i = 0; r->parent && !found && i < t->count; i++) {
        found = t->rows[i].full && !strcmp(t->rows[i].full, r->parent);
    }
    return found;
}

/* Branches stand below their parents; whose parent is not listed stays where it is. */
static void order_branches(table *t) {
    size_t count = 0, branches = 0;
    for (size_t i = 0; i < t->count; i++) {
        branches += t->rows[i].parent != NULL;
    }
    row *ordered = branches ? calloc(t->count, sizeof *ordered) : NULL;
    if (!ordered) {
        return;
    }
    for (size_t i = 0; i < t->count; i++) {
        t->rows[i].full = realpath(t->rows[i].folder, NULL);
    }
    for (int pass = 0; pass < 2; pass++) { /* then those of a damaged circle */
        for (size_t i = 0; i < t->count; i++) {
            if (!t->rows[i].placed && (pass || !has_parent(t, &t->rows[i]))) {
                place_run(t, ordered, &count, i, 0);
            }
        }
    }
    free(t->rows);
    t->rows = ordered;
    t->capacity = t->count;
}

/* "  └ demo-2 @1000" */
static const char *label_of(const row *r, char out[400]) {
    if (!r->parent) {
        return r->name;
    }
    (void)snprintf(out, 400, "%*s└ %.300s @%lld", r->depth > 1 ? 2 * (r->depth - 1) : 0, "",
                   r->name, (long long)r->info.parent_step);
    return out;
}

/* What fits into the terminal. Where it is narrow, names are shortened, and when a run started and
 * what it takes are left out for the metrics. */
typedef struct columns {
    int name, left; /* left: for metrics */
    bool whole;
} columns;

static columns lay_out(const table *t) {
    enum { MIN_NAME = 8, METRICS = 24, BRIEF = 18, WHOLE = 58, NARROW = 29 };
    int room = terminal_room();
    columns c = {.name = 4};
    for (size_t i = 0; i < t->count; i++) {
        char label[400];
        int length = terminal_columns(label_of(&t->rows[i], label));
        c.name = length > c.name ? length : c.name;
    }
    c.whole = room - WHOLE - METRICS >= c.name;
    int max_width = room - NARROW - BRIEF;
    max_width = max_width < MIN_NAME ? MIN_NAME : max_width;
    c.name = c.whole || c.name < max_width ? c.name : max_width;
    c.left = room - c.name - (c.whole ? WHOLE : NARROW);
    return c;
}

/* "  loss 0.25 (0.21)", or without the best value; out has 400 bytes. Returns the length. */
static int metric_text(char *out, const td_run_metric *metric, bool best) {
    enum { ROOM = 400 };
    char last[32], top[32];
    format_number(last, metric->values.last);
    return best ? snprintf(out, ROOM, "  %.300s %s (%s)", metric->name, last,
                           format_number(top, metric->best))
                : snprintf(out, ROOM, "  %.300s %s", metric->name, last);
}

/* As many as fit, with their best values as far as these fit; that more are there is shown. */
static void print_metrics(const td_run_metric *metrics, size_t count, int left) {
    enum { MARK = 4 }; /* columns of " …", in ASCII */
    char text[400];
    int64_t all = 0;
    for (size_t i = 0; i < count; i++) {
        all += metric_text(text, &metrics[i], true);
    }
    bool cut = all > left;
    left -= cut ? MARK : 0;
    for (size_t i = 0; i < count; i++) {
        int length = metric_text(text, &metrics[i], true);
        length = length <= left ? length : metric_text(text, &metrics[i], false);
        if (length <= left) {
            (void)fputs(text, stdout);
            left -= length;
        }
    }
    (void)fputs(cut && left >= 0 ? " …" : "", stdout);
}

static void print_row(const row *r, const columns *c, bool colour) {
    static const char *const colours[] = {[TD_RUN_RUNNING] = "36",
                                          [TD_RUN_FINISHED] = "32",
                                          [TD_RUN_INTERRUPTED] = "33",
                                          [TD_RUN_FAILED] = "31",
                                          [TD_RUN_CRASHED] = "31"};
    char when[32], size[32], label[400];
    const char *state = r->info.events ? r->info.format : td_run_state_name(r->info.state);
    const char *paint = colour && !r->info.events ? colours[r->info.state] : NULL;
    terminal_print_name(label_of(r, label), c->name);
    (void)fputs("  ", stdout);
    if (c->whole) {
        printf("%-16s  ", format_when(when, r->info.started));
    }
    terminal_paint(paint != NULL, paint);
    printf("%-11s", state);
    terminal_paint(paint != NULL, "0");
    printf("  %5lld  %7lld", (long long)r->info.last_epoch, (long long)r->info.last_step);
    if (c->whole) {
        printf("  %9s", terminal_bytes(size, (double)r->info.bytes));
    }
    char lost[64] = "";
    int losing = r->info.dropped ? snprintf(lost, sizeof lost, "  %lld record%s dropped",
                                            (long long)r->info.dropped, plural(r->info.dropped))
                                 : 0;
    print_metrics(r->metrics, r->metric_count, c->left - losing);
    (void)fputs(lost, stdout);
    putchar('\n');
}

static void print_table(const table *t) {
    columns c = lay_out(t);
    bool colour = terminal_has_colour(stdout);
    terminal_paint(colour, "1");
    printf("%-*s  ", c.name, "run");
    if (c.whole) {
        printf("%-16s  ", "started");
    }
    printf("%-11s  %5s  %7s", "state", "epoch", "step");
    if (c.whole) {
        printf("  %9s", "size");
    }
    (void)fputs(c.left >= 13 ? "  last (best)" : "", stdout);
    terminal_paint(colour, "0");
    putchar('\n');
    for (size_t i = 0; i < t->count; i++) {
        print_row(&t->rows[i], &c, colour);
    }
}

static void print_json_fact(const row *r, const char *key) {
    const char *value = facts_get(&r->notes, key);
    printf(",\"%s\":", key);
    if (value) {
        print_json_text(value);
    } else {
        (void)fputs("null", stdout);
    }
}

/* Separated by commas, as a list. */
static void print_json_tags(const row *r) {
    const char *tags = facts_get(&r->notes, "tags");
    (void)fputs(",\"tags\":[", stdout);
    for (size_t length, i = 0; tags && *tags; tags += length + (tags[length] == ','), i++) {
        char tag[256];
        length = strcspn(tags, ",");
        (void)snprintf(tag, sizeof tag, "%.*s", length < 255 ? (int)length : 255, tags);
        (void)fputs(i ? "," : "", stdout);
        print_json_text(tag);
    }
    (void)fputs("]", stdout);
}

/* The settings of the training: numbers and words of JSON as such, all else as text. The experiment's own
 * file is beside the run. */
static void print_json_config(const row *r) {
    bool first = true;
    (void)fputs(",\"config\":{", stdout);
    for (size_t i = 0; i < r->settings.count; i++) {
        const fact *n = &r->settings.items[i];
        if (strcmp(n->key, "yaml") == 0) {
            continue;
        }
        (void)fputs(first ? "" : ",", stdout);
        first = false;
        print_json_text(n->key);
        (void)fputs(":", stdout);
        if (is_json_word(n->value)) {
            (void)fputs(n->value, stdout);
        } else {
            print_json_text(n->value);
        }
    }
    (void)fputs("}", stdout);
}

static void print_json(const table *t) {
    (void)fputs("[", stdout);
    for (size_t i = 0; i < t->count; i++) {
        const row *r = &t->rows[i];
        (void)fputs(i ? ",\n {\"name\":" : "{\"name\":", stdout);
        print_json_text(r->name);
        (void)fputs(",\"folder\":", stdout);
        print_json_text(r->folder);
        printf(",\"state\":\"%s\",\"started\":%.0f,\"epoch\":%lld,\"step\":%lld,\"bytes\":%lld,"
               "\"dropped\":%lld,\"metrics\":{",
               r->info.events ? r->info.format : td_run_state_name(r->info.state), r->info.started,
               (long long)r->info.last_epoch, (long long)r->info.last_step,
               (long long)r->info.bytes, (long long)r->info.dropped);
        for (size_t k = 0; k < r->metric_count; k++) {
            const td_run_metric *metric = &r->metrics[k];
            (void)fputs(k ? "," : "", stdout);
            print_json_text(metric->name);
            (void)fputs(":{\"last\":", stdout);
            print_json_number(metric->values.last);
            (void)fputs(",\"best\":", stdout);
            print_json_number(metric->best);
            printf(",\"best_step\":%lld}", (long long)metric->best_step);
        }
        (void)fputs("},\"parent\":", stdout);
        if (r->parent) {
            print_json_text(r->parent);
            printf(",\"parent_step\":%lld", (long long)r->info.parent_step);
        } else {
            (void)fputs("null,\"parent_step\":null", stdout);
        }
        print_json_fact(r, "title");
        print_json_fact(r, "group");
        print_json_tags(r);
        print_json_config(r);
        (void)fputs("}", stdout);
    }
    (void)fputs("]\n", stdout);
}

/* ---- Chosen columns ------------------------------------------------------------------------- */

typedef struct order {
    const char *key;
    bool down;
} order;

/* Numbers by their size and before texts, those without the fact last. qsort has no argument for it. */
static order sorting;

static int compare_rows(const void *a, const void *b) {
    const row *left = a, *right = b;
    const char *texts[] = {facts_get(&left->facts, sorting.key),
                           facts_get(&right->facts, sorting.key)};
    double x = 0, y = 0;
    if (!texts[0] || !texts[1]) {
        return !texts[0] - !texts[1];
    }
    bool numbers[] = {text_number(texts[0], &x) && x == x, text_number(texts[1], &y) && y == y};
    int found = numbers[0] && numbers[1]   ? (x > y) - (x < y)
                : numbers[0] || numbers[1] ? (sorting.down ? 1 : -1) * (numbers[0] - numbers[1])
                                           : strcmp(texts[0], texts[1]);
    found = sorting.down ? -found : found;
    return found ? found : strcmp(left->folder, right->folder);
}

static int sort_rows(table *t, const char *key) {
    sorting = (order){.key = *key == '-' ? key + 1 : key, .down = *key == '-'};
    bool known = t->count == 0;
    for (size_t i = 0; i < t->count && !known; i++) {
        known = facts_get(&t->rows[i].facts, sorting.key) != NULL;
    }
    if (!known) {
        return misuse(&command_runs, "--sort: no run has a '%s'", sorting.key);
    }
    qsort(t->rows, t->count, sizeof *t->rows, compare_rows);
    return EXIT_GOOD;
}

/* The facts of all rows; where `over` is set, of each group of runs that differ in nothing else. The array is the
 * caller's, and so are merged facts. */
static facts *listed_facts(const table *t, const char *over, size_t *count) {
    facts *all = calloc(t->count + 1, sizeof *all);
    const facts **group = calloc(t->count + 1, sizeof *group);
    bool *taken = calloc(t->count + 1, sizeof *taken);
    if (!all || !group || !taken) {
        exit(fail(EXIT_BAD, "out of memory"));
    }
    *count = 0;
    for (size_t i = 0; i < t->count; i++) {
        size_t members = 0;
        for (size_t k = i; k < t->count && !taken[i]; k++) {
            if (k == i ||
                (!taken[k] && over && facts_alike(&t->rows[i].facts, &t->rows[k].facts, over))) {
                taken[k] = k != i;
                group[members++] = &t->rows[k].facts;
            }
        }
        if (members) {
            all[(*count)++] = over ? facts_merge(group, members, over) : t->rows[i].facts;
        }
    }
    free((void *)group);
    free(taken);
    return all;
}

/* What the user chose to see. */
typedef struct choice {
    const char *sort, *keys, *over; /* NULL: not chosen */
    bool csv;
} choice;

static int print_chosen(const table *t, const choice *chosen) {
    size_t count, column_count;
    const char *over = chosen->over, *list = chosen->keys;
    facts *all = listed_facts(t, over, &count);
    if (!list) {
        list = !t->count ? "" : over ? "runs,differing,*.best" : "name,state,step,differing,*.best";
    }
    const char **keys = choose_columns(&command_runs, list, all, count, &column_count);
    if (keys) {
        (chosen->csv ? print_csv : print_columns)(all, count, keys, column_count);
    }
    for (size_t i = 0; over && i < count; i++) {
        facts_release(&all[i]);
    }
    free((void *)keys);
    free(all);
    return keys ? EXIT_GOOD : EXIT_USAGE;
}

static int print_list(table *t, const char *folder, const choice *chosen) {
    int status = chosen->sort ? sort_rows(t, chosen->sort) : EXIT_GOOD;
    if (!chosen->sort) {
        order_branches(t);
    }
    if (status) {
        return status;
    }
    if (t->left_out) {
        char text[128];
        (void)snprintf(text, sizeof text,
                       "%d run%s left out, which have nothing of a name in --filter", t->left_out,
                       t->left_out == 1 ? " is" : "s are");
        note(text);
    }
    if (t->json) {
        print_json(t);
    } else if (t->count == 0 && !chosen->csv) {
        char text[4300];
        (void)snprintf(text, sizeof text, "no runs in %s%s", folder,
                       t->filter_count ? " match" : "");
        note(text);
    } else if (chosen->keys || chosen->over || chosen->csv) {
        return print_chosen(t, chosen);
    } else {
        print_table(t);
    }
    return EXIT_GOOD;
}

static int run_runs(int count, char **arguments) {
    table t = {0};
    choice chosen = {0};
    const option options[] = {
        {.name = "json", .flag = &t.json},
        {.name = "csv", .flag = &chosen.csv},
        {.name = "sort", .text = &chosen.sort},
        {.name = "columns", .text = &chosen.keys},
        {.name = "over", .text = &chosen.over},
        {.name = "filter", .list = t.filters, .list_count = &t.filter_count},
    };
    if (!parse_options(&command_runs, options, sizeof options / sizeof *options, &count,
                       arguments)) {
        return EXIT_USAGE;
    }
    if (count > 1 || (t.json && (chosen.csv || chosen.keys || chosen.over))) {
        return misuse(&command_runs, "expected one FOLDER, and --json without --csv, --columns and "
                                     "--over");
    }
    t.chosen = chosen.csv || chosen.sort || chosen.keys || chosen.over || t.filter_count;
    const char *folder = count ? arguments[0] : "runs";
    td_error error = {0};
    td_status status = td_runs_list(folder, add_run, &t, &error);
    if (status == TD_NOT_FOUND && count == 0) {
        status = TD_OK; /* nothing was trained here yet */
    }
    int printed = status ? EXIT_GOOD : print_list(&t, folder, &chosen);
    for (size_t i = 0; i < t.count; i++) {
        release_row(&t.rows[i]);
    }
    free(t.rows);
    return status == TD_INVALID ? misuse(&command_runs, "--filter: %s", error.text)
           : status   ? fail(status_of(status), "%s", *error.text ? error.text : "out of memory")
           : printed  ? printed
           : t.unread ? EXIT_BAD
                      : EXIT_GOOD;
}

const command command_runs = {
    .name = "runs",
    .summary = "list runs: when, how they are doing, their metrics",
    .help = help,
    .run = run_runs,
};
