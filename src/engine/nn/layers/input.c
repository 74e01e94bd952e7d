/* input: one of a model's inputs; the model itself finds its part of the example (model_run.c) */
#include "nn/layer.h"

static const td__field fields[] = {
    TD__LAYER_FIELDS,
    TD__FIELD(SHAPE, td_input_layer, shape, .minimum = -1),
};

static td_status plan_input(td__layer *layer, const td_shape *inputs, td_error *error) {
    const td_input_layer *options = layer->options;
    (void)inputs;
    bool good = options->shape.rank >= 0 && options->shape.rank < TD_MAX_RANK;
    for (int32_t i = 0; good && i < options->shape.rank; i++) {
        good = options->shape.dims[i] >= -1;
    }
    layer->info.output = options->shape;
    return good ? TD_OK
                : td__layer_error(layer, error, TD_BAD_SHAPE,
                                  "'shape' has 0 to 7 dimensions, each a size or -1 for any");
}

static td_tensor *forward_input(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    (void)layer, (void)tape;
    return inputs[0];
}

const td__layer_kind td__input_kind = {
    TD__KIND_OF_ONE(fields, td_input_layer, plan_input, forward_input), TD__IS(INPUT, KEPT),
    TD__TORCH(""), .keras = {.storage = TD__KERAS_NOWHERE}};
