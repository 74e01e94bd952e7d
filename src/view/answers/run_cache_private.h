/* Shared by run_cache.c, run_refresh.c and series.c. */
#ifndef TAPEDECK_VIEW_RUN_CACHE_PRIVATE_H
#define TAPEDECK_VIEW_RUN_CACHE_PRIVATE_H

#include "answers/run_cache.h"
#include "run/watch.h"

struct td__run_cache {
    char *folder;
    bool blocking; /* acquiring a run reads it first, however long that takes */
    pthread_mutex_t lock;
    td__cached_run **runs; /* the cache's lock; a run stays until the cache is destroyed */
    size_t run_count, run_capacity;
    char problem[256]; /* the cache's lock: why the folder could not be searched; "" */
    double next_search;
    /* Of a database; the refreshing thread's: */
    td__watch *watch; /* NULL: a folder */
    bool listening;   /* the server notifies what changes */
    bool unsearched;  /* something was notified since the last search */
    double searched_at;
    _Atomic uint64_t clock;
    _Atomic size_t pyramid_bytes; /* of all runs; relaxed is enough: it only guides */
};

/* ---- run_cache.c ---- */

/* Adds a run unless it is there; *added (may be NULL) is true when it was added. The caller holds the
 * cache's lock. */
td_status td__run_cache_add(td__run_cache *cache, const char *folder, bool *added, td_error *error);
/* Opens the run unless it is open; event files are not read yet. The caller holds the run's lock. */
td_status td__cached_run_open(td__cached_run *run, td_error *error);
/* The caller holds the run's lock. */
void td__cached_run_close(td__cached_run *run);

/* ---- series.c ---- */

void td__cached_run_drop_series(td__cached_run *run);

#endif
