/* simple_rnn, lstm, gru: over (steps, in), to the last output or all of them */
#include "nn/layer.h"

#define SHARED_FIELDS                                                                              \
    TD__LAYER_FIELDS, TD__INTEGER(td_lstm_layer, units, NULL, 0, 1),                               \
        TD__BOOL(td_lstm_layer, return_sequences), TD__BOOL(td_lstm_layer, go_backwards),          \
        TD__WORD(td_lstm_layer, activation, td__activation_words, TD_TANH),                        \
        TD__NOT(td_lstm_layer, no_bias, "use_bias"),                                               \
        TD__INITIALIZER(td_lstm_layer, kernel_initializer, TD_GLOROT_UNIFORM),                     \
        TD__INITIALIZER(td_lstm_layer, recurrent_initializer, TD_ORTHOGONAL),                      \
        TD__INITIALIZER(td_lstm_layer, bias_initializer, TD_ZEROS),                                \
        TD__REGULARIZERS(td_lstm_layer)

static const td__field simple_fields[] = {SHARED_FIELDS};
static const td__field lstm_fields[] = {
    SHARED_FIELDS,
    TD__WORD(td_lstm_layer, recurrent_activation, td__activation_words, TD_SIGMOID),
    TD__NOT(td_lstm_layer, no_unit_forget_bias, "unit_forget_bias"),
};
static const td__field gru_fields[] = {
    SHARED_FIELDS,
    TD__WORD(td_lstm_layer, recurrent_activation, td__activation_words, TD_SIGMOID),
    TD__NOT(td_lstm_layer, reset_before, "reset_after"),
};

enum { KERNEL, RECURRENT, BIAS };

/* *bias gets the bias's plan; it stays as it was without one. */
static td_status plan(td__layer *layer, const td_shape *inputs, int64_t gates, td_shape bias_shape,
                      td__parameter_plan **bias, td_error *error) {
    td_lstm_layer *options = layer->options;
    int64_t in;
    td_status status = td__layer_need_rank(layer, inputs, 2, "(steps, features)", error);
    status = status ? status : td__layer_need_last(layer, inputs, &in, error);
    if (status) {
        return status;
    }
    if (options->linear) {
        options->activation = TD_LINEAR;
    }
    if (gates > 1 && options->recurrent_activation == TD_LINEAR) {
        return td__layer_error(layer, error, TD_UNSUPPORTED,
                               "'recurrent_activation' cannot be linear");
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
    return plan(layer, inputs, 1, TD_SHAPE(options->units), &bias, error);
}

static td_status plan_lstm(td__layer *layer, const td_shape *inputs, td_error *error) {
    const td_lstm_layer *options = layer->options;
    int64_t units = options->units;
    td__parameter_plan *bias = NULL;
    td_status status = plan(layer, inputs, 4, TD_SHAPE(4 * units), &bias, error);
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
    return plan(layer, inputs, 3, options->reset_before ? TD_SHAPE(width) : TD_SHAPE(2, width),
                &bias, error);
}

static td_recurrent_options operation_options(const td__layer *layer) {
    const td_lstm_layer *options = layer->options;
    return (td_recurrent_options){.size = sizeof(td_recurrent_options),
                                  .return_sequences = options->return_sequences,
                                  .go_backwards = options->go_backwards,
                                  .activation = options->activation,
                                  .recurrent_activation = options->recurrent_activation,
                                  .linear = options->activation == TD_LINEAR};
}

static td_tensor *forward_simple(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    td_recurrent_options options = operation_options(layer);
    return td_simple_rnn(tape, inputs[0], layer->slot[KERNEL], layer->slot[RECURRENT],
                         layer->slot[BIAS], &options);
}
static td_tensor *forward_lstm(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    td_recurrent_options options = operation_options(layer);
    return td_lstm(tape, inputs[0], layer->slot[KERNEL], layer->slot[RECURRENT], layer->slot[BIAS],
                   &options);
}
static td_tensor *forward_gru(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    const td_lstm_layer *gru = layer->options;
    td_recurrent_options options = operation_options(layer);
    return td_gru(tape, inputs[0], layer->slot[KERNEL], layer->slot[RECURRENT], layer->slot[BIAS],
                  !gru->reset_before, &options);
}

#define KIND(rows, plan_function, forward_function)                                                \
    { TD__KIND_OF_ONE(rows, td_lstm_layer, plan_function, forward_function) }
const td__layer_kind td__simple_rnn_kind = KIND(simple_fields, plan_simple, forward_simple);
const td__layer_kind td__lstm_kind = KIND(lstm_fields, plan_lstm, forward_lstm);
const td__layer_kind td__gru_kind = KIND(gru_fields, plan_gru, forward_gru);
