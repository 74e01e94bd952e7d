/* What can be recorded, by name, and whether that is what tracks and conditions ask for. */
#include "train/trainer.h"

#include "base/memory.h"
#include "deck/condition.h"
#include "deck/glob.h"

#include <string.h>

/* ---- Listing ----------------------------------------------------------------------------------
 */

/* loss and metrics, with a prefix; *first is the entry of the loss. */
static bool add_values(td_trainer *trainer, const char *prefix, bool epochs_only, size_t *first) {
    td__pass_signals *signals = &trainer->signals;
    const td_names *metrics = &trainer->experiment->train.metrics;
    td__signal_entry entry = {.kind = TD_SIGNAL_METRIC, .epochs_only = epochs_only};
    *first = signals->count;
    bool good = td__pass_signals_add(signals, prefix, "loss", "", entry);
    for (size_t i = 0; good && i < metrics->count; i++) {
        good = td__pass_signals_add(signals, prefix, metrics->items[i], "", entry);
    }
    return good;
}

static bool add_number(td_trainer *trainer, const char *name, size_t *place) {
    *place = trainer->signals.count;
    return td__pass_signals_add(&trainer->signals, "", name, "",
                                (td__signal_entry){.kind = TD_SIGNAL_METRIC});
}

td_status td__trainer_signals_list(td_trainer *trainer, td_error *error) {
    td__values *values = &trainer->values;
    bool good =
        add_values(trainer, "", false, &values->step) &&
        add_values(trainer, "epoch_", false, &values->epoch) &&
        (!trainer->feed.validation || add_values(trainer, "val_", true, &values->validation)) &&
        add_number(trainer, "learning_rate", &values->learning_rate) &&
        (trainer->experiment->train.clip_norm <= 0 ||
         add_number(trainer, "gradient_norm", &values->gradient_norm)) &&
        td__pass_signals_add_model(&trainer->signals, trainer->model, trainer->feed.info,
                                   &trainer->experiment->train.objective, true);
    return good ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
}

/* ---- Checking ---------------------------------------------------------------------------------
 */

static td_status unknown(td_trainer *trainer, const td__track_spec *track, const char *what,
                         td_error *error) {
    const char *nearest = td__pass_signals_nearest(&trainer->signals, what);
    const char *hint = "";
    if (!nearest && !strncmp(what, "val_", 4) && !trainer->feed.validation) {
        hint = "; there is no validation part: give data.validation";
    } else if (!nearest) {
        hint = "; `tapedeck train --dry-run` without this track lists the model's layers";
    }
    td_status status = td__experiment_problem(
        trainer->experiment, track->node, TD_NOT_FOUND, error, "record: no signal '%s'%s%s%s%s",
        what, nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "", hint);
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
        return td__pass_signals_add(&trainer->signals, "", what, "",
                                    (td__signal_entry){.kind = TD_SIGNAL_METRIC, .order = i + 1})
                   ? TD_OK
                   : td_error_set(error, TD_MEMORY, "out of memory");
    }
    return unknown(trainer, track, what, error);
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

static td_status check_when(td_trainer *trainer, const td__track_spec *track,
                            const td__expected *expected, td__condition **condition,
                            td_error *error) {
    td_error reason = {0};
    const char *idle = NULL;
    *condition = td__condition_parse(track->when, &reason);
    td_status status = *condition ? td__condition_check(*condition, expected,
                                                        trainer->signals.count, &idle, &reason)
                                  : reason.status;
    if (status) {
        const char *hint = strstr(reason.text, "val_") && !trainer->feed.validation
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
    bool costs = entry->kind == TD_SIGNAL_PREACTIVATION || entry->kind == TD_SIGNAL_UPDATE;
    if (!costs || !is_asked_for(trainer, conditions, entry->name)) {
        return TD_OK;
    }
    if (entry->kind == TD_SIGNAL_PREACTIVATION) {
        const char *layer = td_model_layer(trainer->model, entry->index)->name;
        return td_model_keep_preactivation(trainer->model, layer, true, error);
    }
    return td_optimizer_keep_update(trainer->learner.optimizer,
                                    (size_t)trainer->learner.weight_of[entry->index], error);
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
        expected[i] = (td__expected){trainer->signals.entries[i].name,
                                     trainer->signals.entries[i].elements > 0};
    }
    for (size_t i = 0; !status && i < experiment->track_count; i++) {
        const td__track_spec *track = &experiment->tracks[i];
        status = track->when ? check_when(trainer, track, expected, &conditions[i], error) : TD_OK;
    }
    for (size_t i = 0; !status && i < trainer->signals.count; i++) {
        status = prepare(trainer, conditions, &trainer->signals.entries[i], error);
    }
    return status;
}

td_status td__trainer_signals_check(td_trainer *trainer, td_error *error) {
    size_t tracks = trainer->experiment->track_count;
    /* Tracks may add an entry each: LAYER.loss. */
    td__expected *expected =
        td__calloc(trainer->signals.count + trainer->layer_count + 1, sizeof *expected);
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
