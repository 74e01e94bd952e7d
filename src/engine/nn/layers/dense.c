/* dense: activation(x kernel + bias) over the last axis */
#include "nn/operators.h"

static const td__field fields[] = {
    TD__LAYER_FIELDS,
    TD__INTEGER(td_dense_layer, units, NULL, 0, 1),
    TD__WORD(td_dense_layer, activation, td__activation_words, TD_LINEAR),
    TD__NOT(td_dense_layer, no_bias, "use_bias"),
    TD__INITIALIZER(td_dense_layer, kernel_initializer, TD_GLOROT_UNIFORM),
    TD__INITIALIZER(td_dense_layer, bias_initializer, TD_ZEROS),
    TD__REGULARIZERS(td_dense_layer),
};

static td_status plan_dense(td__layer *layer, const td_shape *inputs, td_error *error) {
    const td_dense_layer *options = layer->options;
    int64_t in;
    td_status status = td__layer_need_last(layer, inputs, &in, error);
    if (status) {
        return status;
    }
    td__layer_parameter(layer, 0, "kernel", TD_SHAPE(in, options->units),
                        options->kernel_initializer, options->kernel_l1, options->kernel_l2);
    if (!options->no_bias) {
        td__layer_parameter(layer, 1, "bias", TD_SHAPE(options->units), options->bias_initializer,
                            options->bias_l1, options->bias_l2);
    }
    layer->activation = options->activation;
    layer->info.output = inputs[0];
    layer->info.output.dims[inputs[0].rank - 1] = options->units;
    return TD_OK;
}

static td_tensor *forward_dense(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    return td_dense(tape, inputs[0], layer->slot[0], layer->slot[1], layer->fused);
}

static const char *dense_operators(const td__layer *layer, td__operators *to,
                                   const char *const *inputs, const td_shape *shapes) {
    (void)shapes;
    const char *product =
        TD__OPERATOR(to, "MatMul", inputs[0], td__operator_parameter(to, layer, 0));
    return layer->slot[1] ? TD__OPERATOR(to, "Add", product, td__operator_parameter(to, layer, 1))
                          : product;
}

static const td__keras_option keras[] = {{"units", TD__KERAS_NUMBER, "units"},
                                         {"activation", TD__KERAS_ACTIVATION, "activation"},
                                         TD__KERAS_KERNEL_AND_BIAS};
static const td__torch_weight torch[] = {TD__TORCH_MATRIX("weight", "kernel", ), /* (out, in) */
                                         TD__TORCH_VECTOR("bias", "bias", )};
const td__layer_kind td__dense_kind = {
    TD__KIND_OF_ONE(fields, td_dense_layer, plan_dense, forward_dense),
    TD__IS(LINEAR, MIXED),
    .unit_axis = 1,
    TD__TORCH_WITH("nn.Linear", torch),
    TD__KERAS(keras, VARS),
    .has_activation = true,
    .operators = dense_operators,
    .mask = td__mask_pass};
