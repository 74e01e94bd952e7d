/* What should be reported before training, though it can be done. */
#include "nn/model.h"
#include "train/trainer.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void td__trainer_remark(const td_trainer *trainer, const td__yaml_node *node, const char *format,
                        ...) {
    char text[TD_ERROR_TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    td_error placed = {0};
    if (node) {
        td__experiment_problem(trainer->experiment, node, TD_OK, &placed, "%s", text);
    }
    if (trainer->options.remark) {
        trainer->options.remark(trainer->options.user, node ? placed.text : text);
    }
}

static td__yaml_node *node_of_key(const td_trainer *trainer, const char *section, const char *key) {
    td__yaml_node *node = td__yaml_get(td__yaml_root(trainer->experiment->yaml), section);
    td__yaml_node *inner = node && key ? td__yaml_get(node, key) : NULL;
    return inner ? inner : node;
}

td_status td__trainer_check_ids(td_trainer *trainer, td_error *error) {
    const td_data_options *data = &trainer->experiment->data;
    const td_layer_info *reads = td__model_reads_ids(trainer->model);
    bool scaled = data->scale != 0 && data->scale != 1;
    if (!reads || !(data->standardize || scaled) || (data->text.count && !scaled)) {
        return TD_OK; /* the ids of texts are not standardised */
    }
    const char *key = data->standardize ? "standardize" : "scale";
    return td__experiment_problem(trainer->experiment, node_of_key(trainer, "data", key),
                                  TD_INVALID, error,
                                  "data.%s: layer '%s' takes inputs as ids, and changed ones are "
                                  "others: leave it out; other inputs have the layers "
                                  "normalization and rescaling",
                                  key, reads->name);
}

/* The labels that a loss is made for; others may be any finite number. */
static const struct {
    bool limited;
    td__label_range range;
} ranges[TD_LOSS_COUNT] = {
    [TD_LOSS_BINARY_CROSSENTROPY] = {true, {0, 1}},
    [TD_LOSS_BINARY_FOCAL_CROSSENTROPY] = {true, {0, 1}},
    [TD_LOSS_CATEGORICAL_CROSSENTROPY] = {true, {0, 1}},
    [TD_LOSS_CATEGORICAL_FOCAL_CROSSENTROPY] = {true, {0, 1}},
    [TD_LOSS_KL_DIVERGENCE] = {true, {0, 1}},
    [TD_LOSS_HINGE] = {true, {-1, 1}},
    [TD_LOSS_SQUARED_HINGE] = {true, {-1, 1}},
    [TD_LOSS_CATEGORICAL_HINGE] = {true, {0, 1}},
    [TD_LOSS_POISSON] = {true, {0, INFINITY}},
    [TD_LOSS_MSLE] = {true, {0, INFINITY}},
};

td__label_range td__label_range_of(td_loss loss) {
    return ranges[loss].limited ? ranges[loss].range : (td__label_range){-INFINITY, INFINITY};
}

/* A class without an output cannot be trained. What else a loss cannot use is only reported: it is for the
 * diagnosis to show what comes of it. */
td_status td__trainer_check_labels(td_trainer *trainer, td_error *error) {
    const td_experiment *experiment = trainer->experiment;
    const td_layer_info *last = td__output_layer(trainer->model, 0);
    td_loss loss = experiment->train.objective.loss;
    td_error reason = {0};
    for (size_t i = 0; i < trainer->feed.info->remarks.count; i++) {
        td__trainer_remark(trainer, NULL, "%s", trainer->feed.info->remarks.items[i]);
    }
    if (trainer->head_count && trainer->heads[0].label) {
        return td__trainer_check_head_labels(trainer, error);
    }
    if (experiment->train.objective.target == TD__TARGET_INPUT) {
        return TD_OK;
    }
    if (trainer->feed.info->label_mean && trainer->feed.info->label_kind != TD_LABEL_VALUES) {
        return td__experiment_problem(experiment, NULL, TD_INVALID, error,
                                      "data.standardize_labels: %s takes classes, not values",
                                      td_loss_name(loss));
    }
    if (loss == TD_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY) {
        int64_t units = td__output_units(trainer->model, 0);
        return td_dataset_check_labels(trainer->feed.data, 0, (double)units - 1, &reason)
                   ? td__experiment_problem(experiment, NULL, reason.status, error,
                                            "data: %s: layer '%s' has %lld units, one for each "
                                            "class",
                                            reason.text, last->name, (long long)units)
                   : TD_OK;
    }
    td__label_range range = td__label_range_of(loss);
    if (td_dataset_check_labels(trainer->feed.data, range.minimum, range.maximum, &reason)) {
        td__trainer_remark(trainer, NULL, "data: %s for train.loss: %s", reason.text,
                           td_loss_name(loss));
    }
    return TD_OK;
}

/* ---- What is hardly meant -------------------------------------------------------------------- */

static void check_probabilities(const td_trainer *trainer, size_t output,
                                const td__objective *objective) {
    const char *wanted = td__probabilities_by(objective->loss);
    const char *last = td__output_activation(trainer->model, output);
    const char *layer = td__output_layer(trainer->model, output)->name;
    if (!wanted || !last) {
        return;
    }
    bool squashed = !strcmp(last, "softmax") || !strcmp(last, "sigmoid");
    if (objective->options.from_logits && !strcmp(last, wanted)) {
        td__trainer_remark(trainer, node_of_key(trainer, "train", "from_logits"),
                           "from_logits: true, and layer '%s' ends in %s already: it is "
                           "applied twice; take one of them away",
                           layer, wanted);
    } else if (objective->options.from_logits && squashed) {
        td__trainer_remark(trainer, node_of_key(trainer, "train", "from_logits"),
                           "from_logits: true, and layer '%s' ends in %s: the loss applies %s to "
                           "it; take one of them away",
                           layer, last, wanted);
    } else if (!objective->options.from_logits && !squashed) {
        td__trainer_remark(trainer, node_of_key(trainer, "train", "loss"),
                           "train.loss: %s takes probabilities, and layer '%s' ends in none: say "
                           "from_logits: true, or activation: %s",
                           td_loss_name(objective->loss), layer, wanted);
    }
}

static void check_stopping(const td_trainer *trainer) {
    const td__train_spec *train = &trainer->experiment->train;
    if (!train->stop_monitor || train->stop_mode == TD__MODE_AUTO) {
        return;
    }
    td_better better = td__monitor_better(train, train->stop_monitor);
    bool larger = train->stop_mode == TD__MODE_MAX;
    if ((better == TD_BETTER_LARGER && !larger) || (better == TD_BETTER_SMALLER && larger)) {
        td__trainer_remark(trainer, node_of_key(trainer, "train", "early_stopping"),
                           "train.early_stopping: mode: %s, but of %s the %s is better",
                           larger ? "max" : "min", train->stop_monitor,
                           larger ? "smaller" : "larger");
    }
}

/* As Keras warns: what was masked counts again behind such a layer. */
static void check_masks(const td_trainer *trainer) {
    for (size_t i = 0; i < trainer->layer_count; i++) {
        const td_layer_info *layer = td_model_layer(trainer->model, i);
        if (layer->mask_dropped) {
            td__trainer_remark(trainer, node_of_key(trainer, "model", NULL),
                               "model: layer '%s' (%s) can do nothing with the mask of what it "
                               "reads: behind it, all steps count",
                               layer->name, td_layer_kind_name(layer->kind));
        }
    }
}

td_status td__trainer_check_sense(td_trainer *trainer, td_error *error) {
    (void)error;
    check_masks(trainer);
    const td_data_info *info = trainer->feed.info;
    if (info->batch > info->training) {
        td__trainer_remark(trainer, node_of_key(trainer, "data", "batch"),
                           "data.batch: %lld is more than the %lld examples to train on: an epoch "
                           "is one step",
                           (long long)info->batch, (long long)info->training);
    }
    if (td_optimizer_settled(trainer->learner.optimizer)->learning_rate.value == 0) {
        td__trainer_remark(trainer, node_of_key(trainer, "train", "optimizer"),
                           "train.optimizer: a learning rate of 0 learns nothing");
    }
    for (size_t i = 0; i < td_model_output_count(trainer->model); i++) {
        check_probabilities(trainer, i,
                            i < trainer->head_count ? &trainer->heads[i].objective
                                                    : &trainer->experiment->train.objective);
    }
    check_stopping(trainer);
    return TD_OK;
}
