/* masking: a step whose features all are one value does not count; and masks on their way */
#include "nn/layer.h"

#include <math.h>

static const td__field fields[] = {
    TD__LAYER_FIELDS,
    TD__FIELD(NUMBER, td_masking_layer, mask_value, .minimum = -HUGE_VAL),
};

td_tensor *td__mask_create(td_tape *tape, const td_tensor *x) {
    td_shape shape = x->shape;
    shape.rank--;
    return td__output(tape, TD_FLOAT32, &shape);
}

td_tensor *td__mask_apply(td_tape *tape, td_tensor *x, td_tensor *mask) {
    td_shape shape = {.rank = x->shape.rank};
    for (int32_t i = 0; i < shape.rank; i++) {
        shape.dims[i] = i < mask->shape.rank ? mask->shape.dims[i] : 1;
    }
    return td_multiply(tape, x, td_reshape(tape, mask, shape));
}

td_tensor *td__mask_pass(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    (void)tape, (void)inputs;
    return layer->masks[0];
}

static td_status plan_masking(td__layer *layer, const td_shape *inputs, td_error *error) {
    int64_t features;
    layer->info.output = inputs[0];
    return td__layer_need_last(layer, inputs, &features, error);
}

static td_tensor *forward_masking(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    const td_masking_layer *options = layer->options;
    td_tensor *x = inputs[0], *mask = td__mask_create(tape, x);
    if (!mask) {
        return NULL;
    }
    const float *from = td__floats(x);
    float *to = td__floats(mask), value = (float)options->mask_value;
    int64_t features = x->shape.dims[x->shape.rank - 1];
    for (int64_t i = 0; i < mask->count; i++) {
        to[i] = 0;
        for (int64_t k = 0; k < features; k++) {
            to[i] = from[i * features + k] != value ? 1 : to[i];
        }
    }
    layer->masks[0] = mask; /* what it passes on */
    return td__mask_apply(tape, x, mask);
}

static bool has_mask(const td__layer *layer, bool any) {
    (void)layer, (void)any;
    return true;
}

static const td__keras_option keras[] = {{"mask_value", TD__KERAS_NUMBER, "mask_value"}};
const td__layer_kind td__masking_kind = {
    TD__KIND_OF_ONE(fields, td_masking_layer, plan_masking, forward_masking),
    TD__IS(SHAPE, KEPT),
    TD__TORCH(""),
    TD__KERAS(keras, VARS),
    .mask_from = TD__MASK_OF_STEPS,
    .mask = td__mask_pass,
    .has_mask = has_mask};
