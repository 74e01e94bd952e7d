/* dropout, gaussian_noise, activation, rescaling: element by element */
#include "nn/operators.h"

#include <math.h>

static const td__field dropout_fields[] = {
    TD__LAYER_FIELDS,
    TD__NUMBER(td_dropout_layer, rate, 0),
};
static const td__field noise_fields[] = {
    TD__LAYER_FIELDS,
    {.key = "stddev",
     .type = TD__FIELD_NUMBER,
     .offset = offsetof(td_gaussian_noise_layer, stddev)},
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
    .operators = operators_same};
const td__layer_kind td__activation_kind = {
    TD__KIND_OF_ONE(activation_fields, td_activation_layer, plan_same, forward_activation),
    .operators = operators_activation};
const td__layer_kind td__rescaling_kind = {
    TD__KIND_OF_ONE(rescaling_fields, td_rescaling_layer, plan_same, forward_rescaling),
    .operators = operators_rescaling};
const td__layer_kind td__gaussian_noise_kind = {
    TD__KIND_OF_ONE(noise_fields, td_gaussian_noise_layer, plan_same, forward_noise),
    .operators = operators_same};
