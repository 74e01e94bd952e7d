/* conv1d, conv2d: activation(convolution(x, kernel) + bias), channels last; window.c has its sizes */
#include "nn/operators.h"

/* conv1d has one of each number where the other has two. */
static const td__field fields1[] = {
    TD__LAYER_FIELDS,
    TD__CONVOLUTION_SIZES(td_conv2d_layer, TD__INTEGER),
    TD__CONVOLUTION_REST(td_conv2d_layer),
};
static const td__field fields2[] = {
    TD__LAYER_FIELDS,
    TD__CONVOLUTION_SIZES(td_conv2d_layer, TD__PAIR),
    TD__CONVOLUTION_REST(td_conv2d_layer),
};
/* What the plans share once the output's size is known: kernel and bias. */
static void plan_parameters(td__layer *layer, td_shape kernel) {
    const td_conv2d_layer *options = layer->options;
    td__layer_parameter(layer, 0, "kernel", kernel, options->kernel_initializer, options->kernel_l1,
                        options->kernel_l2);
    if (!options->no_bias) {
        td__layer_parameter(layer, 1, "bias", TD_SHAPE(options->filters), options->bias_initializer,
                            options->bias_l1, options->bias_l2);
    }
    layer->activation = options->activation;
}

static td__window window_of(const td__layer *layer, int spatial) {
    const td_conv2d_layer *options = layer->options;
    return td__window_of(spatial, options->kernel, options->stride, options->dilation,
                         options->padding);
}

/* A convolution over the first `spatial` dimensions of input. */
static td_status plan_forward(td__layer *layer, const td_shape *input, int spatial,
                              td_error *error) {
    const td_conv2d_layer *options = layer->options;
    td__window window = window_of(layer, spatial);
    if (spatial == 1 && window.padding == TD_PADDING_CAUSAL) {
        window.padding = TD_PADDING_SAME; /* of the same size */
    }
    int64_t in = 0;
    td_status status = td__window_plan(layer, input, &window, "kernel that spans", error);
    status = status ? status : td__layer_need_last(layer, input, &in, error);
    status = status ? status
                    : td__layer_need_groups(layer, options->groups, in, options->filters, error);
    if (status) {
        return status;
    }
    layer->info.output.dims[spatial] = options->filters;
    td_shape kernel = {.rank = spatial + 2};
    for (int i = 0; i < spatial; i++) {
        kernel.dims[i] = options->kernel[i];
    }
    kernel.dims[spatial] = in / options->groups;
    kernel.dims[spatial + 1] = options->filters;
    plan_parameters(layer, kernel);
    return TD_OK;
}

static td_status plan1(td__layer *layer, const td_shape *inputs, td_error *error) {
    return plan_forward(layer, inputs, 1, error);
}
static td_status plan2(td__layer *layer, const td_shape *inputs, td_error *error) {
    return plan_forward(layer, inputs, 2, error);
}

static td_conv_options operation_options(const td__layer *layer) {
    const td_conv2d_layer *options = layer->options;
    return (td_conv_options){.size = sizeof(td_conv_options),
                             .stride = {options->stride[0], options->stride[1]},
                             .dilation = {options->dilation[0], options->dilation[1]},
                             .groups = options->groups,
                             .padding = options->padding,
                             .activation = layer->fused};
}

static td_tensor *forward1(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    td_conv_options options = operation_options(layer);
    return td_conv1d(tape, inputs[0], layer->slot[0], layer->slot[1], &options);
}
static td_tensor *forward2(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    td_conv_options options = operation_options(layer);
    return td_conv2d(tape, inputs[0], layer->slot[0], layer->slot[1], &options);
}
/* --- as operators ------------------------------------------------------------------------- */

static const char *operators_over(const td__layer *layer, td__operators *to, const char *x,
                                  const td_shape *shape, int spatial) {
    const td_conv2d_layer *options = layer->options;
    td__window window = window_of(layer, spatial);
    size_t count = td__operator_window(&window, shape);
    return td__operator_convolve(to, "Conv", layer, x, &window, count, options->groups);
}

static const char *operators1(const td__layer *layer, td__operators *to, const char *const *inputs,
                              const td_shape *shapes) {
    return operators_over(layer, to, inputs[0], shapes, 1);
}
static const char *operators2(const td__layer *layer, td__operators *to, const char *const *inputs,
                              const td_shape *shapes) {
    return operators_over(layer, to, inputs[0], shapes, 2);
}

static const td__keras_option keras[] = {TD__KERAS_CONVOLUTION};
static const td__torch_weight torch1[] = {TD__TORCH_KERNEL(3, 2, 1, 0),
                                          TD__TORCH_VECTOR("bias", "bias", )};
static const td__torch_weight torch2[] = {TD__TORCH_KERNEL(4, 2, 3, 1, 0),
                                          TD__TORCH_VECTOR("bias", "bias", )};

#define KIND(axes)                                                                                 \
    {                                                                                              \
        TD__KIND_OF_ONE(fields##axes, td_conv2d_layer, plan##axes, forward##axes),                 \
            TD__IS(LINEAR, OTHER),                                                                 \
            .unit_axis = 1, TD__KERAS(keras, VARS),                                                \
            .torch = {"nn.Conv" #axes "d", torch##axes, TD__COUNT(torch##axes), (axes) == 1},      \
            .has_activation = true, .operators = operators##axes                                   \
    }
const td__layer_kind td__conv1d_kind = KIND(1);
const td__layer_kind td__conv2d_kind = KIND(2);
