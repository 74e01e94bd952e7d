/* The pyramids of a run's signals: built at the first request, extended as the run grows, dropped
 * (the oldest first) when they take too much memory. */
#include "answers/run_cache_private.h"
#include "base/memory.h"

#include <string.h>

enum { CHUNK = 4096, MAX_SERIES = 1 << 20 };
static const size_t max_bytes = (size_t)64 << 20; /* of all pyramids together */

static const char *const statistics[] = {"norm",  "mean",  "std", "min", "max",
                                         "count", "zeros", "nan", "inf"};

const char *td__statistic(const char *name) {
    for (size_t i = 0; i < sizeof statistics / sizeof *statistics; i++) {
        if (strcmp(name, statistics[i]) == 0) {
            return statistics[i];
        }
    }
    return NULL;
}

const td_run_signal *td__cached_run_signal(const td__cached_run *run, int64_t id) {
    size_t count = td_run_signal_count(run->run);
    const td_run_signal *likely = id > 0 ? td_run_signal_at(run->run, (size_t)id - 1) : NULL;
    if (likely && likely->id == id) {
        return likely;
    }
    for (size_t i = 0; i < count; i++) {
        const td_run_signal *signal = td_run_signal_at(run->run, i);
        if (signal->id == id) {
            return signal;
        }
    }
    return NULL;
}

static void drop_series(td__cached_run *run, size_t index) {
    td__cached_series *series = &run->series[index];
    atomic_fetch_sub(&run->cache->pyramid_bytes, td__pyramid_bytes(&series->pyramid));
    td__pyramid_release(&series->pyramid);
    *series = run->series[--run->series_count];
}

void td__cached_run_drop_series(td__cached_run *run) {
    while (run->series_count > 0) {
        drop_series(run, run->series_count - 1);
    }
}

static void drop_oldest_series(td__cached_run *run) {
    while (run->series_count > 0 && atomic_load(&run->cache->pyramid_bytes) > max_bytes) {
        size_t oldest = 0;
        for (size_t i = 1; i < run->series_count; i++) {
            oldest = run->series[i].used < run->series[oldest].used ? i : oldest;
        }
        drop_series(run, oldest);
    }
}

static td__cached_series *find_series(td__cached_run *run, int64_t signal, const char *statistic) {
    for (size_t i = 0; i < run->series_count; i++) {
        if (run->series[i].signal == signal && run->series[i].statistic == statistic) {
            return &run->series[i];
        }
    }
    drop_oldest_series(run);
    if (!td__grow(&run->series, &run->series_capacity, run->series_count + 1, MAX_SERIES,
                  sizeof *run->series)) {
        return NULL;
    }
    td__cached_series *made = &run->series[run->series_count++];
    *made = (td__cached_series){.signal = signal, .statistic = statistic};
    return made;
}

static bool extend_pyramid(td__cached_run *run, td__cached_series *series,
                           const td_run_signal *signal) {
    td_run_value *values = td__calloc(CHUNK, sizeof *values);
    td__pyramid *pyramid = &series->pyramid;
    bool good = values != NULL;
    for (size_t got = CHUNK; good && got == CHUNK;) {
        int64_t first = pyramid->count ? pyramid->extremes.last_step + 1 : INT64_MIN;
        got = td_run_values(run->run, signal, series->statistic, first, INT64_MAX, values, CHUNK);
        for (size_t i = 0; good && i < got; i++) {
            good = td__pyramid_add(pyramid, &values[i]);
        }
    }
    td__free(values);
    return good;
}

const td__pyramid *td__cached_run_pyramid(td__cached_run *run, const td_run_signal *signal,
                                          const char *statistic) {
    td__cached_series *series = find_series(run, signal->id, statistic);
    if (!series) {
        return NULL;
    }
    series->used = ++run->cache->clock;
    td__pyramid *pyramid = &series->pyramid;
    if (pyramid->count && pyramid->extremes.last_step >= signal->last_step) {
        return pyramid;
    }
    size_t before = td__pyramid_bytes(pyramid);
    bool good = extend_pyramid(run, series, signal);
    atomic_fetch_add(&run->cache->pyramid_bytes, td__pyramid_bytes(pyramid) - before);
    if (!good) {
        drop_series(run, (size_t)(series - run->series));
        return NULL;
    }
    return pyramid;
}
