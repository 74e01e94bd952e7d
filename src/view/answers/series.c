/* The pyramids of a run's signals: made when first asked for, extended as the run grows, forgotten
 * when there are too many. */
#include "base/memory.h"
#include "answers/shelf_private.h"

#include <string.h>

enum { CHUNK = 4096, MOST_SERIES = 1 << 20 };
static const size_t most_bytes = (size_t)64 << 20; /* of all pyramids together */

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

const td_run_signal *td__shelf_signal(const td__shelf_run *run, int64_t id) {
    const td_run_signal *signals;
    size_t count = td_run_signals(run->run, &signals);
    if (id > 0 && (size_t)id <= count && signals[id - 1].id == id) {
        return &signals[id - 1];
    }
    for (size_t i = 0; i < count; i++) {
        if (signals[i].id == id) {
            return &signals[i];
        }
    }
    return NULL;
}

static void drop(td__shelf_run *run, size_t index) {
    td__shelf_series *series = &run->series[index];
    atomic_fetch_sub(&run->shelf->pyramid_bytes, td__pyramid_bytes(&series->pyramid));
    td__pyramid_release(&series->pyramid);
    *series = run->series[--run->series_count];
}

void td__shelf_series_drop_all(td__shelf_run *run) {
    while (run->series_count > 0) {
        drop(run, run->series_count - 1);
    }
}

static void make_room(td__shelf_run *run) {
    while (run->series_count > 0 && atomic_load(&run->shelf->pyramid_bytes) > most_bytes) {
        size_t oldest = 0;
        for (size_t i = 1; i < run->series_count; i++) {
            oldest = run->series[i].used < run->series[oldest].used ? i : oldest;
        }
        drop(run, oldest);
    }
}

static td__shelf_series *find(td__shelf_run *run, int64_t signal, const char *statistic) {
    for (size_t i = 0; i < run->series_count; i++) {
        if (run->series[i].signal == signal && run->series[i].statistic == statistic) {
            return &run->series[i];
        }
    }
    make_room(run);
    if (!td__grow(&run->series, &run->series_capacity, run->series_count + 1, MOST_SERIES,
                  sizeof *run->series)) {
        return NULL;
    }
    td__shelf_series *made = &run->series[run->series_count++];
    *made = (td__shelf_series){.signal = signal, .statistic = statistic};
    return made;
}

static bool extend(td__shelf_run *run, td__shelf_series *series, const td_run_signal *signal) {
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

const td__pyramid *td__shelf_pyramid(td__shelf_run *run, const td_run_signal *signal,
                                     const char *statistic) {
    td__shelf_series *series = find(run, signal->id, statistic);
    if (!series) {
        return NULL;
    }
    series->used = ++run->shelf->clock;
    td__pyramid *pyramid = &series->pyramid;
    if (pyramid->count && pyramid->extremes.last_step >= signal->last_step) {
        return pyramid;
    }
    size_t before = td__pyramid_bytes(pyramid);
    bool good = extend(run, series, signal);
    atomic_fetch_add(&run->shelf->pyramid_bytes, td__pyramid_bytes(pyramid) - before);
    if (!good) {
        drop(run, (size_t)(series - run->series));
        return NULL;
    }
    return pyramid;
}
