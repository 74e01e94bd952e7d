/* A trainer, inside: where data, model, optimizer and deck meet.
 *
 *     trainer.c     what an experiment needs is made and checked, stage by stage; nothing is written
 *     feed.c        the data, and how long training lasts
 *     make_model.c  the model: from its layers, or from a file
 *     memory.c      whether a step of it fits into memory
 *     heads.c       several inputs and outputs: which array is which, and what each is trained for
 *     remarks.c     labels that do not suit the loss, and what else is reported before training
 *     signals.c     what can be recorded, and whether that is what tracks ask for
 *     optimizer_signals.c   what can be recorded of the optimizer's state
 *     plan.c        what the recording will take
 *
 *     run.c         epochs and steps, until training is done, stopped or interrupted
 *     recording.c   the run's folder and its deck; errors of recording
 *     step.c        one step: a pass forward and back, and the update
 *     blame.c       where a loss that is not a number came from
 *     validate.c    the validation part
 *     sample.c      predictions for a sample of it
 *     measure.c     loss and metrics over a batch, an epoch, the validation part
 *     stopping.c    early stopping
 *     plateau.c     the learning rate lowered on a plateau
 *     checkpoint.c  saving and resuming
 *     ring.c        older checkpoints, kept for replays
 *     shards.c      a batch cut into parts, and shared out among processes
 *     lanes.c       parts that run in step: layers that compute over all of them
 *     gather.c      what is recorded of the parts
 *     group.c       what processes agree on
 *     flight.c      a few numbers of every step, for comparing when it is executed again
 *     sources.c     fingerprints of the data's files
 *     verify.c      a step executed twice and compared
 *     state.c       all that a step changes, copied and put back
 *     room.c        room on the disk for model and checkpoint
 *
 * Everything random is a function of the seed and of epoch or step: the order of the data, dropout,
 * samples. So a checkpoint holds no state of a generator, and a resumed run repeats the same bits.
 */
#ifndef TAPEDECK_TRAIN_TRAINER_H
#define TAPEDECK_TRAIN_TRAINER_H

#include "base/file.h"
#include "data/dataset.h"
#include "experiment/notes.h"
#include "experiment/record.h"
#include "pass/pass.h"
#include "tapedeck/data.h"
#include "tapedeck/deck.h"
#include "tapedeck/model.h"
#include "tapedeck/train.h"
#include "tensor/list.h"
#include "train/flight.h"
#include "train/measure.h"
#include "train/norms.h"
#include "train/plateau.h"
#include "train/shards.h"
#include "train/stopping.h"

#include <signal.h>

/* A layer's own target: LAYER.loss is the mean squared error of its output against it, LAYER.loss.error
 * the gradient of that with respect to the output. */
/* The mean of a number over the epoch so far, weighted by examples. */
typedef struct td__mean {
    double value, examples;
} td__mean;

typedef struct td__layer_target {
    size_t layer;
    size_t entry;     /* of the signals: the loss, and behind it its error */
    td_dataset *data; /* rows as the training file's */
    int64_t width;    /* values of one example */
    float *rows;      /* the target of one batch */
    float *error;     /* likewise */
    size_t rows_room, error_room;
    double weight;   /* in the training's loss; 0: only recorded */
    bool every_step; /* its mean over epochs is recorded, or a condition looks at it */
    td__mean mean;
} td__layer_target;

/* The data, and how long training lasts. */
typedef struct td__feed {
    td_dataset *data;
    const td_data_info *info;
    td_batches *training, *validation; /* validation NULL: there is none */
    int64_t batches;                   /* in an epoch */
    int64_t steps, epochs;             /* in all */
    /* The data's inputs as the model has them in order: of the training, of the validation part. */
    td_piece ordered[2][TD_MAX_FROM];
} td__feed;

/* What is trained: the model's trainable parameters, and what is asked of their gradients. */
typedef struct td__learner {
    td_optimizer *optimizer;
    td_tensor *const *weights; /* the trainable parameters; the model's */
    size_t weight_count;
    ptrdiff_t *weight_of;  /* parameter -> index among weights, or -1 */
    td_tensor **targets;   /* weights, then outputs whose error is wanted; with room for all */
    td_tensor **gradients; /* of targets */
    td__signal_entry **recorders; /* the signal that records each gradient, or NULL */
} td__learner;

/* Which entries of the signals are the trainer's own numbers. validation: only where there is such a
 * part; gradient_norm: only with clip_norm. */
typedef struct td__values {
    size_t step, epoch, validation;       /* loss, and the metrics behind it */
    size_t matrices, validation_matrices; /* of metrics that are matrices, over the epoch */
    size_t learning_rate, gradient_norm;
    td__mean rate_mean, norm_mean;
} td__values;

/* What a checkpoint has of the recording; owned. */
typedef struct td__remembered {
    uint8_t *state; /* of the deck; NULL: none */
    char *files;    /* how far they reach; NULL: not known */
    size_t state_size, files_size;
} td__remembered;

/* Of hessian.* (curvature.c). */
typedef struct td__curvature {
    size_t entry;  /* of the signals: the first */
    float *before; /* the weights before the step's update … */
    bool has_before;
    bool noted; /* that it is not exact */
} td__curvature;

/* The run's folder, while it is written. */
typedef struct td__recording {
    td_deck *deck;
    td__norms *norms;
    char *folder;      /* its name; NULL: there is none */
    int opened;        /* the folder itself, whatever it is called; while folder is not NULL */
    const char *place; /* a path to it that stays right when it is renamed */
    char path[TD__FOLDER_PATH];
    td_error error;            /* the first thing that could not be recorded */
    td__remembered remembered; /* from the checkpoint, until the deck is open */
} td__recording;

/* Where training stands. */
typedef struct td__progress {
    int64_t step, epoch, batch; /* done; batch: of the epoch under way */
    bool epoch_end;             /* the step under way ends its epoch */
    int64_t began_step;
    double began, epoch_began, told_at;
    double saving; /* seconds that checkpoints have cost */
    double saved;  /* the last of them; 0: none yet */
    double saved_at;
} td__progress;

struct td_trainer {
    td_experiment *experiment;
    td_trainer_options options; /* its strings are the trainer's */
    char *out, *resume;
    td__notes notes; /* of the model that training goes on from; zero without */

    td__feed feed;
    td_model *model;
    size_t layer_count, parameter_count;
    td__learner learner;
    td__head heads[TD_MAX_OUTPUTS]; /* of outputs that have losses and labels by name … */
    size_t head_count;              /* … or 0: one output, with the experiment's objective */
    td__pass pass, check; /* of training steps; of validation and samples, without history */
    td__measures measures;
    td__stopping stopping;
    td__plateau plateau;
    td__best keep; /* best.safetensors */

    td__pass_signals signals;
    td__values values;
    td__curvature curvature;
    td__layer_target *layer_targets;
    size_t layer_target_count;
    td_plan_entry *plan;
    int64_t sample; /* rows of a prediction; 0: all */

    td__recording recording;
    td__flight flight;
    td__shards shards;
    bool agreed;               /* all processes end with the same error */
    struct td__verify *verify; /* of train.verify_every; NULL: no step was verified yet */
    td__flight_log past;       /* of the run that this one branches off from */
    char *parent;              /* that run; NULL: none */
    int64_t parent_step;
    bool replaying; /* steps of a run that is there are executed again: its folder stays as it is */
    int64_t limit;  /* a replay ends after this step */
    /* Sees every step while its pass is open; updated: after its update. NULL: nobody. */
    void (*stepped)(void *user, td_trainer *trainer, bool updated);
    void *stepped_user;
    td__progress at;
    td_train_value
        *progress_values; /* what progress shows: of the epoch, then of the validation part */
    size_t told_count;
    bool blamed_validation; /* its loss was not finite, and that was said */
    volatile sig_atomic_t stop;
    bool ran;
};

/* feed.c */
TD_NODISCARD td_status td__trainer_open_data(td_trainer *trainer, td_error *error);
/* Why there is no next batch; TD_OK at the end of the epoch. */
TD_NODISCARD td_status td__feed_status(const td_batches *batches, td_error *error);
void td__feed_release(td__feed *feed);

/* make_model.c */
/* The model of `model: {file: …}`, before the data: it may say the shape of its input. */
TD_NODISCARD td_status td__trainer_load_model(td_trainer *trainer, td_error *error);
/* The model complete: made of its layers, its weights loaded, its layers frozen. */
TD_NODISCARD td_status td__trainer_make_model(td_trainer *trainer, td_error *error);
/* TD_MEMORY where a training step takes more than the process may (memory.c). The model has its layers,
 * built or not. */
TD_NODISCARD td_status td__trainer_check_memory(const td_trainer *trainer, td_error *error);
/* Keeps what training began from in the run, so that the run needs no other file: writes
 * initial.safetensors, and the experiment names that. Nothing for a model that is made anew. */
TD_NODISCARD td_status td__trainer_keep_initial(td_trainer *trainer, td_error *error);

/* heads.c */
/* Inputs by name in the order of the model's, which is known by its file or the experiment. */
TD_NODISCARD td_status td__trainer_order_inputs(td_trainer *trainer, td_data_options *options,
                                                td_error *error);
/* The outputs that the experiment names; none: the model's own. */
td_names td__trainer_output_names(const td_trainer *trainer, const char *names[TD_MAX_OUTPUTS]);
/* What each output is trained for, once model and data are there. */
TD_NODISCARD td_status td__trainer_make_heads(td_trainer *trainer, td_error *error);
/* td__trainer_check_labels for labels by name. */
TD_NODISCARD td_status td__trainer_check_head_labels(td_trainer *trainer, td_error *error);

/* remarks.c */
/* The labels that a loss is made for. */
td__label_range td__label_range_of(td_loss loss);
/* Says what looks like a mistake; with file and line where node stands. */
void td__trainer_remark(const td_trainer *trainer, const td__yaml_node *node, const char *format,
                        ...) TD_PRINTF(3, 4);
/* Ids are neither scaled nor standardised. */
TD_NODISCARD td_status td__trainer_check_ids(td_trainer *trainer, td_error *error);
/* Whether the loss can use all labels; also repeats what the data has to say. */
TD_NODISCARD td_status td__trainer_check_labels(td_trainer *trainer, td_error *error);
/* Says what can be trained and is hardly meant. */
TD_NODISCARD td_status td__trainer_check_sense(td_trainer *trainer, td_error *error);

/* signals.c */
TD_NODISCARD td_status td__trainer_signals_list(td_trainer *trainer, td_error *error);
/* Every name in a track must exist; what needs preparation (pre-activations, updates)
 * is prepared. */
TD_NODISCARD td_status td__trainer_signals_check(td_trainer *trainer, td_error *error);

/* optimizer_signals.c */
/* Adds what can be recorded of the optimizer's state; false when memory is exhausted. */
bool td__optimizer_signals_list(td_trainer *trainer);
/* Whether td_optimizer_update is needed for it. */
bool td__optimizer_signal_needs_update(const td__signal_entry *entry);
/* Records what is wanted: before the optimizer's step, when its gradients are there, and after it. */
void td__optimizer_signals_record(td_trainer *trainer, bool before);

/* curvature.c */
bool td__curvature_signals_list(td_trainer *trainer);
/* Before the update of a step, and when its pass is over: records what is wanted of the loss's curvature. */
void td__curvature_begin(td_trainer *trainer);
void td__curvature_record(td_trainer *trainer, const td_batch *batch);
void td__curvature_release(td__curvature *curvature);

/* plan.c */
TD_NODISCARD td_status td__plan_make(td_trainer *trainer, td_error *error);

/* recording.c */
/* Opens the deck in a new folder, or in that of the run to go on with. A run that cannot begin
 * leaves no folder. */
TD_NODISCARD td_status td__recording_open(td_trainer *trainer, td_error *error);
/* A deck with the experiment's tracks in a new folder, for steps that are executed again; note: of which run.
 * Close it with td_deck_close_with. */
TD_NODISCARD td_status td__recording_open_replay(td_trainer *trainer, const char *folder,
                                                 const char *note, td_error *error);
/* The deck of one trainer is that of another one from now on. */
TD_NODISCARD td_status td__recording_move(td_trainer *from, td_trainer *to, td_error *error);
void td__recording_close(td_trainer *trainer);
void td__recording_release(td__recording *recording);
/* Keeps the first error of recording, and says it. */
void td__trainer_unrecorded(td_trainer *trainer, const td_error *error);
/* Says an error of a sink when it happens, and not at the next flush. */
void td__recording_notice(td_trainer *trainer);
/* Waits until what tracks print is printed, so that it stands before what is reported next. */
void td__recording_catch_up(td_trainer *trainer);
/* Says which tracks were asked for and never came. */
void td__recording_say_idle(td_trainer *trainer);

/* step.c */
/* Trains on a batch and records; leaves the deck's step open. TD_RANGE when the loss
 * is not finite. */
TD_NODISCARD td_status td__step_run(td_trainer *trainer, const td_batch *batch, bool epoch_end,
                                    td_error *error);
/* Weights first, then the outputs of layers whose error a track is due for, and what records each; of weights only
 * where that is asked for. Returns how many. */
size_t td__choose_targets(td_trainer *trainer, bool weights);
/* Records the metrics that are matrices; first: the entry of the first of them. */
void td__record_matrices(td_trainer *trainer, const td__measure *measure, size_t first);
/* Records a number of the step under way; entry: its signal. Epoch schedules get the mean. */
void td__record_number(td_trainer *trainer, size_t entry, td__mean *mean, double value);
/* The means of numbers over the epoch, by index; NULL behind the last. */
td__mean *td__mean_at(td_trainer *trainer, size_t index);

/* blame.c */
/* Fills error with where the loss of the open pass, which is not finite, came from: "SUBJECT is NaN;
 * first seen in …". Returns TD_RANGE. part: of the pass's batch. */
td_status td__blame(const td_trainer *trainer, td__pass *pass, td_part part, const char *subject,
                    td_error *error);

/* validate.c */
/* The open pass of td_trainer.check has a loss that is not finite. */
void td__validation_not_finite(td_trainer *trainer);
TD_NODISCARD td_status td__validate(td_trainer *trainer, td_error *error);

/* sample.c */
/* Records `prediction` if the open step wants it. */
TD_NODISCARD td_status td__predict_sample(td_trainer *trainer, td_error *error);

/* checkpoint.c */
/* Whatever fails is an error of recording. last: no other one follows. */
void td__checkpoint_save(td_trainer *trainer, bool last);
TD_NODISCARD td_status td__checkpoint_resume(td_trainer *trainer, td_error *error);
void td__remembered_release(td__remembered *remembered);
/* model.safetensors. */
TD_NODISCARD td_status td__model_publish(td_trainer *trainer, td_error *error);
/* best.safetensors; a failure is an error of recording. */
void td__model_keep_best(td_trainer *trainer);
/* Reads the checkpoint at path into the trainer. */
TD_NODISCARD td_status td__checkpoint_read(td_trainer *trainer, const char *path, td_error *error);
/* All that a checkpoint has of the trainer, as views of what the trainer owns and of numbers that the parts
 * own. Release them whatever is returned. */
typedef struct td__parts {
    td__named_view *tensors;
    size_t count;
    char **names; /* owned */
    size_t name_count;
    int64_t *counters;
    double *state, *means;
} td__parts;
TD_NODISCARD td_status td__parts_gather(td_trainer *trainer, const td__remembered *remembered,
                                        td__parts *parts, td_error *error);
void td__parts_release(td__parts *parts);
/* A place to read such parts from. */
typedef struct td__parts_source {
    const td__named_view *(*find)(const void *context, const char *name);
    void (*read)(const void *context, const td__named_view *part); /* done with it; may be NULL */
    const void *context;
    const char *path; /* for messages */
    /* For a branch, the trainer that the parts are of: a branch may have another optimizer and other
     * metrics. What does not fit begins anew, and is remarked on. NULL: everything must fit. */
    const td_trainer *past;
} td__parts_source;
TD_NODISCARD td_status td__parts_read(td_trainer *trainer, const td__parts_source *source,
                                      td_error *error);
/* Writes RUN/branch/step-….safetensors, from which a branch began, so that it can be replayed. A failure
 * is an error of recording. */
void td__branch_keep(td_trainer *trainer);
/* Whether one more, of which the last cost that much, leaves all of them below a hundredth of the
 * time. */
bool td__checkpoint_is_cheap(double spent, double cost, double elapsed);

/* state.c */
/* All that a step changes. Zero at first; may be saved to again and again. */
typedef struct td__state {
    td__named_view *tensors; /* over memory of its own */
    size_t count;
    char *memory;
    size_t bytes; /* of memory */
} td__state;
TD_NODISCARD td_status td__state_save(td_trainer *trainer, td__state *state, td_error *error);
/* past: the trainer of which a branch takes the state over; NULL: the experiment is the state's own. */
TD_NODISCARD td_status td__state_restore(td_trainer *trainer, const td__state *state,
                                         const td_trainer *past, td_error *error);
void td__state_release(td__state *state);

/* verify.c */
/* Whether the step under way is one that train.verify_every is for. */
bool td__step_is_verified(const td_trainer *trainer);
/* Computes it once before it is executed and recorded: nothing but fingerprints stays. */
TD_NODISCARD td_status td__step_rehearse(td_trainer *trainer, const td_batch *batch,
                                         td_error *error);
/* After its update: remarks on the first operation that made something else. */
void td__step_compare(td_trainer *trainer);
/* A verified step that failed: there is nothing to compare. */
void td__step_unverified(td_trainer *trainer);
/* Notes how many steps were compared; while the deck is open. */
void td__verify_note(td_trainer *trainer);
void td__verify_destroy(struct td__verify *verify);

/* ring.c */
/* Keeps a checkpoint that is no longer among the newest; false: it is to be removed. */
bool td__ring_take(td_trainer *trainer, int checkpoints, const char *name);
/* Gives its room back where the disk is nearly full. */
void td__ring_empty(const td_trainer *trainer);
/* The step of the last checkpoint of a run at or before that step, and its path; 0: there is none. */
int64_t td__checkpoint_nearest(const char *run, int64_t step, char *path, size_t size);
/* step-000000120.safetensors */
int64_t td__checkpoint_step(const char *name);

/* flight.c */
void td__flight_open(td_trainer *trainer);
/* While the pass is open. updated: the step has had its update. */
void td__flight_take(td_trainer *trainer, bool updated);
void td__flight_flush(td_trainer *trainer);
void td__flight_close(td_trainer *trainer);
uint64_t td__trainer_fingerprint(const td_trainer *trainer);
uint64_t td__batch_fingerprint(const td_trainer *trainer);

/* run.c */
/* Executes steps until `last` is done, or training is. Nothing but the deck, where there is one, is
 * written. */
TD_NODISCARD td_status td__trainer_advance(td_trainer *trainer, int64_t last, td_error *error);

/* room.c */
/* Reserves room for the model and a checkpoint; an error where there is none for the model. */
TD_NODISCARD td_status td__room_reserve(td_trainer *trainer, td_error *error);
/* The checkpoint of that name, which is written next, gets the room; false: there is none. */
bool td__room_use(int checkpoints, const char *checkpoint);
/* An older checkpoint goes, and its room is that of the next one. */
void td__room_recycle(int checkpoints, const char *checkpoint);
/* Gives back what was not used of the model's and the checkpoint's. */
void td__room_release(const td_trainer *trainer);
/* The same for run.db's, when the deck is closed, which may have used it. */
void td__room_release_index(const td__recording *recording);

/* layer_target.c */
/* Also adds its signals. weight 0: it is no part of the training's loss. */
TD_NODISCARD td_status td__layer_target_add(td_trainer *trainer, size_t layer, const char *path,
                                            double weight, td_error *error);
/* Records the layer's loss and its error if wanted; a td__pass_signals' layer_done. */
void td__layer_target_record(void *trainer, size_t layer, const td_tensor *output);
/* Whether the loss of a target, or its error, is recorded in this step. */
bool td__layer_target_is_wanted(const td_trainer *trainer, size_t index);
/* The loss with the layers' own; a td__pass's more_loss. */
td_tensor *td__layer_target_loss(void *trainer, td_tape *tape, td_tensor *loss);
void td__layer_targets_release(td_trainer *trainer);

#endif
