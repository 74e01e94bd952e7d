#include "answers/run_cache_private.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { MAX_RUNS = 1 << 16, LOCK_SECONDS = 2 };

const char *td__run_cache_folder(const td__run_cache *cache) {
    return cache->folder;
}

const char *td__run_cache_problem(td__run_cache *cache, char *text) {
    pthread_mutex_lock(&cache->lock);
    memcpy(text, cache->problem, sizeof cache->problem);
    pthread_mutex_unlock(&cache->lock);
    return text;
}

/* ---- Runs ----------------------------------------------------------------------------------- */

static void make_id(char id[TD__ID_SIZE], const char *place) {
    (void)snprintf(id, TD__ID_SIZE, "%016llx", (unsigned long long)td__hash_text(place));
}

/* The name that is shown for a run: its path below the cache's folder, or the last part of it. */
static const char *place_of(const td__run_cache *cache, const char *folder) {
    size_t length = cache->folder ? strlen(cache->folder) : 0;
    bool below = length && strncmp(folder, cache->folder, length) == 0;
    if (below && (folder[length] == '/' || folder[length] == '#')) { /* or URL#NAME */
        return folder + length + 1;
    }
    return td__place_name(folder);
}

static td__cached_run *find_run(td__run_cache *cache, const char *id) {
    for (size_t i = 0; i < cache->run_count; i++) {
        if (strcmp(cache->runs[i]->id, id) == 0) {
            return cache->runs[i];
        }
    }
    return NULL;
}

td_status td__run_cache_add(td__run_cache *cache, const char *folder, bool *added,
                            td_error *error) {
    char id[TD__ID_SIZE];
    make_id(id, cache->folder ? place_of(cache, folder) : folder);
    td__cached_run *run = find_run(cache, id);
    if (added) {
        *added = !run || !run->seen;
    }
    if (run) {
        run->seen = true;
        return TD_OK;
    }
    run = td__calloc(1, sizeof *run);
    char *copy = run ? td__strdup(folder) : NULL;
    if (!copy || !td__grow(&cache->runs, &cache->run_capacity, cache->run_count + 1, MAX_RUNS,
                           sizeof *cache->runs)) {
        td__free(copy);
        td__free(run);
        return td_error_set(error, TD_MEMORY, "too many runs below %s",
                            cache->folder ? cache->folder : folder);
    }
    memcpy(run->id, id, sizeof id);
    run->cache = cache;
    run->folder = copy;
    run->place = place_of(cache, copy);
    run->seen = true;
    pthread_mutex_init(&run->lock, NULL);
    cache->runs[cache->run_count++] = run;
    return TD_OK;
}

void td__cached_run_close(td__cached_run *run) {
    td__cached_run_drop_series(run);
    td_run_close(run->run);
    run->run = NULL;
    run->info.name = run->info.folder = run->info.parent = NULL;
}

td_status td__cached_run_open(td__cached_run *run, td_error *error) {
    if (run->run) {
        return TD_OK;
    }
    run->run = td_run_open(run->folder, error);
    if (!run->run) {
        run->error = *error;
        return error->status ? error->status : TD_IO;
    }
    run->info.size = sizeof run->info;
    td_run_about(run->run, &run->info);
    run->read = !run->info.events;
    run->error.text[0] = 0;
    return TD_OK;
}

/* ---- Acquiring --------------------------------------------------------------------------------- */

/* Returns false when another thread has held the run for LOCK_SECONDS. */
static bool lock_run(td__cached_run *run) {
    if (run->cache->blocking) {
        return pthread_mutex_lock(&run->lock) == 0;
    }
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LOCK_SECONDS;
    return pthread_mutex_timedlock(&run->lock, &until) == 0;
}

td__cached_run *td__cached_run_acquire(td__run_cache *cache, const char *id, td_error *error) {
    pthread_mutex_lock(&cache->lock);
    td__cached_run *run = find_run(cache, id);
    pthread_mutex_unlock(&cache->lock);
    if (!run) {
        td_error_set(error, TD_NOT_FOUND, "there is no such run");
        return NULL;
    }
    if (!lock_run(run)) {
        td_error_set(error, TD_BUSY, "the run is being read");
        return NULL;
    }
    run->used = ++cache->clock;
    td_status status = td__cached_run_open(run, error);
    if (!status && !run->read) {
        status = cache->blocking ? td__cached_run_read(run, error)
                                 : td_error_set(error, TD_BUSY, "the run is being read");
        run->next_refresh = 0;
    }
    if (status) {
        pthread_mutex_unlock(&run->lock);
        return NULL;
    }
    return run;
}

void td__cached_run_release(td__cached_run *run) {
    pthread_mutex_unlock(&run->lock);
}

/* Waits for a run that another request has, until a moment that is the same for all runs of a list. */
static bool lock_listed(td__cached_run *run, const struct timespec *until) {
    return pthread_mutex_trylock(&run->lock) == 0 ||
           (atomic_load_explicit(&run->listed, memory_order_relaxed) &&
            pthread_mutex_timedlock(&run->lock, until) == 0);
}

void td__run_cache_each(td__run_cache *cache, td__cached_run_function *each, void *user) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1;
    pthread_mutex_lock(&cache->lock);
    size_t count = cache->run_count;
    pthread_mutex_unlock(&cache->lock);
    for (size_t i = 0; i < count; i++) {
        pthread_mutex_lock(&cache->lock);
        td__cached_run *run = cache->runs[i];
        bool seen = run->seen;
        pthread_mutex_unlock(&cache->lock);
        if (!seen) {
            continue;
        }
        bool got = lock_listed(run, &until);
        each(user, run, !got);
        if (got) {
            pthread_mutex_unlock(&run->lock);
        }
    }
}

/* ---- The cache ------------------------------------------------------------------------------ */

static td__run_cache *create_cache(const char *folder) {
    td__run_cache *cache = td__calloc(1, sizeof *cache);
    if (!cache) {
        return NULL;
    }
    pthread_mutex_init(&cache->lock, NULL);
    cache->folder = folder ? td__strdup(folder) : NULL;
    if (folder && !cache->folder) {
        td__run_cache_destroy(cache);
        return NULL;
    }
    for (size_t n = folder ? strlen(folder) : 0; n > 1 && cache->folder[n - 1] == '/'; n--) {
        cache->folder[n - 1] = 0;
    }
    return cache;
}

static td_status ignore_run(void *user, const char *folder, td_error *error) {
    (void)user, (void)folder, (void)error;
    return TD_OK;
}

/* The runs of a database. */
static td__run_cache *create_of_url(const char *url, td_error *error) {
    char plain[TD__URL_ROOM];
    if (td__url_take(url, plain, NULL, error) || td_runs_find(plain, ignore_run, NULL, error)) {
        return NULL;
    }
    td__run_cache *cache = create_cache(plain);
    if (cache) {
        cache->watch = td__watch_open(plain);
    }
    if (!cache || !cache->watch) {
        td__run_cache_destroy(cache);
        td_error_set(error, TD_MEMORY, "out of memory");
        return NULL;
    }
    return cache;
}

td__run_cache *td__run_cache_create(const char *folder, td_error *error) {
    struct stat about;
    if (td__url_is(folder)) {
        return create_of_url(folder, error);
    }
    if (stat(folder, &about) != 0 || !S_ISDIR(about.st_mode)) {
        td_error_set(error, TD_NOT_FOUND,
                     "%s is no folder; train something first, or name another folder", folder);
        return NULL;
    }
    td__run_cache *cache = create_cache(folder);
    if (!cache) {
        td_error_set(error, TD_MEMORY, "out of memory");
    }
    return cache;
}

td__run_cache *td__run_cache_create_of(const char *const *folders, size_t count, td_error *error) {
    td__run_cache *cache = create_cache(NULL);
    if (!cache) {
        td_error_set(error, TD_MEMORY, "out of memory");
        return NULL;
    }
    cache->blocking = true;
    for (size_t i = 0; i < count; i++) {
        if (td__run_cache_add(cache, folders[i], NULL, error)) {
            td__run_cache_destroy(cache);
            return NULL;
        }
    }
    return cache;
}

void td__run_cache_destroy(td__run_cache *cache) {
    for (size_t i = 0; cache && i < cache->run_count; i++) {
        td__cached_run *run = cache->runs[i];
        td__cached_run_close(run);
        for (size_t k = 0; k < run->metric_count; k++) {
            td__free(run->metrics[k].name);
        }
        pthread_mutex_destroy(&run->lock);
        td__output_release(&run->verdict);
        td__output_release(&run->remarks);
        td__output_release(&run->settings);
        td__free(run->series);
        td__free(run->name);
        td__free(run->folder);
        td__free(run);
    }
    if (cache) {
        pthread_mutex_destroy(&cache->lock);
        td__watch_close(cache->watch);
        td__free(cache->runs);
        td__free(cache->folder);
        td__free(cache);
    }
}
