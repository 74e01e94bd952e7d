/* Where a deep CNN's error comes from: the gradient of the loss at every layer of the network,
 * intermediate ones included, in one backward pass, with its size; and one of them printed.
 *
 * The network: two convolutions, each with a pooling layer, then two dense layers over 28x28
 * images.
 */
#include "tapedeck/nn.h"
#include "tapedeck/stats.h"

#define BATCH 1

static td_model *build(td_error *error) {
    td_model *model = td_model_create("deep", TD_SHAPE(28, 28, 1));
    td_add_conv2d(model, .name = "conv1", .filters = 32, .kernel = {3}, .activation = TD_RELU);
    td_add_max_pool2d(model, .name = "pool1");
    td_add_conv2d(model, .name = "conv2", .filters = 64, .kernel = {3}, .activation = TD_RELU);
    td_add_max_pool2d(model, .name = "pool2");
    td_add_flatten(model, .name = "flatten");
    td_add_dense(model, .name = "dense1", .units = 128, .activation = TD_RELU);
    td_add_dense(model, .name = "dense2", .units = 10);
    if (td_model_build(model, 1, error)) {
        td_model_destroy(model);
        return NULL;
    }
    return model;
}

/* The loss, and the gradients at all layers' outputs. */
static td_status run(td_model *model, td_tape *tape, td_tensor *images, td_tensor *labels,
                     td_tensor **errors, td_error *error) {
    td_tensor *outputs[16];
    size_t count = td_model_layer_count(model);
    td_tensor *logits = td_model_forward(model, tape, images);
    td_tensor *loss = td_sparse_categorical_crossentropy(tape, logits, labels, TD_FROM_LOGITS);
    for (size_t i = 0; i < count; i++) {
        outputs[i] = td_model_output_at(model, i);
    }
    td_status status = td_tape_gradient(tape, loss, count, outputs, errors, error);
    if (!status) {
        printf("loss %.4f\n\n", (double)td_tensor_scalar(loss));
    }
    return status;
}

int main(void) {
    td_error error = {0};
    td_tensor *errors[16];
    static float pixels[BATCH * 28 * 28];
    for (int i = 0; i < BATCH * 28 * 28; i++) {
        pixels[i] = (float)((i * 97) % 251) / 251.0f - 0.5f;
    }
    td_model *model = build(&error);
    td_tape *tape = td_tape_create(NULL, &error);
    td_tensor *images =
        td_tensor_from("images", TD_FLOAT32, TD_SHAPE(BATCH, 28, 28, 1), pixels, &error);
    td_tensor *labels = td_tensor_from("labels", TD_INT32, TD_SHAPE(BATCH), (int32_t[]){3}, &error);
    if (!error.status && td_model_summary(model, stdout) == TD_OK &&
        !run(model, tape, images, labels, errors, &error)) {
        for (size_t i = 0; i < td_model_layer_count(model); i++) {
            td_view view = td_view_of(errors[i]);
            td_stats stats;
            if (!td_stats_of(&view, &stats, &error)) {
                printf("%-8s error norm %.3e, %lld of %lld are zero\n",
                       td_model_layer(model, i)->name, stats.norm, (long long)stats.zeros,
                       (long long)stats.count);
            }
        }
        printf("\n");
        td_tensor_print(errors[td_model_find(model, "pool2")], stdout);
    }
    fputs(error.text, stderr);
    td_tensor_destroy(labels);
    td_tensor_destroy(images);
    td_tape_destroy(tape);
    td_model_destroy(model);
    return error.status != TD_OK;
}
