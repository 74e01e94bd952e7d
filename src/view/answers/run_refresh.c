/* Refreshes the runs of a cache: finds new ones, reads growing ones again (the more expensive, the
 * less often), and closes the ones that have not been requested for the longest time. */
#include "answers/run_cache_private.h"
#include "base/clock.h"
#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_OPEN = 24, MAX_NAMED = 256 };
/* A run that takes c seconds to read is read every live_share * c seconds: at most a hundredth of a
 * core, because a training may need all of them. */
static const double live_seconds = 0.5, still_seconds = 5, live_share = 100, search_seconds = 2;
/* What waiting for a server counts of it: the machine is free meanwhile. */
static const double waiting_share = 0.1;
/* Of a database whose server notifies changes: after how long runs are read and searched all the same. */
static const double silent_seconds = 10;

/* ---- Summaries of runs --------------------------------------------------------------- */

static void summarise_spark(td__cached_run *run, const td_run_signal *signal) {
    const td__pyramid *pyramid = td__cached_run_pyramid(run, signal, NULL);
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

static void summarise_run(td__cached_run *run) {
    size_t chosen[TD__MAX_METRICS];
    run->signal_count = td_run_signal_count(run->run);
    size_t count = td_run_main_metrics(run->run, chosen, TD__MAX_METRICS);
    for (size_t i = 0; i < run->metric_count; i++) {
        td__free(run->metrics[i].name);
    }
    run->metric_count = 0;
    for (size_t i = 0; i < count; i++) {
        const td_run_signal *signal = td_run_signal_at(run->run, chosen[i]);
        const td__pyramid *pyramid = td__cached_run_pyramid(run, signal, NULL);
        char *name = td__strdup(signal->name);
        if (!pyramid || !name) {
            td__free(name);
            continue;
        }
        td__metric_summary made = {.name = name, .last = pyramid->extremes.last};
        made.best = td_run_best(signal, &pyramid->extremes, &made.best_step);
        run->metrics[run->metric_count++] = made;
    }
    if (count > 0) {
        summarise_spark(run, td_run_signal_at(run->run, chosen[0]));
    }
    char *name = td__strdup(run->info.name);
    if (name) {
        td__free(run->name);
        run->name = name;
    }
}

/* Puts a text in the place of another, which is released; false when they are the same. */
static bool replace_text(td__output *old, td__output *text) {
    bool same =
        text->failed || (text->size == old->size && memcmp(text->data, old->data, old->size) == 0);
    td__output_release(same ? text : old);
    if (!same) {
        *old = *text;
    }
    return !same;
}

/* ---- The verdict of the diagnosis ----------------------------------------------------- */

typedef struct verdict {
    td__output text;
    char diagnosed[64];
    size_t count;
} verdict;

static void keep_diagnosed(void *user, const char *key, const char *value) {
    verdict *v = user;
    if (strcmp(key, "diagnosed") == 0) {
        (void)snprintf(v->diagnosed, sizeof v->diagnosed, "%s", value);
    }
}

/* The first finding is the most important one. */
static td_status keep_finding(void *user, const td_run_finding *finding, td_error *error) {
    (void)error;
    verdict *v = user;
    if (v->count++) {
        return TD_OK;
    }
    const char *const pairs[][2] = {{"cause", finding->cause},
                                    {"layer", finding->layer},
                                    {"confidence", finding->confidence},
                                    {"severity", finding->severity},
                                    {"remedy", finding->remedy}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        td__put_format(&v->text, "%s\"%s\":", i ? "," : "{", pairs[i][0]);
        td__put_json(&v->text, pairs[i][1] ? pairs[i][1] : "");
    }
    td__put_format(&v->text, ",\"since\":%lld,", (long long)finding->since_step);
    return TD_OK;
}

/* Returns true when the verdict has changed. */
static bool summarise_verdict(td__cached_run *run) {
    verdict v = {0};
    (void)td_run_notes(run->run, "run", keep_diagnosed, &v, NULL);
    td_error error = {0};
    v.text.failed |= td_run_findings(run->run, keep_finding, &v, &error) != TD_OK;
    if (v.count || *v.diagnosed) {
        td__put_format(&v.text, "%s\"count\":%zu,\"diagnosed\":", v.count ? "" : "{", v.count);
        td__put_json(&v.text, v.diagnosed);
        td__put_text(&v.text, "}");
    } else {
        td__put_text(&v.text, "null");
    }
    return replace_text(&run->verdict, &v.text);
}

/* ---- What people noted about it, and its settings -------------------------------------- */

typedef struct object {
    td__output text;
    size_t count;
} object;

static void put_member(object *o, const char *key, const char *value) {
    td__put_text(&o->text, o->count++ ? "," : "{");
    td__put_json(&o->text, key);
    td__put_text(&o->text, ":");
    td__put_json(&o->text, value);
}

static void keep_remark(void *user, const char *key, const char *value) {
    if (td__is_remark(key) || strcmp(key, "title") == 0 || strcmp(key, "group") == 0 ||
        strcmp(key, "parent") == 0 || strcmp(key, "parent.step") == 0) {
        put_member(user, key, value);
    }
}

static void keep_setting(void *user, const char *key, const char *value) {
    /* What is recorded changes nothing of the training. */
    if (strncmp(key, "record.", 7) != 0) {
        put_member(user, key, value);
    }
}

/* Returns true when something has changed. */
static bool summarise_notes(td__cached_run *run) {
    object remarks = {0}, settings = {0};
    (void)td_run_notes(run->run, "run", keep_remark, &remarks, NULL);
    (void)td_run_settings(run->run, keep_setting, &settings, NULL);
    td__put_text(&remarks.text, remarks.count ? "}" : "{}");
    td__put_text(&settings.text, settings.count ? "}" : "{}");
    bool changed = replace_text(&run->remarks, &remarks.text);
    return replace_text(&run->settings, &settings.text) || changed;
}

td_status td__cached_run_read(td__cached_run *run, td_error *error) {
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
    const char *const *problems;
    bool damaged = td_run_problems(run->run, &problems) > 0;
    (void)snprintf(run->problem, sizeof run->problem, "%s", damaged ? problems[0] : "");
    /* A trigger records earlier steps and a resumed run records steps again, so the cached series may
     * be incomplete. */
    if (run->info.events || run->info.last_step < last ||
        (before == TD_RUN_RUNNING && run->info.state != TD_RUN_RUNNING)) {
        td__cached_run_drop_series(run);
    }
    if (first || run->info.last_step != last || run->info.state != before) {
        summarise_run(run);
    }
    run->judged |= summarise_verdict(run);
    run->judged |= summarise_notes(run);
    atomic_store_explicit(&run->listed, run->name != NULL, memory_order_relaxed);
    return TD_OK;
}

td_status td__cached_run_read_again(td__cached_run *run, td_error *error) {
    td__cached_run_close(run);
    td_status status = td__cached_run_open(run, error);
    return status ? status : td__cached_run_read(run, error);
}

/* ---- Changes -------------------------------------------------------------------------------- */

typedef struct known {
    int64_t id, last;
} known;

static known *remember_signals(const td__cached_run *run, size_t *count) {
    *count = run->read ? td_run_signal_count(run->run) : 0;
    known *list = td__calloc(*count + 1, sizeof *list);
    for (size_t i = 0; list && i < *count; i++) {
        const td_run_signal *signal = td_run_signal_at(run->run, i);
        list[i] = (known){signal->id, signal->last_step};
    }
    *count = list ? *count : 0;
    return list;
}

/* Writes the changes of a run: {"id":…,"state":…,"step":…,"signals":[[id,last step],…]}. "signals"
 * is null when more than MAX_NAMED changed. */
static void put_changes(td__output *changes, const td__cached_run *run, const known *before,
                        size_t before_count) {
    size_t count = td_run_signal_count(run->run), named = 0;
    td__put_format(changes, "%s{\"id\":\"%s\",\"state\":\"%s\",\"step\":%lld,\"signals\":",
                   changes->size ? "," : "", run->id, td_run_state_name(run->info.state),
                   (long long)run->info.last_step);
    size_t start = changes->size;
    td__put_text(changes, "[");
    for (size_t i = 0; i < count && named <= MAX_NAMED; i++) {
        const td_run_signal *signal = td_run_signal_at(run->run, i);
        bool same =
            i < before_count && before[i].id == signal->id && before[i].last == signal->last_step;
        if (!same) {
            td__put_format(changes, "%s[%lld,%lld]", named++ ? "," : "", (long long)signal->id,
                           (long long)signal->last_step);
        }
    }
    td__put_text(changes, "]");
    if (named > MAX_NAMED && !changes->failed) {
        changes->size = start;
        td__put_text(changes, "null");
    }
    td__put_text(changes, "}");
}

/* ---- Refreshing ----------------------------------------------------------------------------- */

static td_status add_found_run(void *user, const char *folder, td_error *error) {
    td__run_cache *cache = user;
    pthread_mutex_lock(&cache->lock);
    td_status status = td__run_cache_add(cache, folder, NULL, error);
    pthread_mutex_unlock(&cache->lock);
    return status;
}

/* Returns true when runs were added or removed. */
static bool search_folder(td__run_cache *cache) {
    double started = td__seconds();
    bool nothing_new =
        cache->listening && !cache->unsearched && started < cache->searched_at + silent_seconds;
    if (started < cache->next_search || nothing_new) {
        return false;
    }
    cache->unsearched = false;
    cache->searched_at = started;
    pthread_mutex_lock(&cache->lock);
    size_t before = 0, after = 0;
    for (size_t i = 0; i < cache->run_count; i++) {
        before += cache->runs[i]->seen;
        cache->runs[i]->seen = false;
    }
    pthread_mutex_unlock(&cache->lock);
    td_error error = {0};
    td_status status = td_runs_find(cache->folder, add_found_run, cache, &error);
    pthread_mutex_lock(&cache->lock);
    (void)snprintf(cache->problem, sizeof cache->problem, "%s", status ? error.text : "");
    for (size_t i = 0; i < cache->run_count; i++) {
        after += cache->runs[i]->seen;
    }
    pthread_mutex_unlock(&cache->lock);
    double now = td__seconds();
    cache->next_search = now + fmax(search_seconds, live_share * (now - started));
    return before != after;
}

/* Returns true when the run has changed. The caller holds the run's lock. */
static bool refresh_run(td__cached_run *run, td__output *changes) {
    double started = td__seconds(), started_cpu = td__cpu_seconds();
    td_error error = {0};
    bool was_open = run->run != NULL, fresh = !run->name;
    if (td__cached_run_open(run, &error)) {
        run->next_refresh = started + still_seconds;
        return fresh;
    }
    td_run_info now = {.size = sizeof now};
    td_run_about(run->run, &now);
    bool same = run->info.events && run->read && was_open && now.bytes == run->info.bytes;
    size_t count = 0;
    known *before = was_open && !same ? remember_signals(run, &count) : NULL;
    td_run_state state = run->info.state;
    int64_t step = run->info.last_step;
    bool good = same || td__cached_run_read(run, &error) == TD_OK;
    bool changed = good && !same &&
                   (fresh || run->judged || run->info.state != state ||
                    run->info.last_step != step || run->info.events);
    run->judged = false;
    if (changed) {
        put_changes(changes, run, before, count);
    }
    td__free(before);
    double cost = td__seconds() - started;
    if (run->cache->watch) {
        cost = fmax(td__cpu_seconds() - started_cpu, waiting_share * cost);
    }
    bool live = run->info.state == TD_RUN_RUNNING || run->info.events;
    run->next_refresh =
        started + cost + fmax(live ? live_seconds : still_seconds, live_share * cost);
    run->read_at = started;
    return changed;
}

/* A run that has ended is closed and is not refreshed until it is requested again. */
static bool is_due(const td__run_cache *cache, td__cached_run *run) {
    double now = td__seconds();
    if (now < run->next_refresh || (!run->run && run->name)) {
        return false;
    }
    return !cache->listening || !run->run || now >= run->read_at + silent_seconds ||
           td__watch_run(cache->watch, run->run, &run->notified);
}

static void close_oldest(td__run_cache *cache) {
    for (;;) {
        size_t open = 0;
        td__cached_run *oldest = NULL;
        for (size_t i = 0; i < cache->run_count; i++) {
            td__cached_run *run = cache->runs[i];
            if (pthread_mutex_trylock(&run->lock) != 0) {
                continue;
            }
            open += run->run != NULL;
            oldest = run->run && (!oldest || run->used < oldest->used) ? run : oldest;
            pthread_mutex_unlock(&run->lock);
        }
        if (open <= MAX_OPEN || !oldest || pthread_mutex_trylock(&oldest->lock) != 0) {
            return;
        }
        td__cached_run_close(oldest);
        pthread_mutex_unlock(&oldest->lock);
    }
}

bool td__run_cache_refresh(td__run_cache *cache, td__output *changes) {
    bool notified = false;
    cache->listening = cache->watch && td__watch_take(cache->watch, &notified);
    cache->unsearched |= notified;
    bool listed = search_folder(cache), changed = false;
    size_t refreshed = 0;
    td__output runs = {0};
    /* Only this thread adds runs, so it reads the list without the lock. */
    for (size_t i = 0; i < cache->run_count; i++) {
        td__cached_run *run = cache->runs[i];
        if (!run->seen || pthread_mutex_trylock(&run->lock) != 0) {
            continue;
        }
        bool due = is_due(cache, run);
        changed |= due && refresh_run(run, &runs);
        refreshed += due;
        pthread_mutex_unlock(&run->lock);
        if (due && refreshed % MAX_OPEN == 0) {
            close_oldest(
                cache); /* at the first look at thousands of runs not all are open at once */
        }
    }
    close_oldest(cache);
    if (!listed && !changed) {
        td__output_release(&runs);
        return false;
    }
    td__put_format(changes, "{\"listed\":%s,\"runs\":[", listed ? "true" : "false");
    if (runs.size) {
        td__put(changes, runs.data, runs.size);
    }
    td__put_text(changes, "]}");
    changes->failed |= runs.failed;
    td__output_release(&runs);
    return true;
}
