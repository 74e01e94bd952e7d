/* What shelf.c, tend.c and series.c share. */
#ifndef TAPEDECK_VIEW_SHELF_PRIVATE_H
#define TAPEDECK_VIEW_SHELF_PRIVATE_H

#include "answers/shelf.h"

struct td__shelf {
    char *folder;
    bool patient; /* runs are read when they are taken, however long that takes */
    pthread_mutex_t lock;
    td__shelf_run **runs; /* the shelf's lock; a run stays until the shelf is destroyed */
    size_t run_count, run_capacity;
    char problem[256]; /* the shelf's lock: why the folder could not be searched; "" */
    double next_search;
    _Atomic uint64_t clock;
    _Atomic size_t pyramid_bytes; /* of all runs; relaxed is enough: it only guides */
};

/* ---- shelf.c ---- */

/* Adds a run unless it is there. The shelf's lock is held. *added (may be NULL). */
td_status td__shelf_add(td__shelf *shelf, const char *folder, bool *added, td_error *error);
/* The run's lock is held. Opens it, unless it is open; event files are not read yet. */
td_status td__shelf_open(td__shelf_run *run, td_error *error);
/* The run's lock is held. */
void td__shelf_close(td__shelf_run *run);

/* ---- series.c ---- */

void td__shelf_series_drop_all(td__shelf_run *run);

#endif
