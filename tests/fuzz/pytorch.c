/* Any bytes as a state dictionary of PyTorch's, for a model with a layer of each kind it can fill: all
 * of it is taken, or the model stays as it was. */
#include "model/pytorch.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static td_model *make(void) {
    td_error error = {0};
    td_model *model = td_model_create("m", TD_SHAPE(2, 2, 1));
    td_add_conv2d(model, .name = "a", .filters = 2, .kernel = {1});
    td_add_flatten(model);
    td_add_dense(model, .name = "b", .units = 2);
    td_add_batch_normalization(model, .name = "c");
    td_add_reshape(model, .shape = TD_SHAPE(2, 1));
    td_add_gru(model, .name = "d", .units = 2, .return_sequences = true);
    td_add_multi_head_attention(model, .name = "e", .heads = 1, .key_dim = 2);
    if (td_model_build(model, 1, &error)) {
        abort();
    }
    return model;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static td_model *model;
    td_error error = {0};
    model = model ? model : make();
    td__safetensors *file = td__safetensors_parse("fuzz", data, size, &error);
    if (!file) {
        return 0;
    }
    size_t count = td__safetensors_count(file);
    float *kernel = td_tensor_data(td_model_parameter(model, "b", "kernel"));
    kernel[3] = 77;
    td_status status = td__pytorch_assign(model, "fuzz", count,
                                          count ? td__safetensors_at(file, 0) : NULL, &error);
    if (status != error.status || (status && kernel[3] != 77)) {
        abort();
    }
    td__safetensors_close(file);
    return 0;
}
