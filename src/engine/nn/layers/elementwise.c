/* activation, relu, prelu, rescaling, identity: element by element */
#include "nn/operators.h"

#include <math.h>

static const td__field activation_fields[] = {
    TD__LAYER_FIELDS,
    TD__FIELD(WORD, td_activation_layer, function, .alias = "activation", .by_default = TD_LINEAR,
              .words = &td__activation_words),
    TD__FIELD(NUMBER, td_activation_layer, alpha, .alias = "negative_slope", .number = true,
              .no_default = true, .quiet = true),
};
static const td__field relu_fields[] = {
    TD__LAYER_FIELDS,
    TD__FIELD(NUMBER, td_relu_layer, max_value, .number = true, .no_default = true, .quiet = true),
    TD__AMOUNT(td_relu_layer, negative_slope),
    TD__FIELD(NUMBER, td_relu_layer, threshold),
};
static const td__field prelu_fields[] = {
    TD__LAYER_FIELDS,
    TD__FIELD(SHAPE, td_prelu_layer, shared_axes, .minimum = 1, .quiet = true),
    TD__INITIALIZER(td_prelu_layer, alpha_initializer, TD_ZEROS),
    TD__RATE(td_prelu_layer, alpha_l1),
    TD__RATE(td_prelu_layer, alpha_l2),
};
static const td__field identity_fields[] = {TD__LAYER_FIELDS};
static const td__field rescaling_fields[] = {
    TD__LAYER_FIELDS,
    TD__FIELD(NUMBER, td_rescaling_layer, scale, .by_default = 1, .minimum = -HUGE_VAL,
              .number = true),
    TD__FIELD(NUMBER, td_rescaling_layer, offset, .minimum = -HUGE_VAL),
};

static td_status plan_same(td__layer *layer, const td_shape *inputs, td_error *error) {
    (void)error;
    layer->info.output = inputs[0];
    return TD_OK;
}

static td_tensor *forward_activation(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    const td_activation_layer *options = layer->options;
    return td_activate(tape, inputs[0], options->function, options->alpha);
}

static td_tensor *forward_rescaling(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    const td_rescaling_layer *options = layer->options;
    return td_affine(tape, inputs[0], (float)options->scale.value, (float)options->offset);
}

static td_tensor *forward_identity(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    (void)layer;
    return inputs[0] ? td_reshape(tape, inputs[0], inputs[0]->shape) : NULL;
}

/* --- relu with options ---------------------------------------------------------------------- */

/* 1 where x is above the threshold, else 0; no gradient goes through it. */
static td_tensor *above(td_tape *tape, td_tensor *x, float threshold) {
    td_tensor *mask = x ? td__output(tape, TD_FLOAT32, &x->shape) : NULL;
    for (int64_t i = 0; mask && i < mask->count; i++) {
        td__floats(mask)[i] = td__floats(x)[i] > threshold ? 1 : 0;
    }
    return mask;
}

/* x where it is above the threshold, clipped to [0, max_value] when there is a maximum, less slope *
 * relu(threshold - x); as Keras has it, also where these do not fit each other. */
static td_tensor *forward_relu(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    const td_relu_layer *options = layer->options;
    td_tensor *x = inputs[0];
    float threshold = (float)options->threshold, slope = (float)options->negative_slope;
    if (slope != 0 && threshold == 0 && !options->max_value.set) {
        return td_activate(tape, x, TD_LEAKY_RELU, TD_SET(slope));
    }
    if (slope == 0 && threshold == 0 && options->max_value.set && options->max_value.value == 6) {
        return td_activate(tape, x, TD_RELU6, TD_DEFAULT);
    }
    td_tensor *y =
        threshold == 0 ? td_relu(tape, x) : td_multiply(tape, x, above(tape, x, threshold));
    y = options->max_value.set ? td_clip(tape, y, 0, (float)options->max_value.value) : y;
    if (slope != 0) {
        td_tensor *below = td_relu(tape, td_affine(tape, x, -1, threshold));
        y = td_subtract(tape, y, td_affine(tape, below, slope, 0));
    }
    return y;
}

static const char *operators_relu(const td__layer *layer, td__operators *to,
                                  const char *const *inputs, const td_shape *shapes) {
    (void)shapes;
    const td_relu_layer *options = layer->options;
    const char *x = inputs[0];
    double slope = options->negative_slope;
    if (slope != 0 && options->threshold == 0 && !options->max_value.set) {
        return td__operator_activation(to, x, TD_LEAKY_RELU, TD_SET(slope));
    }
    const char *y = TD__OPERATOR(to, "Relu", x);
    if (options->threshold != 0) {
        const char *over =
            TD__OPERATOR(to, "Greater", x, td__operator_number(to, options->threshold));
        y = TD__OPERATOR(to, "Where", over, x, td__operator_number(to, 0));
    }
    if (options->max_value.set) {
        y = TD__OPERATOR(to, "Clip", y, td__operator_number(to, 0),
                         td__operator_number(to, options->max_value.value));
    }
    if (slope != 0) {
        const char *below = TD__OPERATOR(
            to, "Relu", TD__OPERATOR(to, "Sub", td__operator_number(to, options->threshold), x));
        y = TD__OPERATOR(to, "Sub", y,
                         TD__OPERATOR(to, "Mul", below, td__operator_number(to, slope)));
    }
    return y;
}

/* --- prelu ---------------------------------------------------------------------------------- */

static td_status plan_prelu(td__layer *layer, const td_shape *inputs, td_error *error) {
    const td_prelu_layer *options = layer->options;
    td_shape shape = inputs[0];
    for (int32_t i = 0; i < options->shared_axes.rank; i++) {
        int64_t axis = options->shared_axes.dims[i];
        if (axis < 1 || axis > shape.rank) {
            char text[TD_SHAPE_TEXT_SIZE];
            return td__layer_error(layer, error, TD_BAD_SHAPE,
                                   "'shared_axes' has %lld, its input %s has axes 1 to %d",
                                   (long long)axis, td_shape_text(inputs, text), (int)shape.rank);
        }
        shape.dims[axis - 1] = 1;
    }
    for (int32_t i = 0; i < shape.rank; i++) {
        if (shape.dims[i] < 0) {
            return td__layer_error(layer, error, TD_BAD_SHAPE,
                                   "its input has a size that is not known along axis %d: put it "
                                   "into 'shared_axes'",
                                   (int)i + 1);
        }
    }
    td__layer_parameter(layer, 0, "alpha", shape, options->alpha_initializer, options->alpha_l1,
                        options->alpha_l2);
    layer->info.output = inputs[0];
    return TD_OK;
}

static td_tensor *forward_prelu(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    return td__prelu(tape, inputs[0], layer->slot[0]);
}

static const char *operators_prelu(const td__layer *layer, td__operators *to,
                                   const char *const *inputs, const td_shape *shapes) {
    (void)shapes;
    return TD__OPERATOR(to, "PRelu", inputs[0], td__operator_parameter(to, layer, 0));
}

/* --- as operators --------------------------------------------------------------------------- */

static const char *operators_same(const td__layer *layer, td__operators *to,
                                  const char *const *inputs, const td_shape *shapes) {
    (void)layer, (void)shapes;
    return TD__OPERATOR(to, "Identity", inputs[0]);
}
static const char *operators_activation(const td__layer *layer, td__operators *to,
                                        const char *const *inputs, const td_shape *shapes) {
    const td_activation_layer *options = layer->options;
    return options->function == TD_LINEAR
               ? operators_same(layer, to, inputs, shapes)
               : td__operator_activation(to, inputs[0], options->function, options->alpha);
}
static const char *operators_rescaling(const td__layer *layer, td__operators *to,
                                       const char *const *inputs, const td_shape *shapes) {
    (void)shapes;
    const td_rescaling_layer *options = layer->options;
    const char *scaled =
        TD__OPERATOR(to, "Mul", inputs[0], td__operator_number(to, options->scale.value));
    return TD__OPERATOR(to, "Add", scaled, td__operator_number(to, options->offset));
}

static const td__keras_option activation_keras[] = {
    {"activation", TD__KERAS_ACTIVATION, "function"}};
static const td__keras_option rescaling_keras[] = {{"scale", TD__KERAS_NUMBER, "scale"},
                                                   {"offset", TD__KERAS_NUMBER, "offset"}};
static const td__keras_option relu_keras[] = {
    {"max_value", TD__KERAS_NUMBER, "max_value"},
    {"negative_slope", TD__KERAS_NUMBER, "negative_slope"},
    {"threshold", TD__KERAS_NUMBER, "threshold"}};
static const td__keras_option prelu_keras[] = {
    {"alpha_initializer", TD__KERAS_INITIALIZER, "alpha_initializer"},
    {"alpha_regularizer", TD__KERAS_REGULARIZER, "alpha"},
    {"shared_axes", TD__KERAS_NUMBERS, "shared_axes"}};

const td__layer_kind td__activation_kind = {
    TD__KIND_OF_ONE(activation_fields, td_activation_layer, plan_same, forward_activation),
    TD__IS(ACTIVATION, KEPT),
    TD__TORCH(""),
    TD__KERAS(activation_keras, VARS),
    .operators = operators_activation,
    .mask = td__mask_pass};
const td__layer_kind td__rescaling_kind = {
    TD__KIND_OF_ONE(rescaling_fields, td_rescaling_layer, plan_same, forward_rescaling),
    TD__IS(SCALING, KEPT),
    TD__TORCH(""),
    TD__KERAS(rescaling_keras, VARS),
    .operators = operators_rescaling,
    .mask = td__mask_pass};
const td__layer_kind td__relu_kind = {
    TD__KIND_OF_ONE(relu_fields, td_relu_layer, plan_same, forward_relu),
    .automatic = "re_lu",
    TD__IS(ACTIVATION, KEPT),
    TD__TORCH("nn.ReLU, nn.Threshold"),
    TD__KERAS(relu_keras, VARS),
    .acts_as = TD_LEAKY_RELU,
    .operators = operators_relu,
    .mask = td__mask_pass};
const td__layer_kind td__prelu_kind = {
    TD__KIND_OF_ONE(prelu_fields, td_prelu_layer, plan_prelu, forward_prelu),
    TD__IS(ACTIVATION, KEPT),
    TD__TORCH("nn.PReLU"),
    TD__KERAS(prelu_keras, VARS),
    .acts_as = TD_LEAKY_RELU,
    .automatic = "p_re_lu",
    .operators = operators_prelu,
    .mask = td__mask_pass};
const td__layer_kind td__identity_kind = {
    TD__KIND_OF_ONE(identity_fields, td_identity_layer, plan_same, forward_identity),
    TD__IS(SHAPE, KEPT),
    TD__TORCH("nn.Identity"),
    TD__KERAS_PLAIN,
    .operators = operators_same,
    .mask = td__mask_pass};
