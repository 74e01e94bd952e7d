/* A trainer, inside: where data, model, optimizer and deck meet.
 *
 *     trainer.c     what an experiment needs is opened and checked; nothing is written
 *     make_model.c  the model: from its layers, or from a file
 *     remarks.c     labels that do not suit the loss, and what else is told before training
 *     signals.c     the names that can be recorded, and the deck's handles for them
 *     run.c         epochs, early stopping, the run's folder
 *     step.c        one step, told to the deck while its tensors are warm
 *     validate.c    the validation part, and samples of predictions
 *     checkpoint.c  saving and resuming
 *     plan.c        what the recording will take
 *
 * Everything random is a function of the seed and of epoch or step: the order of the data, dropout,
 * samples. So a checkpoint holds no state of a generator, and a resumed run repeats the same bits.
 */
#ifndef TAPEDECK_TRAIN_TRAINER_H
#define TAPEDECK_TRAIN_TRAINER_H

#include "data/table.h"
#include "experiment/notes.h"
#include "experiment/record.h"
#include "tapedeck/data.h"
#include "tapedeck/deck.h"
#include "tapedeck/model.h"
#include "tapedeck/train.h"
#include "train/norms.h"

#include <signal.h>

/* A signal that can be recorded. */
typedef enum td__source {
    TD__SOURCE_VALUE, /* loss, a metric, the rate: one number a step */
    TD__SOURCE_EPOCH, /* a number at the end of an epoch: val_… */
    TD__SOURCE_BATCH, /* input, label */
    TD__SOURCE_PREDICTION,
    TD__SOURCE_OUTPUT,
    TD__SOURCE_PREACTIVATION,
    TD__SOURCE_ERROR,
    TD__SOURCE_LAYER_LOSS,
    TD__SOURCE_PARAMETER,
    TD__SOURCE_GRADIENT,
    TD__SOURCE_UPDATE,
} td__source;

typedef struct td__signal_entry {
    char *name;
    td__source source;
    size_t index;      /* of the layer or parameter */
    int64_t elements;  /* of one record; of one example when it is batched */
    bool batched;      /* its rows are examples */
    td_signal *signal; /* the deck's; NULL before the run */
} td__signal_entry;

/* A layer's own target: LAYER.loss is the mean squared error of its output against it. */
typedef struct td__layer_target {
    size_t layer;
    td_dataset *data; /* rows as the training file's */
    float *rows;      /* of one batch */
    td_signal *signal;
} td__layer_target;

/* Sums over an epoch, in the order of step values: loss, metrics. */
typedef struct td__epoch_sums {
    double *sums; /* of value * examples */
    double examples;
} td__epoch_sums;

struct td_trainer {
    td_experiment *experiment;
    td_trainer_options options; /* its strings are the trainer's */
    char *out, *resume;

    td_dataset *data;
    const td_data_info *info;
    td__notes notes;                   /* of the model that training goes on from; zero without */
    td_batches *training, *validation; /* validation NULL: there is none */
    int64_t batches;                   /* in an epoch */
    int64_t steps, epochs;             /* in all */

    td_model *model;
    size_t layer_count, parameter_count;
    td_tape *tape, *inference;
    td_optimizer *optimizer;
    td_tensor *const *weights; /* the trainable parameters */
    size_t weight_count;
    ptrdiff_t *weight_of;     /* parameter -> index among weights, or -1 */
    td_tensor **targets;      /* weights, then outputs whose error is wanted; with room for all */
    td_tensor **gradients;    /* of targets */
    td_signal **ready;        /* who is told of each gradient, or NULL */
    td_tensor *input, *truth; /* heads over the current batch */
    td_metric **metrics;
    size_t metric_count;
    td__layer_target *layer_targets;
    size_t layer_target_count;

    /* What can be recorded. */
    td__signal_entry *entries;
    size_t entry_count, entry_capacity;
    td_plan_entry *plan;
    int64_t sample; /* rows of a prediction; 0: all */

    /* The run. */
    td_deck *deck;
    td__norms *norms;
    char *folder;
    td_signal **values;       /* loss, metrics: of the step */
    td_signal **epoch_values; /* epoch_loss, … */
    td_signal **validation_values;
    td_signal *rate, *norm, *input_signal, *label_signal, *prediction;
    td_signal **outputs, **preactivations, **errors;          /* by layer */
    td_signal **parameters, **parameter_gradients, **updates; /* by parameter */
    int64_t step, epoch, batch; /* done; batch: of the current epoch */
    const td_batch *current;    /* while a step runs */
    double *step_values;        /* loss, metrics */
    td__epoch_sums sums;
    td_train_value *told; /* what progress shows: epoch means, then validation */
    size_t told_count;
    td_error recording; /* the first thing that could not be recorded */
    double best;        /* early stopping */
    int64_t best_epoch, waited;
    float **best_weights; /* by parameter; NULL unless restore_best */
    const char *stopped_early;
    char stopped_text[160];
    double began, epoch_began, told_at;
    int64_t began_step;
    volatile sig_atomic_t stop;
    bool ran;
};

/* make_model.c */
/* The model of `model: {file: …}`, before the data: it may say the shape of its input. */
TD_NODISCARD td_status td__trainer_load_model(td_trainer *trainer, td_error *error);
/* The model complete: made of its layers, its weights loaded, its layers frozen. */
TD_NODISCARD td_status td__trainer_make_model(td_trainer *trainer, td_error *error);
/* Keeps what training began from in the run, so that the run needs no other file: writes
 * initial.safetensors, and the experiment names that. Nothing for a model that is made anew. */
TD_NODISCARD td_status td__trainer_keep_initial(td_trainer *trainer, td_error *error);

/* run.c */
/* Ends training when the monitored value has not improved for long enough. */
void td__stop_when_patience_ends(td_trainer *trainer);
/* Keeps the first error of recording, and says it. */
void td__trainer_unrecorded(td_trainer *trainer, const td_error *error);

/* remarks.c */
/* Says what looks like a mistake; with file and line where node stands. */
void td__trainer_remark(const td_trainer *trainer, const td__yaml_node *node, const char *format,
                        ...) TD_PRINTF(3, 4);
/* Whether the loss can use all labels; also repeats what the data has to say. */
TD_NODISCARD td_status td__trainer_check_labels(td_trainer *trainer, td_error *error);
/* Says what can be trained and is hardly meant. */
TD_NODISCARD td_status td__trainer_check_sense(td_trainer *trainer, td_error *error);

/* signals.c */
TD_NODISCARD td_status td__trainer_signals_list(td_trainer *trainer, td_error *error);
/* Every name in a track must exist; what needs preparation (pre-activations, updates) is prepared.
 */
TD_NODISCARD td_status td__trainer_signals_check(td_trainer *trainer, td_error *error);
/* Looks them all up in the deck. */
TD_NODISCARD td_status td__trainer_signals_connect(td_trainer *trainer, td_error *error);
void td__trainer_signals_release(td_trainer *trainer);

/* step.c */
void td__step_watch(void *user, size_t layer, td_layer_signal signal, td_tensor *tensor);
/* Trains on a batch and records; leaves the deck's step open. TD_RANGE when the loss is not finite.
 */
TD_NODISCARD td_status td__step_run(td_trainer *trainer, const td_batch *batch, bool epoch_end,
                                    td_error *error);

/* validate.c */
TD_NODISCARD td_status td__validate(td_trainer *trainer, td_error *error);
/* Records `prediction` if the open step wants it. */
TD_NODISCARD td_status td__predict_sample(td_trainer *trainer, td_error *error);

/* checkpoint.c */
/* Whatever fails is an error of recording. */
void td__checkpoint_save(td_trainer *trainer);
TD_NODISCARD td_status td__checkpoint_resume(td_trainer *trainer, td_error *error);
/* model.safetensors. */
TD_NODISCARD td_status td__model_publish(td_trainer *trainer, td_error *error);

/* plan.c */
TD_NODISCARD td_status td__plan_make(td_trainer *trainer, td_error *error);

/* layer_target.c */
TD_NODISCARD td_status td__layer_target_add(td_trainer *trainer, size_t layer, const char *path,
                                            td_error *error);
/* Records the layer's loss if wanted. */
void td__layer_target_record(td_trainer *trainer, size_t layer, const td_tensor *output);

#endif
