/* tapedeck runs: a table of the runs below a folder. */
#include "json.h"
#include "options.h"
#include "reading.h"
#include "terminal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "tapedeck runs [FOLDER] [--json]\n"
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
    "Examples\n"
    "  tapedeck runs\n"
    "  tapedeck runs --json | jq '.[] | select(.state == \"crashed\").folder'\n";

enum { METRICS = 4, LARGE_EVENTS = 64 << 20 };

typedef struct row {
    char *folder, *name;
    td_run_info info;
    struct {
        char *name;
        td_extremes values;
    } metrics[METRICS];
    size_t metric_count;
} row;

typedef struct table {
    row *rows;
    size_t count, capacity;
} table;

static char *copy(const char *text) {
    char *made = strdup(text);
    if (!made) {
        exit(fail(EXIT_BAD, "out of memory"));
    }
    return made;
}

static void read_metrics(td_run *run, row *r) {
    size_t indices[METRICS];
    const td_run_signal *signals;
    (void)td_run_signals(run, &signals);
    size_t count = main_metrics(run, indices, METRICS);
    for (size_t i = 0; i < count; i++) {
        if (td_run_extremes(run, &signals[indices[i]], &r->metrics[r->metric_count].values)) {
            r->metrics[r->metric_count++].name = copy(signals[indices[i]].name);
        }
    }
}

/* A run that cannot be read is said, and the others are listed. */
static td_status add_run(void *user, const char *folder, td_error *error) {
    (void)error;
    table *t = user;
    if (t->count == t->capacity) {
        t->capacity = t->capacity ? 2 * t->capacity : 16;
        row *rows = realloc(t->rows, t->capacity * sizeof *rows);
        if (!rows) {
            return TD_MEMORY;
        }
        t->rows = rows;
    }
    td_error reason = {0};
    td_run *run = td_run_open(folder, &reason);
    if (!run) {
        (void)fail(EXIT_BAD, "%s", reason.text);
        return TD_OK;
    }
    row *r = &t->rows[t->count++];
    *r = (row){.folder = copy(folder), .info.size = sizeof r->info};
    td_run_about(run, &r->info);
    if (r->info.events && r->info.bytes < LARGE_EVENTS && td_run_refresh(run, &reason) == TD_OK) {
        td_run_about(run, &r->info);
    }
    r->name = copy(r->info.name);
    read_metrics(run, r);
    size_t said = 0;
    say_problems(run, &said);
    td_run_close(run);
    return TD_OK;
}

static double best(const char *metric, const td_extremes *values) {
    return larger_is_better(metric) ? values->greatest : values->least;
}

static void print_row(const row *r, int name_width, bool colour) {
    static const char *const colours[] = {[TD_RUN_RUNNING] = "\x1b[36m",
                                          [TD_RUN_FINISHED] = "\x1b[32m",
                                          [TD_RUN_INTERRUPTED] = "\x1b[33m",
                                          [TD_RUN_FAILED] = "\x1b[31m",
                                          [TD_RUN_CRASHED] = "\x1b[31m"};
    char when[32], size[32], last[32], top[32];
    const char *state = r->info.events ? "events" : td_run_state_name(r->info.state);
    const char *paint = colour && !r->info.events ? colours[r->info.state] : NULL;
    printf("%-*s  %-16s  %s%-11s%s  %5lld  %7lld  %9s", name_width, r->name,
           format_when(when, r->info.started), paint ? paint : "", state, paint ? "\x1b[0m" : "",
           (long long)r->info.last_epoch, (long long)r->info.last_step,
           terminal_bytes(size, (double)r->info.bytes));
    for (size_t i = 0; i < r->metric_count; i++) {
        const td_extremes *values = &r->metrics[i].values;
        printf("  %s %s (%s)", r->metrics[i].name, format_number(last, values->last),
               format_number(top, best(r->metrics[i].name, values)));
    }
    if (r->info.dropped) {
        printf("  %lld records dropped", (long long)r->info.dropped);
    }
    putchar('\n');
}

static void print_table(const table *t) {
    int width = 4;
    for (size_t i = 0; i < t->count; i++) {
        int length = (int)strlen(t->rows[i].name);
        width = length > width ? length : width;
    }
    bool colour = terminal_has_colour(stdout);
    printf("%s%-*s  %-16s  %-11s  %5s  %7s  %9s  %s%s\n", colour ? "\x1b[1m" : "", width, "run",
           "started", "state", "epoch", "step", "size", "last (best)", colour ? "\x1b[0m" : "");
    for (size_t i = 0; i < t->count; i++) {
        print_row(&t->rows[i], width, colour);
    }
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
               r->info.events ? "events" : td_run_state_name(r->info.state), r->info.started,
               (long long)r->info.last_epoch, (long long)r->info.last_step,
               (long long)r->info.bytes, (long long)r->info.dropped);
        for (size_t k = 0; k < r->metric_count; k++) {
            const td_extremes *values = &r->metrics[k].values;
            (void)fputs(k ? "," : "", stdout);
            print_json_text(r->metrics[k].name);
            (void)fputs(":{\"last\":", stdout);
            print_json_number(values->last);
            (void)fputs(",\"best\":", stdout);
            print_json_number(best(r->metrics[k].name, values));
            bool larger = larger_is_better(r->metrics[k].name);
            printf(",\"best_step\":%lld}",
                   (long long)(larger ? values->greatest_step : values->least_step));
        }
        (void)fputs("}}", stdout);
    }
    (void)fputs("]\n", stdout);
}

static int run(int count, char **arguments) {
    bool json = false;
    const option options[] = {{.name = "json", .flag = &json}};
    if (!parse_options(&command_runs, options, 1, &count, arguments)) {
        return EXIT_USAGE;
    }
    if (count > 1) {
        return misuse(&command_runs, "expected one FOLDER");
    }
    const char *folder = count ? arguments[0] : "runs";
    table t = {0};
    td_error error = {0};
    td_status status = td_runs_find(folder, add_run, &t, &error);
    if (!status && t.count == 0 && !json) {
        (void)fprintf(stderr, "no runs in %s\n", folder);
    } else if (!status && json) {
        print_json(&t);
    } else if (!status) {
        print_table(&t);
    }
    for (size_t i = 0; i < t.count; i++) {
        free(t.rows[i].folder);
        free(t.rows[i].name);
        for (size_t k = 0; k < t.rows[i].metric_count; k++) {
            free(t.rows[i].metrics[k].name);
        }
    }
    free(t.rows);
    return status ? fail(status_of(status), "%s", *error.text ? error.text : "out of memory")
                  : EXIT_GOOD;
}

const command command_runs = {
    .name = "runs",
    .summary = "list runs: when, how they are doing, their metrics",
    .help = help,
    .run = run,
};
