/* What can be recorded, by name, and whether that is what tracks and conditions ask for. */
#include "train/trainer.h"

#include "base/memory.h"
#include "deck/condition.h"
#include "deck/glob.h"

#include <stdio.h>
#include <string.h>

/* ---- Listing --------------------------------------------------------------------------------- */

/* The values of a metric: NAME, or NAME_0, NAME_1, … of each class. */
static bool add_metric(td_trainer *trainer, const char *prefix, size_t metric,
                       td__signal_entry entry) {
    size_t count = td__measures_values_of(&trainer->measures, metric);
    const char *name = trainer->measures.specs[metric].name;
    entry.better = td__metric_better(trainer->measures.specs[metric].options.kind);
    bool good = true;
    for (size_t i = 0; good && i < count; i++) {
        char suffix[24] = "";
        if (count > 1) {
            (void)snprintf(suffix, sizeof suffix, "_%zu", i);
        }
        good = td__pass_signals_add(&trainer->signals, prefix, name, suffix, entry);
    }
    return good;
}

/* loss, those of several outputs, and metrics, with a prefix; *first is the entry of the loss. */
static bool add_values(td_trainer *trainer, const char *prefix, bool epochs_only, size_t *first) {
    td__signal_entry entry = {.kind = TD_SIGNAL_METRIC,
                              .epochs_only = epochs_only,
                              .phase = epochs_only ? TD__PHASE_AFTER : TD__PHASE_LOSS};
    *first = trainer->signals.count;
    bool good = td__pass_signals_add(&trainer->signals, prefix, "loss", "", entry);
    for (size_t i = 1; good && i < trainer->measures.loss_count; i++) {
        const char *output = td__output_layer(trainer->model, i - 1)->name;
        good = td__pass_signals_add(&trainer->signals, prefix, output, "_loss", entry);
    }
    for (size_t i = 0; good && i < trainer->measures.count; i++) {
        good =
            td__measures_is_matrix(&trainer->measures, i) || add_metric(trainer, prefix, i, entry);
    }
    return good;
}

/* Metrics that are matrices; *first is the entry of the first. */
static bool add_matrices(td_trainer *trainer, const char *prefix, size_t *first) {
    const td__measures *measures = &trainer->measures;
    *first = trainer->signals.count;
    bool good = true;
    for (size_t i = 0; good && i < measures->count; i++) {
        td__signal_entry entry = {.kind = TD_SIGNAL_UNKNOWN,
                                  .epochs_only = true,
                                  .phase = TD__PHASE_AFTER,
                                  .elements = (int64_t)td__measures_values_of(measures, i)};
        good = !td__measures_is_matrix(measures, i) ||
               td__pass_signals_add(&trainer->signals, prefix, measures->specs[i].name, "", entry);
    }
    return good;
}

static bool add_number(td_trainer *trainer, const char *name, size_t *place) {
    *place = trainer->signals.count;
    return td__pass_signals_add(
        &trainer->signals, "", name, "",
        (td__signal_entry){.kind = TD_SIGNAL_METRIC, .phase = TD__PHASE_UPDATE});
}

/* The layers' own losses, which are part of the training's. */
static td_status add_layer_losses(td_trainer *trainer, td_error *error) {
    const td__train_spec *train = &trainer->experiment->train;
    for (size_t i = 0; i < train->layer_loss_count; i++) {
        const td__layer_loss *loss = &train->layer_losses[i];
        ptrdiff_t layer = td_model_find(trainer->model, loss->layer);
        td_error reason = {0};
        if (layer < 0) {
            return td__experiment_problem(trainer->experiment, loss->node, TD_NOT_FOUND, error,
                                          "train.layer_losses: there is no layer '%s'",
                                          loss->layer);
        }
        td_status status =
            td__layer_target_add(trainer, (size_t)layer, loss->target, loss->weight, &reason);
        if (status) {
            return td__experiment_problem(trainer->experiment, loss->node, status, error,
                                          "train.layer_losses: %s: %s", loss->layer, reason.text);
        }
    }
    if (train->layer_loss_count) {
        trainer->pass.more_loss = td__layer_target_loss;
        trainer->pass.more_user = trainer;
    }
    return TD_OK;
}

td_status td__trainer_signals_list(td_trainer *trainer, td_error *error) {
    td__values *values = &trainer->values;
    bool good =
        add_values(trainer, "", false, &values->step) &&
        add_values(trainer, "epoch_", false, &values->epoch) &&
        (!trainer->feed.validation || add_values(trainer, "val_", true, &values->validation)) &&
        add_matrices(trainer, "", &values->matrices) &&
        (!trainer->feed.validation ||
         add_matrices(trainer, "val_", &values->validation_matrices)) &&
        add_number(trainer, "learning_rate", &values->learning_rate) &&
        (trainer->experiment->train.clip_norm <= 0 ||
         add_number(trainer, "gradient_norm", &values->gradient_norm)) &&
        td__pass_signals_add_model(&trainer->signals, trainer->model, trainer->feed.info,
                                   &trainer->experiment->train.objective, true);
    trainer->signals.of_parameters = trainer->signals.count;
    good = good && td__optimizer_signals_list(trainer);
    trainer->signals.of_parameters_end = trainer->signals.count;
    good = good && td__curvature_signals_list(trainer);
    return good ? add_layer_losses(trainer, error)
                : td_error_set(error, TD_MEMORY, "out of memory");
}

/* ---- Checking -------------------------------------------------------------------------------- */

enum { HINT = 400 };

static const char *const value_prefixes[] = {"", "epoch_", "val_"};
enum { VALUE_PREFIXES = sizeof value_prefixes / sizeof *value_prefixes };

static bool is_measured(const td_trainer *trainer, const char *metric) {
    const td__train_spec *train = &trainer->experiment->train;
    for (size_t i = 0; i < train->metric_count; i++) {
        if (!strcmp(train->metrics[i].name, metric)) {
            return true;
        }
    }
    return false;
}

/* The metric that `what`, with or without a prefix, is the value of, though it is not asked for.
 * NULL when it is none. */
static const char *unmeasured(const td_trainer *trainer, const char *what) {
    for (int i = 0; i < VALUE_PREFIXES; i++) {
        size_t length = strlen(value_prefixes[i]);
        td_metric_kind kind;
        if (!strncmp(what, value_prefixes[i], length) &&
            !td_metric_kind_find(what + length, &kind, NULL) &&
            !is_measured(trainer, what + length)) {
            return what + length;
        }
    }
    return NULL;
}

/* "; the layers are conv1, conv2": as many as fit. */
static void list_layers(char hint[HINT], const td_trainer *trainer) {
    size_t length = (size_t)snprintf(hint, HINT, "; the layers are ");
    for (size_t i = 0; i < trainer->layer_count; i++) {
        const char *name = td_model_layer(trainer->model, i)->name;
        if (length + strlen(name) + sizeof ", , …" > HINT) {
            (void)snprintf(hint + length, HINT - length, ", …");
            return;
        }
        length += (size_t)snprintf(hint + length, HINT - length, "%s%s", i ? ", " : "", name);
    }
}

static td_status unknown(td_trainer *trainer, const td__track_spec *track, const char *what,
                         td_error *error) {
    char hint[HINT] = "";
    const char *metric = unmeasured(trainer, what);
    const char *nearest = td__pass_signals_nearest(&trainer->signals, what);
    if (metric) {
        (void)snprintf(hint, HINT, "; add %s to train.metrics", metric);
    } else if (!strcmp(what, "gradient_norm")) {
        (void)snprintf(hint, HINT, "; it is there with train.clip_norm (1e30 clips nothing)");
    } else if (nearest) {
        (void)snprintf(hint, HINT, "; did you mean '%s'?", nearest);
    } else if (!strncmp(what, "val_", 4) && !trainer->feed.validation) {
        (void)snprintf(hint, HINT, "; there is no validation part: give data.validation");
    } else {
        list_layers(hint, trainer);
    }
    return td__experiment_problem(trainer->experiment, track->node, TD_NOT_FOUND, error,
                                  "record: no signal '%s'%s", what, hint);
}

/* LAYER.loss of a layer that there is not. */
static td_status unknown_layer(td_trainer *trainer, const td__track_spec *track, const char *what,
                               size_t length, td_error *error) {
    char hint[HINT] = "", layer[HINT];
    const char **names = td__calloc(trainer->layer_count + 1, sizeof *names);
    for (size_t i = 0; names && i < trainer->layer_count; i++) {
        names[i] = td_model_layer(trainer->model, i)->name;
    }
    (void)snprintf(layer, HINT, "%.*s", (int)length, what);
    const char *nearest = names ? td_nearest_word(layer, names, trainer->layer_count) : NULL;
    if (nearest) {
        (void)snprintf(hint, HINT, "; did you mean '%s.loss'?", nearest);
    } else {
        list_layers(hint, trainer);
    }
    td__free(names);
    return td__experiment_problem(trainer->experiment, track->node, TD_NOT_FOUND, error,
                                  "record: no signal '%s'%s", what, hint);
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
        td_status status = td__layer_target_add(trainer, i, track->target, 0, &reason);
        return status ? td__experiment_problem(trainer->experiment, track->node, status, error,
                                               "record: %s: %s", what, reason.text)
                      : TD_OK;
    }
    return unknown_layer(trainer, track, what, length, error);
}

/* A name that means nothing is an error; a glob that matches nothing is none: the same recording
 * fits models with and without biases. */
static td_status check_what(td_trainer *trainer, const td__track_spec *track, const char *what,
                            td_error *error) {
    if (td__pass_signals_match(&trainer->signals, what)) {
        return TD_OK;
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

/* What a condition that was refused lacks. */
static void explain_when(char hint[HINT], const td_trainer *trainer, td__condition *condition,
                         const char *reason) {
    char name[64];
    for (int i = 0; condition && i < TD_METRIC_KIND_COUNT * VALUE_PREFIXES; i++) {
        const char *metric = td_metric_kind_name((td_metric_kind)(i / VALUE_PREFIXES));
        (void)snprintf(name, sizeof name, "%s%s", value_prefixes[i % VALUE_PREFIXES], metric);
        if (!is_measured(trainer, metric) && td__condition_uses(condition, name, false)) {
            (void)snprintf(hint, HINT, "\n    add %s to train.metrics", metric);
            return;
        }
    }
    if (strstr(reason, "val_") && !trainer->feed.validation) {
        (void)snprintf(hint, HINT, "\n    there is no validation part: give data.validation");
    }
}

/* section: of the experiment, for messages. */
static td_status check_when(td_trainer *trainer, const char *section, const td__yaml_node *node,
                            const char *when, const td__expected *expected,
                            td__condition **condition, td_error *error) {
    td_error reason = {0};
    const char *idle = NULL;
    *condition = td__condition_parse(when, &reason);
    td_status status = *condition ? td__condition_check(*condition, expected,
                                                        trainer->signals.count, &idle, &reason)
                                  : reason.status;
    if (status) {
        char hint[HINT] = "";
        explain_when(hint, trainer, *condition, reason.text);
        return td__experiment_problem(trainer->experiment, node, status, error, "%s: %s%s", section,
                                      reason.text, hint);
    }
    if (idle) {
        td__trainer_remark(trainer, node, "%s: when: '%s' matches no signal of this model", section,
                           idle);
    }
    return TD_OK;
}

/* Conditions are those of the tracks, then those of the alerts; NULL: none. */
static bool is_watched(const td_trainer *trainer, td__condition **conditions, const char *name,
                       bool derived) {
    size_t count = trainer->experiment->track_count + trainer->experiment->alert_count;
    for (size_t i = 0; i < count; i++) {
        if (conditions[i] && (td__condition_uses(conditions[i], name, derived) ||
                              td__condition_derives(conditions[i], name, derived, NULL))) {
            return true;
        }
    }
    return false;
}

/* Whether a track records the signal, or a condition speaks of it. */
static bool is_asked_for(const td_trainer *trainer, td__condition **conditions, const char *name,
                         bool derived) {
    const td_experiment *experiment = trainer->experiment;
    for (size_t i = 0; i < experiment->track_count; i++) {
        if (td__track_names(&experiment->tracks[i], name, derived) ||
            td__track_derives(&experiment->tracks[i], name, derived)) {
            return true;
        }
    }
    return is_watched(trainer, conditions, name, derived);
}

/* Pre-activations and updates cost something: they are made for those that somebody wants. */
static td_status prepare_conditions(td_trainer *trainer, td__condition **conditions,
                                    const td__signal_entry *entry, td_error *error) {
    bool costs = entry->kind == TD_SIGNAL_PREACTIVATION || entry->kind == TD_SIGNAL_UPDATE ||
                 td__optimizer_signal_needs_update(entry);
    if (!costs ||
        !is_asked_for(trainer, conditions, entry->name, entry->kind == TD_SIGNAL_DERIVED)) {
        return TD_OK;
    }
    if (entry->kind == TD_SIGNAL_PREACTIVATION) {
        const char *layer = td_model_layer(trainer->model, entry->index)->name;
        return td_model_keep_preactivation(trainer->model, layer, true, error);
    }
    return td_optimizer_keep_update(trainer->learner.optimizer,
                                    (size_t)trainer->learner.weight_of[entry->index], error);
}

/* Which layers' own losses are worked out in every step: an epoch's mean is over all of them, and a
 * condition looks at all of them. */
static void choose_every_step(td_trainer *trainer, td__condition **conditions) {
    const td_experiment *experiment = trainer->experiment;
    for (size_t i = 0; i < trainer->layer_target_count; i++) {
        td__layer_target *target = &trainer->layer_targets[i];
        const char *name = trainer->signals.entries[target->entry].name;
        target->every_step = target->every_step || is_watched(trainer, conditions, name, false);
        for (size_t k = 0; k < experiment->track_count; k++) {
            const td__track_spec *track = &experiment->tracks[k];
            target->every_step =
                target->every_step || (track->every.epochs && td__track_names(track, name, false));
        }
    }
}

/* A matrix is not among what progress shows: without a track it was asked for in vain. */
static void remark_matrices(const td_trainer *trainer, td__condition **conditions) {
    const td__measures *measures = &trainer->measures;
    const char *prefix = trainer->feed.validation ? "val_" : "";
    for (size_t i = 0; i < measures->count; i++) {
        char validated[HINT];
        const char *name = measures->specs[i].name;
        (void)snprintf(validated, HINT, "val_%s", name);
        if (td__measures_is_matrix(measures, i) &&
            !is_asked_for(trainer, conditions, name, false) &&
            !is_asked_for(trainer, conditions, validated, false)) {
            td__trainer_remark(trainer, NULL,
                               "train.metrics: no track records %s: - {what: %s%s, every: 1 "
                               "epoch, form: [rows, image], to: [csv, png, print]}",
                               name, prefix, name);
        }
    }
}

/* Of several outputs `prediction` is the first one's: where the others are recorded is reported. */
static void remark_predictions(const td_trainer *trainer, td__condition **conditions) {
    if (trainer->head_count > 1 && is_asked_for(trainer, conditions, "prediction", false)) {
        td__trainer_remark(trainer, NULL,
                           "record: prediction is that of the first output, %s; of another it is "
                           "what: %s.output",
                           td__output_layer(trainer->model, 0)->name,
                           td__output_layer(trainer->model, 1)->name);
    }
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
    for (size_t i = 0; !status && i < trainer->signals.count; i++) {
        const td__signal_entry *entry = &trainer->signals.entries[i];
        expected[i] =
            (td__expected){entry->name, entry->elements > 0, entry->kind == TD_SIGNAL_DERIVED};
    }
    for (size_t i = 0; !status && i < experiment->track_count; i++) {
        const td__track_spec *track = &experiment->tracks[i];
        status = track->when ? check_when(trainer, "record", track->node, track->when, expected,
                                          &conditions[i], error)
                             : TD_OK;
    }
    for (size_t i = 0; !status && i < experiment->alert_count; i++) {
        const td__alert_spec *alert = &experiment->alerts[i];
        status = alert->when ? check_when(trainer, "alert", alert->node, alert->when, expected,
                                          &conditions[experiment->track_count + i], error)
                             : TD_OK;
    }
    for (size_t i = 0; !status && i < trainer->signals.count; i++) {
        status = prepare_conditions(trainer, conditions, &trainer->signals.entries[i], error);
    }
    if (!status) {
        choose_every_step(trainer, conditions);
        remark_matrices(trainer, conditions);
        remark_predictions(trainer, conditions);
    }
    return status;
}

td_status td__trainer_signals_check(td_trainer *trainer, td_error *error) {
    size_t count = trainer->experiment->track_count + trainer->experiment->alert_count;
    /* Tracks may add an entry each: LAYER.loss. */
    td__expected *expected =
        td__calloc(trainer->signals.count + trainer->layer_count + 1, sizeof *expected);
    td__condition **conditions = td__calloc(count + 1, sizeof(td__condition *));
    td_status status = expected && conditions ? check_all(trainer, expected, conditions, error)
                                              : td_error_set(error, TD_MEMORY, "out of memory");
    for (size_t i = 0; conditions && i < count; i++) {
        td__condition_destroy(conditions[i]);
    }
    td__free(conditions);
    td__free(expected);
    return status;
}
