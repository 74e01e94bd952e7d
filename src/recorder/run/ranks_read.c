/* What each rank of a run recorded, and how far the ranks are apart. */
#include "run/ranks_store.h"

#include <math.h>

static td__ranks_store *store_of(const td_run *run) {
    return run->ranks ? (td__ranks_store *)run->store : NULL;
}

size_t td_run_rank_count(const td_run *run) {
    const td__ranks_store *store = store_of(run);
    return store ? store->count : 0;
}

const td_run_rank *td_run_rank_at(const td_run *run, size_t index) {
    const td__ranks_store *store = store_of(run);
    return store && index < store->count ? &store->about[index] : NULL;
}

size_t td_run_spread(td_run *run, const td_run_signal *signal, const char *statistic, int64_t first,
                     int64_t last, td_spread *spread, size_t max) {
    td__query query = {
        .source = statistic ? TD__STATISTICS : TD__SCALARS, .column = statistic, .spread = true};
    td__rows *rows = run->ranks ? td__run_select(run, &query) : NULL;
    size_t count = 0;
    if (rows) {
        td__rows_bind(rows, signal->id, first, last, (int64_t)(max < INT64_MAX ? max : INT64_MAX));
    }
    while (count < max && td__run_next(run, rows)) {
        spread[count++] = (td_spread){
            .step = td__rows_integer(rows, TD__SPREAD_STEP),
            .ranks = td__rows_integer(rows, TD__SPREAD_RANKS),
            .min = td__rows_real(rows, TD__SPREAD_MIN),
            .mean = td__rows_real(rows, TD__SPREAD_MEAN),
            .max = td__rows_real(rows, TD__SPREAD_MAX),
            .min_rank = td__rows_integer(rows, TD__SPREAD_MIN_RANK),
            .max_rank = td__rows_integer(rows, TD__SPREAD_MAX_RANK),
            .nonfinite_rank = td__rows_integer(rows, TD__SPREAD_BROKEN_RANK),
        };
    }
    td__rows_end(rows);
    return count;
}

size_t td_run_rank_values(td_run *run, int64_t rank, const td_run_signal *signal,
                          const char *statistic, int64_t first, int64_t last, td_run_value *values,
                          size_t max) {
    bool times = signal == NULL;
    td__query query = {.source = times       ? TD__STEPS
                                 : statistic ? TD__STATISTICS
                                             : TD__SCALARS,
                       .column = times ? NULL : statistic,
                       .rank = rank + 1};
    td__rows *rows = run->ranks && rank >= 0 ? td__run_select(run, &query) : NULL;
    size_t count = 0;
    if (rows) {
        td__rows_bind(rows, times ? 0 : signal->id, first, last,
                      (int64_t)(max < INT64_MAX ? max : INT64_MAX));
    }
    while (count < max && td__run_next(run, rows)) {
        td_run_value v = {.step = td__rows_integer(rows, 0),
                          .value = td__rows_real(rows, times ? 2 : 1)};
        v.nonfinite = statistic && !times ? td__rows_integer(rows, 2) : !isfinite(v.value);
        values[count++] = v;
    }
    td__rows_end(rows);
    return count;
}
