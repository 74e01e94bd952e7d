/* Looking after the runs of a shelf: new ones are found, growing ones read again, each as often as
 * that is cheap, and the ones that nobody has asked for in a while closed. */
#include "base/clock.h"
#include "base/memory.h"
#include "answers/shelf_private.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_OPEN = 24, MOST_NAMED = 256 };
/* A run that costs c seconds to look at is looked at every LIVE_SHARE * c: at most a hundredth of a
 * core, beside a training that wants all of them. */
static const double live_seconds = 0.5, still_seconds = 5, live_share = 100, search_seconds = 2;

/* ---- What a run is, in a line --------------------------------------------------------------- */

static void summarise_spark(td__shelf_run *run, const td_run_signal *signal) {
    const td__pyramid *pyramid = td__shelf_pyramid(run, signal, NULL);
    td__bucket buckets[TD__SPARK];
    td_run_value values[TD__SPARK];
    run->spark_count = 0;
    if (pyramid && pyramid->count <= TD__SPARK) {
        run->spark_count =
            td_run_values(run->run, signal, NULL, INT64_MIN, INT64_MAX, values, TD__SPARK);
        for (size_t i = 0; i < run->spark_count; i++) {
            run->spark[i] = values[i].value;
        }
    } else if (pyramid) {
        run->spark_count = td__pyramid_query(pyramid, INT64_MIN, INT64_MAX, buckets, TD__SPARK);
        for (size_t i = 0; i < run->spark_count; i++) {
            run->spark[i] =
                buckets[i].valued ? buckets[i].sum / (double)buckets[i].valued : (double)NAN;
        }
    }
}

static void summarise(td__shelf_run *run) {
    const td_run_signal *signals;
    size_t chosen[TD__MOST_METRICS];
    run->signal_count = td_run_signals(run->run, &signals);
    size_t count = td_run_main_metrics(run->run, chosen, TD__MOST_METRICS);
    for (size_t i = 0; i < run->metric_count; i++) {
        td__free(run->metrics[i].name);
    }
    run->metric_count = 0;
    for (size_t i = 0; i < count; i++) {
        const td_run_signal *signal = &signals[chosen[i]];
        const td__pyramid *pyramid = td__shelf_pyramid(run, signal, NULL);
        char *name = td__strdup(signal->name);
        if (!pyramid || !name) {
            td__free(name);
            continue;
        }
        td__shelf_summary made = {.name = name, .last = pyramid->extremes.last};
        made.best = td_run_best(signal, &pyramid->extremes, &made.best_step);
        run->metrics[run->metric_count++] = made;
    }
    if (count > 0) {
        summarise_spark(run, &signals[chosen[0]]);
    }
    char *name = td__strdup(run->info.name);
    if (name) {
        td__free(run->name);
        run->name = name;
    }
}

td_status td__shelf_read(td__shelf_run *run, td_error *error) {
    td_run_state before = run->info.state;
    td_status status = td_run_refresh(run->run, error);
    if (status) {
        run->error = *error;
        return status;
    }
    bool first = !run->read || !run->name;
    int64_t last = run->info.last_step;
    run->read = true;
    run->info.size = sizeof run->info;
    td_run_about(run->run, &run->info);
    /* A trigger writes steps from before it, a resumed run writes steps again: what was read while
     * it grew may not be all there is. */
    if (run->info.events || run->info.last_step < last ||
        (before == TD_RUN_RUNNING && run->info.state != TD_RUN_RUNNING)) {
        td__shelf_series_drop_all(run);
    }
    if (first || run->info.last_step != last || run->info.state != before) {
        summarise(run);
    }
    return TD_OK;
}

/* ---- News ----------------------------------------------------------------------------------- */

typedef struct known {
    int64_t id, last;
} known;

static known *remember(const td__shelf_run *run, size_t *count) {
    const td_run_signal *signals;
    *count = run->read ? td_run_signals(run->run, &signals) : 0;
    known *list = td__calloc(*count + 1, sizeof *list);
    for (size_t i = 0; list && i < *count; i++) {
        list[i] = (known){signals[i].id, signals[i].last_step};
    }
    *count = list ? *count : 0;
    return list;
}

/* {"id":…,"state":…,"step":…,"signals":[[id,last step],…]} of what is new; "signals" is null when
 * there are too many to name. */
static void put_news(td__output *news, const td__shelf_run *run, const known *before,
                     size_t before_count) {
    const td_run_signal *signals;
    size_t count = td_run_signals(run->run, &signals), named = 0;
    td__put_format(
        news, "%s{\"id\":\"%s\",\"state\":\"%s\",\"step\":%lld,\"signals\":", news->size ? "," : "",
        run->id, td_run_state_name(run->info.state), (long long)run->info.last_step);
    size_t start = news->size;
    td__put_text(news, "[");
    for (size_t i = 0; i < count && named <= MOST_NAMED; i++) {
        bool same = i < before_count && before[i].id == signals[i].id &&
                    before[i].last == signals[i].last_step;
        if (!same) {
            td__put_format(news, "%s[%lld,%lld]", named++ ? "," : "", (long long)signals[i].id,
                           (long long)signals[i].last_step);
        }
    }
    td__put_text(news, "]");
    if (named > MOST_NAMED && !news->failed) {
        news->size = start;
        td__put_text(news, "null");
    }
    td__put_text(news, "}");
}

/* ---- Tending -------------------------------------------------------------------------------- */

static td_status found(void *user, const char *folder, td_error *error) {
    td__shelf *shelf = user;
    pthread_mutex_lock(&shelf->lock);
    td_status status = td__shelf_add(shelf, folder, NULL, error);
    pthread_mutex_unlock(&shelf->lock);
    return status;
}

/* Whether runs came or went. */
static bool search(td__shelf *shelf) {
    double started = td__seconds();
    if (started < shelf->next_search) {
        return false;
    }
    pthread_mutex_lock(&shelf->lock);
    size_t before = 0, after = 0;
    for (size_t i = 0; i < shelf->run_count; i++) {
        before += shelf->runs[i]->seen;
        shelf->runs[i]->seen = false;
    }
    pthread_mutex_unlock(&shelf->lock);
    td_error error = {0};
    td_status status = td_runs_find(shelf->folder, found, shelf, &error);
    pthread_mutex_lock(&shelf->lock);
    (void)snprintf(shelf->problem, sizeof shelf->problem, "%s", status ? error.text : "");
    for (size_t i = 0; i < shelf->run_count; i++) {
        after += shelf->runs[i]->seen;
    }
    pthread_mutex_unlock(&shelf->lock);
    double now = td__seconds();
    shelf->next_search = now + fmax(search_seconds, live_share * (now - started));
    return before != after;
}

/* The run's lock is held. Whether there is something new. */
static bool look(td__shelf_run *run, td__output *news) {
    double started = td__seconds();
    td_error error = {0};
    bool was_open = run->run != NULL, fresh = !run->name;
    if (td__shelf_open(run, &error)) {
        run->next_look = started + still_seconds;
        return fresh;
    }
    td_run_info now = {.size = sizeof now};
    td_run_about(run->run, &now);
    bool same = run->info.events && run->read && was_open && now.bytes == run->info.bytes;
    size_t count = 0;
    known *before = was_open && !same ? remember(run, &count) : NULL;
    td_run_state state = run->info.state;
    int64_t step = run->info.last_step;
    bool good = same || td__shelf_read(run, &error) == TD_OK;
    bool changed =
        good && !same &&
        (fresh || run->info.state != state || run->info.last_step != step || run->info.events);
    if (changed) {
        put_news(news, run, before, count);
    }
    td__free(before);
    double cost = td__seconds() - started;
    bool live = run->info.state == TD_RUN_RUNNING || run->info.events;
    run->next_look = started + cost + fmax(live ? live_seconds : still_seconds, live_share * cost);
    return changed;
}

static void close_oldest(td__shelf *shelf) {
    for (;;) {
        size_t open = 0;
        td__shelf_run *oldest = NULL;
        for (size_t i = 0; i < shelf->run_count; i++) {
            td__shelf_run *run = shelf->runs[i];
            if (pthread_mutex_trylock(&run->lock) != 0) {
                continue;
            }
            open += run->run != NULL;
            oldest = run->run && (!oldest || run->used < oldest->used) ? run : oldest;
            pthread_mutex_unlock(&run->lock);
        }
        if (open <= MOST_OPEN || !oldest || pthread_mutex_trylock(&oldest->lock) != 0) {
            return;
        }
        td__shelf_close(oldest);
        pthread_mutex_unlock(&oldest->lock);
    }
}

bool td__shelf_tend(td__shelf *shelf, td__output *news) {
    bool listed = search(shelf), changed = false;
    td__output runs = {0};
    /* Only this thread adds runs, so that the list can be read without the lock. */
    for (size_t i = 0; i < shelf->run_count; i++) {
        td__shelf_run *run = shelf->runs[i];
        if (!run->seen || pthread_mutex_trylock(&run->lock) != 0) {
            continue;
        }
        /* A run that has ended is looked at again only while somebody looks at it. */
        bool due = td__seconds() >= run->next_look && (run->run || !run->name);
        changed |= due && look(run, &runs);
        pthread_mutex_unlock(&run->lock);
    }
    close_oldest(shelf);
    if (!listed && !changed) {
        td__output_release(&runs);
        return false;
    }
    td__put_format(news, "{\"listed\":%s,\"runs\":[", listed ? "true" : "false");
    if (runs.size) {
        td__put(news, runs.data, runs.size);
    }
    td__put_text(news, "]}");
    news->failed |= runs.failed;
    td__output_release(&runs);
    return true;
}
