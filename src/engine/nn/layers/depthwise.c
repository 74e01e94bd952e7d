/* depthwise_conv1d, depthwise_conv2d: each channel convolved by itself, `multiplier` outputs for each;
 * separable_conv1d, separable_conv2d: that, then a product over channels
 *
 * Keras's kernel (h, w, in, multiplier) has the elements of a grouped convolution's, (h, w, 1, in *
 * multiplier), in the same order.
 */
#include "nn/operators.h"

/* Over steps there is one of each number. */
#define SHARED_FIELDS(NUMBERS)                                                                     \
    TD__LAYER_FIELDS, NUMBERS(td_depthwise_conv2d_layer, kernel, "kernel_size", 0, 1),             \
        NUMBERS(td_depthwise_conv2d_layer, stride, "strides", 1, 1),                               \
        NUMBERS(td_depthwise_conv2d_layer, dilation, "dilation_rate", 1, 1),                       \
        TD__INTEGER(td_depthwise_conv2d_layer, multiplier, "depth_multiplier", 1, 1),              \
        TD__PADDING(td_depthwise_conv2d_layer),                                                    \
        TD__WORD(td_depthwise_conv2d_layer, activation, td__activation_words, TD_LINEAR),          \
        TD__NOT(td_depthwise_conv2d_layer, no_bias, "use_bias"),                                   \
        TD__FIELD(INITIALIZER, td_depthwise_conv2d_layer, kernel_initializer,                      \
                  .alias = "depthwise_initializer", .by_default = TD_GLOROT_UNIFORM),              \
        TD__INITIALIZER(td_depthwise_conv2d_layer, bias_initializer, TD_ZEROS),                    \
        TD__REGULARIZERS(td_depthwise_conv2d_layer)

#define POINTWISE_FIELDS                                                                           \
    TD__INTEGER(td_depthwise_conv2d_layer, filters, NULL, 0, 1),                                   \
        TD__INITIALIZER(td_depthwise_conv2d_layer, pointwise_initializer, TD_GLOROT_UNIFORM)

static const td__field depthwise_fields1[] = {SHARED_FIELDS(TD__INTEGER)};
static const td__field depthwise_fields2[] = {SHARED_FIELDS(TD__PAIR)};
static const td__field separable_fields1[] = {SHARED_FIELDS(TD__INTEGER), POINTWISE_FIELDS};
static const td__field separable_fields2[] = {SHARED_FIELDS(TD__PAIR), POINTWISE_FIELDS};

enum { KERNEL, BIAS, POINTWISE };

static int spatial_of(const td__layer *layer) {
    return layer->info.kind == TD_LAYER_DEPTHWISE_CONV1D ||
                   layer->info.kind == TD_LAYER_SEPARABLE_CONV1D
               ? 1
               : 2;
}

/* The kernel's size in front of two more dimensions. */
static td_shape kernel_shape(const td__layer *layer, int64_t from, int64_t to) {
    const td_depthwise_conv2d_layer *options = layer->options;
    return spatial_of(layer) == 1 ? TD_SHAPE(options->kernel[0], from, to)
                                  : TD_SHAPE(options->kernel[0], options->kernel[1], from, to);
}

/* Output size and the depthwise kernel; *in gets the channels. */
static td_status plan(td__layer *layer, const td_shape *input, const char *kernel_name, int64_t *in,
                      td_error *error) {
    const td_depthwise_conv2d_layer *options = layer->options;
    td__window window = td__window_of(spatial_of(layer), options->kernel, options->stride,
                                      options->dilation, options->padding);
    td_status status = td__window_plan(layer, input, &window, "kernel that spans", error);
    status = status ? status : td__layer_need_last(layer, input, in, error);
    if (status) {
        return status;
    }
    layer->info.output.dims[window.spatial] = *in * options->multiplier;
    layer->activation = options->activation;
    td__layer_parameter(layer, KERNEL, kernel_name, kernel_shape(layer, *in, options->multiplier),
                        options->kernel_initializer, options->kernel_l1, options->kernel_l2);
    return TD_OK;
}

static void plan_bias(td__layer *layer, int64_t width) {
    const td_depthwise_conv2d_layer *options = layer->options;
    if (!options->no_bias) {
        td__layer_parameter(layer, BIAS, "bias", TD_SHAPE(width), options->bias_initializer,
                            options->bias_l1, options->bias_l2);
    }
}

static td_status plan_depthwise(td__layer *layer, const td_shape *inputs, td_error *error) {
    int64_t in;
    td_status status = plan(layer, inputs, "kernel", &in, error);
    if (!status) {
        plan_bias(layer, layer->info.output.dims[spatial_of(layer)]);
    }
    return status;
}

static td_status plan_separable(td__layer *layer, const td_shape *inputs, td_error *error) {
    const td_depthwise_conv2d_layer *options = layer->options;
    int64_t in;
    td_status status = plan(layer, inputs, "depthwise_kernel", &in, error);
    if (status) {
        return status;
    }
    int64_t between = in * options->multiplier;
    td__layer_parameter(layer, POINTWISE, "pointwise_kernel",
                        spatial_of(layer) == 1 ? TD_SHAPE(1, between, options->filters)
                                               : TD_SHAPE(1, 1, between, options->filters),
                        options->pointwise_initializer, 0, 0);
    plan_bias(layer, options->filters);
    layer->info.output.dims[spatial_of(layer)] = options->filters;
    return TD_OK;
}

typedef td_tensor *convolution(td_tape *tape, td_tensor *x, td_tensor *kernel, td_tensor *bias,
                               const td_conv_options *options);
static convolution *const convolutions[] = {NULL, td_conv1d, td_conv2d};

static td_tensor *depthwise(td__layer *layer, td_tape *tape, td_tensor *x, td_tensor *bias,
                            td_activation activation) {
    const td_depthwise_conv2d_layer *options = layer->options;
    int spatial = spatial_of(layer);
    td_tensor *kernel = layer->slot[KERNEL];
    int64_t channels = kernel->shape.dims[spatial];
    td_conv_options how = {.size = sizeof how,
                           .stride = {options->stride[0], options->stride[1]},
                           .dilation = {options->dilation[0], options->dilation[1]},
                           .groups = channels,
                           .padding = options->padding,
                           .activation = activation};
    td_shape grouped = kernel_shape(layer, 1, channels * options->multiplier);
    return convolutions[spatial](tape, x, td_reshape(tape, kernel, grouped), bias, &how);
}

static td_tensor *forward_depthwise(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    return depthwise(layer, tape, inputs[0], layer->slot[BIAS], layer->fused);
}

static td_tensor *forward_separable(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    td_tensor *channels = depthwise(layer, tape, inputs[0], NULL, TD_LINEAR);
    td_conv_options how = {.size = sizeof how, .activation = layer->fused};
    return convolutions[spatial_of(layer)](tape, channels, layer->slot[POINTWISE],
                                           layer->slot[BIAS], &how);
}

/* --- as operators ----------------------------------------------------------------------------- */

/* A kernel (…spatial, in, out) as (out, in, …spatial). */
static const char *turned(td__operators *to, const char *kernel, int spatial) {
    static const int64_t orders[][4] = {{0}, {2, 1, 0}, {3, 2, 0, 1}};
    return td__operator_transpose(to, kernel, (size_t)spatial + 2, orders[spatial]);
}

/* As a grouped convolution. */
static const char *depthwise_operators(const td__layer *layer, td__operators *to, const char *x,
                                       const char *bias, const td_shape *shape) {
    const td_depthwise_conv2d_layer *options = layer->options;
    int spatial = spatial_of(layer);
    int64_t channels = layer->slot[KERNEL]->shape.dims[spatial];
    td__window window = {.spatial = spatial,
                         .kernel = {options->kernel[0], options->kernel[1]},
                         .stride = {options->stride[0], options->stride[1]},
                         .dilation = {options->dilation[0], options->dilation[1]},
                         .padding = options->padding};
    size_t used = td__operator_window(&window, shape);
    window.attributes[used++] = TD__NAMED_INT("group", channels);
    td_shape grouped = kernel_shape(layer, 1, channels * options->multiplier);
    const char *kernel = td__operator_reshape(to, td__operator_parameter(to, layer, KERNEL),
                                              (size_t)grouped.rank, grouped.dims);
    const char *inputs[] = {x, turned(to, kernel, spatial), bias};
    return td__operator(to, "Conv", bias ? 3 : 2, inputs, used, window.attributes);
}

static const char *operators_depthwise(const td__layer *layer, td__operators *to,
                                       const char *const *inputs, const td_shape *shapes) {
    int spatial = spatial_of(layer);
    const char *x = td__operator_channels_first(to, inputs[0], spatial);
    const char *y =
        depthwise_operators(layer, to, x, td__operator_parameter(to, layer, BIAS), shapes);
    return td__operator_channels_last(to, y, spatial);
}

static const char *operators_separable(const td__layer *layer, td__operators *to,
                                       const char *const *inputs, const td_shape *shapes) {
    int spatial = spatial_of(layer);
    const char *x = td__operator_channels_first(to, inputs[0], spatial);
    const char *bias = td__operator_parameter(to, layer, BIAS);
    const char *both[] = {depthwise_operators(layer, to, x, NULL, shapes),
                          turned(to, td__operator_parameter(to, layer, POINTWISE), spatial), bias};
    return td__operator_channels_last(to, td__operator(to, "Conv", bias ? 3 : 2, both, 0, NULL),
                                      spatial);
}

#define KERAS                                                                                      \
    {"depth_multiplier", TD__KERAS_NUMBER, "multiplier"}, {"groups", TD__KERAS_ONE, NULL},         \
        {"depthwise_initializer", TD__KERAS_INITIALIZER, "kernel_initializer"},                    \
        {"depthwise_regularizer", TD__KERAS_REGULARIZER, "kernel"}, TD__KERAS_BIAS_ROWS,           \
        TD__KERAS_WINDOW
static const td__keras_option depthwise_keras[] = {KERAS};
static const td__keras_option separable_keras[] = {
    {"filters", TD__KERAS_NUMBER, "filters"},
    {"pointwise_initializer", TD__KERAS_INITIALIZER, "pointwise_initializer"},
    KERAS};
#define KIND(what, axes, torch_name)                                                               \
    {                                                                                              \
        TD__KIND_OF_ONE(what##_fields##axes, td_depthwise_conv2d_layer, plan_##what,               \
                        forward_##what),                                                           \
            TD__IS(LINEAR, OTHER), .torch = {.name = (torch_name), .channels_first = (axes) == 1}, \
                                   TD__KERAS(what##_keras, VARS), .has_activation = true,          \
                                   .operators = operators_##what                                   \
    }
const td__layer_kind td__depthwise_conv1d_kind = KIND(depthwise, 1, "nn.Conv1d(groups=channels)");
const td__layer_kind td__depthwise_conv2d_kind = KIND(depthwise, 2, "nn.Conv2d(groups=channels)");
const td__layer_kind td__separable_conv1d_kind = KIND(separable, 1, "");
const td__layer_kind td__separable_conv2d_kind = KIND(separable, 2, "");
