/* An experiment file, read and checked. */
#ifndef TAPEDECK_EXPERIMENT_EXPERIMENT_H
#define TAPEDECK_EXPERIMENT_EXPERIMENT_H

#include "experiment/check.h"
#include "pass/objective.h"
#include "tapedeck/data.h"
#include "tapedeck/deck.h"
#include "tapedeck/experiment.h"

/* "10 epochs", "50 steps"; one of the two is 0, both when nothing was said. */
typedef struct td__interval {
    int64_t steps, epochs;
} td__interval;

/* A layer, optimizer or schedule: its name and its settings. */
typedef struct td__choice {
    const char *name;    /* NULL: not given */
    td__yaml_node *node; /* where it stands, for messages and for filling in defaults */
    td_setting *settings;
    size_t count;
} td__choice;

typedef struct td__track_spec {
    td__yaml_node *node;
    td_names what;
    td__interval every;
    td_steps at;
    int64_t start, end;
    int64_t sample;
    const char *when;
    int64_t history;
    td_names forms;
    uint32_t form; /* td_form bits of forms */
    td_names to;
    const char *target; /* of LAYER.loss: a file */
} td__track_spec;

/* Whom to notify: td_alert. */
typedef struct td__alert_spec {
    td__yaml_node *node;
    const char *when;
    td_names run;
    const char *webhook;
} td__alert_spec;

/* A metric: what it is called in signals, and its options (the texts are the document's). */
typedef struct td__metric_spec {
    const char *name;
    td_metric_options options;
    const char *output; /* that it is of; NULL: the only one */
    const td__yaml_node *node;
} td__metric_spec;

/* What one of several outputs is trained for. */
typedef struct td__output_loss {
    const char *output;
    td__objective objective;
    const td__yaml_node *node;
} td__output_loss;

typedef struct td__output_weight {
    const char *output;
    double weight;
    const td__yaml_node *node;
} td__output_weight;

typedef enum td__mode { TD__MODE_AUTO, TD__MODE_MIN, TD__MODE_MAX } td__mode;

/* reduce_on_plateau; monitor NULL: none. */
typedef struct td__plateau_spec {
    const char *monitor;
    int mode; /* td__mode */
    int64_t patience, cooldown;
    double factor, min_delta, min_rate;
} td__plateau_spec;
/* A layer's own loss as part of the training's: weight times the mean squared error of its output
 * against what target has for each row of the training file. */
typedef struct td__layer_loss {
    const char *layer, *target;
    double weight;
    const td__yaml_node *node;
} td__layer_loss;

enum { TD__MAX_SHARDS = 1024 };

typedef struct td__train_spec {
    td__objective objective;        /* of the model's only output, or of the first … */
    td__output_loss *output_losses; /* … where each has its own; NULL: one for all */
    size_t output_loss_count;
    td__output_weight *output_weights; /* of the outputs' losses; others 1 */
    size_t output_weight_count;
    bool from_logits; /* of all that are cross-entropies, beside what a loss says of itself */
    td__choice optimizer, schedule;
    double clip_norm, clip_value;
    td__metric_spec *metrics;
    size_t metric_count;
    int64_t epochs, steps; /* steps 0: all of epochs */
    int64_t verify_every;  /* steps; 0: never */
    int64_t shards;        /* parts that a batch is cut into; 0: 1, or of a group its default */
    td__layer_loss *layer_losses;
    size_t layer_loss_count;
    td__interval checkpoint_every;
    bool checkpoint_sparing; /* not when it would cost more than a hundredth of the time */
    int64_t checkpoint_keep;
    int64_t checkpoint_budget;   /* bytes of older ones that are kept for replays; 0: none */
    const char *checkpoint_best; /* best.safetensors is the model when this was best; NULL: none */
    const char *stop_monitor;    /* early stopping; NULL: none */
    int stop_mode;               /* td__mode */
    int64_t stop_patience;
    double stop_min_delta;
    bool stop_restore_best;
    td__plateau_spec plateau;
} td__train_spec;

struct td_experiment {
    td__yaml *yaml;
    const char *path, *folder; /* of the file; folder is "" or ends in '/' */
    const char *name;
    uint64_t seed;
    int64_t threads;
    td_data_options data;
    td__choice *layers; /* when the model is a list */
    size_t layer_count;
    const char *model_file; /* when it is a file */
    td_names frozen;        /* its layers that are not trained; items NULL: as the file says */
    td_names outputs;       /* layers; none: those that train.loss names, the last, or the file's */
    const char *weights;
    td__train_spec train;
    td__track_spec *tracks;
    size_t track_count;
    td__alert_spec *alerts;
    size_t alert_count;
    const char *store; /* the URL of a database, without a password; NULL: none */
    bool unrecorded;   /* the document has no `record:`; the trainer knows what stands for it */
    bool diagnose;     /* while it trains */
    bool stop_on_nan, stop_on_divergence;
    double overhead;
    int policy; /* td_policy */
    int64_t queue, history;
};

/* Reports a problem found after reading (a shape, a signal's name) as td_experiment_read would:
 * error gets "FILE:LINE: TEXT". line 0: without. */
td_status td__experiment_problem(const td_experiment *experiment, const td__yaml_node *node,
                                 td_status status, td_error *error, const char *format, ...)
    TD_PRINTF(5, 6);

/* Writes the settings (as nn has them, defaults filled in) over a choice's fields in
 * the document. */
TD_NODISCARD td_status td__choice_settle(td__yaml *yaml, td__choice *choice,
                                         const td_setting *settings, size_t count);
/* The settings of a layer that reads ids and leaves it to the data how many there are, count of them: with that
 * option. settings has room for one more than the layer has. False: the layer says it, or reads none. */
bool td__choice_add_ids(const td__choice *layer, const td_texts *texts, int64_t ids,
                        td_setting *settings);
/* The experiment as YAML, from td__calloc; NULL when memory is exhausted. */
char *td__experiment_write(const td_experiment *experiment, size_t *size);

#endif
