/* A list of runs, with one line of facts each. A run of this version stores a summary of its metrics,
 * so that neither its steps nor its signals need to be read. */
#include "base/clock.h"
#include "base/memory.h"
#include "base/url.h"
#include "run/run.h"

#include <string.h>

static const int64_t large_events = (int64_t)64 << 20;
static const double max_seconds = 2; /* for reading one run.db, of processor time: takes far less */

typedef struct listing {
    td_summary_function *each;
    void *user;
} listing;

typedef struct main_metrics {
    td_run_metric items[TD_RUN_SUMMARY_METRICS];
    size_t count;
} main_metrics;

static void add_metric(main_metrics *metrics, const td_run_signal *signal,
                       const td_extremes *values) {
    td_run_metric *metric = &metrics->items[metrics->count++];
    *metric = (td_run_metric){.name = signal->name, .values = *values};
    metric->best = td_run_best(signal, values, &metric->best_step);
}

/* Of a run whose signals have been read. */
static void sum_up(td_run *run, main_metrics *metrics) {
    size_t indices[TD_RUN_SUMMARY_METRICS];
    size_t count = td_run_main_metrics(run, indices, TD_RUN_SUMMARY_METRICS);
    for (size_t i = 0; i < count; i++) {
        td_extremes values;
        const td_run_signal *signal = &run->signals[indices[i]];
        if (td_run_extremes(run, signal, &values)) {
            add_metric(metrics, signal, &values);
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
        td_signal_info *info;
        size_t index = run->signal_count;
        td_run_signal *signal = td__run_add_signal(run, td__run_text(rows, 0), &info);
        if (!signal || !td__grow(values, &capacity, index + 1, MOST, sizeof **values)) {
            status = td_error_set(error, TD_MEMORY, "out of memory for the metrics of a run");
            break;
        }
        const char *better = td__run_text(rows, 2);
        signal->forms = TD_SCALAR;
        info->kind = td_signal_kind_find(td__run_text(rows, 1));
        info->better = strcmp(better, "larger") == 0    ? TD_BETTER_LARGER
                       : strcmp(better, "smaller") == 0 ? TD_BETTER_SMALLER
                                                        : TD_BETTER_NEITHER;
        (*values)[index] = (td_extremes){.last_step = td__rows_integer(rows, 3),
                                         .last = td__rows_real(rows, 4),
                                         .least_step = td__rows_integer(rows, 5),
                                         .least = td__rows_real(rows, 6),
                                         .greatest_step = td__rows_integer(rows, 7),
                                         .greatest = td__rows_real(rows, 8)};
    }
    td__rows_end(rows);
    return status ? status : td__run_sort_signals(run, error);
}

static td_status sum_up_quickly(td_run *run, main_metrics *metrics, td_error *error) {
    td_extremes *values = NULL;
    size_t indices[TD_RUN_SUMMARY_METRICS];
    td__run_read_info(run);
    td_status status = read_metrics(run, &values, error);
    size_t count = status ? 0 : td_run_main_metrics(run, indices, TD_RUN_SUMMARY_METRICS);
    for (size_t i = 0; i < count; i++) {
        add_metric(metrics, &run->signals[indices[i]], &values[indices[i]]);
    }
    td__free(values);
    return status;
}

static td_status look_into(td_run *run, main_metrics *metrics, td_error *error) {
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
            return sum_up_quickly(run, metrics, error);
        }
        status = status ? status : td_run_refresh(run, error);
    }
    if (!status) {
        sum_up(run, metrics);
    }
    return status;
}

/* store: the run's, taken over; NULL: it is to be opened. */
static td_status list_one(const listing *l, const char *folder, td__store *store, td_error *error) {
    td_error reason = {0};
    main_metrics metrics = {.count = 0};
    td_run_info info = {.size = sizeof info, .folder = folder};
    td_run_summary summary = {.info = &info, .metrics = metrics.items};
    td_run *run = td__run_begin(folder, &reason);
    td_status status = run ? TD_OK : reason.status;
    if (run && store) {
        run->store = store;
        status = sum_up_quickly(run, &metrics, &reason);
    } else if (run) {
        status = look_into(run, &metrics, &reason);
    }
    if (!run) {
        td__store_close(store);
    }
    if (status) { /* it is reported, and the others are listed */
        summary.error = reason.text;
    } else {
        td_run_about(run, &info);
        summary.metric_count = metrics.count;
        summary.problem_count = td_run_problems(run, &summary.problems);
        summary.run = run;
    }
    status = l->each(l->user, &summary, error);
    td_run_close(run);
    return status;
}

static td_status list_run(void *user, const char *folder, td_error *error) {
    return list_one(user, folder, NULL, error);
}

static td_status list_remote(const listing *l, const char *url, td_error *error) {
    enum { WITH_SUMMARIES = 2 };
    td__listing *all = NULL;
    td_status status = td__listing_open(url, true, &all, error);
    size_t count = status ? 0 : td__listing_count(all);
    for (size_t i = 0; i < count && !status; i++) {
        td__store *store = NULL;
        if (td__listing_part_count(all, i) == 0) {
            status = td__listing_store(all, i, &store, error);
        }
        if (store && store->version < WITH_SUMMARIES) {
            td__store_close(store);
            store = NULL;
        }
        status = status ? status : list_one(l, td__listing_place(all, i), store, error);
    }
    td__listing_close(all);
    return status;
}

td_status td_runs_list(const char *folder, td_summary_function *each, void *user, td_error *error) {
    listing l = {each, user};
    return td__url_is(folder) ? list_remote(&l, folder, error)
                              : td_runs_find(folder, list_run, &l, error);
}
