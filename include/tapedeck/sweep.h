/* Sweeps: one experiment trained with many settings, the bad ones stopped early.
 *
 *     td_sweep *sweep = td_sweep_create("digits.yaml", &options, &error);
 *     td_sweep_task task;
 *     status = td_sweep_begin(sweep, &error);
 *     while (!status && td_sweep_next(sweep, &task) == TD_SWEEP_TRAIN) {
 *         status = td_sweep_train(sweep, &task, &error);
 *     }
 *
 * A sweep is a folder: sweep.json has what is to be trained, trial-001, trial-002, … are runs, and
 * trial-001.log has what became of the first one, epoch by epoch. All decisions follow from these files, so
 * that a sweep that was killed goes on where it was, and the order in which trials end changes nothing.
 *
 * Several trials train at once in several processes: one that asks td_sweep_next and, for each task, starts
 * another that calls td_sweep_train and ends. Only td_sweep_stop may come from another thread or from a
 * signal handler.
 */
#ifndef TAPEDECK_SWEEP_H
#define TAPEDECK_SWEEP_H

#include "tapedeck/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_sweep td_sweep;

/* Zero means default; everything is borrowed for the duration of the call. */
typedef struct td_sweep_options {
    size_t size;            /* sizeof(td_sweep_options) */
    const char *out;        /* the folder that the sweep's own is created in; NULL: "runs" */
    const char *const *set; /* "KEY=A,B,C": every combination is a trial; "KEY=A" is set in all */
    size_t set_count;
    /* "KEY=log(A,B)", "KEY=uniform(A,B)", "KEY=int(A,B)": drawn `draws` times, by the
     * experiment's seed; each draw is trained with every combination. */
    const char *const *random;
    size_t random_count;
    int64_t draws;
    const char *metric; /* that decides; NULL: val_loss, or loss without a validation part */
    /* Successive halving: of the trials that reach a rung, one in `factor` goes on to the next,
     * which has `factor` times the epochs. 0: every trial trains to its end. */
    int64_t factor;
    int64_t threads; /* of each trial whose experiment does not say; 0: 1 */
} td_sweep_options;

/* Reads and checks the experiment with the settings of every trial; nothing is written. NULL on
 * failure. */
TD_API td_sweep *td_sweep_create(const char *experiment, const td_sweep_options *options,
                                 td_error *error);
/* A sweep that was begun: TD_NOT_FOUND when folder is none, TD_BUSY while another process trains it,
 * TD_STATE when its experiment file is not what it was. */
TD_API td_sweep *td_sweep_open(const char *folder, td_error *error);
/* Accepts NULL. */
TD_API void td_sweep_destroy(td_sweep *sweep);

/* What can only be known with the data: how many epochs there are, and which metrics. */
typedef struct td_sweep_facts {
    int64_t epochs;
    char metric[128];
    bool larger;     /* is better */
    int64_t threads; /* of a trial */
} td_sweep_facts;
/* Opens the data and builds the model of the first trial. It starts threads, so a program that
 * forks calls it in another process. */
TD_API TD_NODISCARD td_status td_sweep_look(const td_sweep *sweep, td_sweep_facts *facts,
                                            td_error *error);
/* Creates the folder (OUT/NAME-sweep, or NAME-sweep-2, …) and locks it. facts: td_sweep_look's;
 * NULL: it is called. */
TD_API TD_NODISCARD td_status td_sweep_begin(td_sweep *sweep, const td_sweep_facts *facts,
                                             td_error *error);

typedef enum td_sweep_answer {
    TD_SWEEP_TRAIN, /* the task */
    TD_SWEEP_WAIT,  /* tasks that were handed out decide what comes next */
    TD_SWEEP_DONE
} td_sweep_answer;

typedef struct td_sweep_task {
    size_t trial;
    int64_t epoch; /* to train up to; INT64_MAX: to its end */
} td_sweep_task;

/* What is to be trained next. */
TD_API td_sweep_answer td_sweep_next(td_sweep *sweep, td_sweep_task *task);
/* Trains in this process, from the trial's last checkpoint on. TD_OK: the epoch is reached, or
 * the trial ended before: stopped early, or diverged (td_sweep_trial says). TD_INTERRUPTED after
 * td_sweep_stop. */
TD_API TD_NODISCARD td_status td_sweep_train(td_sweep *sweep, const td_sweep_task *task,
                                             td_error *error);
/* A task that another process was given has ended: its log is read. failed: it is not handed out
 * again by this object. */
TD_API TD_NODISCARD td_status td_sweep_ended(td_sweep *sweep, size_t trial, bool failed,
                                             td_error *error);
/* Makes td_sweep_train end after the current step. Safe in signal handlers. */
TD_API void td_sweep_stop(td_sweep *sweep);

/* "waiting", "stopped" (by halving), "finished", "diverged", "failed" */
typedef struct td_sweep_trial {
    const char *name;   /* "trial-001" */
    const char *folder; /* of its run */
    const char *state;
    const char *const *values; /* of td_sweep_keys, as they are set */
    int64_t epochs;            /* trained */
    double best;               /* of the metric; NaN: none */
    int64_t best_epoch;        /* 0: none */
} td_sweep_trial;

/* Borrowed from the sweep. */
TD_API const char *td_sweep_folder(const td_sweep *sweep); /* NULL before td_sweep_begin */
TD_API const td_sweep_facts *td_sweep_known(const td_sweep *sweep);
TD_API size_t td_sweep_keys(const td_sweep *sweep, const char *const **keys);
TD_API size_t td_sweep_trial_count(const td_sweep *sweep);
/* False when index is not below the count. */
TD_API bool td_sweep_trial_at(const td_sweep *sweep, size_t index, td_sweep_trial *trial);
/* The trials from the best on: those that came further first. order has room for all. */
TD_API void td_sweep_rank(const td_sweep *sweep, size_t *order);
/* The epochs that trials are compared at, the last one included; how many, at most `max`. */
TD_API size_t td_sweep_rungs(const td_sweep *sweep, int64_t *epochs, int64_t *trials, size_t max);
/* FOLDER/table.csv: rank,trial,KEY…,epochs,best_epoch,METRIC,state, the best first. */
TD_API TD_NODISCARD td_status td_sweep_write_table(const td_sweep *sweep, td_error *error);

#ifdef __cplusplus
}
#endif
#endif
