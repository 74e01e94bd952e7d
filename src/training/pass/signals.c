#include "pass/signals.h"

#include "base/memory.h"
#include "deck/derived.h"
#include "deck/glob.h"
#include "nn/kind.h"

#include <stdio.h>
#include <string.h>

/* ---- Listing --------------------------------------------------------------------------------- */

static int64_t elements_of(const td_shape *shape) {
    int64_t count = 1;
    for (int32_t i = 0; i < shape->rank; i++) {
        count *= shape->dims[i] < 0 ? 1 : shape->dims[i];
    }
    return count;
}

bool td__pass_signals_add(td__pass_signals *signals, const char *prefix, const char *name,
                          const char *suffix, td__signal_entry entry) {
    size_t room = strlen(prefix) + strlen(name) + strlen(suffix) + 1;
    if (!td__grow(&signals->entries, &signals->capacity, signals->count + 1, 1u << 24,
                  sizeof *signals->entries)) {
        return false;
    }
    entry.name = td__calloc(room, 1);
    if (!entry.name) {
        return false;
    }
    (void)snprintf(entry.name, room, "%s%s%s", prefix, name, suffix);
    signals->entries[signals->count++] = entry;
    return true;
}

static bool add_batch(td__pass_signals *signals, const td_data_info *info) {
    const td_layer_info *last = td__output_layer(signals->model, 0);
    td__signal_entry entry = {
        .kind = TD_SIGNAL_INPUT, .elements = elements_of(&info->input), .batched = true};
    bool good = td__pass_signals_add(signals, "", "input", "", entry);
    entry.kind = TD_SIGNAL_LABEL;
    entry.elements = elements_of(&info->label);
    if (info->label_kind != TD_LABEL_NONE) {
        good = good && td__pass_signals_add(signals, "", "label", "", entry);
    }
    entry.kind = TD_SIGNAL_PREDICTION;
    entry.elements = elements_of(&last->output);
    return good && td__pass_signals_add(signals, "", "prediction", "", entry);
}

static bool add_layer_signals(td__pass_signals *signals, size_t index, bool backward) {
    const td_layer_info *layer = td_model_layer(signals->model, index);
    td__signal_entry entry = {
        .index = index, .elements = elements_of(&layer->output), .batched = true};
    entry.kind = TD_SIGNAL_OUTPUT;
    bool good = td__pass_signals_add(signals, "", layer->name, ".output", entry);
    entry.kind = TD_SIGNAL_PREACTIVATION;
    if (layer->has_activation) {
        good = good && td__pass_signals_add(signals, "", layer->name, ".preactivation", entry);
    }
    entry.kind = TD_SIGNAL_ERROR;
    return good && (!backward || td__pass_signals_add(signals, "", layer->name, ".error", entry));
}

/* What can be asked about layers, and the loss of each example. */
static bool add_derived(td__pass_signals *signals) {
    bool good = td__pass_signals_add(
        signals, "", "loss", ".rows",
        (td__signal_entry){
            .kind = TD_SIGNAL_DERIVED, .subject = TD__OF_LOSS, .elements = 1, .batched = true});
    signals->of_layers = signals->count;
    for (size_t i = 0; good && i < td_model_layer_count(signals->model); i++) {
        const td_layer_info *layer = td_model_layer(signals->model, i);
        const td__layer_kind *kind = td__layer_kind_of(layer->kind);
        for (size_t k = 0; good && kind && k < kind->view_count; k++) {
            char suffix[32];
            (void)snprintf(suffix, sizeof suffix, ".%s", kind->views[k].word);
            good = td__pass_signals_add(signals, "", layer->name, suffix,
                                        (td__signal_entry){.kind = TD_SIGNAL_DERIVED,
                                                           .subject = TD__OF_LAYER,
                                                           .index = i,
                                                           .which = (uint8_t)k,
                                                           .elements = 1,
                                                           .batched = true,
                                                           .channels_first = true});
        }
    }
    signals->of_layers_end = signals->count;
    return good;
}

static bool add_parameter(td__pass_signals *signals, size_t index) {
    const td_parameter_info *parameter = td_model_parameter_at(signals->model, index);
    td__signal_entry entry = {.kind = TD_SIGNAL_PARAMETER,
                              .index = index,
                              .elements = td_tensor_count(parameter->tensor)};
    bool good = td__pass_signals_add(signals, "", parameter->name, "", entry);
    if (!parameter->trainable) {
        return good;
    }
    entry.kind = TD_SIGNAL_GRADIENT;
    good = good && td__pass_signals_add(signals, "", parameter->name, ".gradient", entry);
    entry.kind = TD_SIGNAL_UPDATE;
    return good && td__pass_signals_add(signals, "", parameter->name, ".update", entry);
}

bool td__pass_signals_add_model(td__pass_signals *signals, const td_model *model,
                                const td_data_info *info, const td__objective *objective,
                                bool backward) {
    const td_layer_info *last = td__output_layer(model, 0);
    td_signal_info *scores = &signals->scores;
    signals->model = model;
    *scores = (td_signal_info){.size = sizeof *scores,
                               .kind = TD_SIGNAL_PREDICTION,
                               .batched = true,
                               .units = info->class_names,
                               .unit_count = info->class_names ? (size_t)info->classes : 0};
    scores->classes = td__scored_classes(objective, &last->output, &scores->threshold);
    scores->values =
        td__predicts_values(objective) && (objective->target == TD__TARGET_INPUT || !scores->units);
    bool good = add_batch(signals, info);
    for (size_t i = 0; good && i < td_model_layer_count(model); i++) {
        good = add_layer_signals(signals, i, backward);
    }
    for (size_t i = 0; good && backward && i < td_model_parameter_count(model); i++) {
        good = add_parameter(signals, i);
    }
    return good && (!backward || add_derived(signals));
}

bool td__pass_signals_match(const td__pass_signals *signals, const char *pattern) {
    for (size_t i = 0; i < signals->count; i++) {
        const td__signal_entry *entry = &signals->entries[i];
        bool derived = entry->kind == TD_SIGNAL_DERIVED;
        if (td__glob_match_signal(pattern, entry->name, derived) ||
            (entry->elements && td__pattern_derives(pattern, entry->name, derived))) {
            return true;
        }
    }
    return false;
}

const char *td__pass_signals_nearest(const td__pass_signals *signals, const char *name) {
    const char **names = td__calloc(signals->count + 1, sizeof *names);
    for (size_t i = 0; names && i < signals->count; i++) {
        names[i] = signals->entries[i].name;
    }
    const char *nearest = names ? td_nearest_word(name, names, signals->count) : NULL;
    td__free(names);
    return nearest;
}

/* ---- Connecting ------------------------------------------------------------------------------ */

/* Where an entry is found by what it is of; NULL: nowhere. */
static td__signal_entry **slot_of_entry(td__pass_signals *signals, const td__signal_entry *entry) {
    switch (entry->kind) {
    case TD_SIGNAL_INPUT:
        return &signals->input;
    case TD_SIGNAL_LABEL:
        return &signals->label;
    case TD_SIGNAL_PREDICTION:
        return &signals->prediction;
    case TD_SIGNAL_OUTPUT:
        return &signals->outputs[entry->index];
    case TD_SIGNAL_PREACTIVATION:
        return &signals->preactivations[entry->index];
    case TD_SIGNAL_ERROR:
        return &signals->errors[entry->index];
    case TD_SIGNAL_PARAMETER:
        return &signals->parameters[entry->index];
    case TD_SIGNAL_GRADIENT:
        return &signals->gradients[entry->index];
    case TD_SIGNAL_UPDATE:
        return &signals->updates[entry->index];
    case TD_SIGNAL_DERIVED:
        return entry->subject == TD__OF_LOSS ? &signals->loss_rows : NULL;
    default:
        return NULL;
    }
}

/* The layer that an entry is about, from 1; 0: none. */
static size_t layer_of(const td__pass_signals *signals, const td__signal_entry *entry) {
    switch (entry->kind) {
    case TD_SIGNAL_OUTPUT:
    case TD_SIGNAL_PREACTIVATION:
    case TD_SIGNAL_ERROR:
        return entry->index + 1;
    case TD_SIGNAL_PARAMETER:
    case TD_SIGNAL_GRADIENT:
    case TD_SIGNAL_UPDATE:
        return td_model_parameter_at(signals->model, entry->index)->layer + 1;
    case TD_SIGNAL_DERIVED:
        return entry->subject == TD__OF_PARAMETER
                   ? td_model_parameter_at(signals->model, entry->index)->layer + 1
               : entry->subject == TD__OF_LAYER ? entry->index + 1
                                                : 0;
    default:
        return entry->order;
    }
}

/* How many parameters belong to layers behind this one. */
static int64_t parameters_behind(const td_model *model, size_t layer) {
    int64_t count = 0;
    for (size_t i = 0; i < td_model_parameter_count(model); i++) {
        count += td_model_parameter_at(model, i)->layer > layer;
    }
    return count;
}

/* Position in the execution of a step. Forward: input, label, each layer's pre-activation and output,
 * prediction, loss. Backward, from the last layer: its error, then the gradients of its parameters.
 * Update: the numbers of the optimizer, then each parameter's update and value; what follows is last. */
static int64_t sequence_of(const td__pass_signals *signals, const td__signal_entry *entry) {
    const td_model *model = signals->model;
    int64_t layers = (int64_t)td_model_layer_count(model), index = (int64_t)entry->index;
    int64_t parameters = (int64_t)td_model_parameter_count(model);
    int64_t forward = 3, loss = forward + 2 * layers + 1, backward = loss + 1;
    int64_t update = backward + layers + parameters, after = update + 2 + 2 * parameters;
    switch (entry->kind) {
    case TD_SIGNAL_INPUT:
        return 1;
    case TD_SIGNAL_LABEL:
        return 2;
    case TD_SIGNAL_PREACTIVATION:
        return forward + 2 * index;
    case TD_SIGNAL_OUTPUT:
        return forward + 2 * index + 1;
    case TD_SIGNAL_PREDICTION:
        return loss - 1;
    case TD_SIGNAL_ERROR:
        return backward + layers - 1 - index + parameters_behind(model, entry->index);
    case TD_SIGNAL_GRADIENT: {
        const td_parameter_info *parameter = td_model_parameter_at(model, entry->index);
        int64_t first = (int64_t)td_model_layer(model, parameter->layer)->first_parameter;
        return backward + layers - (int64_t)parameter->layer +
               parameters_behind(model, parameter->layer) + index - first;
    }
    case TD_SIGNAL_UPDATE:
        return update + 2 + 2 * index;
    case TD_SIGNAL_PARAMETER:
        return update + 3 + 2 * index;
    case TD_SIGNAL_DERIVED:
        return entry->subject == TD__OF_PARAMETER ? update + 3 + 2 * index
               : entry->subject == TD__OF_LAYER   ? forward + 2 * index + 1
                                                  : loss;
    default:
        return entry->order                       ? forward + 2 * (int64_t)entry->order - 1
               : entry->phase == TD__PHASE_LOSS   ? loss
               : entry->phase == TD__PHASE_UPDATE ? update
                                                  : after;
    }
}

static td_signal_info describe_signal(const td__pass_signals *signals,
                                      const td__signal_entry *entry) {
    td_signal_info info = {.size = sizeof info,
                           .kind = entry->kind,
                           .batched = entry->batched,
                           .channels_first = entry->channels_first};
    size_t layer = layer_of(signals, entry);
    if (layer) {
        info.layer = td_model_layer(signals->model, layer - 1)->name;
        info.order = (int64_t)layer;
    }
    info.sequence = sequence_of(signals, entry);
    if (entry->kind == TD_SIGNAL_PREDICTION) {
        td_signal_info scores = signals->scores;
        scores.sequence = info.sequence;
        return scores;
    }
    if (entry->kind == TD_SIGNAL_METRIC) {
        char text[TD_SIGNAL_TEXT_SIZE];
        td_signal_info guessed;
        td_signal_guess(entry->name, &guessed, text);
        info.better = entry->better ? entry->better : guessed.better;
    } else if (layer && !entry->batched) {
        info.parameter = td_model_parameter_at(signals->model, entry->index)->parameter;
    }
    return info;
}

td_status td__pass_signals_connect(td__pass_signals *signals, td_deck *deck, td_error *error) {
    size_t layers = td_model_layer_count(signals->model);
    size_t parameters = td_model_parameter_count(signals->model);
    signals->outputs = td__calloc(3 * layers + 1, sizeof *signals->outputs);
    signals->parameters = td__calloc(3 * parameters + 1, sizeof *signals->parameters);
    if (!signals->outputs || !signals->parameters) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    signals->deck = deck;
    signals->preactivations = signals->outputs + layers;
    signals->errors = signals->preactivations + layers;
    signals->gradients = signals->parameters + parameters;
    signals->updates = signals->gradients + parameters;
    for (size_t i = 0; i < signals->count; i++) {
        td__signal_entry *entry = &signals->entries[i];
        td_signal_info info = describe_signal(signals, entry);
        td__signal_entry **place = slot_of_entry(signals, entry);
        entry->signal = deck ? td_deck_signal_with(deck, entry->name, &info) : NULL;
        if (deck && !entry->signal) {
            return td_error_set(error, TD_MEMORY, "out of memory");
        }
        if (place) {
            *place = entry;
        }
    }
    return TD_OK;
}

/* ---- Recording ------------------------------------------------------------------------------- */

bool td__pass_signals_want(const td__pass_signals *signals, const td__signal_entry *entry) {
    const td__signal_tap *tap = signals->tap;
    return entry && (tap ? tap->wants(tap->user, (size_t)(entry - signals->entries))
                         : td_signal_wants(entry->signal));
}

void td__pass_signals_record(const td__pass_signals *signals, const td__signal_entry *entry,
                             td_view view) {
    const td__signal_tap *tap = signals->tap;
    if (tap) {
        tap->record(tap->user, (size_t)(entry - signals->entries), view);
    } else {
        (void)td_signal_record(entry->signal, view);
    }
}

void td__pass_signals_label(const td__pass_signals *signals, const td_batch *batch) {
    const td__signal_tap *tap = signals->tap;
    if (tap) {
        tap->labels(tap->user, batch);
    } else {
        (void)td_deck_batch_labels(signals->deck, batch->rows, batch->count,
                                   batch->label.data ? &batch->label : NULL);
    }
}

void td__pass_signals_release(td__pass_signals *signals) {
    for (size_t i = 0; i < signals->count; i++) {
        td__free(signals->entries[i].name);
    }
    td__free(signals->entries);
    td__free(signals->outputs);
    td__free(signals->parameters);
    *signals = (td__pass_signals){0};
}
