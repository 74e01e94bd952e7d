/* Training as an experiment file says.
 *
 *     td_experiment *experiment = td_experiment_read("digits.yaml", NULL, &error);
 *     td_trainer *trainer = td_trainer_create(experiment, NULL, &error);
 *     status = td_trainer_run(trainer, &error);
 *     td_trainer_destroy(trainer);
 *     td_experiment_destroy(experiment);
 *
 * What a run writes is in docs/training.md. Both objects belong to one thread at a time; only
 * td_trainer_stop may come from another thread or from a signal handler.
 */
#ifndef TAPEDECK_TRAIN_H
#define TAPEDECK_TRAIN_H

#include "tapedeck/data.h"
#include "tapedeck/experiment.h"
#include "tapedeck/nn.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One quantity of the epoch so far, or of the validation after it. */
typedef struct td_train_value {
    const char *name; /* "loss", "accuracy", "val_loss", … */
    double value;     /* NaN when there is none yet */
} td_train_value;

/* Where training stands; valid during the call that passes it. */
typedef struct td_train_progress {
    int64_t epoch, epochs;  /* from 1 */
    int64_t step, steps;    /* from 1; all epochs together */
    int64_t batch, batches; /* within the epoch, from 1 */
    bool epoch_end;         /* the last step of its epoch, after validation */
    double learning_rate;
    double seconds;      /* since training began (or was resumed) */
    double seconds_left; /* an estimate; NaN when there is none */
    double epoch_seconds;
    double steps_per_second;
    const td_train_value *values; /* loss, metrics, val_loss, val_ metrics, in this order */
    size_t value_count;
    double examples_per_second;
} td_train_progress;

/* A step, while its tensors are still there. */
typedef struct td_train_step {
    int64_t epoch, step; /* from 1 */
    double loss;
    const td_model *model; /* td_model_output_at: what its layers put out in this step */
    /* Of td_model_trainable, in its order; NULL: the loss is not finite. */
    td_tensor *const *gradients;
    size_t gradient_count;
    struct td_deck *deck; /* that records the run, for td_deck_raise; NULL: nothing is recorded */
} td_train_step;

/* Sees every step after its update. It must not change anything, and be quick. */
typedef struct td_train_observer {
    size_t size; /* sizeof(td_train_observer) */
    void *user;
    /* Returns why training is to end with this step; NULL: it goes on. */
    const char *(*step)(void *user, const td_train_step *step);
} td_train_observer;

typedef struct td_trainer td_trainer;

/* Zero means default; strings are copied. */
typedef struct td_trainer_options {
    size_t size;        /* sizeof(td_trainer_options) */
    const char *out;    /* the folder that runs are created in; NULL: "runs" */
    const char *resume; /* a run to go on with instead of a new one */
    FILE *stream;       /* for what tracks print; NULL: stdout */
    void (*progress)(void *user, const td_train_progress *progress);
    void *user;
    double progress_interval; /* seconds between two calls within an epoch; 0: 0.1. The end of an
                               * epoch is always reported */
    /* Called with what training does not stop for: of the data, of what looks like a mistake, of tracks
     * that recorded nothing, and of the first error of recording when it happens. A sentence each. */
    void (*remark)(void *user, const char *text);
    const td_train_observer *observer; /* borrowed until td_trainer_destroy; NULL: none */
    /* td_trainer_create reads all of the data; default: large CSV files and folders of images are read
     * on while it trains, and td_trainer_run reports what is wrong. */
    bool read_first;
    struct td_group *
        group; /* the processes that train together (group.h), each with a trainer of the same experiment;
                             * borrowed. Rank 0 alone writes the run; td_trainer_folder is NULL elsewhere. NULL: this
                             * process alone */
} td_trainer_options;

/* Opens the data, builds the model and checks what is to be recorded; nothing is written yet.
 * options may be NULL; experiment is borrowed until td_trainer_destroy. NULL on failure. */
TD_API td_trainer *td_trainer_create(td_experiment *experiment, const td_trainer_options *options,
                                     td_error *error);
/* Accepts NULL. */
TD_API void td_trainer_destroy(td_trainer *trainer);

/* Trains to the end, and writes the run's folder. TD_INTERRUPTED after td_trainer_stop: the step
 * was finished, everything recorded is on disk, and a checkpoint to resume from is written.
 * TD_RANGE when the loss stops being a number; the text names the step and the layer. TD_FORMAT and
 * the like when data that was read on meanwhile turns out wrong.
 * TD_INCOMPLETE when the model is trained and saved but something could not be recorded, or a
 * checkpoint not be written: no error of recording stops training. Once only. */
TD_API TD_NODISCARD td_status td_trainer_run(td_trainer *trainer, td_error *error);
/* Makes td_trainer_run end after the current step. Safe in signal handlers. */
TD_API void td_trainer_stop(td_trainer *trainer);

/* Borrowed from the trainer. */
TD_API const td_model *td_trainer_model(const td_trainer *trainer);
/* The run's folder; NULL before td_trainer_run. */
TD_API const char *td_trainer_folder(const td_trainer *trainer);
/* The values of the last epoch's end, as progress has them. Returns how many. */
TD_API size_t td_trainer_values(const td_trainer *trainer, const td_train_value **values);
/* Steps and epochs done so far, the resumed ones included. */
TD_API int64_t td_trainer_steps(const td_trainer *trainer);
TD_API int64_t td_trainer_epochs(const td_trainer *trainer);
/* Why training ended before its last epoch; NULL when it did not. */
TD_API const char *td_trainer_stopped_early(const td_trainer *trainer);

/* How the L2 norm of a layer's error went, as far as its statistics were recorded. */
typedef struct td_norm_history {
    const char *signal; /* "hidden.error" */
    size_t count;       /* at most 1024: evenly thinned out when there were more */
    const int64_t *steps;
    const double *norms;
    const char *layer; /* "hidden" */
} td_norm_history;

/* After td_trainer_run; valid until td_trainer_destroy. In the order of the model's layers. Returns
 * how many. */
TD_API size_t td_trainer_error_norms(td_trainer *trainer, const td_norm_history **histories);

/* One file or family of files that the recording will write, as a dry run shows it. */
typedef struct td_plan_entry {
    const char *what;     /* the track's signals, as the file has them */
    int64_t signals;      /* how many match */
    const char *schedule; /* "every 50 steps", "every epoch", "at 3 steps", "when loss > 1.0" */
    const char *forms;    /* "stats, histogram" */
    const char *sinks;    /* "csv, tensorboard" */
    int64_t records;      /* at most, over the whole training */
    int64_t bytes; /* an estimate of what that takes on disk; an upper bound with a condition */
} td_plan_entry;

/* What will be recorded, track by track; valid until td_trainer_destroy. Returns how many. */
TD_API size_t td_trainer_plan(td_trainer *trainer, const td_plan_entry **entries);

#ifdef __cplusplus
}
#endif
#endif
