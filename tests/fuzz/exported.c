/* Any bytes as a program of torch.export, as far as a model. */
#include "exported/exported.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    td_error error = {0};
    td_model *model = td__exported_model(data, size, "fuzz", &error);
    if (!model && !error.text[0]) {
        abort(); /* a failure without a reason */
    }
    td_model_destroy(model);
    return 0;
}
