/* LAYER.loss: the mean squared error of a layer's output against a target of its own, by the rows
 * of the training file. */
#include "train/trainer.h"

#include "base/memory.h"
#include "tensor/tensor.h"

td_status td__layer_target_add(td_trainer *trainer, size_t layer, const char *path,
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
    int64_t have = 1, want = 1;
    for (int32_t i = 0; i < info->input.rank; i++) {
        have *= info->input.dims[i];
    }
    for (int32_t i = 0; i < output.rank; i++) {
        want *= output.dims[i];
    }
    if (have != want) {
        char a[TD_SHAPE_TEXT_SIZE], b[TD_SHAPE_TEXT_SIZE];
        td_status status =
            td_error_set(error, TD_BAD_SHAPE, "%s has %s for each example, the layer puts out %s",
                         path, td_shape_text(&info->input, a), td_shape_text(&output, b));
        td_dataset_close(data);
        return status;
    }
    float *rows = td__calloc((size_t)trainer->feed.info->batch * (size_t)want, sizeof *rows);
    if (!rows) {
        td_dataset_close(data);
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    *target = (td__layer_target){
        .layer = layer, .entry = trainer->signals.count, .data = data, .rows = rows};
    trainer->layer_target_count++;
    trainer->signals.layer_done = td__layer_target_record;
    trainer->signals.user = trainer;
    return TD_OK;
}

void td__layer_target_record(void *user, size_t layer, const td_tensor *output) {
    td_trainer *trainer = user;
    for (size_t i = 0; i < trainer->layer_target_count; i++) {
        td__layer_target *target = &trainer->layer_targets[i];
        td_signal *signal = trainer->signals.entries[target->entry].signal;
        if (target->layer != layer || !td_signal_wants(signal)) {
            continue;
        }
        const td_batch *batch = trainer->pass.batch;
        td_error error = {0};
        if (td_dataset_read(target->data, TD_TRAINING, batch->rows, batch->count, target->rows,
                            NULL, &error)) {
            td__trainer_unrecorded(trainer, &error);
            continue;
        }
        const float *values = td__floats(output);
        double sum = 0;
        for (int64_t k = 0; k < output->count; k++) {
            double difference = (double)values[k] - (double)target->rows[k];
            sum += difference * difference;
        }
        (void)td_signal_scalar(signal, sum / (double)output->count);
    }
}
