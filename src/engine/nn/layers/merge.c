/* add, subtract, multiply, average, maximum, minimum, dot, concatenate: several layers into one
 *
 * Element by element, shapes broadcast; of shapes of different ranks the shorter one gets
 * dimensions of 1 behind the batch, as in Keras. What steps that do not count put out is Keras's, too.
 */
#include "nn/operators.h"
#include "tape/pick.h"

#include <math.h>

static const td__field plain_fields[] = {TD__LAYER_FIELDS};
static const td__field concatenate_fields[] = {
    TD__LAYER_FIELDS,
    TD__INTEGER(td_concatenate_layer, axis, NULL, -1, -TD_MAX_RANK),
};
static const td__field dot_fields[] = {
    TD__LAYER_FIELDS,
    TD__FIELD(PAIR, td_dot_layer, axes, .minimum = -TD_MAX_RANK),
    TD__BOOL(td_dot_layer, normalize),
};

static td_status disagree(const td__layer *layer, const td_shape *a, const td_shape *b,
                          td_error *error) {
    char text[TD_SHAPE_TEXT_SIZE], other[TD_SHAPE_TEXT_SIZE];
    return td__layer_error(layer, error, TD_BAD_SHAPE, "inputs %s and %s do not fit",
                           td_shape_text(a, text), td_shape_text(b, other));
}

/* --- element by element -------------------------------------------------------------------- */

/* Sizes of one dimension that broadcast: equal, or one of them 1; -1 fits anything. */
static bool broadcast(int64_t a, int64_t b, int64_t *size) {
    *size = a == 1 || a < 0 ? b : a;
    return a == b || a == 1 || b == 1 || a < 0 || b < 0;
}

/* The shape with dimensions of 1 in front, up to rank. */
static td_shape widened(const td_shape *shape, int32_t rank) {
    td_shape wide = {.rank = rank};
    for (int32_t i = 0; i < rank; i++) {
        int32_t at = i - (rank - shape->rank);
        wide.dims[i] = at < 0 ? 1 : shape->dims[at];
    }
    return wide;
}

static td_status plan_merge(td__layer *layer, const td_shape *inputs, td_error *error) {
    int32_t rank = 0;
    for (size_t k = 0; k < layer->info.input_count; k++) {
        rank = inputs[k].rank > rank ? inputs[k].rank : rank;
    }
    td_shape output = widened(&inputs[0], rank);
    for (size_t k = 1; k < layer->info.input_count; k++) {
        td_shape input = widened(&inputs[k], rank);
        for (int32_t i = 0; i < rank; i++) {
            if (!broadcast(output.dims[i], input.dims[i], &output.dims[i])) {
                return disagree(layer, &inputs[0], &inputs[k], error);
            }
        }
    }
    layer->info.output = output;
    return TD_OK;
}

/* x with the rank of the output. */
static td_tensor *fitted(const td__layer *layer, td_tape *tape, td_tensor *x) {
    int32_t rank = layer->info.output.rank + 1;
    if (!x || x->shape.rank >= rank || x->shape.rank < 1) {
        return x;
    }
    td_shape shape = {.rank = rank, .dims = {x->shape.dims[0]}};
    for (int32_t i = 1; i < rank; i++) {
        int32_t at = i - (rank - x->shape.rank);
        shape.dims[i] = at < 1 ? 1 : x->shape.dims[at];
    }
    return td_reshape(tape, x, shape);
}

typedef td_tensor *operation(td_tape *tape, td_tensor *a, td_tensor *b);

static td_tensor *fold(td__layer *layer, td_tape *tape, td_tensor *const *inputs,
                       operation *combine) {
    td_tensor *result = fitted(layer, tape, inputs[0]);
    for (size_t k = 1; k < layer->info.input_count; k++) {
        result = combine(tape, result, fitted(layer, tape, inputs[k]));
    }
    return result;
}

static td_tensor *forward_add(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    return fold(layer, tape, inputs, td_add);
}
static td_tensor *forward_subtract(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    return fold(layer, tape, inputs, td_subtract);
}
static td_tensor *forward_average(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    td_tensor *sum = fold(layer, tape, inputs, td_add);
    return td_affine(tape, sum, 1.0f / (float)layer->info.input_count, 0);
}

/* --- masks --------------------------------------------------------------------------------- */

/* Steps that count in any of the inputs; none when one has no mask, as Keras has it. */
static td_tensor *mask_any(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    td_tensor *any = NULL;
    (void)inputs;
    for (size_t k = 0; k < layer->info.input_count; k++) {
        td_tensor *mask = layer->masks[k];
        if (!mask || (any && any->shape.rank != mask->shape.rank)) {
            return NULL;
        }
        any = any ? td_maximum(tape, any, mask) : mask;
    }
    return any;
}

/* a at steps that count, b at the others; all count without a mask. */
static td_tensor *choose(td_tape *tape, const td_tensor *mask, td_tensor *a, td_tensor *b) {
    if (!mask || !a || !b) {
        return a && b ? a : NULL;
    }
    td_shape shape = {.rank = a->shape.rank};
    for (int32_t i = 0; i < shape.rank; i++) {
        shape.dims[i] = i < mask->shape.rank ? mask->shape.dims[i] : 1;
    }
    td_tensor *counts = td__output(tape, TD_INT64, &shape);
    for (int64_t i = 0; counts && i < counts->count; i++) {
        ((int64_t *)counts->data)[i] = td__floats(mask)[i] != 0;
    }
    return counts ? td__select(tape, "merge", counts, a, b) : NULL;
}

static td_tensor *constant(td_tape *tape, float value) {
    td_tensor *one = td__output(tape, TD_FLOAT32, &TD_SHAPE(1));
    if (one) {
        td__floats(one)[0] = value;
    }
    return one;
}

/* The mask of an input as Keras's merge sees it: one that is given dimensions loses its own. */
static td_tensor *mask_seen(const td__layer *layer, td_tensor *const *inputs, size_t k) {
    return inputs[k]->shape.rank == layer->info.output.rank + 1 ? layer->masks[k] : NULL;
}

/* A factor counts as 1 at steps that its mask leaves out; the product is 0 where all do. */
static td_tensor *forward_multiply(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    td_tensor *product = NULL, *any = NULL;
    bool all = true;
    for (size_t k = 0; k < layer->info.input_count; k++) {
        td_tensor *mask = mask_seen(layer, inputs, k), *x = fitted(layer, tape, inputs[k]);
        x = mask ? choose(tape, mask, x, constant(tape, 1)) : x;
        product = k ? td_multiply(tape, product, x) : x;
        any = mask && any ? td_maximum(tape, any, mask) : mask ? mask : any;
        all = all && mask;
    }
    return all ? choose(tape, any, product, constant(tape, 0)) : product;
}

/* The largest or smallest of those that count at a step. Where none does, and where an earlier one is
 * without a mask, the equations are Keras's, which take the inputs pair by pair. */
static td_tensor *extreme(td__layer *layer, td_tape *tape, td_tensor *const *inputs,
                          operation *combine) {
    td_tensor *result = fitted(layer, tape, inputs[0]), *counted = mask_seen(layer, inputs, 0);
    for (size_t k = 1; k < layer->info.input_count; k++) {
        td_tensor *mask = mask_seen(layer, inputs, k), *x = fitted(layer, tape, inputs[k]);
        x = choose(tape, mask, x, result);
        result = choose(tape, counted, result, x);
        counted = mask && counted ? td_maximum(tape, counted, mask) : NULL;
        result = combine(tape, result, x);
    }
    return result;
}

static td_tensor *forward_maximum(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    return extreme(layer, tape, inputs, td_maximum);
}
static td_tensor *forward_minimum(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    return extreme(layer, tape, inputs, td_minimum);
}

/* --- dot ----------------------------------------------------------------------------------- */

/* The axis of one example, from 0; -1 when it is none. */
static int32_t example_axis(int64_t axis, const td_shape *shape) {
    int64_t at = axis < 0 ? axis + shape->rank : axis - 1;
    return at >= 0 && at < shape->rank ? (int32_t)at : -1;
}

static td_status plan_dot(td__layer *layer, const td_shape *inputs, td_error *error) {
    const td_dot_layer *options = layer->options;
    const td_shape *a = &inputs[0], *b = &inputs[1];
    int32_t i = example_axis(options->axes[0], a), k = example_axis(options->axes[1], b);
    if (a->rank < 1 || a->rank > 2 || b->rank < 1 || b->rank > 2) {
        return td__layer_error(layer, error, TD_BAD_SHAPE,
                               "it takes inputs of one or two dimensions (of one example)");
    }
    if (i < 0 || k < 0) {
        return td__layer_error(layer, error, TD_BAD_SHAPE,
                               "'axes' %lld, %lld: not axes of both inputs (0 is the batch)",
                               (long long)options->axes[0], (long long)options->axes[1]);
    }
    if (a->dims[i] >= 0 && b->dims[k] >= 0 && a->dims[i] != b->dims[k]) {
        return disagree(layer, a, b, error);
    }
    td_shape output = {0};
    if (a->rank == 2) {
        output.dims[output.rank++] = a->dims[1 - i];
    }
    if (b->rank == 2) {
        output.dims[output.rank++] = b->dims[1 - k];
    }
    layer->info.output = output.rank ? output : TD_SHAPE(1);
    return TD_OK;
}

/* x / sqrt(max(sum of squares along the axis, 1e-12)) */
static td_tensor *normalized(td_tape *tape, td_tensor *x, int32_t axis) {
    td_reduce_options over = {.size = sizeof over, .count = 1, .axes = {axis}, .keep = true};
    td_tensor *squares = td_sum(tape, td_square(tape, x), &over);
    return td_divide(tape, x, td_sqrt(tape, td_clip(tape, squares, 1e-12f, INFINITY)));
}

/* (batch, k) as (batch, 1, k), or a matrix as it is. */
static td_tensor *matrix(td_tape *tape, td_tensor *x) {
    return x && x->shape.rank == 2
               ? td_reshape(tape, x, TD_SHAPE(x->shape.dims[0], 1, x->shape.dims[1]))
               : x;
}

static td_tensor *forward_dot(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    const td_dot_layer *options = layer->options;
    td_tensor *sides[2];
    bool last[2]; /* the axis that is summed over is the last one */
    for (int side = 0; side < 2; side++) {
        td_tensor *x = inputs[side];
        td_shape example = {.rank = x->shape.rank - 1};
        int32_t axis = example_axis(options->axes[side], &example);
        x = options->normalize ? normalized(tape, x, axis + 1) : x;
        last[side] = axis == example.rank - 1;
        sides[side] = matrix(tape, x);
    }
    td_matmul_options how = {.size = sizeof how, .transpose_a = !last[0], .transpose_b = last[1]};
    td_tensor *product = td_matmul(tape, sides[0], sides[1], &how);
    if (!product) {
        return NULL;
    }
    td_shape shape = {.rank = 1, .dims = {product->shape.dims[0]}};
    for (int side = 0; side < 2; side++) { /* a vector has left a dimension of 1 */
        if (inputs[side]->shape.rank == 3) {
            shape.dims[shape.rank++] = product->shape.dims[1 + side];
        }
    }
    if (shape.rank == 1) {
        shape.dims[shape.rank++] = 1;
    }
    return td_reshape(tape, product, shape);
}

/* --- concatenate --------------------------------------------------------------------------- */

static td_status plan_concatenate(td__layer *layer, const td_shape *inputs, td_error *error) {
    const td_concatenate_layer *options = layer->options;
    td_shape output = inputs[0];
    int32_t axis = example_axis(options->axis, &output);
    if (axis < 0) {
        char text[TD_SHAPE_TEXT_SIZE];
        return td__layer_error(layer, error, TD_BAD_SHAPE,
                               "'axis' is %lld, which inputs of shape %s (and the batch) lack",
                               (long long)options->axis, td_shape_text(&output, text));
    }
    for (size_t k = 1; k < layer->info.input_count; k++) {
        const td_shape *input = &inputs[k];
        if (input->rank != output.rank) {
            return disagree(layer, &inputs[0], input, error);
        }
        for (int32_t i = 0; i < output.rank; i++) {
            int64_t a = output.dims[i], b = input->dims[i];
            if (i == axis) {
                output.dims[i] = a < 0 || b < 0 ? -1 : a + b;
            } else if (a >= 0 && b >= 0 && a != b) {
                return disagree(layer, &inputs[0], input, error);
            } else {
                output.dims[i] = a < 0 ? b : a;
            }
        }
    }
    layer->info.output = output;
    return TD_OK;
}

static td_tensor *forward_concatenate(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    const td_concatenate_layer *options = layer->options;
    return td_concatenate(tape, layer->info.input_count, inputs, (int32_t)options->axis);
}

/* --- as operators ------------------------------------------------------------------------- */

/* An input with the rank of the output: dimensions of 1 behind the batch. */
static const char *fitted_operator(const td__layer *layer, td__operators *to, const char *x,
                                   const td_shape *shape) {
    static const int64_t axes[] = {1, 2, 3, 4, 5, 6, 7};
    size_t lacking = (size_t)(layer->info.output.rank - shape->rank);
    return lacking ? TD__OPERATOR(to, "Unsqueeze", x, td__operator_integers(to, lacking, axes)) : x;
}

static const char *fold_operators(const td__layer *layer, td__operators *to, const char *type,
                                  const char *const *inputs, const td_shape *shapes) {
    const char *result = fitted_operator(layer, to, inputs[0], &shapes[0]);
    for (size_t k = 1; k < layer->info.input_count; k++) {
        result = TD__OPERATOR(to, type, result, fitted_operator(layer, to, inputs[k], &shapes[k]));
    }
    return result;
}

#define FOLDED_OPERATORS(word, type)                                                               \
    static const char *operators_##word(const td__layer *layer, td__operators *to,                 \
                                        const char *const *inputs, const td_shape *shapes) {       \
        return fold_operators(layer, to, type, inputs, shapes);                                    \
    }
FOLDED_OPERATORS(add, "Add")
FOLDED_OPERATORS(subtract, "Sub")
FOLDED_OPERATORS(multiply, "Mul")
FOLDED_OPERATORS(maximum, "Max")
FOLDED_OPERATORS(minimum, "Min")
#undef FOLDED_OPERATORS
static const char *operators_average(const td__layer *layer, td__operators *to,
                                     const char *const *inputs, const td_shape *shapes) {
    return TD__OPERATOR(to, "Mul", fold_operators(layer, to, "Add", inputs, shapes),
                        td__operator_number(to, 1.0 / (double)layer->info.input_count));
}

static const char *normalized_operator(td__operators *to, const char *x, int64_t axis) {
    const char *squares = TD__OPERATOR(to, "ReduceSum", TD__OPERATOR(to, "Mul", x, x),
                                       td__operator_integers(to, 1, &axis));
    const char *some = TD__OPERATOR(to, "Max", squares, td__operator_number(to, 1e-12));
    return TD__OPERATOR(to, "Div", x, TD__OPERATOR(to, "Sqrt", some));
}

static const char *operators_dot(const td__layer *layer, td__operators *to,
                                 const char *const *inputs, const td_shape *shapes) {
    const td_dot_layer *options = layer->options;
    const char *sides[2];
    for (int side = 0; side < 2; side++) {
        int32_t axis = example_axis(options->axes[side], &shapes[side]);
        bool vector = shapes[side].rank == 1, last = axis == shapes[side].rank - 1;
        const char *x = inputs[side];
        x = options->normalize ? normalized_operator(to, x, axis + 1) : x;
        if (vector) { /* (batch, 1, k) or (batch, k, 1) */
            x = TD__OPERATOR(to, "Unsqueeze", x,
                             td__operator_integers(to, 1, (const int64_t[]){side ? 2 : 1}));
        } else if (last == (side == 1)) {
            x = td__operator_transpose(to, x, 3, (const int64_t[]){0, 2, 1});
        }
        sides[side] = x;
    }
    const char *product = TD__OPERATOR(to, "MatMul", sides[0], sides[1]);
    int64_t shape[TD_MAX_RANK] = {0};
    for (int32_t i = 0; i < layer->info.output.rank; i++) {
        shape[i + 1] = layer->info.output.dims[i];
    }
    bool whole = shapes[0].rank == 2 && shapes[1].rank == 2;
    return whole ? product
                 : td__operator_reshape(to, product, (size_t)layer->info.output.rank + 1, shape);
}

static const char *operators_concatenate(const td__layer *layer, td__operators *to,
                                         const char *const *inputs, const td_shape *shapes) {
    (void)shapes;
    const td_concatenate_layer *options = layer->options;
    td__attribute axis = TD__NAMED_INT("axis", options->axis);
    return td__operator(to, "Concat", layer->info.input_count, inputs, 1, &axis);
}

/* Of the last axis: steps that count in any input, those without a mask counting all. Of another, the
 * masks side by side. */
static td_tensor *mask_joined(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    const td_concatenate_layer *options = layer->options;
    td_tensor *masks[TD_MAX_FROM];
    int32_t rank = inputs[0]->shape.rank;
    int32_t axis = (int32_t)options->axis + (options->axis < 0 ? rank : 0);
    for (size_t k = 0; k < layer->info.input_count; k++) {
        masks[k] = layer->masks[k] ? layer->masks[k] : td__mask_create(tape, inputs[k]);
        if (!masks[k] || masks[k]->shape.rank != rank - 1) {
            return NULL;
        }
        for (int64_t i = 0; !layer->masks[k] && i < masks[k]->count; i++) {
            td__floats(masks[k])[i] = 1;
        }
        if (axis == rank - 1 && k > 0) {
            masks[0] = td_maximum(tape, masks[0], masks[k]);
        }
    }
    return axis == rank - 1 ? masks[0] : td_concatenate(tape, layer->info.input_count, masks, axis);
}

static const td__keras_option dot_keras[] = {{"axes", TD__KERAS_NUMBERS, "axes"},
                                             {"normalize", TD__KERAS_SWITCH, "normalize"}};
static const td__keras_option concatenate_keras[] = {{"axis", TD__KERAS_AXIS, "axis"}};

#define KIND(rows, struct_type, max, plan_function, name)                                          \
    TD__KIND(rows, struct_type, plan_function, forward_##name), .min_from = 2, .max_from = (max),  \
                                                                .operators = operators_##name
#define MERGE(name, max, torch_name)                                                               \
    {                                                                                              \
        KIND(plain_fields, td_plain_layer, max, plan_merge, name), TD__IS(MERGE, KEPT),            \
            TD__TORCH(torch_name), TD__KERAS_PLAIN, .mask = mask_any, .mask_from = TD__MASK_OF_ALL \
    }
const td__layer_kind td__add_kind = MERGE(add, TD_MAX_FROM, "torch.add");
const td__layer_kind td__subtract_kind = MERGE(subtract, 2, "torch.sub");
const td__layer_kind td__multiply_kind = MERGE(multiply, TD_MAX_FROM, "torch.mul");
const td__layer_kind td__average_kind = MERGE(average, TD_MAX_FROM, "");
const td__layer_kind td__maximum_kind = MERGE(maximum, TD_MAX_FROM, "torch.maximum");
const td__layer_kind td__minimum_kind = MERGE(minimum, TD_MAX_FROM, "torch.minimum");
const td__layer_kind td__dot_kind = {KIND(dot_fields, td_dot_layer, 2, plan_dot, dot),
                                     TD__IS(JOIN, OTHER), TD__TORCH("torch.bmm"),
                                     TD__KERAS(dot_keras, VARS)};
const td__layer_kind td__concatenate_kind = {
    KIND(concatenate_fields, td_concatenate_layer, TD_MAX_FROM, plan_concatenate, concatenate),
    TD__IS(JOIN, JOINED),
    TD__TORCH("torch.cat"),
    TD__KERAS(concatenate_keras, VARS),
    .mask = mask_joined,
    .mask_from = TD__MASK_JOINED};
