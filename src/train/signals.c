/* What can be recorded, by name. */
#include "train/trainer.h"

#include "base/memory.h"
#include "base/words.h"
#include "deck/condition.h"
#include "deck/glob.h"

#include <stdio.h>
#include <string.h>

static int64_t elements_of(const td_shape *shape) {
    int64_t count = 1;
    for (int32_t i = 0; i < shape->rank; i++) {
        count *= shape->dims[i] < 0 ? 1 : shape->dims[i];
    }
    return count;
}

/* Adds PREFIX + NAME + SUFFIX. */
static td_status add(td_trainer *trainer, const char *prefix, const char *name, const char *suffix,
                     td__signal_entry entry) {
    size_t room = strlen(prefix) + strlen(name) + strlen(suffix) + 1;
    if (!td__grow(&trainer->entries, &trainer->entry_capacity, trainer->entry_count + 1, 1u << 24,
                  sizeof *trainer->entries)) {
        return TD_MEMORY;
    }
    entry.name = td__calloc(room, 1);
    if (!entry.name) {
        return TD_MEMORY;
    }
    (void)snprintf(entry.name, room, "%s%s%s", prefix, name, suffix);
    trainer->entries[trainer->entry_count++] = entry;
    return TD_OK;
}

static td_status add_values(td_trainer *trainer, const char *prefix, td__source source) {
    td_status status = add(trainer, prefix, "loss", "", (td__signal_entry){.source = source});
    for (size_t i = 0; !status && i < trainer->metric_count; i++) {
        status = add(trainer, prefix, trainer->experiment->train.metrics.items[i], "",
                     (td__signal_entry){.source = source, .index = i + 1});
    }
    return status;
}

static td_status add_layer(td_trainer *trainer, size_t index) {
    const td_layer_info *layer = td_model_layer(trainer->model, index);
    td__signal_entry entry = {
        .index = index, .elements = elements_of(&layer->output), .batched = true};
    entry.source = TD__SOURCE_OUTPUT;
    td_status status = add(trainer, "", layer->name, ".output", entry);
    entry.source = TD__SOURCE_PREACTIVATION;
    if (!status && layer->has_activation) {
        status = add(trainer, "", layer->name, ".preactivation", entry);
    }
    entry.source = TD__SOURCE_ERROR;
    return status ? status : add(trainer, "", layer->name, ".error", entry);
}

static td_status add_parameter(td_trainer *trainer, size_t index) {
    const td_parameter_info *parameter = td_model_parameter_at(trainer->model, index);
    td__signal_entry entry = {.source = TD__SOURCE_PARAMETER,
                              .index = index,
                              .elements = td_tensor_count(parameter->tensor)};
    td_status status = add(trainer, "", parameter->name, "", entry);
    if (status || !parameter->trainable) {
        return status;
    }
    entry.source = TD__SOURCE_GRADIENT;
    status = add(trainer, "", parameter->name, ".gradient", entry);
    entry.source = TD__SOURCE_UPDATE;
    return status ? status : add(trainer, "", parameter->name, ".update", entry);
}

td_status td__trainer_signals_list(td_trainer *trainer, td_error *error) {
    const td_data_info *info = trainer->info;
    const td_layer_info *last = td_model_layer(trainer->model, trainer->layer_count - 1);
    td_status status = add_values(trainer, "", TD__SOURCE_VALUE);
    if (!status) {
        status = add_values(trainer, "epoch_", TD__SOURCE_VALUE);
    }
    if (!status && trainer->validation) {
        status = add_values(trainer, "val_", TD__SOURCE_EPOCH);
    }
    const struct {
        const char *name;
        td__signal_entry entry;
        bool there;
    } single[] = {
        {"learning_rate", {.source = TD__SOURCE_VALUE}, true},
        {"gradient_norm", {.source = TD__SOURCE_VALUE}, trainer->experiment->train.clip_norm > 0},
        {"input",
         {.source = TD__SOURCE_BATCH, .elements = elements_of(&info->input), .batched = true},
         true},
        {"label",
         {.source = TD__SOURCE_BATCH, .elements = elements_of(&info->label), .batched = true},
         info->label_kind != TD_LABEL_NONE},
        {"prediction",
         {.source = TD__SOURCE_PREDICTION, .elements = elements_of(&last->output), .batched = true},
         true},
    };
    for (size_t i = 0; !status && i < sizeof single / sizeof *single; i++) {
        status = single[i].there ? add(trainer, "", single[i].name, "", single[i].entry) : TD_OK;
    }
    for (size_t i = 0; !status && i < trainer->layer_count; i++) {
        status = add_layer(trainer, i);
    }
    for (size_t i = 0; !status && i < trainer->parameter_count; i++) {
        status = add_parameter(trainer, i);
    }
    return status ? td_error_set(error, status, "out of memory") : TD_OK;
}

/* ---- Checking ---------------------------------------------------------------------------------
 */

static td_status unknown(td_trainer *trainer, const td__track_spec *track, const char *what,
                         td_error *error) {
    const char **names = td__calloc(trainer->entry_count + 1, sizeof *names);
    for (size_t i = 0; names && i < trainer->entry_count; i++) {
        names[i] = trainer->entries[i].name;
    }
    const char *nearest = names ? td__nearest_word(what, names, trainer->entry_count) : NULL;
    const char *hint = "";
    if (!nearest && !strncmp(what, "val_", 4) && !trainer->validation) {
        hint = "; there is no validation part: give data.validation";
    } else if (!nearest) {
        hint = "; `tapedeck train --dry-run` without this track lists the model's layers";
    }
    td_status status = td__experiment_problem(
        trainer->experiment, track->node, TD_NOT_FOUND, error, "record: no signal '%s'%s%s%s%s",
        what, nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "", hint);
    td__free(names);
    return status;
}

/* LAYER.loss, for which the track has the target. */
static td_status check_layer_loss(td_trainer *trainer, const td__track_spec *track,
                                  const char *what, td_error *error) {
    size_t length = strlen(what) - strlen(".loss");
    for (size_t i = 0; i < trainer->layer_count; i++) {
        const char *name = td_model_layer(trainer->model, i)->name;
        if (strlen(name) != length || strncmp(name, what, length) != 0) {
            continue;
        }
        if (!track->target) {
            return td__experiment_problem(trainer->experiment, track->node, TD_INVALID, error,
                                          "record: %s needs the layer's target: `target: FILE.npy`",
                                          what);
        }
        td_error reason = {0};
        td_status status = td__layer_target_add(trainer, i, track->target, &reason);
        if (status) {
            return td__experiment_problem(trainer->experiment, track->node, status, error,
                                          "record: %s: %s", what, reason.text);
        }
        status = add(trainer, "", what, "",
                     (td__signal_entry){.source = TD__SOURCE_LAYER_LOSS,
                                        .index = trainer->layer_target_count - 1});
        return status ? td_error_set(error, status, "out of memory") : TD_OK;
    }
    return unknown(trainer, track, what, error);
}

/* A name that means nothing is an error; a glob that matches nothing is none: the same recording
 * fits models with and without biases. */
static td_status check_what(td_trainer *trainer, const td__track_spec *track, const char *what,
                            td_error *error) {
    for (size_t i = 0; i < trainer->entry_count; i++) {
        if (td__glob_match(what, trainer->entries[i].name)) {
            return TD_OK;
        }
    }
    if (td__glob_is_pattern(what)) {
        td__trainer_remark(trainer, track->node, "record: '%s' matches no signal of this model",
                           what);
        return TD_OK;
    }
    const char *end = strrchr(what, '.');
    return end && !strcmp(end, ".loss") ? check_layer_loss(trainer, track, what, error)
                                        : unknown(trainer, track, what, error);
}

static td_status check_when(td_trainer *trainer, const td__track_spec *track,
                            const td__expected *expected, td__condition **condition,
                            td_error *error) {
    td_error reason = {0};
    const char *idle = NULL;
    *condition = td__condition_parse(track->when, &reason);
    td_status status =
        *condition ? td__condition_check(*condition, expected, trainer->entry_count, &idle, &reason)
                   : reason.status;
    if (status) {
        const char *hint = strstr(reason.text, "val_") && !trainer->validation
                               ? "\n    there is no validation part: give data.validation"
                               : "";
        return td__experiment_problem(trainer->experiment, track->node, status, error,
                                      "record: %s%s", reason.text, hint);
    }
    if (idle) {
        td__trainer_remark(trainer, track->node,
                           "record: when: '%s' matches no signal of this model", idle);
    }
    return TD_OK;
}

/* Whether a track records the signal, or a condition speaks of it. */
static bool is_asked_for(const td_trainer *trainer, td__condition **conditions, const char *name) {
    const td_experiment *experiment = trainer->experiment;
    for (size_t i = 0; i < experiment->track_count; i++) {
        if (td__track_names(&experiment->tracks[i], name) ||
            (conditions[i] && td__condition_uses(conditions[i], name))) {
            return true;
        }
    }
    return false;
}

/* Pre-activations and updates cost something: they are made for those that somebody wants. */
static td_status prepare(td_trainer *trainer, td__condition **conditions,
                         const td__signal_entry *entry, td_error *error) {
    bool costs = entry->source == TD__SOURCE_PREACTIVATION || entry->source == TD__SOURCE_UPDATE;
    if (!costs || !is_asked_for(trainer, conditions, entry->name)) {
        return TD_OK;
    }
    if (entry->source == TD__SOURCE_PREACTIVATION) {
        const char *layer = td_model_layer(trainer->model, entry->index)->name;
        return td_model_keep_preactivation(trainer->model, layer, true, error);
    }
    return td_optimizer_keep_update(trainer->optimizer, (size_t)trainer->weight_of[entry->index],
                                    error);
}

static td_status check_all(td_trainer *trainer, td__expected *expected, td__condition **conditions,
                           td_error *error) {
    const td_experiment *experiment = trainer->experiment;
    td_status status = TD_OK;
    for (size_t i = 0; !status && i < experiment->track_count; i++) {
        const td__track_spec *track = &experiment->tracks[i];
        for (size_t k = 0; !status && k < track->what.count; k++) {
            status = check_what(trainer, track, track->what.items[k], error);
        }
    }
    for (size_t i = 0; !status && i < trainer->entry_count; i++) {
        expected[i] = (td__expected){trainer->entries[i].name, trainer->entries[i].elements > 0};
    }
    for (size_t i = 0; !status && i < experiment->track_count; i++) {
        const td__track_spec *track = &experiment->tracks[i];
        status = track->when ? check_when(trainer, track, expected, &conditions[i], error) : TD_OK;
    }
    for (size_t i = 0; !status && i < trainer->entry_count; i++) {
        status = prepare(trainer, conditions, &trainer->entries[i], error);
    }
    return status;
}

td_status td__trainer_signals_check(td_trainer *trainer, td_error *error) {
    size_t tracks = trainer->experiment->track_count;
    /* Tracks may add an entry each: LAYER.loss. */
    td__expected *expected =
        td__calloc(trainer->entry_count + trainer->layer_count + 1, sizeof *expected);
    td__condition **conditions = td__calloc(tracks + 1, sizeof(td__condition *));
    td_status status = expected && conditions ? check_all(trainer, expected, conditions, error)
                                              : td_error_set(error, TD_MEMORY, "out of memory");
    for (size_t i = 0; conditions && i < tracks; i++) {
        td__condition_destroy(conditions[i]);
    }
    td__free(conditions);
    td__free(expected);
    return status;
}

/* ---- The deck's handles -----------------------------------------------------------------------
 */

/* Where the handle of an entry is kept, besides in the entry. */
static td_signal **place_of(td_trainer *trainer, const td__signal_entry *entry) {
    switch (entry->source) {
    case TD__SOURCE_VALUE:
        if (!strcmp(entry->name, "learning_rate")) {
            return &trainer->rate;
        }
        if (!strcmp(entry->name, "gradient_norm")) {
            return &trainer->norm;
        }
        return strncmp(entry->name, "epoch_", 6) ? &trainer->values[entry->index]
                                                 : &trainer->epoch_values[entry->index];
    case TD__SOURCE_EPOCH:
        return &trainer->validation_values[entry->index];
    case TD__SOURCE_BATCH:
        return !strcmp(entry->name, "input") ? &trainer->input_signal : &trainer->label_signal;
    case TD__SOURCE_PREDICTION:
        return &trainer->prediction;
    case TD__SOURCE_OUTPUT:
        return &trainer->outputs[entry->index];
    case TD__SOURCE_PREACTIVATION:
        return &trainer->preactivations[entry->index];
    case TD__SOURCE_ERROR:
        return &trainer->errors[entry->index];
    case TD__SOURCE_LAYER_LOSS:
        return &trainer->layer_targets[entry->index].signal;
    case TD__SOURCE_PARAMETER:
        return &trainer->parameters[entry->index];
    case TD__SOURCE_GRADIENT:
        return &trainer->parameter_gradients[entry->index];
    case TD__SOURCE_UPDATE:
        return &trainer->updates[entry->index];
    }
    return NULL;
}

static int64_t scored_classes(const td_trainer *trainer, double *threshold) {
    const td__train_spec *train = &trainer->experiment->train;
    const td_layer_info *last = td_model_layer(trainer->model, trainer->layer_count - 1);
    return train->target == TD__TARGET_INPUT
               ? 0
               : td__scored_classes(train->loss, train->loss_options.from_logits, &last->output,
                                    threshold);
}

static td_signal_info describe(const td_trainer *trainer, const td__signal_entry *entry) {
    static const td_signal_kind kinds[] = {
        [TD__SOURCE_VALUE] = TD_SIGNAL_METRIC,
        [TD__SOURCE_EPOCH] = TD_SIGNAL_METRIC,
        [TD__SOURCE_PREDICTION] = TD_SIGNAL_PREDICTION,
        [TD__SOURCE_OUTPUT] = TD_SIGNAL_OUTPUT,
        [TD__SOURCE_PREACTIVATION] = TD_SIGNAL_PREACTIVATION,
        [TD__SOURCE_ERROR] = TD_SIGNAL_ERROR,
        [TD__SOURCE_LAYER_LOSS] = TD_SIGNAL_METRIC,
        [TD__SOURCE_PARAMETER] = TD_SIGNAL_PARAMETER,
        [TD__SOURCE_GRADIENT] = TD_SIGNAL_GRADIENT,
        [TD__SOURCE_UPDATE] = TD_SIGNAL_UPDATE,
    };
    td_signal_info info = {
        .size = sizeof info, .kind = kinds[entry->source], .batched = entry->batched};
    ptrdiff_t layer = -1;
    switch (entry->source) {
    case TD__SOURCE_BATCH:
        info.kind = td_signal_kind_find(entry->name);
        break;
    case TD__SOURCE_PREDICTION:
        info.units = trainer->info->class_names;
        info.unit_count = info.units ? (size_t)trainer->info->classes : 0;
        info.classes = scored_classes(trainer, &info.threshold);
        break;
    case TD__SOURCE_OUTPUT:
    case TD__SOURCE_PREACTIVATION:
    case TD__SOURCE_ERROR:
        layer = (ptrdiff_t)entry->index;
        break;
    case TD__SOURCE_LAYER_LOSS:
        layer = (ptrdiff_t)trainer->layer_targets[entry->index].layer;
        info.better = TD_BETTER_SMALLER;
        break;
    case TD__SOURCE_PARAMETER:
    case TD__SOURCE_GRADIENT:
    case TD__SOURCE_UPDATE: {
        const td_parameter_info *parameter = td_model_parameter_at(trainer->model, entry->index);
        layer = (ptrdiff_t)parameter->layer;
        info.parameter = parameter->parameter;
        break;
    }
    case TD__SOURCE_VALUE:
    case TD__SOURCE_EPOCH: {
        char text[TD_SIGNAL_TEXT_SIZE];
        td_signal_info guessed;
        td_signal_guess(entry->name, &guessed, text);
        info.better = guessed.better;
        break;
    }
    }
    if (layer >= 0) {
        info.layer = td_model_layer(trainer->model, (size_t)layer)->name;
        info.order = layer + 1;
    }
    return info;
}

td_status td__trainer_signals_connect(td_trainer *trainer, td_error *error) {
    size_t values = 3 * (trainer->metric_count + 1), layers = 3 * (trainer->layer_count + 1);
    size_t parameters = 3 * (trainer->parameter_count + 1);
    trainer->values = td__calloc(values, sizeof(td_signal *));
    trainer->outputs = td__calloc(layers, sizeof(td_signal *));
    trainer->parameters = td__calloc(parameters, sizeof(td_signal *));
    if (!trainer->values || !trainer->outputs || !trainer->parameters) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    trainer->epoch_values = trainer->values + trainer->metric_count + 1;
    trainer->validation_values = trainer->epoch_values + trainer->metric_count + 1;
    trainer->preactivations = trainer->outputs + trainer->layer_count;
    trainer->errors = trainer->preactivations + trainer->layer_count;
    trainer->parameter_gradients = trainer->parameters + trainer->parameter_count;
    trainer->updates = trainer->parameter_gradients + trainer->parameter_count;
    for (size_t i = 0; i < trainer->entry_count; i++) {
        td__signal_entry *entry = &trainer->entries[i];
        td_signal_info info = describe(trainer, entry);
        entry->signal = td_deck_signal_with(trainer->deck, entry->name, &info);
        if (!entry->signal) {
            return td_error_set(error, TD_MEMORY, "out of memory");
        }
        *place_of(trainer, entry) = entry->signal;
    }
    return TD_OK;
}

void td__trainer_signals_release(td_trainer *trainer) {
    for (size_t i = 0; i < trainer->entry_count; i++) {
        td__free(trainer->entries[i].name);
    }
    td__free(trainer->entries);
    td__free(trainer->values);
    td__free(trainer->outputs);
    td__free(trainer->parameters);
}
