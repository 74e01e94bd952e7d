/* conv3d, max_pool3d, average_pool3d, global pools and up_sampling3d: over (depth, height, width,
 * channels), by what there is for images
 *
 * A convolution over depth too is one over images whose channels are those of as many planes as the
 * kernel is deep: y[d] = conv2d(concatenate of x[d * stride + k * dilation], kernel). A pool is one
 * over the planes and then one over depth, since maxima and means (each over what there is) are.
 */
#include "nn/operators.h"
#include "tape/pick.h"

#define VOLUME "(depth, height, width, channels)"
enum { SPATIAL = 3 };

static const td__field conv_fields[] = {
    TD__LAYER_FIELDS,
    TD__INTEGER(td_conv3d_layer, filters, NULL, 0, 1),
    TD__TRIPLE(td_conv3d_layer, kernel, "kernel_size", 0, 1),
    TD__TRIPLE(td_conv3d_layer, stride, "strides", 1, 1),
    TD__TRIPLE(td_conv3d_layer, dilation, "dilation_rate", 1, 1),
    TD__INTEGER(td_conv3d_layer, groups, NULL, 1, 1),
    TD__WORD(td_conv3d_layer, padding, td__padding_words, TD_PADDING_VALID),
    TD__WORD(td_conv3d_layer, activation, td__activation_words, TD_LINEAR),
    TD__NOT(td_conv3d_layer, no_bias, "use_bias"),
    TD__INITIALIZER(td_conv3d_layer, kernel_initializer, TD_GLOROT_UNIFORM),
    TD__INITIALIZER(td_conv3d_layer, bias_initializer, TD_ZEROS),
    TD__REGULARIZERS(td_conv3d_layer),
};
static const td__field pool_fields[] = {
    TD__LAYER_FIELDS,
    {.key = "size",
     .alias = "pool_size",
     .type = TD__FIELD_TRIPLE,
     .offset = offsetof(td_max_pool3d_layer, window),
     .standard = 2,
     .minimum = 1},
    TD__TRIPLE(td_max_pool3d_layer, stride, "strides", 0, 0),
    TD__WORD(td_max_pool3d_layer, padding, td__padding_words, TD_PADDING_VALID),
};
static const td__field global_fields[] = {
    TD__LAYER_FIELDS,
    {.key = "keepdims",
     .type = TD__FIELD_BOOL,
     .offset = offsetof(td_global_pool_layer, keepdims),
     .quiet = true},
};
static const td__field up_fields[] = {
    TD__LAYER_FIELDS,
    {.key = "size",
     .type = TD__FIELD_TRIPLE,
     .offset = offsetof(td_up_sampling3d_layer, factor),
     .standard = 2,
     .minimum = 1},
};

/* Output sizes of windows over the three dimensions. */
static td_status plan_windows(td__layer *layer, const td_shape *input, const int64_t *span,
                              const int64_t *stride, td_padding padding, td_error *error) {
    td_status status = td__layer_need_rank(layer, input, SPATIAL + 1, VOLUME, error);
    if (!status && padding == TD_PADDING_CAUSAL) {
        status = td__layer_error(layer, error, TD_INVALID, "causal padding is for conv1d");
    }
    layer->info.output = *input;
    for (int i = 0; i < SPATIAL && !status; i++) {
        int64_t size = input->dims[i];
        if (size >= 0 && padding == TD_PADDING_VALID && size < span[i]) {
            char text[TD_SHAPE_TEXT_SIZE], window[TD_SHAPE_TEXT_SIZE];
            td_shape whole = TD_SHAPE(span[0], span[1], span[2]);
            status = td__layer_error(layer, error, TD_BAD_SHAPE,
                                     "a window that spans %s does not fit into its input %s",
                                     td_shape_text(&whole, window), td_shape_text(input, text));
        } else if (size >= 0) {
            layer->info.output.dims[i] = padding == TD_PADDING_VALID
                                             ? (size - span[i]) / stride[i] + 1
                                             : (size + stride[i] - 1) / stride[i];
        }
    }
    return status;
}

/* --- conv3d ---------------------------------------------------------------------------------- */

static td_status plan_conv(td__layer *layer, const td_shape *inputs, td_error *error) {
    const td_conv3d_layer *options = layer->options;
    int64_t span[SPATIAL], in = 0;
    for (int i = 0; i < SPATIAL; i++) {
        span[i] = (options->kernel[i] - 1) * options->dilation[i] + 1;
    }
    td_status status = plan_windows(layer, inputs, span, options->stride, options->padding, error);
    status = status ? status : td__layer_need_last(layer, inputs, &in, error);
    if (status) {
        return status;
    }
    if (in % options->groups || options->filters % options->groups) {
        return td__layer_error(layer, error, TD_BAD_SHAPE,
                               "%lld groups do not divide %lld input channels and %lld filters",
                               (long long)options->groups, (long long)in,
                               (long long)options->filters);
    }
    layer->info.output.dims[SPATIAL] = options->filters;
    const int64_t *kernel = options->kernel;
    td__layer_parameter(
        layer, 0, "kernel",
        TD_SHAPE(kernel[0], kernel[1], kernel[2], in / options->groups, options->filters),
        options->kernel_initializer, options->kernel_l1, options->kernel_l2);
    if (!options->no_bias) {
        td__layer_parameter(layer, 1, "bias", TD_SHAPE(options->filters), options->bias_initializer,
                            options->bias_l1, options->bias_l2);
    }
    layer->activation = options->activation;
    return TD_OK;
}

static td_tensor *forward_conv(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    const td_conv3d_layer *options = layer->options;
    td_tensor *x = inputs[0], *kernel = layer->slot[0];
    const int64_t *dims = x->shape.dims, *size = kernel->shape.dims;
    int64_t span = (size[0] - 1) * options->dilation[0] + 1, stride = options->stride[0];
    bool same = options->padding == TD_PADDING_SAME;
    int64_t depth = same ? (dims[1] + stride - 1) / stride : (dims[1] - span) / stride + 1;
    int64_t padding = same ? (depth - 1) * stride + span - dims[1] : 0;
    if (depth < 1) {
        return td__fail(tape, TD_BAD_SHAPE, "conv3d: the kernel does not fit into its input");
    }
    td__planes beside = {.depth = depth,
                         .count = size[0],
                         .stride = stride,
                         .dilation = options->dilation[0],
                         .before = padding > 0 ? padding / 2 : 0,
                         .groups = options->groups};
    td_tensor *planes = size[0] == 1 && stride == 1
                            ? td_reshape(tape, x, TD_SHAPE(-1, dims[2], dims[3], dims[4]))
                            : td__planes_beside(tape, x, &beside);
    td_tensor *flat = td_transpose(tape, kernel, (const int32_t[]){1, 2, 0, 3, 4});
    flat = td_reshape(tape, flat, TD_SHAPE(size[1], size[2], size[0] * size[3], size[4]));
    td_conv_options how = {.size = sizeof how,
                           .stride = {options->stride[1], options->stride[2]},
                           .dilation = {options->dilation[1], options->dilation[2]},
                           .groups = options->groups,
                           .padding = options->padding,
                           .activation = layer->fused};
    td_tensor *y = td_conv2d(tape, planes, flat, layer->slot[1], &how);
    return y ? td_reshape(tape, y,
                          TD_SHAPE(dims[0], depth, y->shape.dims[1], y->shape.dims[2], size[4]))
             : NULL;
}

/* --- pools ----------------------------------------------------------------------------------- */

static td_status plan_pool(td__layer *layer, const td_shape *inputs, td_error *error) {
    td_max_pool3d_layer *options = layer->options;
    for (int i = 0; i < SPATIAL; i++) {
        options->stride[i] = options->stride[i] ? options->stride[i] : options->window[i];
    }
    return plan_windows(layer, inputs, options->window, options->stride, options->padding, error);
}

typedef td_tensor *pool_operation(td_tape *tape, td_tensor *x, const td_pool_options *options);

static td_tensor *pool(td__layer *layer, td_tape *tape, td_tensor *x, pool_operation *operation) {
    const td_max_pool3d_layer *options = layer->options;
    const int64_t *dims = x->shape.dims;
    td_pool_options over = {.size = sizeof over,
                            .window = {options->window[1], options->window[2]},
                            .stride = {options->stride[1], options->stride[2]},
                            .padding = options->padding};
    td_tensor *planes = operation(
        tape, td_reshape(tape, x, TD_SHAPE(dims[0] * dims[1], dims[2], dims[3], dims[4])), &over);
    if (!planes) {
        return NULL;
    }
    int64_t height = planes->shape.dims[1], width = planes->shape.dims[2];
    td_pool_options along = {.size = sizeof along,
                             .window = {options->window[0], 1},
                             .stride = {options->stride[0], 1},
                             .padding = options->padding};
    td_tensor *y = operation(
        tape, td_reshape(tape, planes, TD_SHAPE(dims[0], dims[1], height * width, dims[4])),
        &along);
    return y ? td_reshape(tape, y, TD_SHAPE(dims[0], y->shape.dims[1], height, width, dims[4]))
             : NULL;
}
static td_tensor *forward_max(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    return pool(layer, tape, inputs[0], td_max_pool2d);
}
static td_tensor *forward_average(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    return pool(layer, tape, inputs[0], td_average_pool2d);
}

static td_status plan_global(td__layer *layer, const td_shape *inputs, td_error *error) {
    const td_global_pool_layer *options = layer->options;
    td_status status = td__layer_need_rank(layer, inputs, SPATIAL + 1, VOLUME, error);
    int64_t channels = status ? 0 : inputs[0].dims[SPATIAL];
    layer->info.output = options->keepdims ? TD_SHAPE(1, 1, 1, channels) : TD_SHAPE(channels);
    return status;
}

static td_reduce_options everywhere(const td__layer *layer) {
    const td_global_pool_layer *options = layer->options;
    return (td_reduce_options){.size = sizeof(td_reduce_options),
                               .count = SPATIAL,
                               .axes = {1, 2, 3},
                               .keep = options->keepdims};
}
static td_tensor *forward_global_max(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    td_reduce_options over = everywhere(layer);
    return td_max(tape, inputs[0], &over);
}
static td_tensor *forward_global_average(td__layer *layer, td_tape *tape,
                                         td_tensor *const *inputs) {
    td_reduce_options over = everywhere(layer);
    return td_mean(tape, inputs[0], &over);
}

/* --- up_sampling3d --------------------------------------------------------------------------- */

static td_status plan_up(td__layer *layer, const td_shape *inputs, td_error *error) {
    const td_up_sampling3d_layer *options = layer->options;
    td_status status = td__layer_need_rank(layer, inputs, SPATIAL + 1, VOLUME, error);
    layer->info.output = inputs[0];
    for (int i = 0; i < SPATIAL && !status; i++) {
        int64_t in = inputs[0].dims[i];
        layer->info.output.dims[i] = in < 0 ? in : in * options->factor[i];
    }
    return status;
}

static td_tensor *forward_up(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    const td_up_sampling3d_layer *options = layer->options;
    const int64_t *dims = inputs[0]->shape.dims, *size = options->factor;
    int64_t height = dims[2] * size[1], width = dims[3] * size[2];
    td_tensor *planes = td_up_sampling2d(
        tape, td_reshape(tape, inputs[0], TD_SHAPE(dims[0] * dims[1], dims[2], dims[3], dims[4])),
        (const int64_t[]){size[1], size[2]}, TD_NEAREST);
    td_tensor *y = td_up_sampling2d(
        tape, td_reshape(tape, planes, TD_SHAPE(dims[0], dims[1], height * width, dims[4])),
        (const int64_t[]){size[0], 1}, TD_NEAREST);
    return td_reshape(tape, y, TD_SHAPE(dims[0], dims[1] * size[0], height, width, dims[4]));
}

/* --- as operators ----------------------------------------------------------------------------- */

static td__window window_of(const int64_t *kernel, const int64_t *stride, const int64_t *dilation,
                            td_padding padding) {
    td__window window = {.spatial = SPATIAL, .padding = padding};
    for (int i = 0; i < SPATIAL; i++) {
        window.kernel[i] = kernel[i];
        window.stride[i] = stride[i];
        window.dilation[i] = dilation ? dilation[i] : 1;
    }
    return window;
}

static const char *conv_operators(const td__layer *layer, td__operators *to,
                                  const char *const *inputs, const td_shape *shapes) {
    const td_conv3d_layer *options = layer->options;
    td__window window =
        window_of(options->kernel, options->stride, options->dilation, options->padding);
    size_t used = td__operator_window(&window, shapes);
    return td__operator_convolve(to, "Conv", layer, inputs[0], &window, used, options->groups);
}

static const char *pool_operators(const td__layer *layer, td__operators *to, const char *type,
                                  const char *x, const td_shape *shape) {
    const td_max_pool3d_layer *options = layer->options;
    td__window window = window_of(options->window, options->stride, NULL, options->padding);
    size_t used = td__operator_window(&window, shape);
    const char *first = td__operator_channels_first(to, x, SPATIAL);
    return td__operator_channels_last(
        to, td__operator(to, type, 1, &first, used, window.attributes), SPATIAL);
}
static const char *max_operators(const td__layer *layer, td__operators *to,
                                 const char *const *inputs, const td_shape *shapes) {
    return pool_operators(layer, to, "MaxPool", inputs[0], shapes);
}
static const char *average_operators(const td__layer *layer, td__operators *to,
                                     const char *const *inputs, const td_shape *shapes) {
    return pool_operators(layer, to, "AveragePool", inputs[0], shapes);
}

static const char *whole_operators(const td__layer *layer, td__operators *to, const char *type,
                                   const char *x) {
    const td_global_pool_layer *options = layer->options;
    static const int64_t axes[] = {1, 2, 3};
    const td__attribute attributes[] = {
        {.name = "axes", .type = TD__INTS, .integers = axes, .count = SPATIAL},
        {.name = "keepdims", .type = TD__INT, .integer = options->keepdims}};
    return td__operator(to, type, 1, &x, 2, attributes);
}
static const char *global_average_operators(const td__layer *layer, td__operators *to,
                                            const char *const *inputs, const td_shape *shapes) {
    (void)shapes;
    return whole_operators(layer, to, "ReduceMean", inputs[0]);
}
static const char *global_max_operators(const td__layer *layer, td__operators *to,
                                        const char *const *inputs, const td_shape *shapes) {
    (void)shapes;
    return whole_operators(layer, to, "ReduceMax", inputs[0]);
}

static const char *up_operators(const td__layer *layer, td__operators *to,
                                const char *const *inputs, const td_shape *shapes) {
    (void)shapes;
    const td_up_sampling3d_layer *options = layer->options;
    const int64_t *size = options->factor;
    enum { FLOAT = 1 };
    const td__attribute type = {.name = "to", .type = TD__INT, .integer = FLOAT};
    const char *whole =
        td__operator_integers(to, 5, (const int64_t[]){1, 1, size[0], size[1], size[2]});
    const td__attribute attributes[] = {
        {.name = "mode", .type = TD__STRING, .text = "nearest"},
        {.name = "coordinate_transformation_mode", .type = TD__STRING, .text = "asymmetric"},
        {.name = "nearest_mode", .type = TD__STRING, .text = "floor"}};
    const char *resized[] = {td__operator_channels_first(to, inputs[0], SPATIAL), "",
                             td__operator(to, "Cast", 1, &whole, 1, &type)};
    return td__operator_channels_last(to, td__operator(to, "Resize", 3, resized, 3, attributes),
                                      SPATIAL);
}

static const td__keras_option conv_keras[] = {TD__KERAS_CONVOLUTION};
static const td__keras_option pool_keras[] = {TD__KERAS_POOL};
static const td__keras_option global_keras[] = {TD__KERAS_GLOBAL_POOL};
static const td__keras_option up_keras[] = {{"size", TD__KERAS_NUMBERS, "size"}};
static const td__torch_weight conv_torch[] = {TD__TORCH_KERNEL(5, 2, 3, 4, 1, 0),
                                              TD__TORCH_VECTOR("bias", "bias", )};

#define KIND(rows, struct_type, word, what, torch_name)                                            \
    {                                                                                              \
        TD__KIND_OF_ONE(rows##_fields, struct_type, plan_##rows, forward_##what),                  \
            TD__IS(POOL, OTHER), TD__TORCH(torch_name), TD__KERAS(rows##_keras, VARS),             \
            .automatic = (word), .operators = what##_operators                                     \
    }
const td__layer_kind td__conv3d_kind = {
    TD__KIND_OF_ONE(conv_fields, td_conv3d_layer, plan_conv, forward_conv),
    TD__IS(LINEAR, OTHER),
    .unit_axis = 1,
    TD__TORCH_WITH("nn.Conv3d", conv_torch),
    TD__KERAS(conv_keras, VARS),
    .has_activation = true,
    .operators = conv_operators};
const td__layer_kind td__max_pool3d_kind =
    KIND(pool, td_max_pool3d_layer, "max_pooling3d", max, "nn.MaxPool3d");
const td__layer_kind td__average_pool3d_kind =
    KIND(pool, td_max_pool3d_layer, "average_pooling3d", average, "nn.AvgPool3d");
const td__layer_kind td__global_average_pool3d_kind =
    KIND(global, td_global_pool_layer, "global_average_pooling3d", global_average,
         "nn.AdaptiveAvgPool3d(1)");
const td__layer_kind td__global_max_pool3d_kind = KIND(
    global, td_global_pool_layer, "global_max_pooling3d", global_max, "nn.AdaptiveMaxPool3d(1)");
const td__layer_kind td__up_sampling3d_kind = {
    TD__KIND_OF_ONE(up_fields, td_up_sampling3d_layer, plan_up, forward_up), TD__IS(SHAPE, OTHER),
    TD__TORCH("nn.Upsample"), TD__KERAS(up_keras, VARS), .operators = up_operators};
