/* dropout, gaussian_noise, activation, rescaling: element by element */
#include "nn/operators.h"

#include <math.h>

static const td__field dropout_fields[] = {
    TD__LAYER_FIELDS,
    TD__NUMBER(td_dropout_layer, rate, 0),
    {.key = "noise_shape",
     .type = TD__FIELD_SHAPE,
     .offset = offsetof(td_dropout_layer, noise_shape),
     .minimum = -1,
     .quiet = true},
};
static const td__field noise_fields[] = {
    TD__LAYER_FIELDS,
    {.key = "stddev",
     .type = TD__FIELD_NUMBER,
     .offset = offsetof(td_gaussian_noise_layer, stddev)},
};
static const td__field activation_fields[] = {
    TD__LAYER_FIELDS,
    {.key = "function",
     .alias = "activation",
     .type = TD__FIELD_WORD,
     .offset = offsetof(td_activation_layer, function),
     .standard = TD_LINEAR,
     .words = &td__activation_words},
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
    const td_shape *noise = &options->noise_shape;
    bool fits = noise->rank == 0 || noise->rank == inputs[0].rank;
    for (int32_t i = 0; fits && i < noise->rank; i++) {
        fits = noise->dims[i] == 1 || noise->dims[i] == -1 || noise->dims[i] == inputs[0].dims[i];
    }
    if (!fits) {
        char a[TD_SHAPE_TEXT_SIZE], b[TD_SHAPE_TEXT_SIZE];
        return td__layer_error(layer, error, TD_BAD_SHAPE,
                               "'noise_shape' %s does not fit its input %s: each dimension is 1 or "
                               "as there (of one example)",
                               td_shape_text(noise, a), td_shape_text(inputs, b));
    }
    return plan_same(layer, inputs, error);
}
static td_tensor *forward_dropout(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    const td_dropout_layer *options = layer->options;
    td_tensor *x = inputs[0];
    if (options->noise_shape.rank == 0 || !td_tape_is_training(tape)) {
        return td_dropout(tape, x, (float)options->rate);
    }
    td_shape shape = x->shape;
    for (int32_t i = 1; i < shape.rank; i++) {
        shape.dims[i] = options->noise_shape.dims[i - 1] == 1 ? 1 : shape.dims[i];
    }
    td_tensor *ones = td__output(tape, TD_FLOAT32, &shape);
    for (int64_t i = 0; ones && i < ones->count; i++) {
        td__floats(ones)[i] = 1;
    }
    return td_multiply(tape, x, td_dropout(tape, ones, (float)options->rate));
}

static td_tensor *forward_noise(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    const td_gaussian_noise_layer *options = layer->options;
    return td_gaussian_noise(tape, inputs[0], (float)options->stddev);
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

/* In inference nothing happens. */
static const char *operators_same(const td__layer *layer, td__operators *to,
                                  const char *const *inputs, const td_shape *shapes) {
    (void)layer, (void)shapes;
    return TD__OPERATOR(to, "Identity", inputs[0]);
}
static const char *operators_activation(const td__layer *layer, td__operators *to,
                                        const char *const *inputs, const td_shape *shapes) {
    const td_activation_layer *options = layer->options;
    bool zero = options->alpha_given && options->alpha == 0;
    return options->function == TD_LINEAR
               ? operators_same(layer, to, inputs, shapes)
               : td__operator_activation(to, inputs[0], options->function,
                                         zero ? TD_ZERO : options->alpha);
}
static const char *operators_rescaling(const td__layer *layer, td__operators *to,
                                       const char *const *inputs, const td_shape *shapes) {
    (void)shapes;
    const td_rescaling_layer *options = layer->options;
    const char *scaled =
        TD__OPERATOR(to, "Mul", inputs[0], td__operator_number(to, options->scale));
    return TD__OPERATOR(to, "Add", scaled, td__operator_number(to, options->offset));
}

const td__layer_kind td__dropout_kind = {
    TD__KIND_OF_ONE(dropout_fields, td_dropout_layer, plan_dropout, forward_dropout),
    .operators = operators_same, .mask = td__mask_pass};
const td__layer_kind td__activation_kind = {
    TD__KIND_OF_ONE(activation_fields, td_activation_layer, plan_same, forward_activation),
    .operators = operators_activation, .mask = td__mask_pass};
const td__layer_kind td__rescaling_kind = {
    TD__KIND_OF_ONE(rescaling_fields, td_rescaling_layer, plan_same, forward_rescaling),
    .operators = operators_rescaling, .mask = td__mask_pass};
const td__layer_kind td__gaussian_noise_kind = {
    TD__KIND_OF_ONE(noise_fields, td_gaussian_noise_layer, plan_same, forward_noise),
    .operators = operators_same, .mask = td__mask_pass};
