/* max_pool2d, average_pool2d, global_average_pool2d, global_max_pool2d, their like over steps, and
 * up_sampling2d
 *
 * Output sizes: valid (in - size) / stride + 1, rounded down; same in / stride, rounded up.
 */
#include "nn/operators.h"

#define IMAGE "(height, width, channels)"
#define STEPS "(steps, channels)"

static const td__field pool_fields[] = {
    TD__LAYER_FIELDS,
    {.key = "size",
     .alias = "pool_size",
     .type = TD__FIELD_PAIR,
     .offset = offsetof(td_max_pool2d_layer, window),
     .standard = 2,
     .minimum = 1},
    TD__PAIR(td_max_pool2d_layer, stride, "strides", 0, 0),
    TD__WORD(td_max_pool2d_layer, padding, td__padding_words, TD_PADDING_VALID),
};
/* Over steps there is one of each number. */
static const td__field pool1_fields[] = {
    TD__LAYER_FIELDS,
    {.key = "size",
     .alias = "pool_size",
     .type = TD__FIELD_INTEGER,
     .offset = offsetof(td_max_pool2d_layer, window),
     .standard = 2,
     .minimum = 1},
    TD__INTEGER(td_max_pool2d_layer, stride, "strides", 0, 0),
    TD__WORD(td_max_pool2d_layer, padding, td__padding_words, TD_PADDING_VALID),
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
     .type = TD__FIELD_PAIR,
     .offset = offsetof(td_up_sampling2d_layer, factor),
     .standard = 2,
     .minimum = 1},
    TD__WORD(td_up_sampling2d_layer, interpolation, td__interpolation_words, TD_NEAREST),
};

/* Output sizes over the first `spatial` dimensions. */
static td_status plan_window(td__layer *layer, const td_shape *inputs, int spatial,
                             td_error *error) {
    td_max_pool2d_layer *options = layer->options;
    td_status status =
        td__layer_need_rank(layer, inputs, spatial + 1, spatial == 1 ? STEPS : IMAGE, error);
    if (status) {
        return status;
    }
    if (options->padding == TD_PADDING_CAUSAL) {
        return td__layer_error(layer, error, TD_INVALID, "causal padding is for conv1d");
    }
    layer->info.output = inputs[0];
    for (int i = 0; i < spatial; i++) {
        options->stride[i] = options->stride[i] ? options->stride[i] : options->window[i];
        int64_t in = inputs[0].dims[i], size = options->window[i], stride = options->stride[i];
        if (in < 0) {
            continue;
        }
        if (options->padding == TD_PADDING_SAME) {
            layer->info.output.dims[i] = (in + stride - 1) / stride;
        } else if (in < size) {
            char text[TD_SHAPE_TEXT_SIZE], window[TD_SHAPE_TEXT_SIZE];
            td_shape whole = {.rank = spatial, .dims = {options->window[0], options->window[1]}};
            return td__layer_error(layer, error, TD_BAD_SHAPE,
                                   "a window of %s does not fit into its input %s",
                                   td_shape_text(&whole, window), td_shape_text(inputs, text));
        } else {
            layer->info.output.dims[i] = (in - size) / stride + 1;
        }
    }
    return TD_OK;
}
static td_status plan_pool(td__layer *layer, const td_shape *inputs, td_error *error) {
    return plan_window(layer, inputs, 2, error);
}
static td_status plan_pool1(td__layer *layer, const td_shape *inputs, td_error *error) {
    return plan_window(layer, inputs, 1, error);
}

static td_pool_options pool_options(const td__layer *layer) {
    const td_max_pool2d_layer *options = layer->options;
    return (td_pool_options){.size = sizeof(td_pool_options),
                             .window = {options->window[0], options->window[1]},
                             .stride = {options->stride[0], options->stride[1]},
                             .padding = options->padding};
}

static td_tensor *max_forward(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    td_pool_options options = pool_options(layer);
    return td_max_pool2d(tape, inputs[0], &options);
}
static td_tensor *average_forward(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    td_pool_options options = pool_options(layer);
    return td_average_pool2d(tape, inputs[0], &options);
}

/* Steps as the rows of an image one pixel wide. */
static td_tensor *pool1(td__layer *layer, td_tape *tape, td_tensor *x,
                        td_tensor *(*pool)(td_tape *tape, td_tensor *x,
                                           const td_pool_options *options)) {
    if (!x) {
        return NULL;
    }
    td_pool_options options = pool_options(layer);
    options.window[1] = options.stride[1] = 1;
    int64_t batch = x->shape.dims[0], channels = x->shape.dims[2];
    td_tensor *image = td_reshape(tape, x, TD_SHAPE(batch, x->shape.dims[1], 1, channels));
    td_tensor *y = pool(tape, image, &options);
    return y ? td_reshape(tape, y, TD_SHAPE(batch, y->shape.dims[1], channels)) : NULL;
}
static td_tensor *max1_forward(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    return pool1(layer, tape, inputs[0], td_max_pool2d);
}
static td_tensor *average1_forward(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    return pool1(layer, tape, inputs[0], td_average_pool2d);
}

static td_status plan_whole(td__layer *layer, const td_shape *inputs, int spatial,
                            td_error *error) {
    const td_global_pool_layer *options = layer->options;
    td_status status =
        td__layer_need_rank(layer, inputs, spatial + 1, spatial == 1 ? STEPS : IMAGE, error);
    int64_t channels = inputs[0].dims[spatial];
    layer->info.output = TD_SHAPE(channels);
    if (!status && options->keepdims) {
        layer->info.output = spatial == 1 ? TD_SHAPE(1, channels) : TD_SHAPE(1, 1, channels);
    }
    return status;
}
static td_status plan_global(td__layer *layer, const td_shape *inputs, td_error *error) {
    return plan_whole(layer, inputs, 2, error);
}
static td_status plan_global1(td__layer *layer, const td_shape *inputs, td_error *error) {
    return plan_whole(layer, inputs, 1, error);
}

/* (batch, channels) with the pooled axes again, where they are kept. */
static td_tensor *kept(const td__layer *layer, td_tape *tape, td_tensor *y) {
    const td_global_pool_layer *options = layer->options;
    if (!y || !options->keepdims) {
        return y;
    }
    td_shape shape = {.rank = layer->info.output.rank + 1, .dims = {y->shape.dims[0], 1, 1}};
    shape.dims[shape.rank - 1] = y->shape.dims[1];
    return td_reshape(tape, y, shape);
}
static td_tensor *global_average_forward(td__layer *layer, td_tape *tape,
                                         td_tensor *const *inputs) {
    return kept(layer, tape, td_global_average_pool2d(tape, inputs[0]));
}
static td_tensor *global_max_forward(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    return kept(layer, tape, td_global_max_pool2d(tape, inputs[0]));
}

static const td_reduce_options steps = {.size = sizeof(td_reduce_options), .count = 1, .axes = {1}};
static td_tensor *global_average1_forward(td__layer *layer, td_tape *tape,
                                          td_tensor *const *inputs) {
    td_tensor *mask = layer->masks[0];
    if (!mask) {
        return kept(layer, tape, td_mean(tape, inputs[0], &steps));
    }
    td_reduce_options keep = steps;
    keep.keep = true;
    td_tensor *sum = td_sum(tape, td__mask_apply(tape, inputs[0], mask), &steps);
    return kept(layer, tape, td_divide(tape, sum, td_sum(tape, mask, &keep)));
}
static td_tensor *global_max1_forward(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    return kept(layer, tape, td_max(tape, inputs[0], &steps));
}

static td_status plan_up(td__layer *layer, const td_shape *inputs, td_error *error) {
    const td_up_sampling2d_layer *options = layer->options;
    td_status status = td__layer_need_rank(layer, inputs, 3, IMAGE, error);
    layer->info.output = inputs[0];
    for (int i = 0; i < 2 && !status; i++) {
        int64_t in = inputs[0].dims[i];
        layer->info.output.dims[i] = in < 0 ? in : in * options->factor[i];
    }
    return status;
}
static td_tensor *up_forward(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    const td_up_sampling2d_layer *options = layer->options;
    return td_up_sampling2d(tape, inputs[0], options->factor, options->interpolation);
}

/* --- as operators ------------------------------------------------------------------------- */

static const char *pool_operators(const td__layer *layer, td__operators *to, const char *type,
                                  const char *x, const td_shape *shape) {
    const td_max_pool2d_layer *options = layer->options;
    int spatial = shape->rank - 1;
    td__window window = {.spatial = spatial,
                         .kernel = {options->window[0], options->window[1]},
                         .stride = {options->stride[0], options->stride[1]},
                         .dilation = {1, 1},
                         .padding = options->padding};
    size_t count = td__operator_window(&window, shape);
    const char *first = td__operator_channels_first(to, x, spatial);
    return td__operator_channels_last(
        to, td__operator(to, type, 1, &first, count, window.attributes), spatial);
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
                                   const char *x, const td_shape *shape) {
    const td_global_pool_layer *options = layer->options;
    static const int64_t axes[] = {1, 2};
    const td__attribute attributes[] = {
        {.name = "axes", .type = TD__INTS, .integers = axes, .count = (size_t)shape->rank - 1},
        {.name = "keepdims", .type = TD__INT, .integer = options->keepdims}};
    return td__operator(to, type, 1, &x, 2, attributes);
}
static const char *global_average_operators(const td__layer *layer, td__operators *to,
                                            const char *const *inputs, const td_shape *shapes) {
    return whole_operators(layer, to, "ReduceMean", inputs[0], shapes);
}
static const char *global_max_operators(const td__layer *layer, td__operators *to,
                                        const char *const *inputs, const td_shape *shapes) {
    return whole_operators(layer, to, "ReduceMax", inputs[0], shapes);
}

static const char *up_operators(const td__layer *layer, td__operators *to,
                                const char *const *inputs, const td_shape *shapes) {
    (void)shapes;
    const td_up_sampling2d_layer *options = layer->options;
    bool nearest = options->interpolation == TD_NEAREST;
    enum { FLOAT = 1 };
    td__attribute type = {.name = "to", .type = TD__INT, .integer = FLOAT};
    const char *whole = td__operator_integers(
        to, 4, (const int64_t[]){1, 1, options->factor[0], options->factor[1]});
    const td__attribute attributes[] = {
        {.name = "mode", .type = TD__STRING, .text = nearest ? "nearest" : "linear"},
        {.name = "coordinate_transformation_mode",
         .type = TD__STRING,
         .text = nearest ? "asymmetric" : "half_pixel"},
        {.name = "nearest_mode", .type = TD__STRING, .text = "floor"}};
    const char *resized[] = {td__operator_channels_first(to, inputs[0], 2), "",
                             td__operator(to, "Cast", 1, &whole, 1, &type)};
    return td__operator_channels_last(
        to, td__operator(to, "Resize", 3, resized, nearest ? 3 : 2, attributes), 2);
}

static const td__keras_option pool_keras[] = {TD__KERAS_POOL};
static const td__keras_option global_keras[] = {TD__KERAS_GLOBAL_POOL};
static const td__keras_option up_keras[] = {
    {"size", TD__KERAS_NUMBERS, "size"},
    {"interpolation", TD__KERAS_INTERPOLATION, "interpolation"}};

#define POOL(what, name_, rows, plan_function, forward_function, torch_name, steps)                \
    {                                                                                              \
        TD__KIND_OF_ONE(rows, td_max_pool2d_layer, plan_function, forward_function),               \
            TD__IS(POOL, OTHER), .torch = {.name = (torch_name), .channels_first = (steps)},       \
                                 TD__KERAS(pool_keras, VARS), .automatic = (name_),                \
                                 .operators = what##_operators                                     \
    }
#define GLOBAL(what, name_, plan_function, forward_function, torch_name)                           \
    TD__KIND_OF_ONE(global_fields, td_global_pool_layer, plan_function, forward_function),         \
        TD__IS(POOL, OTHER), TD__TORCH(torch_name), TD__KERAS(global_keras, VARS),                 \
        .automatic = (name_), .operators = global_##what##_operators
const td__layer_kind td__max_pool2d_kind =
    POOL(max, "max_pooling2d", pool_fields, plan_pool, max_forward, "nn.MaxPool2d", false);
const td__layer_kind td__average_pool2d_kind = POOL(
    average, "average_pooling2d", pool_fields, plan_pool, average_forward, "nn.AvgPool2d", false);
const td__layer_kind td__global_average_pool2d_kind = {GLOBAL(average, "global_average_pooling2d",
                                                              plan_global, global_average_forward,
                                                              "nn.AdaptiveAvgPool2d(1)")};
const td__layer_kind td__global_max_pool2d_kind = {GLOBAL(
    max, "global_max_pooling2d", plan_global, global_max_forward, "nn.AdaptiveMaxPool2d(1)")};
const td__layer_kind td__max_pool1d_kind =
    POOL(max, "max_pooling1d", pool1_fields, plan_pool1, max1_forward, "nn.MaxPool1d", true);
const td__layer_kind td__average_pool1d_kind = POOL(
    average, "average_pooling1d", pool1_fields, plan_pool1, average1_forward, "nn.AvgPool1d", true);
const td__layer_kind td__global_average_pool1d_kind = {GLOBAL(average, "global_average_pooling1d",
                                                              plan_global1, global_average1_forward,
                                                              "nn.AdaptiveAvgPool1d(1)"),
                                                       .reads_mask = true};
const td__layer_kind td__global_max_pool1d_kind = {GLOBAL(
    max, "global_max_pooling1d", plan_global1, global_max1_forward, "nn.AdaptiveMaxPool1d(1)")};
const td__layer_kind td__up_sampling2d_kind = {
    TD__KIND_OF_ONE(up_fields, td_up_sampling2d_layer, plan_up, up_forward), TD__IS(SHAPE, OTHER),
    TD__TORCH("nn.Upsample"), TD__KERAS(up_keras, VARS), .operators = up_operators};
