#include "tapedeck/nn.h"

int main(void) {
    td_error error = {0};
    td_model *model = td_model_create("classifier", TD_SHAPE(8, 8, 1));
    td_add_conv2d(model, .name = "conv1", .filters = 4, .kernel = {3}, .activation = TD_RELU);
    td_add_flatten(model);
    td_add_dense(model, .name = "logits", .units = 10);
    td_tape *tape = td_tape_create(NULL, &error);
    td_tensor *image = td_tensor_from("image", TD_FLOAT32, TD_SHAPE(1, 8, 8, 1),
                                      (float[64]){[18] = 1, [26] = 1, [34] = 1}, &error);
    td_tensor *label = td_tensor_from("label", TD_INT32, TD_SHAPE(1), &(int32_t){7}, &error);
    if (error.status || td_model_build(model, 1, &error)) {
        return fprintf(stderr, "%s\n", error.text);
    }
    td_tensor *logits = td_model_forward(model, tape, image); /* (1, 10) */
    td_tensor *loss = td_sparse_categorical_crossentropy(tape, logits, label, TD_FROM_LOGITS);
    td_tensor *gradients[3], *wanted[] = {td_model_output(model, "conv1"), /* the layer's error */
                                          td_model_parameter(model, "conv1", "kernel"),
                                          td_model_parameter(model, "conv1", "bias")};
    if (!td_tape_gradient(tape, loss, 3, wanted, gradients, &error)) {
        td_tensor_print(gradients[0], stdout);
        td_tensor_print(gradients[1], stdout);
        td_tensor_print(gradients[2], stdout);
    }
    td_tensor_destroy(label);
    td_tensor_destroy(image);
    td_tape_destroy(tape);
    td_model_destroy(model);
    return error.status != TD_OK;
}
