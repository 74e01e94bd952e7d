/* Any bytes as an .npz of weights, through a file that exists in memory only. */
#include "model/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

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
    int file = memfd_create("fuzz", MFD_CLOEXEC);
    if (file < 0 || write(file, data, size) != (ssize_t)size) {
        abort();
    }
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    float *kernel = td_tensor_data(td_model_parameter(model, "a", "kernel"));
    kernel[3] = 77;
    td_status status = td__weights_npz_read(model, path, &error);
    if (status != error.status || (status && kernel[3] != 77)) {
        abort();
    }
    close(file);
    return 0;
}
