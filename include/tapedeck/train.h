/* Experiments: a YAML file says which data, which model, how to train and what to record; a trainer
 * does it.
 *
 *     td_experiment *experiment = td_experiment_read("digits.yaml", NULL, &error);
 *     td_trainer *trainer = td_trainer_create(experiment, NULL, &error);
 *     status = td_trainer_run(trainer, &error);
 *     td_trainer_destroy(trainer);
 *     td_experiment_destroy(experiment);
 *
 * The keys of the file are in docs/experiment.md, what a run writes in docs/training.md. Both
 * objects belong to one thread at a time; only td_trainer_stop may come from another thread or from
 * a signal handler.
 */
#ifndef TAPEDECK_TRAIN_H
#define TAPEDECK_TRAIN_H

#include "tapedeck/nn.h"
#include "tapedeck/stats.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Experiment files ----------------------------------------------------------------------- */

typedef struct td_experiment td_experiment;

/* Zero means default; everything is borrowed for the duration of the call. */
typedef struct td_experiment_options {
    size_t size;            /* sizeof(td_experiment_options) */
    const char *const *set; /* "train.epochs=3": edits before checking */
    size_t set_count;
    void (*problem)(void *user, const char *text); /* told of every problem, one line each */
    void *user;
} td_experiment_options;

/* Reads and checks the whole file; paths in it are relative to it. options may be NULL. NULL on
 * failure: error has the first problem, the callback has seen them all. */
TD_API td_experiment *td_experiment_read(const char *path, const td_experiment_options *options,
                                         td_error *error);
/* Accepts NULL. Trainers of it must be destroyed before. */
TD_API void td_experiment_destroy(td_experiment *experiment);
TD_API const char *td_experiment_name(const td_experiment *experiment);

/* ---- Training ------------------------------------------------------------------------------- */

/* One quantity of the epoch so far, or of the validation after it. */
typedef struct td_train_value {
    const char *name; /* "loss", "accuracy", "val_loss", … */
    double value;     /* NaN when there is none yet */
} td_train_value;

/* Where training stands; valid during the call that tells it. */
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
} td_train_progress;

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
                               * epoch is always told */
} td_trainer_options;

/* Opens the data, builds the model and checks what is to be recorded; nothing is written yet.
 * options may be NULL; experiment is borrowed until td_trainer_destroy. NULL on failure. */
TD_API td_trainer *td_trainer_create(td_experiment *experiment, const td_trainer_options *options,
                                     td_error *error);
/* Accepts NULL. */
TD_API void td_trainer_destroy(td_trainer *trainer);

/* Trains to the end, and writes the run's folder. TD_INTERRUPTED after td_trainer_stop: the step
 * was finished, everything recorded is on disk, and a checkpoint to resume from is written.
 * TD_RANGE when the loss stops being a number; the text names the step and the layer. Once only. */
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

/* ---- Prediction ----------------------------------------------------------------------------- */

/* Zero means default; everything is borrowed for the duration of the call. */
typedef struct td_predict_options {
    size_t size;    /* sizeof(td_predict_options) */
    const char *to; /* .csv: label,class_0,…; .npy; a name that ends in '/': a folder with a PNG
                     * of each output, grey or (three channels) in colour. NULL: nowhere */
    const char *labels; /* NPY, IDX: the file of labels */
    const char *label;  /* CSV: the label's column; NULL: as in training, if it is there */
    int64_t batch;      /* 256 */
    /* Records signals of the model (LAYER.output, LAYER.preactivation, input, prediction) too, a
     * step for each batch, into a new run. */
    const char *record; /* names and globs, separated by commas; NULL: none */
    const char *form;   /* of them, separated by commas; NULL: each sink's own */
    const char *sinks;  /* separated by commas; NULL: the standard ones */
    const char *out;    /* the run's folder; NULL: "runs/predict" */
    FILE *stream;       /* for what is printed; NULL: stdout */
    /* Told after each batch; false stops: TD_INTERRUPTED, and no file is written. */
    bool (*progress)(void *user, int64_t done, int64_t examples);
    void *user;
    double scale; /* multiplies inputs, instead of what training did; 0: as in training */
} td_predict_options;

typedef struct td_prediction {
    int64_t examples;
    bool labelled;
    double accuracy;  /* over class labels; NaN when there are none */
    char folder[512]; /* of the run that recorded; "" without */
} td_prediction;

/* Runs a saved model over data, which is scaled or standardised as the model's training data was,
 * in batches: what it takes in memory depends on the batch, not on how much data there is, where
 * the data can be mapped (see data.h). result may be NULL. A file appears complete or not at all.
 */
TD_API TD_NODISCARD td_status td_predict(const char *model, const char *data,
                                         const td_predict_options *options, td_prediction *result,
                                         td_error *error);

/* ---- Gradients of a saved model ------------------------------------------------------------- */

/* Zero means default; everything is borrowed for the duration of the call. */
typedef struct td_gradients_options {
    size_t size;        /* sizeof(td_gradients_options) */
    const char *layers; /* names and globs, separated by commas, "input" too; NULL: all layers */
    const char *loss;   /* NULL: the one of training when the model says it, else one that fits */
    const char *labels; /* NPY, IDX: the file of labels */
    const char *label;  /* CSV: the label's column; NULL: as in training */
    double scale;       /* multiplies inputs, instead of what training did; 0: as in training */
    int64_t batch;      /* examples, the first of the data; 32 */
    bool training;      /* as in a step of training: dropout drops, batches are normalised by
                         * themselves; otherwise as in inference */
} td_gradients_options;

/* The gradient of the batch's (mean) loss with respect to a layer's output or parameter. */
typedef struct td_gradient {
    const char *name;  /* "conv2.error", "conv2.kernel.gradient" */
    const char *layer; /* "conv2" */
    const td_tensor *tensor;
    td_stats stats;
    bool disconnected; /* the loss does not depend on it: all zero */
} td_gradient;

typedef struct td_gradients_info {
    const char *loss; /* "mse" */
    bool from_logits; /* of a cross-entropy */
    const char *why;  /* this loss: "as in training", "as asked for", "guessed: …" */
    double value;     /* penalties of regularisers included */
    int64_t examples;
    size_t count; /* of gradients */
} td_gradients_info;

typedef struct td_gradients td_gradients;

/* Runs a saved model forward and back over one batch. NULL on failure. */
TD_API td_gradients *td_gradients_create(const char *model, const char *data,
                                         const td_gradients_options *options, td_error *error);
/* Accepts NULL; what the functions below gave is gone. */
TD_API void td_gradients_destroy(td_gradients *gradients);
TD_API const td_gradients_info *td_gradients_about(const td_gradients *gradients);
/* In the order of the layers, each error before the gradients of its layer's parameters; NULL
 * beyond the last. */
TD_API const td_gradient *td_gradients_at(const td_gradients *gradients, size_t index);
/* Writes them all: .csv (signal,index,value), .npz, or a folder (a name that ends in '/') with an
 * .npy of each. */
TD_API TD_NODISCARD td_status td_gradients_save(const td_gradients *gradients, const char *to,
                                                td_error *error);

#ifdef __cplusplus
}
#endif
#endif
