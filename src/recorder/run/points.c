/* A signal's numbers over time, few enough to be drawn. */
#include "run/run.h"

#include <math.h>
#include <string.h>

/* A page reads at most this many rows; of more, a share from each part of the time. */
enum { MAX_ROWS = 400000 };

static void add_to_point(td_point *point, bool first, int64_t step, double value) {
    point->step = step;
    point->value = value;
    point->low = first ? value : fmin(point->low, value);
    point->high = first ? value : fmax(point->high, value);
}

int64_t td__run_boundary(int64_t first, int64_t last, size_t part, size_t parts) {
    double width = (double)((uint64_t)last - (uint64_t)first) + 1;
    double offset = floor(width * (double)part / (double)parts);
    return (int64_t)((uint64_t)first + (uint64_t)fmin(offset, 0x1p64 - 2048));
}

size_t td_run_points(td_run *run, const td_run_signal *signal, const char *statistic, int64_t first,
                     int64_t last, td_point *points, size_t max, bool *sampled) {
    first = first > signal->first_step ? first : signal->first_step;
    last = last < signal->last_step ? last : signal->last_step;
    td__query query = {.source = statistic ? TD__STATISTICS : TD__SCALARS, .column = statistic};
    td__rows *rows = first <= last && max > 0 ? td__run_select(run, &query) : NULL;
    size_t count = 0;
    if (sampled) {
        *sampled = false;
    }
    int64_t share = MAX_ROWS / (int64_t)(max ? max : 1) + 1;
    for (size_t i = 0; rows && i < max; i++) {
        int64_t from = td__run_boundary(first, last, i, max);
        int64_t to = i + 1 < max ? td__run_boundary(first, last, i + 1, max) - 1 : last;
        if (from > to) {
            continue;
        }
        td__rows_bind(rows, signal->id, from, to, share);
        int64_t seen = 0;
        for (; td__run_next(run, rows); seen++) {
            add_to_point(&points[count], seen == 0, td__rows_integer(rows, 0),
                         td__rows_real(rows, 1));
        }
        count += seen > 0;
        if (sampled && seen == share && points[count - 1].step < to) {
            *sampled = true;
        }
    }
    td__rows_end(rows);
    return count;
}

static bool read_summary(td_run *run, const td_run_signal *signal, td_extremes *e) {
    td__rows *rows = td__run_select(run, &(td__query){.source = TD__SUMMARIES});
    if (rows) {
        td__rows_bind(rows, signal->id, 0, 0, 0);
    }
    bool found = td__run_next(run, rows);
    if (found) {
        *e = (td_extremes){.last_step = td__rows_integer(rows, 0),
                           .last = td__rows_real(rows, 1),
                           .least_step = td__rows_integer(rows, 2),
                           .least = td__rows_real(rows, 3),
                           .greatest_step = td__rows_integer(rows, 4),
                           .greatest = td__rows_real(rows, 5)};
    }
    td__rows_end(rows);
    return found;
}

static bool look_at_all(td_run *run, const td_run_signal *signal, td_extremes *e) {
    td__rows *rows = td__run_select(run, &(td__query){.source = TD__SCALARS});
    if (!rows) {
        return false;
    }
    bool any = false;
    td__rows_bind(rows, signal->id, INT64_MIN, INT64_MAX, -1);
    for (; td__run_next(run, rows); any = true) {
        e->last_step = td__rows_integer(rows, 0);
        e->last = td__rows_real(rows, 1);
        if (!isnan(e->last) && !(e->last >= e->least)) {
            e->least_step = e->last_step;
            e->least = e->last;
        }
        if (!isnan(e->last) && !(e->last <= e->greatest)) {
            e->greatest_step = e->last_step;
            e->greatest = e->last;
        }
    }
    td__rows_end(rows);
    return any;
}

bool td_run_extremes(td_run *run, const td_run_signal *signal, td_extremes *extremes) {
    td_extremes e = {.least = NAN, .greatest = NAN};
    if (!read_summary(run, signal, &e) && !look_at_all(run, signal, &e)) {
        return false;
    }
    *extremes = e;
    return true;
}

double td_run_best(const td_run_signal *signal, const td_extremes *extremes, int64_t *step) {
    bool larger = signal->info->better == TD_BETTER_LARGER;
    if (step) {
        *step = larger ? extremes->greatest_step : extremes->least_step;
    }
    return larger ? extremes->greatest : extremes->least;
}

static bool is_listed(const size_t *indices, size_t count, size_t index) {
    for (size_t i = 0; i < count; i++) {
        if (indices[i] == index) {
            return true;
        }
    }
    return false;
}

size_t td_run_main_metrics(const td_run *run, size_t *indices, size_t max) {
    static const char *const known[] = {"loss", "val_loss", "accuracy", "val_accuracy"};
    size_t used = 0;
    for (size_t k = 0; k < sizeof known / sizeof *known && used < max; k++) {
        const td_run_signal *signal = td_run_signal_find(run, known[k]);
        if (signal && signal->forms & TD_SCALAR) {
            indices[used++] = (size_t)(signal - run->signals);
        }
    }
    for (size_t i = 0; i < run->signal_count && used < max; i++) {
        const td_run_signal *signal = &run->signals[i];
        bool setting = signal->info->kind == TD_SIGNAL_SYSTEM ||
                       (signal->info->kind == TD_SIGNAL_METRIC && /* learning_rate */
                        signal->info->better == TD_BETTER_NEITHER);
        if (signal->forms & TD_SCALAR && !setting && !is_listed(indices, used, i)) {
            indices[used++] = i;
        }
    }
    return used;
}
