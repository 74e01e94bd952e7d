/* Executing steps of a recorded training again, and recording them as one wishes one had.
 *
 *     td_replay_options how = {.size = sizeof how, .first = 1200, .last = 1250, .what = "conv2.*",
 *                              .form = TD_TENSOR};
 *     td_replay_result result = {.size = sizeof result};
 *     status = td_replay_run("runs/demo", &how, &result, &error);
 *
 * A run that `train` made is a function of its experiment, its data and its seed. A replay begins at the nearest
 * checkpoint, executes the same steps on the same batches with the trainer's own code, and compares losses,
 * batches and parameters with what the flight recorder kept (RUN/flight.bin).
 *
 * Nothing is written before everything is checked. A run is only read, but for td_replay_run without `out`,
 * which adds records to it. One call at a time in a process: kernels and threads are set as the run had them.
 */
#ifndef TAPEDECK_REPLAY_H
#define TAPEDECK_REPLAY_H

#include "tapedeck/run.h"
#include "tapedeck/train.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TD_REPLAY_PATH = 4096, TD_REPLAY_TEXT = 1024 };

/* What a replay will cost. */
typedef struct td_replay_plan {
    int64_t checkpoint;  /* the step it begins after; 0: the beginning */
    int64_t first, last; /* steps that are recorded */
    int64_t steps;       /* that are executed */
    double seconds;      /* an estimate by how long the run took; NaN: not known */
    int64_t bytes;       /* that are written, an estimate on the high side */
} td_replay_plan;

/* Zero means default; strings are borrowed for the duration of the call. */
typedef struct td_replay_options {
    size_t size;         /* sizeof(td_replay_options) */
    int64_t first, last; /* steps, both included; last 0: first */
    const char *what; /* names and globs, separated by commas; NULL: nothing is recorded, steps are
                          * only compared */
    uint32_t form;    /* td_form bits; 0: each sink's default */
    const char *to;   /* sinks, separated by commas; NULL: the default ones */
    const char
        *out; /* a new folder; NULL: the records are added to the run, never in place of others */
    const char *when;  /* only steps in which this holds, as in tracks */
    const char *until; /* ends with the first step in which this holds */
    int64_t history;   /* with when: also so many steps before */
    /* Called once before anything is executed or written; false ends the call with TD_INTERRUPTED. */
    bool (*plan)(void *user, const td_replay_plan *plan);
    void *user;
} td_replay_options;

typedef struct td_replay_result {
    size_t size; /* in: sizeof(td_replay_result) */
    int64_t checkpoint;
    int64_t last;     /* the last step that was executed */
    int64_t compared; /* steps whose loss was compared */
    int64_t
        identical_to; /* every step up to this one is the same as when it was recorded; 0: none was
                           * compared */
    int64_t differs_at;          /* the first step that is not; 0: none */
    char signal[64];             /* what differs there first: "batch", "loss" or "parameters" */
    char reason[TD_REPLAY_TEXT]; /* why, where that is known; or "" */
    int64_t records;             /* that were written */
    int64_t kept;                /* that the run had already, and kept as they were */
    char out[TD_REPLAY_PATH];    /* the folder that files were written to; "" when there are none */
} td_replay_result;

/* TD_NOT_FOUND: no run, no checkpoint, no data, no such signal; TD_INVALID: not trained by Tapedeck, or a bad
 * window; TD_FORMAT: data or checkpoints are not what they were; TD_UNSUPPORTED: of a later version;
 * TD_BUSY: it is being written, and out is not given. Also where steps differ TD_OK is returned: see
 * differs_at; their records are then not added to the run, but stay in result->out. */
TD_API TD_NODISCARD td_status td_replay_run(const char *run, const td_replay_options *options,
                                            td_replay_result *result, td_error *error);

/* The path of the experiment that a run's step was trained with: RUN/experiment.yaml, or the file of the
 * last resumption with other settings before that step. */
TD_API void td_replay_experiment(const char *run, int64_t step, char path[TD_REPLAY_PATH]);

/* A trainer for a branch: a new run that goes on after a step of another one with an experiment of its own,
 * which may differ in anything but the model. The step's state comes from the nearest checkpoint, executing
 * the steps up to it again and comparing them. The new run stores its parent and the step; what it began
 * from is in its folder `branch`. options as of td_trainer_create, without resume; out NULL: beside the
 * parent. experiment is borrowed until td_trainer_destroy. NULL on failure, with the errors of
 * td_replay_run; TD_FORMAT where the steps are not what they were. */
TD_API td_trainer *td_replay_branch(const char *run, int64_t step, td_experiment *experiment,
                                    const td_trainer_options *options, td_error *error);

#ifdef __cplusplus
}
#endif
#endif
