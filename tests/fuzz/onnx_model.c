/* Any bytes as an ONNX file that becomes a model: what is constant is computed, shapes are learnt by
 * running it, layers are made; then it runs forward and back. */
#include "onnx/onnx.h"
#include "tapedeck/tape.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_ELEMENTS = 4096, MOST_LAYERS = 64 };

static void run(td_model *model, td_tensor *x, td_tape *tape) {
    td_error error = {0};
    td_tensor *y = td_model_forward(model, tape, x);
    td_tensor *const *weights, *gradients[MOST_LAYERS];
    size_t count = td_model_trainable(model, &weights);
    td_tensor *loss = td_sum(tape, y, NULL);
    if (!loss && td_tape_status(tape, NULL) == TD_OK) {
        abort(); /* a failure without a reason */
    }
    if (loss && count <= MOST_LAYERS &&
        td_tape_gradient(tape, loss, count, weights, gradients, &error) && !error.text[0]) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    td_error error = {0};
    td_model *model = td__onnx_model(data, size, NULL, NULL, &error);
    if (!model) {
        if (!error.text[0]) {
            abort();
        }
        return 0;
    }
    td_shape shape = td_model_input_shape(model);
    td_shape batch = {.rank = shape.rank + 1, .dims = {3}};
    int64_t count = 3;
    for (int32_t i = 0; i < shape.rank; i++) {
        batch.dims[i + 1] = shape.dims[i] < 0 ? 8 : shape.dims[i];
        count = batch.dims[i + 1] > MOST_ELEMENTS ? MOST_ELEMENTS + 1 : count * batch.dims[i + 1];
        count = count > MOST_ELEMENTS ? MOST_ELEMENTS + 1 : count;
    }
    td_tensor *x = count <= MOST_ELEMENTS
                       ? td_tensor_create("x", td_model_input_dtype(model), batch, NULL)
                       : NULL;
    td_tape *tape = td_tape_create(NULL, NULL);
    if (x && tape) {
        run(model, x, tape);
    }
    td_tape_destroy(tape);
    td_tensor_destroy(x);
    td_model_destroy(model);
    return 0;
}
