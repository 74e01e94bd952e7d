/* What an experiment needs, made and checked stage by stage; nothing is written. */
#include "train/trainer.h"

#include "base/memory.h"
#include "base/options.h"

#include <math.h>
#include <string.h>

/* ---- What is trained ------------------------------------------------------------------------- */

static td_status make_optimizer(td_trainer *trainer, td_error *error) {
    td_experiment *experiment = trainer->experiment;
    td__train_spec *train = &experiment->train;
    td_optimizer_options options = {.size = sizeof options};
    td_status status = td_optimizer_configure(
        &options, train->optimizer.name, train->optimizer.settings, train->optimizer.count, error);
    if (!status && train->schedule.name) {
        status = td_schedule_configure(&options.schedule, train->schedule.name,
                                       train->schedule.settings, train->schedule.count, error);
        if (!status && options.schedule.steps == 0) {
            int64_t left = trainer->feed.steps - options.schedule.warmup;
            options.schedule.steps = left > 0 ? left : 1;
        }
    }
    if (status) {
        return status;
    }
    if (train->clip_norm > 0) {
        options.clip_norm = train->clip_norm;
    }
    if (train->clip_value > 0) {
        options.clip_value = train->clip_value;
    }
    trainer->learner.optimizer = td_optimizer_create(&options, trainer->learner.weight_count,
                                                     trainer->learner.weights, error);
    if (!trainer->learner.optimizer) {
        return TD_MEMORY;
    }
    const td_setting *settings;
    size_t count = td_optimizer_settings(trainer->learner.optimizer, &settings);
    bool bad = td__choice_settle(experiment->yaml, &train->optimizer, settings, count);
    if (train->schedule.name) {
        count = td_schedule_settings(trainer->learner.optimizer, &settings);
        bad = td__choice_settle(experiment->yaml, &train->schedule, settings, count) || bad;
    }
    return bad ? td_error_set(error, TD_MEMORY, "out of memory") : TD_OK;
}

/* Room for the gradients of all weights and of all outputs. */
static td_status make_learner(td_trainer *trainer, td_error *error) {
    td__learner *learner = &trainer->learner;
    size_t max_count = learner->weight_count + trainer->layer_count, found = 0;
    learner->targets = td__calloc(max_count + 1, sizeof *learner->targets);
    learner->gradients = td__calloc(max_count + 1, sizeof *learner->gradients);
    learner->recorders = td__calloc(max_count + 1, sizeof *learner->recorders);
    learner->weight_of = td__calloc(trainer->parameter_count + 1, sizeof *learner->weight_of);
    trainer->layer_targets = td__calloc(trainer->layer_count, sizeof *trainer->layer_targets);
    if (!learner->targets || !learner->gradients || !learner->recorders || !learner->weight_of ||
        !trainer->layer_targets) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    for (size_t i = 0; i < learner->weight_count; i++) {
        learner->targets[i] = learner->weights[i];
    }
    for (size_t i = 0; i < trainer->parameter_count; i++) {
        const td_parameter_info *parameter = td_model_parameter_at(trainer->model, i);
        learner->weight_of[i] = parameter->trainable ? (ptrdiff_t)found++ : -1;
    }
    return TD_OK;
}

static void release_learner(td__learner *learner) {
    td_optimizer_destroy(learner->optimizer);
    td__free(learner->targets);
    td__free(learner->gradients);
    td__free(learner->recorders);
    td__free(learner->weight_of);
}

/* ---- How it is measured ---------------------------------------------------------------------- */

static td_status make_passes(td_trainer *trainer, td_error *error) {
    const td__train_spec *train = &trainer->experiment->train;
    td_tape_options options = {.size = sizeof options, .seed = trainer->experiment->seed};
    td_status status =
        td__pass_init(&trainer->pass, trainer->model, &train->objective, &options, error);
    options.no_history = true;
    if (!status) {
        status = td__pass_init(&trainer->check, trainer->model, &train->objective, &options, error);
    }
    trainer->pass.heads = trainer->check.heads = trainer->heads;
    trainer->pass.head_count = trainer->check.head_count = trainer->head_count;
    return status ? status
                  : td__measures_init(&trainer->measures, train, trainer->model, trainer->heads,
                                      trainer->head_count, error);
}

/* A forward pass over a few examples finds what fits on paper only: labels against outputs. */
static td_status try_model(td_trainer *trainer, td_error *error) {
    td_batch batch;
    td__measures *measures = &trainer->measures;
    td_batches_start(trainer->feed.training, 1);
    td_error reason = {0};
    if (!td_batches_next(trainer->feed.training, &batch)) {
        return td__feed_status(trainer->feed.training, error);
    }
    td_status status = td__pass_forward(&trainer->check, &batch, &reason);
    if (!status) {
        status = td__measure_add(measures, &measures->validation, &trainer->check, &reason);
    }
    if (!status) { /* how much room its numbers take */
        status = td__measure_add(measures, &measures->shard, &trainer->check, &reason);
    }
    td__pass_end(&trainer->check);
    return status ? td__experiment_problem(trainer->experiment, NULL, status, error, "train: %s",
                                           reason.text)
                  : TD_OK;
}

/* What progress shows: loss and metrics over the epoch, then over the validation part. */
static td_status make_progress_values(td_trainer *trainer, td_error *error) {
    size_t each = trainer->measures.value_count;
    trainer->told_count = trainer->feed.validation ? 2 * each : each;
    trainer->progress_values = td__calloc(trainer->told_count, sizeof *trainer->progress_values);
    for (size_t i = 0; trainer->progress_values && i < trainer->told_count; i++) {
        size_t entry = i < each ? trainer->values.step + i : trainer->values.validation + i - each;
        trainer->progress_values[i] =
            (td_train_value){trainer->signals.entries[entry].name, (double)NAN};
    }
    return trainer->progress_values ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
}

/* When the experiment does not mention recording, what progress shows is kept, and nothing else. */
static td_status record_progress_values(td_trainer *trainer, td_error *error) {
    if (!trainer->experiment->unrecorded) {
        return TD_OK;
    }
    const char **names = td__calloc(trainer->told_count, sizeof *names);
    for (size_t i = 0; names && i < trainer->told_count; i++) {
        names[i] = trainer->progress_values[i].name;
    }
    td_status status =
        names ? td__record_default(trainer->experiment, names, trainer->told_count, error)
              : td_error_set(error, TD_MEMORY, "out of memory");
    trainer->experiment->unrecorded = false;
    td__free(names);
    return status;
}

static td_status check_monitor(const td_trainer *trainer, const char *key, const char *monitor,
                               td_error *error) {
    for (size_t i = 0; monitor && i < trainer->told_count; i++) {
        if (!strcmp(trainer->progress_values[i].name, monitor)) {
            return TD_OK;
        }
    }
    return !monitor ? TD_OK
                    : td__experiment_problem(trainer->experiment, NULL, TD_NOT_FOUND, error,
                                             "train.%s: no value '%s'; loss, a metric, or val_ "
                                             "with either where there is a validation part",
                                             key, monitor);
}

static td_status make_stopping(td_trainer *trainer, td_error *error) {
    const td__train_spec *train = &trainer->experiment->train;
    td_status status = check_monitor(trainer, "early_stopping.monitor", train->stop_monitor, error);
    if (!status) {
        status = check_monitor(trainer, "checkpoint.best", train->checkpoint_best, error);
    }
    if (!status) {
        status = check_monitor(trainer, "reduce_on_plateau.monitor", train->plateau.monitor, error);
    }
    td__plateau_init(&trainer->plateau, train,
                     td_optimizer_settled(trainer->learner.optimizer)->learning_rate.value);
    trainer->keep = td__best_of(train, train->checkpoint_best, TD__MODE_AUTO, 0);
    return status ? status : td__stopping_init(&trainer->stopping, train, trainer->model, error);
}

/* ---- The object ------------------------------------------------------------------------------ */

static td_status prepare_trainer(td_trainer *trainer, td_error *error) {
    td_threads_set((int)trainer->experiment->threads);
    td_status (*const stages[])(td_trainer *, td_error *) = {
        td__trainer_load_model,
        td__trainer_open_data,
        td__shards_choose,
        td__trainer_make_model,
        td__trainer_make_heads,
        td__trainer_check_ids,
        td__trainer_check_labels,
        make_optimizer,
        make_learner,
        make_passes,
        try_model,
        td__trainer_signals_list,
        td__shards_init,
        make_progress_values,
        record_progress_values,
        make_stopping,
        td__trainer_check_sense,
        td__trainer_signals_check,
        td__plan_make,
    };
    td_status status = TD_OK;
    for (size_t i = 0; !status && i < sizeof stages / sizeof *stages; i++) {
        status = stages[i](trainer, error);
    }
    return status;
}

td_trainer *td_trainer_create(td_experiment *experiment, const td_trainer_options *options,
                              td_error *error) {
    td_trainer *trainer = td__calloc(1, sizeof *trainer);
    if (!trainer) {
        td_error_set(error, TD_MEMORY, "out of memory");
        return NULL;
    }
    trainer->experiment = experiment;
    (void)td__options(&trainer->options, sizeof trainer->options, options);
    trainer->out = td__strdup(trainer->options.out ? trainer->options.out : "runs");
    trainer->resume = trainer->options.resume ? td__strdup(trainer->options.resume) : NULL;
    td_status status = trainer->out && (trainer->resume || !trainer->options.resume)
                           ? prepare_trainer(trainer, error)
                           : td_error_set(error, TD_MEMORY, "out of memory");
    if (status) {
        td_trainer_destroy(trainer);
        return NULL;
    }
    return trainer;
}

void td_trainer_destroy(td_trainer *trainer) {
    if (!trainer) {
        return;
    }
    (void)td_deck_close(trainer->recording.deck, NULL);
    td__norms_destroy(trainer->recording.norms);
    td__remembered_release(&trainer->recording.remembered);
    td__recording_release(&trainer->recording);
    td__pass_signals_release(&trainer->signals);
    td__layer_targets_release(trainer);
    release_learner(&trainer->learner);
    td__pass_release(&trainer->pass);
    td__pass_release(&trainer->check);
    td__measures_release(&trainer->measures);
    td__stopping_release(&trainer->stopping);
    td_model_destroy(trainer->model);
    td__feed_release(&trainer->feed);
    td__notes_release(&trainer->notes);
    td__free(trainer->progress_values);
    td__free(trainer->plan);
    td__free(trainer->out);
    td__free(trainer->resume);
    td__free(trainer->parent);
    td__flight_log_release(&trainer->past);
    td__verify_destroy(trainer->verify);
    td__curvature_release(&trainer->curvature);
    td__shards_release(&trainer->shards);
    td__free(trainer);
}

void td_trainer_stop(td_trainer *trainer) {
    trainer->stop = 1;
}

const td_model *td_trainer_model(const td_trainer *trainer) {
    return trainer->model;
}

const char *td_trainer_folder(const td_trainer *trainer) {
    return trainer->recording.folder;
}

size_t td_trainer_values(const td_trainer *trainer, const td_train_value **values) {
    *values = trainer->progress_values;
    return trainer->told_count;
}

int64_t td_trainer_steps(const td_trainer *trainer) {
    return trainer->at.step;
}

int64_t td_trainer_epochs(const td_trainer *trainer) {
    return trainer->at.epoch;
}

const char *td_trainer_stopped_early(const td_trainer *trainer) {
    return trainer->stopping.stopped ? trainer->stopping.text : NULL;
}

size_t td_trainer_error_norms(td_trainer *trainer, const td_norm_history **histories) {
    const td__recording *recording = &trainer->recording;
    *histories = NULL;
    return recording->norms && !recording->deck
               ? td__norms_histories(recording->norms, trainer->model, histories)
               : 0;
}
