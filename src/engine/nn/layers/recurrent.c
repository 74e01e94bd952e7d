/* simple_rnn, lstm, gru: over (steps, in), to the last output or all of them */
#include "nn/operators.h"

#define ACTIVATION(member, default_value)                                                          \
    TD__FIELD(WORD, td_lstm_layer, member, .by_default = default_value,                            \
              .words = &td__activation_words, .number = true)
#define SHARED_FIELDS                                                                              \
    TD__LAYER_FIELDS, TD__INTEGER(td_lstm_layer, units, NULL, 0, 1),                               \
        TD__BOOL(td_lstm_layer, return_sequences), TD__BOOL(td_lstm_layer, go_backwards),          \
        ACTIVATION(activation, TD_TANH), TD__NOT(td_lstm_layer, no_bias, "use_bias"),              \
        TD__INITIALIZER(td_lstm_layer, kernel_initializer, TD_GLOROT_UNIFORM),                     \
        TD__INITIALIZER(td_lstm_layer, recurrent_initializer, TD_ORTHOGONAL),                      \
        TD__INITIALIZER(td_lstm_layer, bias_initializer, TD_ZEROS),                                \
        TD__REGULARIZERS(td_lstm_layer), TD__RATE(td_lstm_layer, dropout),                         \
        TD__RATE(td_lstm_layer, recurrent_dropout)

static const td__field simple_fields[] = {SHARED_FIELDS};
static const td__field lstm_fields[] = {
    SHARED_FIELDS,
    ACTIVATION(recurrent_activation, TD_SIGMOID),
    TD__NOT(td_lstm_layer, no_unit_forget_bias, "unit_forget_bias"),
};
static const td__field gru_fields[] = {
    SHARED_FIELDS,
    ACTIVATION(recurrent_activation, TD_SIGMOID),
    TD__NOT(td_lstm_layer, reset_before, "reset_after"),
};

enum { KERNEL, RECURRENT, BIAS };

/* *bias gets the bias's plan; it stays as it was without one. */
static td_status plan_recurrent(td__layer *layer, const td_shape *inputs, int64_t gates,
                                td_shape bias_shape, td__parameter_plan **bias, td_error *error) {
    td_lstm_layer *options = layer->options;
    int64_t in;
    td_status status = td__layer_need_rank(layer, inputs, 2, "(steps, features)", error);
    status = status ? status : td__layer_need_last(layer, inputs, &in, error);
    if (status) {
        return status;
    }
    if (options->dropout >= 1 || options->recurrent_dropout >= 1) {
        return td__layer_error(layer, error, TD_RANGE, "'%s' must be less than 1",
                               options->dropout >= 1 ? "dropout" : "recurrent_dropout");
    }
    int64_t units = options->units;
    td__layer_parameter(layer, KERNEL, "kernel", TD_SHAPE(in, gates * units),
                        options->kernel_initializer, options->kernel_l1, options->kernel_l2);
    td__layer_parameter(layer, RECURRENT, "recurrent_kernel", TD_SHAPE(units, gates * units),
                        options->recurrent_initializer, 0, 0);
    if (!options->no_bias) {
        *bias = td__layer_parameter(layer, BIAS, "bias", bias_shape, options->bias_initializer,
                                    options->bias_l1, options->bias_l2);
    }
    layer->info.output =
        options->return_sequences ? TD_SHAPE(inputs[0].dims[0], units) : TD_SHAPE(units);
    return TD_OK;
}

static td_status plan_simple(td__layer *layer, const td_shape *inputs, td_error *error) {
    const td_lstm_layer *options = layer->options;
    td__parameter_plan *bias = NULL;
    return plan_recurrent(layer, inputs, 1, TD_SHAPE(options->units), &bias, error);
}

static td_status plan_lstm(td__layer *layer, const td_shape *inputs, td_error *error) {
    const td_lstm_layer *options = layer->options;
    int64_t units = options->units;
    td__parameter_plan *bias = NULL;
    td_status status = plan_recurrent(layer, inputs, 4, TD_SHAPE(4 * units), &bias, error);
    if (!status && bias && !options->no_unit_forget_bias) {
        bias->ones_begin = units;
        bias->ones_end = 2 * units;
    }
    return status;
}

static td_status plan_gru(td__layer *layer, const td_shape *inputs, td_error *error) {
    const td_lstm_layer *options = layer->options;
    int64_t width = 3 * options->units;
    td__parameter_plan *bias = NULL;
    return plan_recurrent(layer, inputs, 3,
                          options->reset_before ? TD_SHAPE(width) : TD_SHAPE(2, width), &bias,
                          error);
}

/* Ones of which a share is dropped, the same at all steps; NULL outside of training. */
static td_tensor *dropped(td_tape *tape, double rate, td_shape shape) {
    if (rate == 0 || !td_tape_is_training(tape)) {
        return NULL;
    }
    td_tensor *ones = td__output(tape, TD_FLOAT32, &shape);
    for (int64_t i = 0; ones && i < ones->count; i++) {
        td__floats(ones)[i] = 1;
    }
    return td_dropout(tape, ones, (float)rate);
}

/* What the operations take; *x is the input with what dropout leaves of it. */
static td_recurrent_options operation_options(const td__layer *layer, td_tape *tape,
                                              td_tensor **x) {
    const td_lstm_layer *options = layer->options;
    const int64_t *dims = (*x)->shape.dims;
    td_tensor *kept = dropped(tape, options->dropout, TD_SHAPE(dims[0], 1, dims[2]));
    *x = kept ? td_multiply(tape, *x, kept) : *x;
    return (td_recurrent_options){.size = sizeof(td_recurrent_options),
                                  .return_sequences = options->return_sequences,
                                  .go_backwards = options->go_backwards,
                                  .activation = options->activation,
                                  .recurrent_activation = options->recurrent_activation,
                                  .mask = layer->masks[0],
                                  .state_scale = dropped(tape, options->recurrent_dropout,
                                                         TD_SHAPE(dims[0], options->units))};
}

static td_tensor *forward_simple(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    td_tensor *x = inputs[0];
    td_recurrent_options options = operation_options(layer, tape, &x);
    return td_simple_rnn(tape, x, layer->slot[KERNEL], layer->slot[RECURRENT], layer->slot[BIAS],
                         &options);
}
static td_tensor *forward_lstm(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    td_tensor *x = inputs[0];
    td_recurrent_options options = operation_options(layer, tape, &x);
    return td_lstm(tape, x, layer->slot[KERNEL], layer->slot[RECURRENT], layer->slot[BIAS],
                   &options);
}
static td_tensor *forward_gru(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    const td_lstm_layer *gru = layer->options;
    td_tensor *x = inputs[0];
    td_recurrent_options options = operation_options(layer, tape, &x);
    return td_gru(tape, x, layer->slot[KERNEL], layer->slot[RECURRENT], layer->slot[BIAS],
                  !gru->reset_before, &options);
}

/* --- as operators ------------------------------------------------------------------------- */

/* Names of activations inside of a recurrent operator, with up to two numbers. */
static const struct {
    const char *name;
    int numbers;
    float alpha, beta;
} inner[TD_ACTIVATION_COUNT] = {
    [TD_LINEAR] = {"Affine", 2, 1, 0},
    [TD_RELU] = {"Relu", 0, 0, 0},
    [TD_LEAKY_RELU] = {"LeakyRelu", 1, 0.2f, 0},
    [TD_ELU] = {"Elu", 0, 0, 0},
    [TD_SOFTPLUS] = {"Softplus", 0, 0, 0},
    [TD_SIGMOID] = {"Sigmoid", 0, 0, 0},
    [TD_TANH] = {"Tanh", 0, 0, 0},
    [TD_HARD_SIGMOID] = {"HardSigmoid", 2, 1 / 6.0f, 0.5f},
    [TD_HARD_SIGMOID_KERAS2] = {"HardSigmoid", 2, 0.2f, 0.5f},
    [TD_SOFTSIGN] = {"Softsign", 0, 0, 0},
};

/* (rows, gates * units) as (1, gates * units, rows), the gates in this order. */
static const char *gates_operator(td__operators *to, const char *kernel, int64_t rows,
                                  int64_t units, size_t gates, const int *order) {
    const char *turned = td__operator_transpose(to, kernel, 2, (const int64_t[]){1, 0});
    const char *parts[4], *sorted[4];
    const td__attribute axis = TD__NAMED_INT("axis", 0);
    td__operator_outputs(to, "Split", 1, &turned, 1, &axis, gates, parts);
    for (size_t i = 0; i < gates; i++) {
        sorted[i] = parts[order[i]];
    }
    const char *whole = gates > 1 ? td__operator(to, "Concat", gates, sorted, 1, &axis) : turned;
    return td__operator_reshape(to, whole, 3, (const int64_t[]){1, (int64_t)gates * units, rows});
}

/* The bias of the inputs, the gates in this order, and that of the state, which is 0. */
static const char *bias_operator(const td__layer *layer, td__operators *to, int64_t units,
                                 size_t gates, const int *order) {
    const char *bias = td__operator_parameter(to, layer, BIAS);
    int64_t width = (int64_t)gates * units;
    if (!bias) {
        return "";
    }
    if (layer->slot[BIAS]->count == 2 * width) { /* gru: both */
        return td__operator_reshape(to, bias, 2, (const int64_t[]){1, 2 * width});
    }
    const td__attribute axis = TD__NAMED_INT("axis", 0);
    const char *parts[5] = {bias}, *sorted[5];
    if (gates > 1) {
        td__operator_outputs(to, "Split", 1, &bias, 1, &axis, gates, parts);
    }
    for (size_t i = 0; i < gates; i++) {
        sorted[i] = parts[order[i]];
    }
    sorted[gates] = td__operator_filled(to, width, 0);
    return td__operator_reshape(to, td__operator(to, "Concat", gates + 1, sorted, 1, &axis), 2,
                                (const int64_t[]){1, 2 * width});
}

/* y (steps, 1, batch, units) as (batch, steps, units), in the order of going. */
static const char *sequence_operator(td__operators *to, const char *y, bool backwards) {
    const char *steps =
        TD__OPERATOR(to, "Squeeze", y, td__operator_integers(to, 1, (const int64_t[]){1}));
    steps = td__operator_transpose(to, steps, 3, (const int64_t[]){1, 0, 2});
    return backwards ? TD__OPERATOR(to, "Slice", steps,
                                    td__operator_integers(to, 1, (const int64_t[]){-1}),
                                    td__operator_integers(to, 1, (const int64_t[]){-INT64_MAX}),
                                    td__operator_integers(to, 1, (const int64_t[]){1}),
                                    td__operator_integers(to, 1, (const int64_t[]){-1}))
                     : steps;
}

/* functions: the activations, in the operator's order. */
static const char *recurrent_operators(const td__layer *layer, td__operators *to, const char *type,
                                       const char *x, size_t gates, const int *order,
                                       size_t function_count, const td_activation *functions,
                                       const td__attribute *more) {
    const td_lstm_layer *options = layer->options;
    const char *names[3];
    float alphas[3], betas[3];
    size_t alpha_count = 0, beta_count = 0;
    for (size_t i = 0; i < function_count; i++) {
        names[i] = inner[functions[i]].name;
        if (!names[i]) {
            return td__operator_refuse(to, "the operator %s has no activation %s", type,
                                       td__activation_words.words[functions[i]]);
        }
        if (inner[functions[i]].numbers > 0) {
            alphas[alpha_count++] = inner[functions[i]].alpha;
        }
        if (inner[functions[i]].numbers > 1) {
            betas[beta_count++] = inner[functions[i]].beta;
        }
    }
    int64_t units = options->units, in = layer->slot[KERNEL]->shape.dims[0];
    td__attribute attributes[6] = {
        TD__NAMED_INT("hidden_size", units),
        TD__NAMED_TEXT("direction", options->go_backwards ? "reverse" : "forward"),
        {.name = "activations", .type = TD__STRINGS, .texts = names, .count = function_count}};
    size_t used = 3;
    if (alpha_count) {
        attributes[used++] = (td__attribute){
            .name = "activation_alpha", .type = TD__REALS, .numbers = alphas, .count = alpha_count};
    }
    if (beta_count) {
        attributes[used++] = (td__attribute){
            .name = "activation_beta", .type = TD__REALS, .numbers = betas, .count = beta_count};
    }
    if (more) {
        attributes[used++] = *more;
    }
    const char *inputs[] = {
        td__operator_transpose(to, x, 3, (const int64_t[]){1, 0, 2}),
        gates_operator(to, td__operator_parameter(to, layer, KERNEL), in, units, gates, order),
        gates_operator(to, td__operator_parameter(to, layer, RECURRENT), units, units, gates,
                       order),
        bias_operator(layer, to, units, gates, order)};
    const char *outputs[2]; /* Y, Y_h (1, batch, units) */
    td__operator_outputs(to, type, 4, inputs, used, attributes, 2, outputs);
    return options->return_sequences
               ? sequence_operator(to, outputs[0], options->go_backwards)
               : TD__OPERATOR(to, "Squeeze", outputs[1],
                              td__operator_integers(to, 1, (const int64_t[]){0}));
}

static td_activation function(td_number checked) {
    return (td_activation)checked.value;
}

static const char *operators_simple(const td__layer *layer, td__operators *to,
                                    const char *const *inputs, const td_shape *shapes) {
    (void)shapes;
    const td_lstm_layer *options = layer->options;
    return recurrent_operators(layer, to, "RNN", inputs[0], 1, (const int[]){0}, 1,
                               &(td_activation){function(options->activation)}, NULL);
}

/* Gates here: input, forget, cell, output; there: input, output, forget, cell. */
static const char *operators_lstm(const td__layer *layer, td__operators *to,
                                  const char *const *inputs, const td_shape *shapes) {
    (void)shapes;
    const td_lstm_layer *options = layer->options;
    const td_activation functions[] = {function(options->recurrent_activation),
                                       function(options->activation),
                                       function(options->activation)};
    return recurrent_operators(layer, to, "LSTM", inputs[0], 4, (const int[]){0, 3, 1, 2}, 3,
                               functions, NULL);
}

static const char *operators_gru(const td__layer *layer, td__operators *to,
                                 const char *const *inputs, const td_shape *shapes) {
    (void)shapes;
    const td_lstm_layer *options = layer->options;
    const td_activation functions[] = {function(options->recurrent_activation),
                                       function(options->activation)};
    td__attribute after = TD__NAMED_INT("linear_before_reset", !options->reset_before);
    return recurrent_operators(layer, to, "GRU", inputs[0], 3, (const int[]){0, 1, 2}, 2, functions,
                               &after);
}

static bool has_mask(const td__layer *layer, bool any) {
    const td_lstm_layer *options = layer->options;
    return any && options->return_sequences;
}

#define KERAS                                                                                      \
    {"units", TD__KERAS_NUMBER, "units"}, {"activation", TD__KERAS_ACTIVATION, "activation"},      \
        {"return_sequences", TD__KERAS_SWITCH, "return_sequences"},                                \
        {"go_backwards", TD__KERAS_SWITCH, "go_backwards"},                                        \
        {"recurrent_initializer", TD__KERAS_INITIALIZER, "recurrent_initializer"},                 \
        {"dropout", TD__KERAS_NUMBER, "dropout"},                                                  \
        {"recurrent_dropout", TD__KERAS_NUMBER, "recurrent_dropout"},                              \
        {"unroll", TD__KERAS_IGNORED, NULL}, {"implementation", TD__KERAS_IGNORED, NULL},          \
        {"use_cudnn", TD__KERAS_IGNORED, NULL}, TD__KERAS_KERNEL_AND_BIAS
static const td__keras_option simple_keras[] = {KERAS};
static const td__keras_option lstm_keras[] = {
    KERAS,
    {"recurrent_activation", TD__KERAS_ACTIVATION, "recurrent_activation"},
    {"unit_forget_bias", TD__KERAS_SWITCH, "unit_forget_bias"}};
static const td__keras_option gru_keras[] = {
    KERAS,
    {"recurrent_activation", TD__KERAS_ACTIVATION, "recurrent_activation"},
    {"reset_after", TD__KERAS_SWITCH, "reset_after"}};

#define TORCH                                                                                      \
    TD__TORCH_MATRIX("weight_ih_l0", "kernel", ),                                                  \
        TD__TORCH_MATRIX("weight_hh_l0", "recurrent_kernel", ),                                    \
        TD__TORCH_VECTOR("bias_ih_l0", "bias", ),                                                  \
        TD__TORCH_VECTOR("bias_hh_l0", "bias", .add = true)
static const td__torch_weight simple_torch[] = {TORCH};
static const td__torch_weight lstm_torch[] = {TORCH}; /* i, f, g, o on both sides */
static const td__torch_weight gru_torch[] = {
    TD__TORCH_MATRIX("weight_ih_l0", "kernel", .gates = true),
    TD__TORCH_MATRIX("weight_hh_l0", "recurrent_kernel", .gates = true),
    TD__TORCH_VECTOR("bias_ih_l0", "bias", .row = 0, .rows = 2, .gates = true),
    TD__TORCH_VECTOR("bias_hh_l0", "bias", .row = 1, .rows = 2, .gates = true)};

#define KIND(what, torch_name)                                                                     \
    {                                                                                              \
        TD__KIND_OF_ONE(what##_fields, td_lstm_layer, plan_##what, forward_##what),                \
            TD__IS(RECURRENT, OTHER), TD__TORCH_WITH(torch_name, what##_torch),                    \
            TD__KERAS(what##_keras, CELL), .operators = operators_##what, .mask = td__mask_pass,   \
                                           .has_mask = has_mask, .reads_mask = true                \
    }
const td__layer_kind td__simple_rnn_kind = KIND(simple, "nn.RNN");
const td__layer_kind td__lstm_kind = KIND(lstm, "nn.LSTM");
const td__layer_kind td__gru_kind = KIND(gru, "nn.GRU");
