/* A cache of open runs. It finds runs below a folder, opens a run at the first request, refreshes it
 * while it grows, and closes the least recently used ones.
 *
 * Threads: any. Lock order: the cache's, then a run's; no thread waits for a run's lock while it
 * holds the cache's. A run from td__cached_run_acquire belongs to the caller alone until
 * td__cached_run_release. */
#ifndef TAPEDECK_VIEW_RUN_CACHE_H
#define TAPEDECK_VIEW_RUN_CACHE_H

#include "answers/output.h"
#include "answers/pyramid.h"

#include <pthread.h>
#include <stdatomic.h>

enum { TD__ID_SIZE = 17, TD__MAX_METRICS = 8, TD__SPARK = 48, TD__PROBLEM_SIZE = 256 };

/* One signal's numbers; statistic is one of td__statistic's, NULL for scalars. */
typedef struct td__cached_series {
    int64_t signal;
    const char *statistic;
    td__pyramid pyramid;
    uint64_t used;
} td__cached_series;

typedef struct td__metric_summary {
    char *name;
    double last, best;
    int64_t best_step;
} td__metric_summary;

typedef struct td__run_cache td__run_cache;

typedef struct td__cached_run {
    td__run_cache *cache;
    char id[TD__ID_SIZE]; /* a hash of its place below the folder: it does not change */
    char *folder;
    const char *place; /* the part of folder below the cache's: the name that is shown */
    bool seen;         /* the cache's lock: the last search found it */
    /* What the list shows of it is there: a thread that has its lock gives it back soon. Relaxed: the rest is read under
     * the lock. */
    atomic_bool listed;
    pthread_mutex_t lock;
    /* Below: the run's lock. */
    td_run *run;    /* NULL: not open */
    bool read;      /* its signals and values are read; event files take a while */
    td_error error; /* why it cannot be read */
    td_run_info info;
    char *name;
    char problem[TD__PROBLEM_SIZE]; /* the first thing of it that cannot be read; "": none */
    td__cached_series *series;
    size_t series_count, series_capacity;
    td__metric_summary metrics[TD__MAX_METRICS];
    size_t metric_count, signal_count;
    bool judged;             /* the verdict has changed since the last refresh */
    td__output verdict;      /* JSON: what the last diagnosis found; "null": there was none */
    td__output remarks;      /* JSON: what people said of it, an object */
    td__output settings;     /* JSON: what training was told, an object */
    double spark[TD__SPARK]; /* the first metric */
    size_t spark_count;
    uint64_t used;
    double next_refresh, read_at;
    uint64_t notified; /* of a database: the last notification that was acted upon */
} td__cached_run;

/* Runs at and below folder. NULL, and the error, when it cannot be searched. */
td__run_cache *td__run_cache_create(const char *folder, td_error *error);
/* A cache of just these runs; td__cached_run_acquire opens and reads each, however long that takes. */
td__run_cache *td__run_cache_create_of(const char *const *folders, size_t count, td_error *error);
void td__run_cache_destroy(td__run_cache *cache);
const char *td__run_cache_folder(const td__run_cache *cache);
/* Why the folder could not be searched, "" when it could; text has 256 bytes. Returns text. */
const char *td__run_cache_problem(td__run_cache *cache, char *text);

/* Searches for new runs and reads what growing runs have added. Writes the changes as JSON; returns
 * false when there are none. One thread calls this repeatedly. */
bool td__run_cache_refresh(td__run_cache *cache, td__output *changes);

/* The run with that id, open and locked. NULL on failure: TD_NOT_FOUND, TD_BUSY (it is still being
 * read), or the reason why it cannot be opened. */
td__cached_run *td__cached_run_acquire(td__run_cache *cache, const char *id, td_error *error);
void td__cached_run_release(td__cached_run *run);

/* Reads everything that the run has recorded so far. The caller has acquired the run. */
td_status td__cached_run_read(td__cached_run *run, td_error *error);

/* The same, where records of earlier steps may have come too. */
td_status td__cached_run_read_again(td__cached_run *run, td_error *error);

/* Calls each with every run. `loading` is true when another thread reads it for the first time, or has had it for more than
 * a second; then only its id and place may be read. */
typedef void td__cached_run_function(void *user, const td__cached_run *run, bool loading);
void td__run_cache_each(td__run_cache *cache, td__cached_run_function *each, void *user);

/* The pyramid of a signal with everything that is recorded so far; NULL when memory is exhausted. Valid
 * until the next call. */
const td__pyramid *td__cached_run_pyramid(td__cached_run *run, const td_run_signal *signal,
                                          const char *statistic);
/* Whether people may write a note of this key. */
bool td__is_remark(const char *key);
/* The statistic of that name, NULL when there is none. */
const char *td__statistic(const char *name);
/* NULL when the run has no such signal. */
const td_run_signal *td__cached_run_signal(const td__cached_run *run, int64_t id);

#endif
