/* Any bytes as a weights CSV: a model takes all of it or stays as it was. */
#include "model/weights.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static td_model *model;
    td_error error = {0};
    if (!model) {
        model = td_model_create("m", TD_SHAPE(2));
        td_add_dense(model, .name = "a", .units = 2);
        if (td_model_build(model, 1, &error)) {
            abort();
        }
    }
    float *kernel = td_tensor_data(td_model_parameter(model, "a", "kernel"));
    kernel[3] = 77;
    td_status status = td__weights_csv_parse(model, "fuzz", data, size, &error);
    if (status != error.status || (status && kernel[3] != 77)) {
        abort();
    }
    return 0;
}
