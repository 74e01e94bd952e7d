/* One training step. The deck hears of each tensor the moment it exists: outputs from the model's
 * forward walk, gradients from the tape's backward walk, parameters after the update. */
#include "train/trainer.h"

#include "tensor/tensor.h"

#include <math.h>
#include <stdio.h>

void td__step_watch(void *user, size_t layer, td_layer_signal signal, td_tensor *tensor) {
    td_trainer *trainer = user;
    td_signal *handle =
        signal == TD_LAYER_OUTPUT ? trainer->outputs[layer] : trainer->preactivations[layer];
    if (handle && td_signal_wants(handle)) {
        (void)td_signal_record(handle, td_tape_view(trainer->tape, tensor));
    }
    if (signal == TD_LAYER_OUTPUT && trainer->layer_target_count) {
        td__layer_target_record(trainer, layer, tensor);
    }
}

static void gradient_ready(void *user, size_t index, td_tensor *gradient) {
    td_trainer *trainer = user;
    if (trainer->ready[index]) {
        (void)td_signal_record(trainer->ready[index], td_tape_view(trainer->tape, gradient));
    }
}

/* Weights first, then the outputs of layers whose error a track is due for. Returns how many. */
static size_t choose_targets(td_trainer *trainer) {
    for (size_t i = 0; i < trainer->parameter_count; i++) {
        ptrdiff_t weight = trainer->weight_of[i];
        td_signal *signal = trainer->parameter_gradients[i];
        if (weight >= 0) {
            trainer->ready[weight] = signal && td_signal_wants(signal) ? signal : NULL;
        }
    }
    size_t count = trainer->weight_count;
    for (size_t i = 0; i < trainer->layer_count; i++) {
        if (td_signal_wants(trainer->errors[i])) {
            trainer->ready[count] = trainer->errors[i];
            trainer->targets[count++] = td_model_output_at(trainer->model, i);
        }
    }
    return count;
}

/* ---- A loss that is not a number --------------------------------------------------------------
 */

static bool has_nonfinite(const td_tensor *tensor, td_stats *stats) {
    td_view view = td_view_of(tensor);
    return td_stats_of(&view, stats, NULL) == TD_OK && stats->nan + stats->inf > 0;
}

static td_status blame(const td_trainer *trainer, const char *what, const td_stats *stats,
                       float loss, td_error *error) {
    return td_error_set(error, TD_RANGE,
                        "step %lld (epoch %lld): the loss is %s; first seen in %s (%lld NaN and "
                        "%lld infinite of %lld values)",
                        (long long)trainer->step + 1, (long long)trainer->epoch + 1,
                        isnan(loss) ? "NaN" : "infinite", what, (long long)stats->nan,
                        (long long)stats->inf, (long long)stats->count);
}

/* Walks from the input through the layers to the first that put out something not finite, and says
 * whether its parameters were to blame. */
static td_status find_nonfinite(const td_trainer *trainer, float loss, td_error *error) {
    td_stats stats;
    char what[400];
    if (has_nonfinite(trainer->input, &stats)) {
        (void)snprintf(
            what, sizeof what, "the input: row %lld of the data",
            (long long)trainer->current
                ->rows[stats.first_nonfinite / (trainer->input->count / trainer->current->count)]);
        return blame(trainer, what, &stats, loss, error);
    }
    for (size_t i = 0; i < trainer->layer_count; i++) {
        const td_tensor *output = td_model_output_at(trainer->model, i);
        if (!output || output->dtype != TD_FLOAT32 || !has_nonfinite(output, &stats)) {
            continue;
        }
        const td_layer_info *layer = td_model_layer(trainer->model, i);
        (void)snprintf(what, sizeof what, "the output of layer %.200s", layer->name);
        for (size_t k = 0; k < layer->parameter_count; k++) {
            td_stats inner;
            const td_parameter_info *parameter =
                td_model_parameter_at(trainer->model, layer->first_parameter + k);
            if (has_nonfinite(parameter->tensor, &inner)) {
                (void)snprintf(what, sizeof what,
                               "layer %.100s, whose %.100s the update of step %lld had spoilt",
                               layer->name, parameter->parameter, (long long)trainer->step);
                stats = inner;
                break;
            }
        }
        return blame(trainer, what, &stats, loss, error);
    }
    if (trainer->truth->dtype == TD_FLOAT32 && has_nonfinite(trainer->truth, &stats)) {
        return blame(trainer, "the labels", &stats, loss, error);
    }
    stats = (td_stats){.count = 1, .nan = isnan(loss), .inf = isinf(loss)};
    return blame(trainer, "the loss itself: every layer's output is finite", &stats, loss, error);
}

/* ---- The step ---------------------------------------------------------------------------------
 */

static td_tensor *forward(td_trainer *trainer, td_tensor **prediction) {
    const td__train_spec *train = &trainer->experiment->train;
    *prediction = td_model_forward(trainer->model, trainer->tape, trainer->input);
    if (*prediction) {
        td__truth_fit(train->loss, trainer->truth, *prediction);
    }
    td_tensor *loss = td_loss_compute(trainer->tape, train->loss, *prediction, trainer->truth,
                                      &train->loss_options);
    return td_model_regularize(trainer->model, trainer->tape, loss);
}

static td_status measure(td_trainer *trainer, const td_tensor *prediction, float loss,
                         bool epoch_end, td_error *error) {
    double count = (double)trainer->current->count;
    trainer->step_values[0] = (double)loss;
    for (size_t i = 0; i < trainer->metric_count; i++) {
        td_metric_reset(trainer->metrics[i]);
        td_status status = td_metric_update(trainer->metrics[i], prediction, trainer->truth, error);
        if (status) {
            return status;
        }
        trainer->step_values[i + 1] = td_metric_value(trainer->metrics[i]);
    }
    trainer->sums.examples += count;
    for (size_t i = 0; i <= trainer->metric_count; i++) {
        trainer->sums.sums[i] += trainer->step_values[i] * count;
        double mean = trainer->sums.sums[i] / trainer->sums.examples;
        trainer->told[i].value = mean;
        (void)td_signal_scalar(trainer->values[i], trainer->step_values[i]);
        (void)td_signal_scalar(trainer->epoch_values[i], mean);
        if (epoch_end) {
            (void)td_signal_scalar_epoch(trainer->values[i], mean);
        }
    }
    return TD_OK;
}

static void record_batch(td_trainer *trainer, const td_batch *batch) {
    if (batch->label.data) {
        (void)td_deck_batch_labels(trainer->deck, batch->rows, batch->count, &batch->label);
    } else {
        (void)td_deck_batch(trainer->deck, batch->rows, batch->count);
    }
    if (td_signal_wants(trainer->input_signal)) {
        (void)td_signal_record(trainer->input_signal, batch->input);
    }
    if (trainer->label_signal && td_signal_wants(trainer->label_signal)) {
        (void)td_signal_record(trainer->label_signal, batch->label);
    }
}

static void record_parameters(td_trainer *trainer) {
    for (size_t i = 0; i < trainer->parameter_count; i++) {
        const td_parameter_info *parameter = td_model_parameter_at(trainer->model, i);
        if (td_signal_wants(trainer->parameters[i])) {
            (void)td_signal_record(trainer->parameters[i], td_view_of(parameter->tensor));
        }
        td_signal *update = trainer->updates[i];
        if (update && td_signal_wants(update)) {
            const td_tensor *change =
                td_optimizer_update(trainer->optimizer, (size_t)trainer->weight_of[i]);
            if (change) {
                (void)td_signal_record(update, td_view_of(change));
            }
        }
    }
}

static td_status backward(td_trainer *trainer, td_tensor *loss, td_error *error) {
    size_t count = choose_targets(trainer);
    td_status status = td_tape_gradient_notify(trainer->tape, loss, count, trainer->targets,
                                               trainer->gradients, gradient_ready, trainer, error);
    if (!status) {
        status = td_optimizer_step(trainer->optimizer, trainer->gradients, error);
    }
    if (status) {
        return status;
    }
    (void)td_signal_scalar(trainer->rate, td_optimizer_rate(trainer->optimizer));
    if (trainer->norm) {
        (void)td_signal_scalar(trainer->norm, td_optimizer_norm(trainer->optimizer));
    }
    record_parameters(trainer);
    return TD_OK;
}

/* TD_RANGE when the observer wants training to end. */
static td_status observe(td_trainer *trainer, double loss, bool updated, td_error *error) {
    const td_train_observer *observer = trainer->options.observer;
    td_train_step step = {.epoch = trainer->epoch + 1,
                          .step = trainer->step + 1,
                          .loss = loss,
                          .model = trainer->model,
                          .gradients = updated ? trainer->gradients : NULL,
                          .gradient_count = trainer->weight_count};
    const char *why = observer ? observer->step(observer->user, &step) : NULL;
    return why ? td_error_set(error, TD_RANGE, "step %lld (epoch %lld): %s", (long long)step.step,
                              (long long)step.epoch, why)
               : TD_OK;
}

td_status td__step_run(td_trainer *trainer, const td_batch *batch, bool epoch_end,
                       td_error *error) {
    bool from_input = trainer->experiment->train.target == TD__TARGET_INPUT;
    int64_t step = trainer->step + 1;
    trainer->current = batch;
    (void)td_deck_begin(trainer->deck, trainer->epoch + 1, step, epoch_end);
    record_batch(trainer, batch);
    td__head_set(trainer->input, &batch->input);
    td__head_set(trainer->truth, from_input ? &batch->input : &batch->label);
    td_tape_seed(trainer->tape, trainer->experiment->seed, (uint64_t)step);
    td_tape_set_training(trainer->tape, true);
    td_tensor *prediction;
    td_tensor *loss = forward(trainer, &prediction);
    td_status status = td_tape_status(trainer->tape, error);
    if (!status) {
        status = measure(trainer, prediction, td_tensor_scalar(loss), epoch_end, error);
    }
    bool finite = !status && isfinite(td_tensor_scalar(loss));
    if (!status && !finite && trainer->experiment->stop_on_nan) {
        (void)observe(trainer, (double)td_tensor_scalar(loss), false, NULL);
        status = find_nonfinite(trainer, td_tensor_scalar(loss), error);
    }
    if (!status) {
        status = backward(trainer, loss, error);
    }
    if (!status) {
        status = observe(trainer, (double)td_tensor_scalar(loss), finite, error);
    }
    td_tape_reset(trainer->tape);
    trainer->current = NULL;
    return status;
}
