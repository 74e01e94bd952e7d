/* A sweep, inside.
 *
 *     space.c    "KEY=A,B", "KEY=log(A,B)": the settings of every trial
 *     sweep.c    the object, its folder and sweep.json
 *     rungs.c    what is trained next, and which trial is better
 *     log.c      what became of a trial: trial-001.log
 *     trial.c    training one
 *
 * A log has a line for each epoch, "EPOCH VALUE", "pause EPOCH" when the run was closed after it, and at the end
 * "end finished" or "end diverged". The line of an epoch is appended before its checkpoint is written: a log never
 * lacks what a resumed training skips. Lines that repeat an epoch, after a resume, say the same again.
 */
#ifndef TAPEDECK_SWEEP_SWEEP_H
#define TAPEDECK_SWEEP_SWEEP_H

#include "tapedeck/sweep.h"

#include <signal.h>

enum {
    TD__SWEEP_MAX_TRIALS = 100000,
    TD__SWEEP_MAX_KEYS = 64,
    TD__SWEEP_MAX_RUNGS = 32,
    TD__SWEEP_PATH = 4200,
};

/* What became of a trial so far. */
typedef enum td__trial_end { TD__TRIAL_OPEN, TD__TRIAL_FINISHED, TD__TRIAL_DIVERGED } td__trial_end;

typedef struct td__trial {
    char name[24];
    char *folder;
    char **values;  /* of the sweep's keys */
    double *metric; /* by epoch, from 1 at [0] */
    int64_t epochs; /* in metric */
    int64_t paused; /* the last epoch that the run was closed after; 0: none */
    size_t room;
    td__trial_end end;
    bool busy, failed;
} td__trial;

typedef struct td__rung {
    int64_t epochs;
    size_t count;
} td__rung;

/* A trial among others, at an epoch. */
typedef struct td__standing {
    size_t trial;
    double value; /* less is better; NaN last */
    int64_t epochs;
    bool lost; /* diverged or failed */
} td__standing;

struct td_sweep {
    char *experiment; /* its path, from the root */
    uint64_t hash;    /* of the file */
    char *name, *out, *folder;
    char **fixed; /* "KEY=VALUE", set in all trials */
    size_t fixed_count;
    char **keys;
    size_t key_count;
    td__trial *trials;
    size_t trial_count;
    int64_t factor;
    td_sweep_facts facts;
    td__rung rungs[TD__SWEEP_MAX_RUNGS];
    size_t rung_count;
    td__standing *standings; /* one for each trial, while trials are compared */
    int lock;                /* -1: none */
    volatile sig_atomic_t stop;
    struct td_trainer *volatile trainer; /* that td_sweep_stop stops */
};

/* space.c: fills keys, fixed and the values of all trials. */
TD_NODISCARD td_status td__sweep_span(td_sweep *sweep, const td_sweep_options *options,
                                      uint64_t seed, td_error *error);
/* Room for this many trials, with their names. */
TD_NODISCARD td_status td__sweep_make_trials(td_sweep *sweep, size_t count, td_error *error);

/* rungs.c */
TD_NODISCARD td_status td__sweep_make_rungs(td_sweep *sweep, td_error *error);
/* The best value up to an epoch; NaN: none. *at (may be NULL): its epoch. */
double td__trial_best(const td_sweep *sweep, const td__trial *trial, int64_t epoch, int64_t *at);

/* log.c */
TD_NODISCARD td_status td__trial_read(const td_sweep *sweep, td__trial *trial, td_error *error);
/* A trial begins anew: its log is emptied, unless go_on: then a torn line is cut off. A file to append to; -1 on
 * failure. */
int td__trial_log(const td_sweep *sweep, const td__trial *trial, bool go_on, td_error *error);
bool td__trial_log_epoch(int log, int64_t epoch, double value);
bool td__trial_log_pause(int log, int64_t epoch);
bool td__trial_log_end(int log, td__trial_end end);

/* The assignments of a trial, "KEY=VALUE", its name and threads included; the array and its texts are one piece of
 * memory, the caller's. NULL when memory is exhausted. */
const char **td__trial_settings(const td_sweep *sweep, const td__trial *trial, size_t *count);

#endif
