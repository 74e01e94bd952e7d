/* conv1d, conv2d: activation(convolution(x, kernel) + bias), channels last
 *
 * Output sizes, with k = (kernel - 1) * dilation + 1 for what a dilated kernel spans:
 *   valid           (in - k) / stride + 1, rounded down
 *   same, causal    in / stride, rounded up
 */
#include "nn/operators.h"

/* conv1d has one of each number where the others have two; the rest of the rows are shared. */
#define SHARED_FIELDS                                                                              \
    {.key = "padding",                                                                             \
     .type = TD__FIELD_WORD,                                                                       \
     .offset = offsetof(td_conv2d_layer, padding),                                                 \
     .words = &td__padding_words},                                                                 \
        TD__WORD(td_conv2d_layer, activation, td__activation_words, TD_LINEAR),                    \
        TD__NOT(td_conv2d_layer, no_bias, "use_bias"),                                             \
        TD__INITIALIZER(td_conv2d_layer, kernel_initializer, TD_GLOROT_UNIFORM),                   \
        TD__INITIALIZER(td_conv2d_layer, bias_initializer, TD_ZEROS),                              \
        TD__REGULARIZERS(td_conv2d_layer)

static const td__field fields1[] = {
    TD__LAYER_FIELDS,
    TD__INTEGER(td_conv2d_layer, filters, NULL, 0, 1),
    TD__INTEGER(td_conv2d_layer, kernel, "kernel_size", 0, 1),
    TD__INTEGER(td_conv2d_layer, stride, "strides", 1, 1),
    TD__INTEGER(td_conv2d_layer, dilation, "dilation_rate", 1, 1),
    TD__INTEGER(td_conv2d_layer, groups, NULL, 1, 1),
    SHARED_FIELDS,
};
static const td__field fields2[] = {
    TD__LAYER_FIELDS,
    TD__INTEGER(td_conv2d_layer, filters, NULL, 0, 1),
    TD__PAIR(td_conv2d_layer, kernel, "kernel_size", 0, 1),
    TD__PAIR(td_conv2d_layer, stride, "strides", 1, 1),
    TD__PAIR(td_conv2d_layer, dilation, "dilation_rate", 1, 1),
    TD__INTEGER(td_conv2d_layer, groups, NULL, 1, 1),
    SHARED_FIELDS,
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

static int64_t span(const td_conv2d_layer *options, int i) {
    return (options->kernel[i] - 1) * options->dilation[i] + 1;
}

/* Output sizes of a convolution over the first `spatial` dimensions of input. */
static td_status plan_forward(td__layer *layer, const td_shape *input, int spatial,
                              td_error *error) {
    const td_conv2d_layer *options = layer->options;
    int64_t in;
    td_status status = td__layer_need_rank(
        layer, input, spatial + 1, spatial == 1 ? "(steps, channels)" : "(height, width, channels)",
        error);
    status = status ? status : td__layer_need_last(layer, input, &in, error);
    if (status) {
        return status;
    }
    if (in % options->groups || options->filters % options->groups) {
        return td__layer_error(layer, error, TD_BAD_SHAPE,
                               "%lld groups do not divide %lld input channels and %lld filters",
                               (long long)options->groups, (long long)in,
                               (long long)options->filters);
    }
    if (options->padding == TD_PADDING_CAUSAL && spatial != 1) {
        return td__layer_error(layer, error, TD_INVALID, "causal padding is for conv1d");
    }
    td_shape output = *input;
    for (int i = 0; i < spatial; i++) {
        int64_t size = input->dims[i], stride = options->stride[i];
        if (size >= 0 && options->padding == TD_PADDING_VALID) {
            if (size < span(options, i)) {
                char text[TD_SHAPE_TEXT_SIZE], kernel[TD_SHAPE_TEXT_SIZE];
                td_shape spans = {.rank = spatial};
                for (int k = 0; k < spatial; k++) {
                    spans.dims[k] = span(options, k);
                }
                return td__layer_error(layer, error, TD_BAD_SHAPE,
                                       "a kernel that spans %s does not fit into its input %s",
                                       td_shape_text(&spans, kernel), td_shape_text(input, text));
            }
            output.dims[i] = (size - span(options, i)) / stride + 1;
        } else if (size >= 0) {
            output.dims[i] = (size + stride - 1) / stride;
        }
    }
    output.dims[spatial] = options->filters;
    layer->info.output = output;
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

static td__window window_of(const td_conv2d_layer *options, int spatial) {
    td__window window = {.spatial = spatial, .padding = options->padding};
    for (int i = 0; i < spatial; i++) {
        window.kernel[i] = options->kernel[i];
        window.stride[i] = options->stride[i];
        window.dilation[i] = options->dilation[i];
    }
    return window;
}

static const char *operators_over(const td__layer *layer, td__operators *to, const char *x,
                                  const td_shape *shape, int spatial) {
    const td_conv2d_layer *options = layer->options;
    td__window window = window_of(options, spatial);
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
