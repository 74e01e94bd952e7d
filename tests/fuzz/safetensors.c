/* Any bytes as a safetensors file; every element of what is accepted lies inside. */
#include "model/safetensors.h"
#include "tapedeck/stats.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    td_error error = {0};
    td__safetensors *file = td__safetensors_parse("fuzz", data, size, &error);
    if (!file) {
        return error.text[0] ? 0 : -1;
    }
    volatile uint8_t last = 0;
    for (size_t i = 0; i < td__safetensors_count(file); i++) {
        const td_view *view = &td__safetensors_at(file, i)->view;
        int64_t count;
        if (td_shape_check(&view->shape, view->dtype, &count, NULL)) {
            abort();
        }
        if (count > 0) {
            size_t bytes = (size_t)count * td_dtype_size(view->dtype);
            last = ((const uint8_t *)view->data)[bytes - 1];
        }
    }
    (void)last;
    (void)td__safetensors_text(file, "tapedeck.model");
    td__safetensors_close(file);
    return 0;
}
