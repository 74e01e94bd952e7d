/* /api/series, /api/heat, /api/stats: numbers over time, at any zoom. */
#include "answers/answer.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_POINTS = 8192, MAX_SIGNALS = 64, MAX_COLUMNS = 4096, MAX_ROWS = 64 };

/* ---- Lines ---------------------------------------------------------------------------------- */

/* Buckets of a signal from first to last: the values themselves where they are few enough. */
static size_t load_buckets(td__call *call, const td_run_signal *signal, const char *statistic,
                           int64_t first, int64_t last, td__bucket *buckets, size_t max) {
    const td__pyramid *pyramid = td__cached_run_pyramid(call->run, signal, statistic);
    if (!pyramid) {
        return 0;
    }
    if (td__pyramid_rows(pyramid, first, last) > max) {
        return td__pyramid_query(pyramid, first, last, buckets, max);
    }
    td_run_value *values = td__calloc(max, sizeof *values);
    size_t count =
        values ? td_run_values(call->run->run, signal, statistic, first, last, values, max) : 0;
    for (size_t i = 0; i < count; i++) {
        buckets[i] = td__bucket_of(&values[i]);
    }
    td__free(values);
    return count;
}

static double mean_of(const td__bucket *bucket) {
    return bucket->valued ? bucket->sum / (double)bucket->valued : (double)NAN;
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
    int64_t first, last;
    range_of(call, &first, &last);
    size_t max = (size_t)td__call_number(call, "points", 2, MAX_POINTS, 1024);
    td__bucket *buckets = td__calloc(max, sizeof *buckets);
    if (!buckets) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    td__output head = {0}, arrays = {0};
    td__put_text(&head, "{\"series\":[");
    const char *list = td__call_text(call, "signals");
    for (int n = 0; *list && n < MAX_SIGNALS; n++) {
        char *end;
        int64_t id = strtoll(list, &end, 10);
        const td_run_signal *signal = end > list ? td__cached_run_signal(call->run, id) : NULL;
        size_t count =
            signal ? load_buckets(call, signal, statistic, first, last, buckets, max) : 0;
        uint64_t values = 0;
        for (size_t i = 0; i < count; i++) {
            values += buckets[i].rows;
        }
        td__put_format(&head, "%s{\"signal\":%lld,\"count\":%zu,\"values\":%llu}", n ? "," : "",
                       (long long)id, count, (unsigned long long)values);
        put_arrays(&arrays, buckets, count);
        list = end > list && *end == ',' ? end + 1 : "";
    }
    td__put_text(&head, "]}");
    td__call_binary(call, &head);
    td__put(call->out, arrays.data, arrays.size);
    call->out->failed |= arrays.failed;
    td__output_release(&arrays);
    td__free(buckets);
    return TD_OK;
}

/* ---- Layers x time -------------------------------------------------------------------------- */

typedef struct grid {
    int64_t first, last;
    size_t columns;
    double *values, *bad; /* columns each; bad is -1 where nothing was recorded */
} grid;

static size_t column_of(const grid *g, int64_t step) {
    double share = ((double)step - (double)g->first) / ((double)g->last - (double)g->first + 1);
    double column = floor(share * (double)g->columns);
    return column < 0 ? 0 : column >= (double)g->columns ? g->columns - 1 : (size_t)column;
}

/* The value of greatest magnitude stays: a spike is seen at any zoom. */
static void fill_column(const grid *g, const td__bucket *bucket) {
    size_t to = column_of(g, bucket->last < g->last ? bucket->last : g->last);
    double value = fabs(bucket->min) > fabs(bucket->max) ? bucket->min : bucket->max;
    for (size_t c = column_of(g, bucket->first > g->first ? bucket->first : g->first); c <= to;
         c++) {
        bool greater = !(fabs(value) <= fabs(g->values[c]));
        g->values[c] = greater && !isnan(value) ? value : g->values[c];
        g->bad[c] = fmax(g->bad[c], 0) + bucket->nonfinite;
    }
}

/* signals=…: two arrays of a row each (values, non-finite), one value a column. */
td_status td__route_heat(td__call *call, td_error *error) {
    const char *statistic;
    td_status status = td__call_statistic(call, &statistic, error);
    if (status) {
        return status;
    }
    grid g = {.columns = (size_t)td__call_number(call, "columns", 1, MAX_COLUMNS, 256)};
    g.first = td__call_number(call, "from", INT64_MIN / 2, INT64_MAX / 2, 0);
    g.last = td__call_number(call, "to", g.first, INT64_MAX / 2, g.first);
    size_t max = 4 * g.columns;
    td__bucket *buckets = td__calloc(max, sizeof *buckets);
    g.values = td__calloc(2 * g.columns, sizeof *g.values);
    td__output head = {0}, arrays = {0};
    size_t rows = 0;
    for (const char *list = td__call_text(call, "signals"); buckets && g.values && *list;) {
        char *end;
        int64_t id = strtoll(list, &end, 10);
        const td_run_signal *signal = end > list ? td__cached_run_signal(call->run, id) : NULL;
        g.bad = g.values + g.columns;
        for (size_t c = 0; c < g.columns; c++) {
            g.values[c] = NAN;
            g.bad[c] = -1;
        }
        size_t count =
            signal ? load_buckets(call, signal, statistic, g.first, g.last, buckets, max) : 0;
        for (size_t i = 0; i < count; i++) {
            fill_column(&g, &buckets[i]);
        }
        for (size_t c = 0; c < 2 * g.columns; c++) {
            td__put_double(&arrays, g.values[c]);
        }
        list = ++rows < MAX_ROWS && end > list && *end == ',' ? end + 1 : "";
    }
    td__put_format(&head, "{\"rows\":%zu,\"columns\":%zu,\"from\":%lld,\"to\":%lld}", rows,
                   g.columns, (long long)g.first, (long long)g.last);
    td__call_binary(call, &head);
    td__put(call->out, arrays.data, arrays.size);
    call->out->failed |= arrays.failed;
    td__output_release(&arrays);
    td__free(g.values);
    td__free(buckets);
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
