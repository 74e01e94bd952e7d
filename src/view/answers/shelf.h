/* The runs that are looked at: found below a folder, opened when somebody asks, looked at again
 * while they grow, closed when others are needed more.
 *
 * Threads: any. Lock order: the shelf's, then a run's; nobody waits for a run while holding the
 * shelf. A run that td__shelf_take gave is the caller's alone until td__shelf_give. */
#ifndef TAPEDECK_VIEW_SHELF_H
#define TAPEDECK_VIEW_SHELF_H

#include "answers/output.h"
#include "answers/pyramid.h"

#include <pthread.h>
#include <stdatomic.h>

enum { TD__ID_SIZE = 17, TD__MOST_METRICS = 8, TD__SPARK = 48 };

/* One signal's numbers; statistic is one of td__statistic's, NULL for scalars. */
typedef struct td__shelf_series {
    int64_t signal;
    const char *statistic;
    td__pyramid pyramid;
    uint64_t used;
} td__shelf_series;

typedef struct td__shelf_summary {
    char *name;
    double last, best;
    int64_t best_step;
} td__shelf_summary;

typedef struct td__shelf td__shelf;

typedef struct td__shelf_run {
    td__shelf *shelf;
    char id[TD__ID_SIZE]; /* made of its place below the folder: the same tomorrow */
    char *folder;
    const char *place; /* the part of folder below the shelf's: what people call it */
    bool seen;         /* the shelf's lock: it was there at the last look */
    pthread_mutex_t lock;
    /* Below: the run's lock. */
    td_run *run;    /* NULL: not open */
    bool read;      /* all that it says of itself is in; event files take a while */
    td_error error; /* why it cannot be read */
    td_run_info info;
    char *name;
    td__shelf_series *series;
    size_t series_count, series_capacity;
    td__shelf_summary metrics[TD__MOST_METRICS];
    size_t metric_count, signal_count;
    double spark[TD__SPARK]; /* the first metric */
    size_t spark_count;
    uint64_t used;
    double next_look;
} td__shelf_run;

/* Runs at and below folder. NULL, and the error, when it cannot be searched. */
td__shelf *td__shelf_create(const char *folder, td_error *error);
/* Just these runs, each opened when first taken, however long that takes. */
td__shelf *td__shelf_of(const char *const *folders, size_t count, td_error *error);
void td__shelf_destroy(td__shelf *shelf);
const char *td__shelf_folder(const td__shelf *shelf);
/* Why the folder could not be searched, "" when it could; text has 256 bytes. Returns text. */
const char *td__shelf_problem(td__shelf *shelf, char *text);

/* Looks for new runs and at those that may have grown. What changed is put as JSON into news; false
 * when nothing did. Called by one thread, again and again. */
bool td__shelf_tend(td__shelf *shelf, td__output *news);

/* The run of that id, open and locked. NULL: TD_NOT_FOUND, TD_BUSY (it is still being read), or why
 * it cannot be opened. */
td__shelf_run *td__shelf_take(td__shelf *shelf, const char *id, td_error *error);
void td__shelf_give(td__shelf_run *run);

/* Takes in all that a run has now; it is taken. */
td_status td__shelf_read(td__shelf_run *run, td_error *error);

/* Calls each with every run; loading when it is not to be had right now, and then only its id and
 * place may be looked at. */
typedef void td__shelf_function(void *user, const td__shelf_run *run, bool loading);
void td__shelf_each(td__shelf *shelf, td__shelf_function *each, void *user);

/* The pyramid of a signal, with all that is recorded so far; NULL when memory is exhausted. Valid
 * until the next call. */
const td__pyramid *td__shelf_pyramid(td__shelf_run *run, const td_run_signal *signal,
                                     const char *statistic);
/* The statistic of that name, NULL when there is none. */
const char *td__statistic(const char *name);
/* NULL when the run has no such signal. */
const td_run_signal *td__shelf_signal(const td__shelf_run *run, int64_t id);

#endif
