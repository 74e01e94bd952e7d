/* A list of runs, with one line of facts each. A run of this version stores a summary of its metrics,
 * so that neither its steps nor its signals need to be read. */
#include "base/clock.h"
#include "base/memory.h"
#include "run/run.h"

#include <string.h>

enum { METRICS = sizeof((td_run_summary *)0)->metrics / sizeof(td_run_metric) };
static const int64_t large_events = (int64_t)64 << 20;
static const double max_seconds = 2; /* for reading one run.db, of processor time: takes far less */

typedef struct listing {
    td_summary_function *each;
    void *user;
} listing;

static void add_metric(td_run_summary *summary, const td_run_signal *signal,
                       const td_extremes *values) {
    td_run_metric *metric = &summary->metrics[summary->metric_count++];
    *metric = (td_run_metric){.name = signal->name, .values = *values};
    metric->best = td_run_best(signal, values, &metric->best_step);
}

/* Of a run whose signals have been read. */
static void sum_up(td_run *run, td_run_summary *summary) {
    size_t indices[METRICS];
    size_t count = td_run_main_metrics(run, indices, METRICS);
    for (size_t i = 0; i < count; i++) {
        td_extremes values;
        const td_run_signal *signal = &run->signals[indices[i]];
        if (td_run_extremes(run, signal, &values)) {
            add_metric(summary, signal, &values);
        }
    }
}

/* Signals that are metrics, and nothing else about them; their summaries in `values`. */
static td_status read_metrics(td_run *run, td_extremes **values, td_error *error) {
    enum { MOST = 1 << 24 };
    size_t capacity = 0;
    td_status status = TD_OK;
    td__rows *rows = td__run_select_all(run, TD__METRICS);
    while (!status && td__run_next(run, rows)) {
        td_run_signal signal = {.forms = TD_SCALAR, .name = td__strdup(td__run_text(rows, 0))};
        signal.info.kind = td_signal_kind_find(td__run_text(rows, 1));
        signal.info.better = strcmp(td__run_text(rows, 2), "larger") == 0    ? TD_BETTER_LARGER
                             : strcmp(td__run_text(rows, 2), "smaller") == 0 ? TD_BETTER_SMALLER
                                                                             : TD_BETTER_NEITHER;
        if (!signal.name ||
            !td__grow(&run->signals, &run->signal_capacity, run->signal_count + 1, MOST,
                      sizeof signal) ||
            !td__grow(values, &capacity, run->signal_count + 1, MOST, sizeof **values)) {
            td__free((void *)(uintptr_t)signal.name);
            status = td_error_set(error, TD_MEMORY, "out of memory for the metrics of a run");
            break;
        }
        (*values)[run->signal_count] = (td_extremes){.last_step = td__rows_integer(rows, 3),
                                                     .last = td__rows_real(rows, 4),
                                                     .least_step = td__rows_integer(rows, 5),
                                                     .least = td__rows_real(rows, 6),
                                                     .greatest_step = td__rows_integer(rows, 7),
                                                     .greatest = td__rows_real(rows, 8)};
        run->signals[run->signal_count++] = signal;
    }
    td__rows_end(rows);
    return status ? status : td__run_sort_signals(run, error);
}

static td_status sum_up_quickly(td_run *run, td_run_summary *summary, td_error *error) {
    td_extremes *values = NULL;
    size_t indices[METRICS];
    td__run_read_info(run);
    td_status status = read_metrics(run, &values, error);
    size_t count = status ? 0 : td_run_main_metrics(run, indices, METRICS);
    for (size_t i = 0; i < count; i++) {
        add_metric(summary, &run->signals[indices[i]], &values[indices[i]]);
    }
    td__free(values);
    return status;
}

static td_status look_into(td_run *run, td_run_summary *summary, td_error *error) {
    enum { WITH_SUMMARIES = 2 };
    td_status status = TD_OK;
    if (run->events) {
        status = td__folder_bytes(run->folder) < large_events ? td_run_refresh(run, error) : TD_OK;
    } else {
        status = td__run_open_store(run, error);
        if (!status) {
            run->store->cpu_until = td__cpu_seconds() + max_seconds;
        }
        if (!status && run->store->version >= WITH_SUMMARIES) {
            return sum_up_quickly(run, summary, error);
        }
        status = status ? status : td_run_refresh(run, error);
    }
    if (!status) {
        sum_up(run, summary);
    }
    return status;
}

static td_status list_run(void *user, const char *folder, td_error *error) {
    const listing *l = user;
    td_error reason = {0};
    td_run_summary summary = {.size = sizeof summary, .info.size = sizeof summary.info};
    td_run *run = td__run_begin(folder, &reason);
    td_status status = run ? look_into(run, &summary, &reason) : reason.status;
    if (status) { /* it is reported, and the others are listed */
        summary = (td_run_summary){.size = sizeof summary,
                                   .info = {.size = sizeof summary.info, .folder = folder},
                                   .error = reason.text};
    } else {
        td_run_about(run, &summary.info);
        summary.problem_count = td_run_problems(run, &summary.problems);
        summary.run = run;
    }
    status = l->each(l->user, &summary, error);
    td_run_close(run);
    return status;
}

td_status td_runs_list(const char *folder, td_summary_function *each, void *user, td_error *error) {
    return td_runs_find(folder, list_run, &(listing){each, user}, error);
}
