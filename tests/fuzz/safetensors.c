/* Any bytes as a safetensors file; every element of what is accepted lies inside. */
#include "model/weights.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    td_error error = {0};
    td__safetensors *file = td__safetensors_parse("fuzz", data, size, &error);
    if (!file) {
        return error.text[0] ? 0 : -1;
    }
    volatile float last = 0;
    for (size_t i = 0; i < td__safetensors_count(file); i++) {
        const td__named_view *tensor = td__safetensors_at(file, i);
        int64_t count;
        if (td_shape_check(&tensor->view.shape, tensor->view.dtype, &count, NULL)) {
            abort();
        }
        if (count > 0) {
            float value;
            td__copy_floats(&value, &tensor->view, count - 1, 1);
            last = value;
        }
    }
    (void)last;
    (void)td__safetensors_text(file, "tapedeck.model");
    td__safetensors_close(file);
    return 0;
}
