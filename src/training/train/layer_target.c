/* LAYER.loss: the mean squared error of a layer's output against a target of its own, by the rows of
 * the training file; recorded, and with a weight part of the training's loss. */
#include "train/trainer.h"

#include "base/memory.h"
#include "tape/op.h"
#include "tensor/element.h"
#include "tensor/tensor.h"

#include <math.h>

/* LAYER.loss and LAYER.loss.error. */
static bool add_signals(td_trainer *trainer, size_t layer, int64_t elements) {
    const char *name = td_model_layer(trainer->model, layer)->name;
    td__signal_entry loss = {.kind = TD_SIGNAL_METRIC, .order = layer + 1};
    td__signal_entry error = {
        .kind = TD_SIGNAL_UNKNOWN, .order = layer + 1, .elements = elements, .batched = true};
    return td__pass_signals_add(&trainer->signals, "", name, ".loss", loss) &&
           td__pass_signals_add(&trainer->signals, "", name, ".loss.error", error);
}

enum { MOST_VALUES = 1 << 30 };

/* Room for the values of this many examples. A check before training passes more of them than a
 * batch of the training has. */
static bool make_target_room(td__layer_target *target, int64_t examples) {
    size_t needed = (size_t)examples * (size_t)target->width;
    return td__grow(&target->rows, &target->rows_room, needed, MOST_VALUES, sizeof(float)) &&
           td__grow(&target->error, &target->error_room, needed, MOST_VALUES, sizeof(float));
}

td_status td__layer_target_add(td_trainer *trainer, size_t layer, const char *path, double weight,
                               td_error *error) {
    td__layer_target *target = &trainer->layer_targets[trainer->layer_target_count];
    for (size_t i = 0; i < trainer->layer_target_count; i++) {
        if (trainer->layer_targets[i].layer == layer) {
            return td_error_set(error, TD_EXISTS, "the layer has a target already");
        }
    }
    td_dataset *data = td_dataset_open(
        TD_DATA(.train = path, .label_kind = TD_LABEL_NONE, .in_order = true), error);
    if (!data) {
        return error->status ? error->status : TD_IO;
    }
    const td_data_info *info = td_dataset_info(data);
    td_shape output = td_model_layer(trainer->model, layer)->output;
    int64_t have = td__elements_from(&info->input, 0), want = td__elements_from(&output, 0);
    if (have != want) {
        char a[TD_SHAPE_TEXT_SIZE], b[TD_SHAPE_TEXT_SIZE];
        td_status status =
            td_error_set(error, TD_BAD_SHAPE, "%s has %s for each example, the layer puts out %s",
                         path, td_shape_text(&info->input, a), td_shape_text(&output, b));
        td_dataset_close(data);
        return status;
    }
    *target = (td__layer_target){.layer = layer,
                                 .entry = trainer->signals.count,
                                 .data = data,
                                 .width = want,
                                 .weight = weight};
    trainer->layer_target_count++;
    if (!make_target_room(target, trainer->feed.info->batch) ||
        !add_signals(trainer, layer, want)) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    trainer->signals.layer_done = td__layer_target_record;
    trainer->signals.user = trainer;
    return TD_OK;
}

void td__layer_targets_release(td_trainer *trainer) {
    for (size_t i = 0; i < trainer->layer_target_count; i++) {
        td__layer_target *target = &trainer->layer_targets[i];
        td_dataset_close(target->data);
        td__free(target->rows);
        td__free(target->error);
    }
    td__free(trainer->layer_targets);
}

/* The batch's rows of the target; false, and the error said, when they cannot be read. */
static bool read_rows(td_trainer *trainer, const td__layer_target *target, float *rows) {
    const td_batch *batch = trainer->pass.batch;
    td_error error = {0};
    if (td_dataset_read(target->data, TD_TRAINING, batch->rows, batch->count, rows, NULL, &error)) {
        td__trainer_unrecorded(trainer, &error);
        return false;
    }
    return true;
}

/* The same into the target's own memory. */
static bool take_rows(td_trainer *trainer, td__layer_target *target) {
    td_error error = {0};
    if (!make_target_room(target, trainer->pass.batch->count)) {
        td_error_set(&error, TD_MEMORY, "out of memory for a layer's target");
        td__trainer_unrecorded(trainer, &error);
        return false;
    }
    return read_rows(trainer, target, target->rows);
}

/* error = 2 (output - rows) / count, the count of the whole batch of which this is a share; returns the mean of the
 * squares here. */
static double compare(const td__layer_target *target, const td_tensor *output, double share) {
    const float *values = td__floats(output);
    double sum = 0, count = (double)output->count;
    for (int64_t k = 0; k < output->count; k++) {
        double difference = (double)values[k] - (double)target->rows[k];
        sum += difference * difference;
        target->error[k] = (float)(2 * difference / count * share);
    }
    return sum / count;
}

bool td__layer_target_is_wanted(const td_trainer *trainer, size_t index) {
    const td__layer_target *target = &trainer->layer_targets[index];
    const td__signal_entry *entries = &trainer->signals.entries[target->entry];
    return target->every_step || td_signal_wants(entries[0].signal) ||
           td_signal_wants(entries[1].signal);
}

void td__layer_target_record(void *user, size_t layer, const td_tensor *output) {
    td_trainer *trainer = user;
    const td__shards *shards = &trainer->shards;
    bool whole = shards->count == 1;
    for (size_t i = 0; i < trainer->layer_target_count; i++) {
        td__layer_target *target = &trainer->layer_targets[i];
        const td__signal_entry *error = &trainer->signals.entries[target->entry + 1];
        if (target->layer != layer || (whole && !td__layer_target_is_wanted(trainer, i))) {
            continue;
        }
        double share = whole ? 1 : (double)shards->share;
        bool read = take_rows(trainer, target);
        double loss = read ? compare(target, output, share) : (double)NAN;
        if (!whole) { /* which of them are wanted is known where all of them are added up */
            td__shards_add_target(trainer, i, loss * share);
        } else if (read) {
            td__record_number(trainer, target->entry, &target->mean, loss);
        }
        if (read && td__pass_signals_want(&trainer->signals, error)) {
            td__pass_signals_record(
                &trainer->signals, error,
                (td_view){.dtype = TD_FLOAT32, .shape = output->shape, .data = target->error});
        }
    }
}

td_tensor *td__layer_target_loss(void *user, td_tape *tape, td_tensor *loss) {
    td_trainer *trainer = user;
    for (size_t i = 0; i < trainer->layer_target_count; i++) {
        td__layer_target *target = &trainer->layer_targets[i];
        td_tensor *output = td_model_output_at(trainer->model, target->layer);
        if (target->weight == 0 || !output) {
            continue;
        }
        td_tensor *truth = td__output(tape, TD_FLOAT32, &output->shape);
        if (truth && !read_rows(trainer, target, td__floats(truth))) {
            return td__fail(tape, TD_IO, "the target of layer '%s' cannot be read",
                            td_model_layer(trainer->model, target->layer)->name);
        }
        td_tensor *own = td_mse(tape, output, truth, NULL);
        loss = td_add(tape, loss, td_affine(tape, own, (float)target->weight, 0));
    }
    return loss;
}
