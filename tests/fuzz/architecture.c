/* Any text as the architecture of a saved model: built within what its file could fill, and written
 * back to the same text that it was made of. */
#include "model/architecture.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { ELEMENTS = 1 << 16 };
    td_error error = {0};
    char *text = calloc(size + 1, 1);
    memcpy(text, data, size);
    td_model *model = td__architecture_read(text, "fuzz", ELEMENTS, &error);
    free(text);
    if (!model) {
        return error.text[0] ? 0 : (abort(), 0);
    }
    int64_t elements = 0;
    for (size_t i = 0; i < td_model_parameter_count(model); i++) {
        td_tensor *parameter = td_model_parameter_at(model, i)->tensor;
        elements += td_tensor_count(parameter);
        memset(td_tensor_data(parameter), 0, (size_t)td_tensor_count(parameter) * sizeof(float));
    }
    char *first = td__architecture_write(model);
    td_model *again = first ? td__architecture_read(first, "again", ELEMENTS, &error) : NULL;
    char *second = again ? td__architecture_write(again) : NULL;
    if (elements > ELEMENTS || (first && (!second || strcmp(first, second) != 0))) {
        abort();
    }
    td__free(second);
    td__free(first);
    td_model_destroy(again);
    td_model_destroy(model);
    return 0;
}
