/* dropout, activation, rescaling, add, multiply, concatenate */
#include "nn/layer.h"

#include <math.h>

static const td__field dropout_fields[] = {
    TD__LAYER_FIELDS,
    TD__NUMBER(td_dropout_layer, rate, 0),
};
static const td__field activation_fields[] = {
    TD__LAYER_FIELDS,
    TD__WORD(td_activation_layer, function, td__activation_words, TD_LINEAR),
    {.key = "alpha",
     .alias = "negative_slope",
     .type = TD__FIELD_NUMBER,
     .offset = offsetof(td_activation_layer, alpha),
     .given_offset = offsetof(td_activation_layer, alpha_given),
     .quiet = true},
};
static const td__field rescaling_fields[] = {
    TD__LAYER_FIELDS,
    {.key = "scale",
     .type = TD__FIELD_NUMBER,
     .offset = offsetof(td_rescaling_layer, scale),
     .standard = 1,
     .minimum = -HUGE_VAL},
    {.key = "offset",
     .type = TD__FIELD_NUMBER,
     .offset = offsetof(td_rescaling_layer, offset),
     .minimum = -HUGE_VAL},
};
static const td__field plain_fields[] = {TD__LAYER_FIELDS};
static const td__field concatenate_fields[] = {
    TD__LAYER_FIELDS,
    TD__INTEGER(td_concatenate_layer, axis, NULL, -1, -TD_MAX_RANK),
};

static td_status plan_same(td__layer *layer, const td_shape *inputs, td_error *error) {
    (void)error;
    layer->info.output = inputs[0];
    return TD_OK;
}

static td_status plan_dropout(td__layer *layer, const td_shape *inputs, td_error *error) {
    const td_dropout_layer *options = layer->options;
    if (options->rate >= 1) {
        return td__layer_error(layer, error, TD_RANGE, "'rate' is %g, it must be less than 1",
                               options->rate);
    }
    return plan_same(layer, inputs, error);
}
static td_tensor *forward_dropout(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    const td_dropout_layer *options = layer->options;
    return td_dropout(tape, inputs[0], (float)options->rate);
}

static td_tensor *forward_activation(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    const td_activation_layer *options = layer->options;
    bool zero = options->alpha_given && options->alpha == 0;
    return td_activate(tape, inputs[0], options->function,
                       zero ? (float)TD_ZERO : (float)options->alpha);
}

static td_tensor *forward_rescaling(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    const td_rescaling_layer *options = layer->options;
    return td_affine(tape, inputs[0], (float)options->scale, (float)options->offset);
}

/* --- several inputs ----------------------------------------------------------------------- */

static td_status disagree(const td__layer *layer, const td_shape *a, const td_shape *b,
                          td_error *error) {
    char text[TD_SHAPE_TEXT_SIZE], other[TD_SHAPE_TEXT_SIZE];
    return td__layer_error(layer, error, TD_SHAPE, "inputs %s and %s do not fit",
                           td_shape_text(a, text), td_shape_text(b, other));
}

/* Sizes of one dimension that broadcast: equal, or one of them 1; -1 fits anything. */
static bool broadcast(int64_t a, int64_t b, int64_t *size) {
    *size = a == 1 || a < 0 ? b : a;
    return a == b || a == 1 || b == 1 || a < 0 || b < 0;
}

static td_status plan_merge(td__layer *layer, const td_shape *inputs, td_error *error) {
    td_shape output = inputs[0];
    for (size_t k = 1; k < layer->info.input_count; k++) {
        if (inputs[k].rank != output.rank) {
            return disagree(layer, &inputs[0], &inputs[k], error);
        }
        for (int32_t i = 0; i < output.rank; i++) {
            if (!broadcast(output.dims[i], inputs[k].dims[i], &output.dims[i])) {
                return disagree(layer, &inputs[0], &inputs[k], error);
            }
        }
    }
    layer->info.output = output;
    return TD_OK;
}

static td_tensor *forward_add(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    td_tensor *sum = inputs[0];
    for (size_t k = 1; k < layer->info.input_count; k++) {
        sum = td_add(tape, sum, inputs[k]);
    }
    return sum;
}
static td_tensor *forward_multiply(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    td_tensor *product = inputs[0];
    for (size_t k = 1; k < layer->info.input_count; k++) {
        product = td_multiply(tape, product, inputs[k]);
    }
    return product;
}

static td_status plan_concatenate(td__layer *layer, const td_shape *inputs, td_error *error) {
    const td_concatenate_layer *options = layer->options;
    td_shape output = inputs[0];
    int64_t axis = options->axis < 0 ? options->axis + output.rank : options->axis - 1;
    if (axis < 0 || axis >= output.rank) {
        char text[TD_SHAPE_TEXT_SIZE];
        return td__layer_error(layer, error, TD_RANGE,
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

#define KIND(rows, struct_type, least, most, plan_function, forward_function)                      \
    {                                                                                              \
        .fields = (rows), .field_count = TD__COUNT(rows), .size = sizeof(struct_type),             \
        .least_from = (least), .most_from = (most), .plan = (plan_function),                       \
        .forward = (forward_function)                                                              \
    }
const td__layer_kind td__dropout_kind =
    KIND(dropout_fields, td_dropout_layer, 1, 1, plan_dropout, forward_dropout);
const td__layer_kind td__activation_kind =
    KIND(activation_fields, td_activation_layer, 1, 1, plan_same, forward_activation);
const td__layer_kind td__rescaling_kind =
    KIND(rescaling_fields, td_rescaling_layer, 1, 1, plan_same, forward_rescaling);
const td__layer_kind td__add_kind =
    KIND(plain_fields, td_plain_layer, 2, TD_MAX_FROM, plan_merge, forward_add);
const td__layer_kind td__multiply_kind =
    KIND(plain_fields, td_plain_layer, 2, TD_MAX_FROM, plan_merge, forward_multiply);
const td__layer_kind td__concatenate_kind =
    KIND(concatenate_fields, td_concatenate_layer, 2, TD_MAX_FROM, plan_concatenate,
         forward_concatenate);
