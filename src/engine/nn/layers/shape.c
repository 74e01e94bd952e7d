/* flatten, reshape, permute: the same elements in another shape or order; repeat_vector,
 * up_sampling1d: elements again and again. The batch stays in front. */
#include "nn/operators.h"

static const td__field flatten_fields[] = {TD__LAYER_FIELDS};
static const td__field reshape_fields[] = {
    TD__LAYER_FIELDS,
    TD__FIELD(SHAPE, td_reshape_layer, shape, .alias = "target_shape", .minimum = -1),
};

static const td__field permute_fields[] = {
    TD__LAYER_FIELDS,
    TD__FIELD_CALLED(SHAPE, td_permute_layer, order, "dims", .minimum = 1),
};
static const td__field vector_fields[] = {
    TD__LAYER_FIELDS,
    TD__FIELD_CALLED(INTEGER, td_repeat_layer, times, "n", .minimum = 1),
};
static const td__field up_fields[] = {
    TD__LAYER_FIELDS,
    TD__FIELD_CALLED(INTEGER, td_repeat_layer, times, "size", .by_default = 2, .minimum = 1),
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

static td_tensor *forward_shape(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
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

static const char *shape_operators(const td__layer *layer, td__operators *to,
                                   const char *const *inputs, const td_shape *shapes) {
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

static const td__keras_option reshape_keras[] = {{"target_shape", TD__KERAS_NUMBERS, "shape"}};
const td__layer_kind td__flatten_kind = {
    TD__KIND_OF_ONE(flatten_fields, td_flatten_layer, plan_flatten, forward_shape),
    TD__IS(SHAPE, FLATTENED), TD__TORCH("nn.Flatten"), TD__KERAS_PLAIN,
    .operators = shape_operators};
const td__layer_kind td__reshape_kind = {
    TD__KIND_OF_ONE(reshape_fields, td_reshape_layer, plan_reshape, forward_shape),
    TD__IS(SHAPE, RESHAPED), TD__TORCH("nn.Unflatten"), TD__KERAS(reshape_keras, VARS),
    .operators = shape_operators};

/* --- permute --------------------------------------------------------------------------------- */

static td_status plan_permute(td__layer *layer, const td_shape *inputs, td_error *error) {
    const td_permute_layer *options = layer->options;
    const td_shape *order = &options->order;
    td_shape output = inputs[0];
    unsigned seen = 0;
    bool fits = order->rank == output.rank;
    for (int32_t i = 0; fits && i < order->rank; i++) {
        fits = order->dims[i] >= 1 && order->dims[i] <= output.rank;
        seen |= fits ? 1U << order->dims[i] : 0;
        output.dims[i] = fits ? inputs[0].dims[order->dims[i] - 1] : 0;
    }
    if (!fits || seen != (1U << (output.rank + 1)) - 2) {
        char text[TD_SHAPE_TEXT_SIZE];
        return td__layer_error(layer, error, TD_BAD_SHAPE,
                               "'dims' must be the axes of its input %s, 1 to %d, each once",
                               td_shape_text(inputs, text), (int)inputs[0].rank);
    }
    layer->info.output = output;
    return TD_OK;
}

static td_tensor *forward_permute(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    const td_permute_layer *options = layer->options;
    int32_t order[TD_MAX_RANK] = {0};
    for (int32_t i = 0; i < options->order.rank; i++) {
        order[i + 1] = (int32_t)options->order.dims[i];
    }
    return td_transpose(tape, inputs[0], order);
}

static const char *operators_permute(const td__layer *layer, td__operators *to,
                                     const char *const *inputs, const td_shape *shapes) {
    (void)shapes;
    const td_permute_layer *options = layer->options;
    int64_t order[TD_MAX_RANK] = {0};
    for (int32_t i = 0; i < options->order.rank; i++) {
        order[i + 1] = options->order.dims[i];
    }
    return td__operator_transpose(to, inputs[0], (size_t)options->order.rank + 1, order);
}

/* --- repeat_vector, up_sampling1d ------------------------------------------------------------- */

static td_status plan_vector(td__layer *layer, const td_shape *inputs, td_error *error) {
    const td_repeat_layer *options = layer->options;
    td_status status = td__layer_need_rank(layer, inputs, 1, "(features)", error);
    layer->info.output = TD_SHAPE(options->times, inputs[0].dims[0]);
    return status;
}

static td_status plan_up(td__layer *layer, const td_shape *inputs, td_error *error) {
    const td_repeat_layer *options = layer->options;
    td_status status = td__layer_need_rank(layer, inputs, 2, "(steps, channels)", error);
    layer->info.output = inputs[0];
    if (inputs[0].dims[0] >= 0) {
        layer->info.output.dims[0] *= options->times;
    }
    return status;
}

/* (batch, steps, 1, features) is an image of one column; a vector is one step. */
static td_tensor *forward_repeat(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    const td_repeat_layer *options = layer->options;
    const td_tensor *x = inputs[0];
    if (!x) {
        return NULL;
    }
    int64_t batch = x->shape.dims[0], steps = x->shape.rank == 2 ? 1 : x->shape.dims[1];
    int64_t width = x->shape.dims[x->shape.rank - 1];
    td_tensor *column = td_reshape(tape, inputs[0], TD_SHAPE(batch, steps, 1, width));
    td_tensor *y = td_up_sampling2d(tape, column, (const int64_t[]){options->times, 1}, TD_NEAREST);
    return td_reshape(tape, y, TD_SHAPE(batch, steps * options->times, width));
}

/* (batch, steps, 1, features) expanded along a new axis, which is then one with the steps. */
static const char *operators_repeat(const td__layer *layer, td__operators *to,
                                    const char *const *inputs, const td_shape *shapes) {
    const td_repeat_layer *options = layer->options;
    int64_t width = shapes[0].dims[shapes[0].rank - 1];
    const char *column = td__operator_reshape(to, inputs[0], 4, (const int64_t[]){0, -1, 1, width});
    const char *wide =
        TD__OPERATOR(to, "Expand", column,
                     td__operator_integers(to, 4, (const int64_t[]){1, 1, options->times, width}));
    return td__operator_reshape(to, wide, 3, (const int64_t[]){0, -1, width});
}

static const td__keras_option permute_keras[] = {{"dims", TD__KERAS_NUMBERS, "dims"}};
static const td__keras_option vector_keras[] = {{"n", TD__KERAS_NUMBER, "n"}};
static const td__keras_option up_keras[] = {{"size", TD__KERAS_NUMBER, "size"}};
const td__layer_kind td__permute_kind = {
    TD__KIND_OF_ONE(permute_fields, td_permute_layer, plan_permute, forward_permute),
    TD__IS(SHAPE, OTHER), TD__TORCH("torch.permute"), TD__KERAS(permute_keras, VARS),
    .operators = operators_permute};
const td__layer_kind td__repeat_vector_kind = {
    TD__KIND_OF_ONE(vector_fields, td_repeat_layer, plan_vector, forward_repeat),
    TD__IS(SHAPE, OTHER), TD__TORCH("torch.repeat_interleave"), TD__KERAS(vector_keras, VARS),
    .operators = operators_repeat};
const td__layer_kind td__up_sampling1d_kind = {
    TD__KIND_OF_ONE(up_fields, td_repeat_layer, plan_up, forward_repeat), TD__IS(SHAPE, OTHER),
    .torch = {.name = "nn.Upsample", .channels_first = true}, TD__KERAS(up_keras, VARS),
    .operators = operators_repeat};
