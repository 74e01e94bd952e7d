/* flatten, reshape: the same elements in another shape; the batch stays in front */
#include "nn/operators.h"

static const td__field flatten_fields[] = {TD__LAYER_FIELDS};
static const td__field reshape_fields[] = {
    TD__LAYER_FIELDS,
    {.key = "shape",
     .alias = "target_shape",
     .type = TD__FIELD_SHAPE,
     .offset = offsetof(td_reshape_layer, shape),
     .minimum = -1},
};

/* Elements of one example; -1 when a dimension is not known. */
static int64_t elements(const td_shape *shape) {
    int64_t count = 1;
    for (int32_t i = 0; i < shape->rank; i++) {
        if (shape->dims[i] < 0) {
            return -1;
        }
        count *= shape->dims[i];
    }
    return count;
}

static td_status plan_flatten(td__layer *layer, const td_shape *inputs, td_error *error) {
    (void)error;
    layer->info.output = TD_SHAPE(elements(inputs));
    return TD_OK;
}

static td_status plan_reshape(td__layer *layer, const td_shape *inputs, td_error *error) {
    const td_reshape_layer *options = layer->options;
    td_shape shape = options->shape;
    char from[TD_SHAPE_TEXT_SIZE], to[TD_SHAPE_TEXT_SIZE];
    if (shape.rank < 1 || shape.rank >= TD_MAX_RANK) {
        return td__layer_error(layer, error, TD_INVALID, "'shape' must have 1 to 7 dimensions");
    }
    int32_t open = -1;
    int64_t known = 1, count = elements(inputs);
    bool fits = true;
    for (int32_t i = 0; i < shape.rank; i++) {
        if (shape.dims[i] >= 0) {
            fits = fits && !__builtin_mul_overflow(known, shape.dims[i], &known);
        } else {
            fits = fits && shape.dims[i] == -1 && open < 0;
            open = i;
        }
    }
    if (fits && open >= 0 && count >= 0) {
        fits = known > 0 && count % known == 0;
        shape.dims[open] = fits ? count / known : -1;
    } else if (fits && count >= 0) {
        fits = known == count;
    }
    if (!fits) {
        return td__layer_error(layer, error, TD_BAD_SHAPE, "input %s does not reshape to %s",
                               td_shape_text(inputs, from), td_shape_text(&options->shape, to));
    }
    layer->info.output = shape;
    return TD_OK;
}

static td_tensor *forward(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    if (!inputs[0]) {
        return NULL;
    }
    td_shape shape = {.rank = layer->info.output.rank + 1};
    shape.dims[0] = inputs[0]->shape.dims[0];
    for (int32_t i = 1; i < shape.rank; i++) {
        shape.dims[i] = layer->info.output.dims[i - 1];
    }
    return td_reshape(tape, inputs[0], shape);
}

static const char *operators(const td__layer *layer, td__operators *to, const char *const *inputs,
                             const td_shape *shapes) {
    (void)shapes;
    int64_t shape[TD_MAX_RANK] = {0}; /* the batch as it is */
    size_t open = 0;
    for (int32_t i = 0; i < layer->info.output.rank; i++) {
        shape[i + 1] = layer->info.output.dims[i];
        open += shape[i + 1] < 0;
    }
    return open > 1
               ? td__operator_refuse(to, "several sizes that are not known")
               : td__operator_reshape(to, inputs[0], (size_t)layer->info.output.rank + 1, shape);
}

const td__layer_kind td__flatten_kind = {
    TD__KIND_OF_ONE(flatten_fields, td_flatten_layer, plan_flatten, forward),
    .operators = operators};
const td__layer_kind td__reshape_kind = {
    TD__KIND_OF_ONE(reshape_fields, td_reshape_layer, plan_reshape, forward),
    .operators = operators};
