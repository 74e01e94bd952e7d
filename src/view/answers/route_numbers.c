/* /api/series, /api/heat, /api/stats: numbers over time, at any zoom. */
#include "answers/answer.h"
#include "answers/heat.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_POINTS = 8192, MAX_SIGNALS = 64, MAX_ROWS = 64 };

/* ---- Lines ---------------------------------------------------------------------------------- */

/* What a window of steps shows of a signal. */
typedef struct window {
    int64_t first, last;
    const char *statistic; /* NULL: scalars */
    td__bucket *buckets;   /* room for max + 2 */
    size_t max;
} window;

/* Writes the last value before the window; false when there is none. */
static bool value_before(td__call *call, const td_run_signal *signal, const window *w,
                         const td__pyramid *pyramid, td__bucket *before) {
    td_run_value values[TD__PYRAMID_FACTOR];
    int64_t from;
    if (!td__pyramid_before(pyramid, w->first, &from)) {
        return false;
    }
    size_t count = td_run_values(call->run->run, signal, w->statistic, from, w->first - 1, values,
                                 TD__PYRAMID_FACTOR);
    if (count > 0) {
        *before = td__bucket_of(&values[count - 1]);
    }
    return count > 0;
}

/* Writes the first value after the window; false when there is none. */
static bool value_after(td__call *call, const td_run_signal *signal, const window *w,
                        td__bucket *after) {
    td_run_value value;
    bool found =
        w->last < signal->last_step &&
        td_run_values(call->run->run, signal, w->statistic, w->last + 1, INT64_MAX, &value, 1) == 1;
    if (found) {
        *after = td__bucket_of(&value);
    }
    return found;
}

/* The window's buckets, the values themselves where they are few enough; with one value before it and
 * one after it, so that a window between two records is not empty. */
static size_t load_buckets(td__call *call, const td_run_signal *signal, const window *w) {
    const td__pyramid *pyramid = td__cached_run_pyramid(call->run, signal, w->statistic);
    if (!pyramid) {
        return 0;
    }
    size_t count = value_before(call, signal, w, pyramid, w->buckets);
    if (td__pyramid_rows(pyramid, w->first, w->last) > w->max) {
        count += td__pyramid_query(pyramid, w->first, w->last, w->buckets + count, w->max);
    } else {
        td_run_value *values = td__calloc(w->max, sizeof *values);
        size_t got = values ? td_run_values(call->run->run, signal, w->statistic, w->first, w->last,
                                            values, w->max)
                            : 0;
        for (size_t i = 0; i < got; i++) {
            w->buckets[count++] = td__bucket_of(&values[i]);
        }
        td__free(values);
    }
    /* A bucket of many values may reach beyond the window by itself. */
    if (count == 0 || w->buckets[count - 1].last <= w->last) {
        count += value_after(call, signal, w, &w->buckets[count]);
    }
    return count;
}

/* The mean of the finite values; where there are none, what was recorded: NaN or an infinity. */
static double mean_of(const td__bucket *bucket) {
    return bucket->valued ? bucket->sum / (double)bucket->valued : bucket->last_nonfinite;
}

static void put_arrays(td__output *out, const td__bucket *buckets, size_t count) {
    for (size_t i = 0; i < count; i++) {
        td__put_double(out, (double)buckets[i].first);
    }
    for (size_t i = 0; i < count; i++) {
        td__put_double(out, (double)buckets[i].last);
    }
    for (size_t i = 0; i < count; i++) {
        td__put_double(out, mean_of(&buckets[i]));
    }
    for (size_t i = 0; i < count; i++) {
        td__put_double(out, buckets[i].min);
    }
    for (size_t i = 0; i < count; i++) {
        td__put_double(out, buckets[i].max);
    }
    for (size_t i = 0; i < count; i++) {
        td__put_double(out, buckets[i].nonfinite);
    }
}

static void range_of(const td__call *call, int64_t *first, int64_t *last) {
    *first = td__call_number(call, "from", INT64_MIN, INT64_MAX, INT64_MIN);
    *last = td__call_number(call, "to", INT64_MIN, INT64_MAX, INT64_MAX);
}

/* signals=1,2,3: for each six arrays (first and last step of each point, mean, min, max, values
 * that are not finite); the head has the number of points and of the values they summarise. */
td_status td__route_series(td__call *call, td_error *error) {
    const char *statistic;
    td_status status = td__call_statistic(call, &statistic, error);
    if (status) {
        return status;
    }
    window w = {.statistic = statistic};
    range_of(call, &w.first, &w.last);
    w.max = (size_t)td__call_number(call, "points", 2, MAX_POINTS, 1024);
    w.buckets = td__calloc(w.max + 2, sizeof *w.buckets);
    if (!w.buckets) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    td__output head = {0}, arrays = {0};
    td__put_text(&head, "{\"series\":[");
    const char *list = td__call_text(call, "signals");
    for (int n = 0; *list && n < MAX_SIGNALS; n++) {
        char *end;
        int64_t id = strtoll(list, &end, 10);
        const td_run_signal *signal = end > list ? td__cached_run_signal(call->run, id) : NULL;
        size_t count = signal ? load_buckets(call, signal, &w) : 0;
        uint64_t values = 0;
        for (size_t i = 0; i < count; i++) {
            values += w.buckets[i].rows;
        }
        td__put_format(&head, "%s{\"signal\":%lld,\"count\":%zu,\"values\":%llu}", n ? "," : "",
                       (long long)id, count, (unsigned long long)values);
        put_arrays(&arrays, w.buckets, count);
        list = end > list && *end == ',' ? end + 1 : "";
    }
    td__put_text(&head, "]}");
    td__call_binary(call, &head);
    td__put(call->out, arrays.data, arrays.size);
    call->out->failed |= arrays.failed;
    td__output_release(&arrays);
    td__free(w.buckets);
    return TD_OK;
}

/* ---- Layers x time -------------------------------------------------------------------------- */

/* signals=…: the four arrays of a grid for each of them. */
td_status td__route_heat(td__call *call, td_error *error) {
    const char *statistic;
    td_status status = td__call_statistic(call, &statistic, error);
    if (status) {
        return status;
    }
    td__heat_row g = {.columns =
                          (size_t)td__call_number(call, "columns", 1, TD__MAX_HEAT_COLUMNS, 256)};
    g.first = td__call_number(call, "from", INT64_MIN / 2, INT64_MAX / 2, 0);
    g.last = td__call_number(call, "to", g.first, INT64_MAX / 2, g.first);
    window w = {.first = g.first, .last = g.last, .statistic = statistic, .max = 4 * g.columns};
    w.buckets = td__calloc(w.max + 2, sizeof *w.buckets);
    if (!td__heat_create(&g) || !w.buckets) {
        td__free(w.buckets);
        td__free(g.values);
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    td__output head = {0}, arrays = {0};
    size_t rows = 0;
    for (const char *list = td__call_text(call, "signals"); *list;) {
        char *end;
        int64_t id = strtoll(list, &end, 10);
        const td_run_signal *signal = end > list ? td__cached_run_signal(call->run, id) : NULL;
        td__heat_clear(&g);
        size_t count = signal ? load_buckets(call, signal, &w) : 0;
        for (size_t i = 0; i < count; i++) {
            td__heat_add(&g, &w.buckets[i]);
        }
        td__heat_put(&g, &arrays);
        list = ++rows < MAX_ROWS && end > list && *end == ',' ? end + 1 : "";
    }
    td__put_format(&head, "{\"rows\":%zu,\"columns\":%zu,\"from\":%lld,\"to\":%lld}", rows,
                   g.columns, (long long)g.first, (long long)g.last);
    td__call_binary(call, &head);
    td__put(call->out, arrays.data, arrays.size);
    call->out->failed |= arrays.failed;
    td__output_release(&arrays);
    td__free(g.values);
    td__free(w.buckets);
    return TD_OK;
}

/* ---- Statistics at a step ------------------------------------------------------------------- */

typedef struct table {
    td__output *out;
    size_t count;
} table;

static td_status put_stats(void *user, const td_record *record, td_error *error) {
    (void)error;
    table *t = user;
    const td_stats *s = record->stats;
    td__put_format(t->out,
                   "%s{\"step\":%lld,\"count\":%lld,\"zeros\":%lld,\"nan\":%lld,\"inf\":%lld,"
                   "\"firstNonfinite\":%lld,\"name\":",
                   t->count++ ? "," : "", (long long)record->step, (long long)s->count,
                   (long long)s->zeros, (long long)s->nan, (long long)s->inf,
                   (long long)s->first_nonfinite);
    td__put_json(t->out, record->signal);
    const struct {
        const char *name;
        double value;
    } numbers[] = {
        {"mean", s->mean}, {"std", s->std}, {"min", s->min}, {"max", s->max}, {"norm", s->norm}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        td__put_format(t->out, ",\"%s\":", numbers[i].name);
        td__put_number(t->out, numbers[i].value);
    }
    td__put_text(t->out, "}");
    return TD_OK;
}

/* signals=…&step=N: the last statistics of each, at or before that step. */
td_status td__route_stats(td__call *call, td_error *error) {
    int64_t step = td__call_number(call, "step", INT64_MIN, INT64_MAX, INT64_MAX);
    table t = {call->out, 0};
    td__put_text(call->out, "{\"stats\":[");
    const char *list = td__call_text(call, "signals");
    for (int n = 0; *list && n < MAX_SIGNALS; n++) {
        char *end;
        const td_run_signal *signal = td__cached_run_signal(call->run, strtoll(list, &end, 10));
        if (signal && signal->forms & (TD_STATS | TD_HISTOGRAM)) {
            td_status status =
                td_run_at(call->run->run, signal, TD_STATS, step, put_stats, &t, error);
            if (status && status != TD_NOT_FOUND) {
                return status;
            }
        }
        list = end > list && *end == ',' ? end + 1 : "";
    }
    td__put_text(call->out, "]}");
    return TD_OK;
}
