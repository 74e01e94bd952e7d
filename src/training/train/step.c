/* One training step. The deck gets each tensor the moment it exists: outputs and gradients from
 * the pass, numbers when they are known, parameters after the update. */
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

size_t td__choose_targets(td_trainer *trainer, bool weights) {
    td__learner *learner = &trainer->learner;
    const td__pass_signals *signals = &trainer->signals;
    if (!trainer->pass.signals) {
        memset(learner->recorders, 0, learner->weight_count * sizeof *learner->recorders);
        return learner->weight_count;
    }
    for (size_t i = 0; i < trainer->parameter_count; i++) {
        ptrdiff_t weight = learner->weight_of[i];
        if (weight >= 0) {
            td__signal_entry *entry = signals->gradients[i];
            learner->recorders[weight] =
                weights && td__pass_signals_want(signals, entry) ? entry : NULL;
        }
    }
    size_t count = learner->weight_count;
    for (size_t i = 0; i < trainer->layer_count; i++) {
        if (td__pass_signals_want(signals, signals->errors[i])) {
            learner->recorders[count] = signals->errors[i];
            learner->targets[count++] = td_model_output_at(trainer->model, i);
        }
    }
    return count;
}

static td_signal *value_signal(const td_trainer *trainer, size_t entry) {
    return trainer->signals.entries[entry].signal;
}

void td__record_number(td_trainer *trainer, size_t entry, td__mean *mean, double value) {
    double examples = (double)trainer->pass.batch->count;
    mean->examples += examples;
    mean->value += (value - mean->value) * examples / mean->examples;
    (void)td_signal_scalar(value_signal(trainer, entry), value);
    if (trainer->at.epoch_end) {
        (void)td_signal_scalar_epoch(value_signal(trainer, entry), mean->value);
    }
}

td__mean *td__mean_at(td_trainer *trainer, size_t index) {
    td__mean *own[] = {&trainer->values.rate_mean, &trainer->values.norm_mean};
    size_t count = sizeof own / sizeof *own;
    return index < count ? own[index]
           : index - count < trainer->layer_target_count
               ? &trainer->layer_targets[index - count].mean
               : NULL;
}

void td__record_matrices(td_trainer *trainer, const td__measure *measure, size_t first) {
    const td__measures *measures = &trainer->measures;
    for (size_t i = 0; i < measures->count; i++) {
        if (td__measures_is_matrix(measures, i)) {
            td_signal *signal = value_signal(trainer, first++);
            if (td_signal_wants(signal)) {
                (void)td_signal_record(signal, td__measure_matrix(measures, measure, i));
            }
        }
    }
}

static td_status measure_step(td_trainer *trainer, bool epoch_end, td_error *error) {
    td__measures *measures = &trainer->measures;
    td_status status = TD_OK;
    if (trainer->shards.count == 1) {
        td__measure_reset(measures, &measures->step);
        status = td__measure_add(measures, &measures->step, &trainer->pass, error);
        status =
            status ? status : td__measure_add(measures, &measures->epoch, &trainer->pass, error);
    }
    const double *of_step = td__measure_read(measures, &measures->step);
    const double *of_epoch = td__measure_read(measures, &measures->epoch);
    for (size_t i = 0; !status && i < measures->value_count; i++) {
        td_signal *step = value_signal(trainer, trainer->values.step + i);
        trainer->progress_values[i].value = of_epoch[i];
        (void)td_signal_scalar(step, of_step[i]);
        (void)td_signal_scalar(value_signal(trainer, trainer->values.epoch + i), of_epoch[i]);
        if (epoch_end) {
            (void)td_signal_scalar_epoch(step, of_epoch[i]);
        }
    }
    if (!status && epoch_end) {
        td__record_matrices(trainer, &measures->epoch, trainer->values.matrices);
    }
    return status;
}

static void record_parameters(td_trainer *trainer) {
    const td__pass_signals *signals = &trainer->signals;
    for (size_t i = 0; i < trainer->parameter_count; i++) {
        if (td__pass_signals_want(signals, signals->parameters[i])) {
            const td_parameter_info *parameter = td_model_parameter_at(trainer->model, i);
            td__pass_signals_record(signals, signals->parameters[i], td_view_of(parameter->tensor));
        }
        const td__signal_entry *update = signals->updates[i];
        if (td__pass_signals_want(signals, update)) {
            const td_tensor *change = td_optimizer_update(trainer->learner.optimizer,
                                                          (size_t)trainer->learner.weight_of[i]);
            if (change) {
                td__pass_signals_record(signals, update, td_view_of(change));
            }
        }
    }
}

/* The gradients of shards are there when all of them are added up. */
static void record_gradients(td_trainer *trainer) {
    const td__pass_signals *signals = &trainer->signals;
    for (size_t i = 0; trainer->pass.signals && i < trainer->parameter_count; i++) {
        if (td__pass_signals_want(signals, signals->gradients[i])) {
            size_t weight = (size_t)trainer->learner.weight_of[i];
            td__pass_signals_record(signals, signals->gradients[i],
                                    td_view_of(trainer->learner.gradients[weight]));
        }
    }
}

static td_status take_gradients(td_trainer *trainer, td_error *error) {
    td__learner *learner = &trainer->learner;
    if (trainer->shards.count > 1) {
        record_gradients(trainer);
        return TD_OK;
    }
    size_t count = td__choose_targets(trainer, true);
    return td__pass_backward(&trainer->pass, learner->weight_count, count, learner->targets,
                             learner->gradients, learner->recorders, error);
}

static td_status learn(td_trainer *trainer, td_error *error) {
    td__learner *learner = &trainer->learner;
    td_status status = take_gradients(trainer, error);
    trainer->shards.torn = true;
    if (!status) {
        td__optimizer_signals_record(trainer, true);
        td__curvature_begin(trainer);
        status = td_optimizer_step(learner->optimizer, learner->gradients, error);
    }
    if (status) {
        return status;
    }
    td__values *values = &trainer->values;
    td__record_number(trainer, values->learning_rate, &values->rate_mean,
                      td_optimizer_rate(learner->optimizer));
    if (values->gradient_norm) {
        td__record_number(trainer, values->gradient_norm, &values->norm_mean,
                          td_optimizer_norm(learner->optimizer));
    }
    if (trainer->pass.signals) {
        record_parameters(trainer);
        td__optimizer_signals_record(trainer, false);
    }
    return TD_OK;
}

/* TD_RANGE when the observer wants training to end. */
static td_status observe(td_trainer *trainer, bool updated, td_error *error) {
    const td_train_observer *observer = trainer->options.observer;
    td_train_step step = {.epoch = trainer->at.epoch + 1,
                          .step = trainer->at.step + 1,
                          .loss = (double)td_tensor_scalar(trainer->pass.loss),
                          .model = trainer->model,
                          .gradients = updated ? trainer->learner.gradients : NULL,
                          .gradient_count = trainer->learner.weight_count,
                          .deck = trainer->recording.deck};
    const char *why = observer ? observer->step(observer->user, &step) : NULL;
    return why ? td_error_set(error, TD_RANGE, "step %lld (epoch %lld): %s", (long long)step.step,
                              (long long)step.epoch, why)
               : TD_OK;
}

static td_status forward_step(td_trainer *trainer, const td_batch *batch, td_error *error) {
    td__pass *pass = &trainer->pass;
    if (trainer->shards.count > 1) {
        return td__shards_compute(trainer, batch, error);
    }
    td_tape_seed(pass->tape, trainer->experiment->seed, (uint64_t)trainer->at.step + 1);
    td_tape_set_training(pass->tape, true);
    return td__pass_forward(pass, batch, error);
}

td_status td__step_run(td_trainer *trainer, const td_batch *batch, bool epoch_end,
                       td_error *error) {
    td__pass *pass = &trainer->pass;
    int64_t step = trainer->at.step + 1;
    trainer->at.epoch_end = epoch_end;
    (void)td_deck_begin(trainer->recording.deck, trainer->at.epoch + 1, step, epoch_end);
    bool verified = td__step_is_verified(trainer);
    td_status status = verified ? td__step_rehearse(trainer, batch, error) : TD_OK;
    status = status ? status : forward_step(trainer, batch, error);
    if (!status) {
        status = measure_step(trainer, epoch_end, error);
    }
    bool finite = !status && isfinite(td_tensor_scalar(pass->loss));
    if (!status && !finite && trainer->experiment->stop_on_nan) {
        (void)observe(trainer, false, NULL);
        char subject[80];
        (void)snprintf(subject, sizeof subject, "step %lld (epoch %lld): the loss", (long long)step,
                       (long long)trainer->at.epoch + 1);
        status = td__blame(trainer, pass, TD_TRAINING, subject, error);
    }
    if (!status) {
        status = learn(trainer, error);
    }
    if (verified && !status) {
        td__step_compare(trainer);
    } else if (verified) {
        td__step_unverified(trainer);
    }
    if (pass->loss) {
        td__flight_take(trainer, !status);
        if (trainer->stepped) {
            trainer->stepped(trainer->stepped_user, trainer, !status);
        }
    }
    if (!status) {
        status = observe(trainer, finite, error);
    }
    td__pass_end(pass);
    if (!status) {
        td__curvature_record(trainer, batch);
    }
    return status;
}
