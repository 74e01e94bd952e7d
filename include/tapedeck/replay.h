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
#include "tapedeck/stats.h"
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
    /* A new folder; NULL: the records are added to the run, never in place of others. */
    const char *out;
    const char *when;  /* only steps in which this holds, as in tracks */
    const char *until; /* ends with the first step in which this holds */
    int64_t history;   /* with when: also this many steps before */
    /* Called once before anything is executed or written; false ends the call with TD_INTERRUPTED. */
    bool (*plan)(void *user, const td_replay_plan *plan);
    void *user;
} td_replay_options;

typedef struct td_replay_result {
    size_t size; /* in: sizeof(td_replay_result) */
    int64_t checkpoint;
    int64_t last;     /* the last step that was executed */
    int64_t compared; /* steps whose loss was compared */
    /* Every step up to this one is the same as when it was recorded; 0: none was compared. */
    int64_t identical_to;
    int64_t differs_at;          /* the first step that is not; 0: none */
    char signal[64];             /* what differs there first: "batch", "loss" or "parameters" */
    char reason[TD_REPLAY_TEXT]; /* why, where that is known; or "" */
    int64_t records;             /* that were written */
    int64_t kept;                /* that the run had already, and kept as they were */
    char out[TD_REPLAY_PATH];    /* the folder that files were written to; "" when there are none */
} td_replay_result;

/* TD_NOT_FOUND: no run, no checkpoint, no data, no such signal; TD_INVALID: not trained by
 * Tapedeck, or a bad window; TD_FORMAT: data or checkpoints are not what they were;
 * TD_UNSUPPORTED: of a later version; TD_BUSY: it is being written, and out is not given. Also
 * where steps differ TD_OK is returned: see differs_at; their records are then not added to the
 * run, but stay in result->out. */
TD_API TD_NODISCARD td_status td_replay_run(const char *run, const td_replay_options *options,
                                            td_replay_result *result, td_error *error);

/* The path of the experiment that a run's step was trained with: RUN/experiment.yaml, or the
 * file of the last resumption with other settings before that step. */
TD_API void td_replay_experiment(const char *run, int64_t step, char path[TD_REPLAY_PATH]);

/* A trainer for a branch: a new run that goes on after a step of another one with an experiment
 * of its own, which may differ in anything but the model. The step's state comes from the
 * nearest checkpoint, executing the steps up to it again and comparing them. The new run stores
 * its parent and the step; what it began from is in its folder `branch`. options as of
 * td_trainer_create, without resume; out NULL: beside the parent. experiment is borrowed until
 * td_trainer_destroy. NULL on failure, with the errors of td_replay_run; TD_FORMAT where the
 * steps are not what they were. */
TD_API td_trainer *td_replay_branch(const char *run, int64_t step, td_experiment *experiment,
                                    const td_trainer_options *options, td_error *error);

/* --- where a number came from, and where two runs part ------------------------------------- */

/* A tensor that an operation read, in front of it. */
typedef struct td_operand {
    const char *name; /* "conv1.output", "conv1.kernel" */
    td_shape shape;
    td_stats stats;
} td_operand;

/* One operation of a step, and an element of what it made. Grows at the end. */
typedef struct td_operation {
    int64_t step;
    /* Among the operations of its step, in the order of their execution, from 1. */
    int64_t sequence;
    const char *
        phase; /* "data", "start" (a parameter as training began), "forward", "backward", "update" */
    const char *layer;  /* "": of no layer, as the loss is */
    const char *kind;   /* "conv2d", "softmax", "adam"; "": none made it (data, start) */
    const char *tensor; /* what it made: "conv1.output", "conv1.kernel.gradient" */
    td_shape shape;     /* of that */
    int64_t element;    /* of that, flattened row-major */
    double value;       /* of that element */
    int64_t row;        /* the example that it is of, in the data set; -1: of none */
    const char *place;  /* where that is: "digits.csv line 5 (row 4)"; "" */
    const td_operand *operands;
    size_t operand_count;
} td_operation;

/* Zero means default. */
typedef struct td_origin_options {
    size_t size;      /* sizeof(td_origin_options) */
    const char *what; /* "nan", "inf" or "spike"; NULL: the first loss that is NaN or infinite */
    /* With spike: the first step in which this holds, over `loss`, `learning_rate`, `gradient_norm` and
     * `step`. NULL: the first loss above 8 times the median of the 32 before it. */
    const char *when;
} td_origin_options;

/* An example of the batch, by its own loss. */
typedef struct td_origin_row {
    int64_t row;       /* in the data set */
    double loss;       /* its own, without weights and penalties; NaN: not known */
    const char *place; /* "digits.csv line 5 (row 4)" */
} td_origin_row;

/* Where a NaN, an infinity or a spike came from. Grows at the end; all it points to is its own. */
typedef struct td_origin {
    const char *what; /* "nan", "inf", "spike"; "": nothing was found */
    int64_t step;     /* whose loss it is; 0: nothing was found */
    double loss;      /* of that step */
    double before;    /* with spike: the median of the losses before it; NaN: not known */
    const td_operation
        *operation;   /* the first whose output is not finite while its inputs were; NULL: none */
    int64_t nan, inf; /* elements of that output */
    const td_origin_row *rows; /* whose elements are not finite; with spike: highest loss first */
    size_t row_count;          /* at most 16 */
    int64_t bad_rows;          /* all of them; with spike: of the batch */
    const char *
        steepest; /* with spike: the parameter whose gradient grew most against the step before; "" */
    double steepest_before, steepest_norm; /* the norms of that gradient */
    const char *text;                      /* all of this in a sentence or two */
    int64_t checkpoint;                    /* the steps after it were executed … */
    int64_t last;                          /* … up to this one */
    int64_t differs_at; /* the first of them that is not what was recorded; 0: none */
    const char *reason; /* what differs there, and why where that is known; "" */
} td_origin;

/* Finds where the first number that is not finite, or a spike, came from: executes the steps before it
 * again. The run is only read. NULL on failure, with the errors of td_replay_run. */
TD_API td_origin *td_origin_find(const char *run, const td_origin_options *options,
                                 td_error *error);
/* Accepts NULL. */
TD_API void td_origin_destroy(td_origin *origin);

/* A layer that only one of two runs has, or that has another name in the second. */
typedef struct td_layer_change {
    const char *a, *b; /* its name; NULL: the run does not have it */
    const char *type;  /* "Conv2D" */
} td_layer_change;

/* Where two runs part. Grows at the end; all it points to is its own. */
typedef struct td_diff {
    int64_t same_to; /* every step up to this one is the same in what was compared; 0: none is */
    int64_t step;    /* the first that differs; 0: none does */
    /* The step that differs is after this one and not after `step`: step - 1 where it is exact. */
    int64_t after;
    const char *signal; /* what differs: as td_replay_result.signal, or the tensor's name */
    const td_operation *a,
        *b;        /* the first operation whose output differs; NULL: not known, see reason */
    bool is_cause; /* all that it read is the same in both runs: the difference is made there */
    int64_t differing, elements; /* elements of its output that differ, of how many */
    uint64_t ulps,
        max_ulps;      /* between the two values, and the greatest; UINT64_MAX: one is no number */
    const char *cause; /* a sentence: the operation, the data, a layer that only one has …; "" */
    const td_layer_change *layers; /* that are not in both under one name */
    size_t layer_count;
    const td_comparison *settings; /* what differs in environment and experiment */
    /* Why steps were not executed again, or which differ from what was recorded; "". */
    const char *reason;
} td_diff;

/* Finds the first step, operation and element at which two runs part. Runs of `train` are
 * executed again side by side, from the last step at which their fingerprints agree; others are
 * compared by what both recorded, hashes first. Both are only read. NULL on failure:
 * TD_NOT_FOUND, TD_FORMAT, TD_MEMORY. */
TD_API td_diff *td_diff_find(const char *a, const char *b, td_error *error);
/* Accepts NULL. */
TD_API void td_diff_destroy(td_diff *diff);

#ifdef __cplusplus
}
#endif
#endif
