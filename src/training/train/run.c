/* Training: epochs and steps, until it is done, stopped early or interrupted.
 *
 *     trainer->at   steps and epochs done; batch: batches done of the epoch under way
 *
 * A step is closed in the deck before a checkpoint is written, and the counters move on before
 * either, so that whatever is on disk agrees.
 */
#include "train/trainer.h"

#include "base/clock.h"

#include <math.h>
#include <string.h>

/* ---- Progress -------------------------------------------------------------------------------- */

static void report_progress(td_trainer *trainer, int64_t epoch, int64_t batch, bool epoch_end) {
    td__progress *at = &trainer->at;
    double now = td__seconds();
    double interval =
        trainer->options.progress_interval > 0 ? trainer->options.progress_interval : 0.1;
    if (!trainer->options.progress || (!epoch_end && now - at->told_at < interval)) {
        return;
    }
    if (epoch_end) {
        td__recording_catch_up(trainer);
    }
    at->told_at = now;
    double seconds = now - at->began;
    double done = (double)(at->step - at->began_step);
    td_train_progress progress = {
        .epoch = epoch,
        .epochs = trainer->feed.epochs,
        .step = at->step,
        .steps = trainer->feed.steps,
        .batch = batch,
        .batches = trainer->feed.batches,
        .epoch_end = epoch_end,
        .learning_rate = td_optimizer_rate(trainer->learner.optimizer),
        .seconds = seconds,
        .seconds_left =
            done > 0 ? seconds / done * (double)(trainer->feed.steps - at->step) : (double)NAN,
        .epoch_seconds = now - at->epoch_began,
        .steps_per_second = seconds > 0 ? done / seconds : 0,
        .examples_per_second = seconds > 0 ? done / seconds * (double)trainer->feed.info->training /
                                                 (double)trainer->feed.batches
                                           : 0,
        .values = trainer->progress_values,
        .value_count = trainer->told_count,
    };
    trainer->options.progress(trainer->options.user, &progress);
}

/* The value of this name over the last epoch; NaN when there is none. */
static double value_of(const td_trainer *trainer, const char *name) {
    for (size_t i = 0; name && i < trainer->told_count; i++) {
        if (!strcmp(trainer->progress_values[i].name, name)) {
            return trainer->progress_values[i].value;
        }
    }
    return (double)NAN;
}

/* ---- The loop -------------------------------------------------------------------------------- */

/* Processes of a group stop after the same step. */
static bool is_stopped(const td_trainer *trainer) {
    return trainer->shards.group && trainer->shards.count > 1 ? trainer->shards.stop
                                                              : trainer->stop;
}

static bool is_done(const td_trainer *trainer) {
    return trainer->at.step >= trainer->feed.steps || trainer->stopping.stopped ||
           is_stopped(trainer) || (trainer->replaying && trainer->at.step >= trainer->limit);
}

static bool is_due(const td__interval *every, int64_t step, int64_t epoch, bool epoch_end) {
    return (every->steps && step % every->steps == 0) ||
           (every->epochs && epoch_end && epoch % every->epochs == 0);
}

/* What a checkpoint will cost is what the last one has; before the first, what writing as many
 * numbers takes on a slow disk. */
static bool wants_checkpoint(const td_trainer *trainer, bool epoch_end) {
    const td__train_spec *train = &trainer->experiment->train;
    const td__progress *at = &trainer->at;
    /* Long epochs have some within: a replay should not begin far from the step it is for. */
    enum { LONG = 60 };
    bool overdue = train->checkpoint_sparing && td__seconds() - at->saved_at > LONG;
    if (!is_due(&train->checkpoint_every, at->step, at->epoch, epoch_end) && !overdue) {
        return false;
    }
    double numbers = 0;
    for (size_t i = 0; i < trainer->parameter_count; i++) {
        numbers += 3 * (double)td_tensor_count(td_model_parameter_at(trainer->model, i)->tensor);
    }
    double cost = at->saved > 0 ? at->saved : 0.01 + numbers * sizeof(float) / 100e6;
    return !train->checkpoint_sparing ||
           td__checkpoint_is_cheap(at->saving, cost, td__seconds() - at->began);
}

/* What follows the update: validation and predictions belong to the step, and then it is closed. */
static td_status close_step(td_trainer *trainer, bool epoch_end, td_error *error) {
    td_status status = TD_OK;
    if (epoch_end && trainer->feed.validation) {
        status = td__validate(trainer, error);
    }
    td_error reason = {0};
    if (!status && td__predict_sample(trainer, &reason)) {
        td__trainer_unrecorded(trainer, &reason);
    }
    (void)td_deck_step_with(trainer->recording.deck, trainer->at.epoch + 1, trainer->at.step + 1,
                            epoch_end);
    td__recording_notice(trainer);
    return status;
}

/* A run that ends within an epoch may be trained further: its value is not the epoch's. */
static void lower_rate(td_trainer *trainer) {
    td__plateau *plateau = &trainer->plateau;
    double before = plateau->rate;
    if (td__plateau_take(plateau, value_of(trainer, plateau->best.monitor), trainer->at.epoch)) {
        (void)td_optimizer_set_learning_rate(trainer->learner.optimizer, plateau->rate, NULL);
        td__trainer_remark(trainer, NULL,
                           "epoch %lld: %s has not improved for %lld epoch%s, learning_rate is %g "
                           "instead of %g",
                           (long long)trainer->at.epoch, plateau->best.monitor,
                           (long long)plateau->patience, plateau->patience == 1 ? "" : "s",
                           plateau->rate, before);
    }
}

/* After the last step of an epoch, and of training. */
static void end_epoch(td_trainer *trainer, bool whole) {
    if (whole) {
        lower_rate(trainer);
    }
    td__stopping *stopping = &trainer->stopping;
    td__stopping_take(stopping, value_of(trainer, stopping->best.monitor), trainer->at.epoch,
                      trainer->model);
    if (trainer->keep.monitor && !trainer->replaying && td__trainer_writes(trainer) &&
        td__best_take(&trainer->keep, value_of(trainer, trainer->keep.monitor),
                      trainer->at.epoch)) {
        td__model_keep_best(trainer);
    }
}

static td_status train_step(td_trainer *trainer, const td_batch *batch, td_error *error) {
    td__progress *at = &trainer->at;
    bool last = batch->index + 1 == trainer->feed.batches;
    bool epoch_end = last || at->step + 1 == trainer->feed.steps;
    td_status status = td__step_run(trainer, batch, epoch_end, error);
    if (status) {
        /* What was recorded up to here is what one wants to look at. */
        (void)td_deck_step_with(trainer->recording.deck, at->epoch + 1, at->step + 1, epoch_end);
        return status;
    }
    status = close_step(trainer, epoch_end, error);
    at->step++;
    at->batch = last ? 0 : batch->index + 1;
    at->epoch += last;
    trainer->shards.torn = status != TD_OK;
    if (!status && epoch_end) {
        end_epoch(trainer, last);
    }
    report_progress(trainer, at->epoch + !last, batch->index + 1, epoch_end);
    if (last) {
        td__measure_reset(&trainer->measures, &trainer->measures.epoch);
        for (size_t i = 0; td__mean_at(trainer, i); i++) {
            *td__mean_at(trainer, i) = (td__mean){0};
        }
        at->epoch_began = td__seconds();
    }
    if (!status && !trainer->replaying && td__trainer_writes(trainer) && !is_done(trainer) &&
        wants_checkpoint(trainer, last)) {
        td__checkpoint_save(trainer, false);
    }
    return status;
}

static td_status train(td_trainer *trainer, td_error *error) {
    td__progress *at = &trainer->at;
    td_status status = TD_OK;
    at->began = at->epoch_began = at->told_at = at->saved_at = td__seconds();
    at->began_step = at->step;
    while (!status && !is_done(trainer)) {
        td_batch batch;
        td_batches_start(trainer->feed.training, (uint64_t)at->epoch + 1);
        td_batches_seek(trainer->feed.training, at->batch);
        int64_t epoch = at->epoch;
        while (!status && !is_done(trainer) && epoch == at->epoch &&
               td_batches_next(trainer->feed.training, &batch)) {
            status = train_step(trainer, &batch, error);
        }
        status = status ? status : td__feed_status(trainer->feed.training, error);
    }
    return status;
}

td_status td__trainer_advance(td_trainer *trainer, int64_t last, td_error *error) {
    trainer->replaying = true;
    trainer->limit = last;
    return train(trainer, error);
}

/* A checkpoint to go on from, and, unless there is more to do, the model. */
static td_status finish_training(td_trainer *trainer, bool interrupted, td_error *error) {
    if (td__trainer_writes(trainer)) {
        td__checkpoint_save(trainer, true);
    }
    if (interrupted) {
        return TD_OK;
    }
    if (trainer->stopping.stopped) {
        td__stopping_restore(&trainer->stopping, trainer->model);
    }
    return td__trainer_writes(trainer) ? td__model_publish(trainer, error) : TD_OK;
}

/* A process of the group is lost: nothing of the step under way has been applied, unless it is torn. */
static void save_what_is_there(td_trainer *trainer) {
    td_group *group = trainer->shards.group;
    if (group && td_group_status(group, NULL) && td__trainer_writes(trainer) &&
        !trainer->shards.torn && trainer->at.step > trainer->at.began_step) {
        td__checkpoint_save(trainer, true);
    }
}

/* In the process that writes the run. */
static void close_recording(td_trainer *trainer, td_status status, bool interrupted) {
    if (status || interrupted) {
        (void)td_deck_note(trainer->recording.deck, "state", status ? "failed" : "interrupted");
    } else {
        td__recording_say_idle(trainer);
    }
    td__recording_close(trainer);
}

/* Elsewhere nothing is recorded, but every process has to know what could be. */
static td_status open_recording(td_trainer *trainer, td_error *error) {
    if (td__trainer_writes(trainer)) {
        return td__recording_open(trainer, error);
    }
    td_status status = td__pass_signals_connect(&trainer->signals, NULL, error);
    trainer->pass.signals = status ? NULL : &trainer->signals;
    return status;
}

static td_status train_epochs(td_trainer *trainer, bool *interrupted, td_error *error) {
    bool writes = td__trainer_writes(trainer);
    td_status status = trainer->resume && writes ? td__checkpoint_resume(trainer, error) : TD_OK;
    status = status ? status : td__group_share_state(trainer, error);
    status = status ? status : open_recording(trainer, error);
    if (status) {
        return status;
    }
    if (trainer->parent && writes) {
        td__branch_keep(trainer);
    }
    td__shards_share_batches(trainer);
    status = train(trainer, error);
    *interrupted =
        is_stopped(trainer) && trainer->at.step < trainer->feed.steps && !trainer->stopping.stopped;
    if (!status && trainer->at.step > 0) {
        status = finish_training(trainer, *interrupted, error);
    }
    if (status) {
        save_what_is_there(trainer);
    }
    if (writes) {
        close_recording(trainer, status, *interrupted);
    }
    trainer->pass.signals = NULL;
    return status;
}

td_status td_trainer_run(td_trainer *trainer, td_error *error) {
    td_error reason = {0};
    bool interrupted = false;
    if (trainer->ran) {
        return td_error_set(error, TD_STATE, "a trainer runs once");
    }
    trainer->ran = true;
    td_status status = train_epochs(trainer, &interrupted, &reason);
    if (status && trainer->shards.group && !trainer->agreed) {
        td_group_fail(trainer->shards.group, reason.text);
    }
    if (status) {
        return td_error_set(error, status, "%s", reason.text);
    }
    if (interrupted) {
        return td_error_set(error, TD_INTERRUPTED, "stopped after step %lld",
                            (long long)trainer->at.step);
    }
    return trainer->recording.error.status
               ? td_error_set(error, TD_INCOMPLETE, "not everything was recorded: %s",
                              trainer->recording.error.text)
               : TD_OK;
}
