/* What a run recorded, as symptoms are read from it: metrics and the statistics of
 * layers over time. */
#ifndef TAPEDECK_DIAGNOSE_HISTORY_H
#define TAPEDECK_DIAGNOSE_HISTORY_H

#include "tapedeck/run.h"

enum { TD__POINTS = 2048 };

/* Numbers over time, in order; count 0: not recorded. */
typedef struct td__series {
    char *name;
    size_t count;
    td_point *points;
} td__series;

typedef struct td__history {
    td_run *run;
    td_run_state state;
    int64_t last_step, last_epoch;

    td__series **read; /* what td__series_of has read so far */
    size_t read_count, read_capacity;
} td__history;

td__history *td__history_open(const char *run, td_error *error);
void td__history_close(td__history *history); /* accepts NULL */

/* A signal's scalars (statistic NULL) or one of its statistics; valid until the history is closed.
 * Never NULL: an empty series when there are none. */
const td__series *td__series_of(td__history *history, const char *signal, const char *statistic);
/* The loss step by step, or by epoch where there is no other; under the names that people give it. */
const td__series *td__loss_of(td__history *history);
const td__series *td__validation_loss_of(td__history *history);
/* The next signal of this kind after number *at, which moves on; NULL: no more. Begin with 0. */
const td_run_signal *td__next_signal(td__history *history, td_signal_kind kind, size_t *at);

/* Likewise the next derived signal with this last word: "attention.entropy" has "entropy". */
const td_run_signal *td__next_derived(td__history *history, const char *word, size_t *at);

/* Means over the finite points from share a to share b of the series; NaN when there are none. */
double td__series_mean(const td__series *series, double a, double b);
/* The first and last finite value; NaN when there is none. */
double td__series_first(const td__series *series);
double td__series_last(const td__series *series);
/* The least, and the step of it (may be NULL). */
double td__series_least(const td__series *series, int64_t *step);
double td__series_most(const td__series *series, int64_t *step);

#endif
