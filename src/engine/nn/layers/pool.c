/* Pools over windows and over all of steps, images and volumes, and up_sampling2d and 3d; window.c has
 * the sizes.
 *
 * A pool over a volume is one over its planes and then one over depth, since maxima and means (each
 * over what there is) are.
 */
#include "nn/operators.h"

#include <string.h>

#define POOL_FIELDS(struct_type, NUMBER)                                                           \
    TD__LAYER_FIELDS,                                                                              \
        TD__FIELD_CALLED(NUMBER, struct_type, window, "size", .alias = "pool_size",                \
                         .by_default = 2, .minimum = 1),                                           \
        TD__##NUMBER(struct_type, stride, "strides", 0, 0), TD__PADDING(struct_type)
static const td__field pool1_fields[] = {POOL_FIELDS(td_max_pool2d_layer, INTEGER)};
static const td__field pool2_fields[] = {POOL_FIELDS(td_max_pool2d_layer, PAIR)};
static const td__field pool3_fields[] = {POOL_FIELDS(td_max_pool3d_layer, TRIPLE)};
static const td__field global_fields[] = {
    TD__LAYER_FIELDS,
    TD__FIELD(BOOL, td_global_pool_layer, keepdims, .quiet = true),
};
static const td__field up3_fields[] = {
    TD__LAYER_FIELDS,
    TD__FIELD_CALLED(TRIPLE, td_up_sampling3d_layer, factor, "size", .by_default = 2, .minimum = 1),
};
static const td__field up2_fields[] = {
    TD__LAYER_FIELDS,
    TD__FIELD_CALLED(PAIR, td_up_sampling2d_layer, factor, "size", .by_default = 2, .minimum = 1),
    TD__WORD(td_up_sampling2d_layer, interpolation, td__interpolation_words, TD_NEAREST),
};

/* A pool's options, whichever struct has them. */
typedef struct pooling {
    int64_t *window, *stride;
    td_padding padding;
} pooling;

static pooling pooling_of(const td__layer *layer, int spatial) {
    td_max_pool2d_layer *two = layer->options;
    td_max_pool3d_layer *three = layer->options;
    return spatial == 3 ? (pooling){three->window, three->stride, three->padding}
                        : (pooling){two->window, two->stride, two->padding};
}

static td_status plan_pool(td__layer *layer, const td_shape *inputs, int spatial, td_error *error) {
    pooling p = pooling_of(layer, spatial);
    for (int i = 0; i < spatial; i++) {
        p.stride[i] = p.stride[i] ? p.stride[i] : p.window[i];
    }
    td__window window = td__window_of(spatial, p.window, p.stride, NULL, p.padding);
    return td__window_plan(layer, inputs, &window, "window of", error);
}

static td_pool_options pool_options(const pooling *p) {
    return (td_pool_options){.size = sizeof(td_pool_options),
                             .window = {p->window[0], p->window[1]},
                             .stride = {p->stride[0], p->stride[1]},
                             .padding = p->padding};
}

typedef td_tensor *pool_operation(td_tape *tape, td_tensor *x, const td_pool_options *options);

static td_tensor *pool2(td__layer *layer, td_tape *tape, td_tensor *x, pool_operation *pool) {
    pooling p = pooling_of(layer, 2);
    td_pool_options options = pool_options(&p);
    /* cppcheck-suppress returnDanglingLifetime ; the operation copies its options */
    return pool(tape, x, &options);
}

/* Steps as the rows of an image one pixel wide. */
static td_tensor *pool1(td__layer *layer, td_tape *tape, td_tensor *x, pool_operation *pool) {
    if (!x) {
        return NULL;
    }
    pooling p = pooling_of(layer, 1);
    td_pool_options options = pool_options(&p);
    options.window[1] = options.stride[1] = 1;
    int64_t batch = x->shape.dims[0], channels = x->shape.dims[2];
    td_tensor *image = td_reshape(tape, x, TD_SHAPE(batch, x->shape.dims[1], 1, channels));
    td_tensor *y = pool(tape, image, &options);
    return y ? td_reshape(tape, y, TD_SHAPE(batch, y->shape.dims[1], channels)) : NULL;
}

static td_tensor *pool3(td__layer *layer, td_tape *tape, td_tensor *x, pool_operation *pool) {
    if (!x) {
        return NULL;
    }
    pooling p = pooling_of(layer, 3), plane = {p.window + 1, p.stride + 1, p.padding};
    const int64_t *dims = x->shape.dims;
    td_pool_options over = pool_options(&plane), along = pool_options(&p);
    along.window[1] = along.stride[1] = 1;
    td_tensor *planes = pool(
        tape, td_reshape(tape, x, TD_SHAPE(dims[0] * dims[1], dims[2], dims[3], dims[4])), &over);
    if (!planes) {
        return NULL;
    }
    int64_t height = planes->shape.dims[1], width = planes->shape.dims[2];
    td_tensor *y =
        pool(tape, td_reshape(tape, planes, TD_SHAPE(dims[0], dims[1], height * width, dims[4])),
             &along);
    return y ? td_reshape(tape, y, TD_SHAPE(dims[0], y->shape.dims[1], height, width, dims[4]))
             : NULL;
}

/* All axes but the channels. */
static td_status plan_global(td__layer *layer, const td_shape *inputs, int spatial,
                             td_error *error) {
    const td_global_pool_layer *options = layer->options;
    td_status status = td__layer_need_map(layer, inputs, spatial, error);
    td_shape output = {.rank = options->keepdims ? spatial + 1 : 1, .dims = {1, 1, 1}};
    output.dims[output.rank - 1] = status ? 0 : inputs[0].dims[spatial];
    layer->info.output = output;
    return status;
}

/* (batch, channels) with the pooled axes again, where they are kept. */
static td_tensor *kept(const td__layer *layer, td_tape *tape, td_tensor *y) {
    const td_global_pool_layer *options = layer->options;
    if (!y || !options->keepdims) {
        return y;
    }
    td_shape shape = {.rank = layer->info.output.rank + 1, .dims = {y->shape.dims[0], 1, 1, 1}};
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

static td_reduce_options everywhere(const td_tensor *x) {
    return (td_reduce_options){
        .size = sizeof(td_reduce_options), .count = x ? x->shape.rank - 2 : 0, .axes = {1, 2, 3}};
}
static td_tensor *average_everywhere(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    td_tensor *mask = layer->kind->reads_mask ? layer->masks[0] : NULL;
    td_reduce_options over = everywhere(inputs[0]), keep = over;
    if (!mask) {
        return kept(layer, tape, td_mean(tape, inputs[0], &over));
    }
    keep.keep = true;
    td_tensor *sum = td_sum(tape, td__mask_apply(tape, inputs[0], mask), &over);
    return kept(layer, tape, td_divide(tape, sum, td_sum(tape, mask, &keep)));
}
static td_tensor *max_everywhere(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    td_reduce_options over = everywhere(inputs[0]);
    return kept(layer, tape, td_max(tape, inputs[0], &over));
}

static const int64_t *factors_of(const td__layer *layer, int spatial) {
    const td_up_sampling2d_layer *two = layer->options;
    const td_up_sampling3d_layer *three = layer->options;
    return spatial == 3 ? three->factor : two->factor;
}

static td_status plan_up(td__layer *layer, const td_shape *inputs, int spatial, td_error *error) {
    td_status status = td__layer_need_map(layer, inputs, spatial, error);
    layer->info.output = inputs[0];
    for (int i = 0; i < spatial && !status; i++) {
        int64_t in = inputs[0].dims[i];
        layer->info.output.dims[i] = in < 0 ? in : in * factors_of(layer, spatial)[i];
    }
    return status;
}
static td_tensor *forward_up2(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    const td_up_sampling2d_layer *options = layer->options;
    return td_up_sampling2d(tape, inputs[0], options->factor, options->interpolation);
}
static td_tensor *forward_up3(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
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

/* --- as operators ------------------------------------------------------------------------- */

static const char *pool_operators(const td__layer *layer, td__operators *to, const char *type,
                                  const char *x, const td_shape *shape) {
    int spatial = shape->rank - 1;
    pooling p = pooling_of(layer, spatial);
    td__window window = td__window_of(spatial, p.window, p.stride, NULL, p.padding);
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
    static const int64_t axes[] = {1, 2, 3};
    const td__attribute attributes[] = {TD__NAMED_INTS("axes", axes, (size_t)shape->rank - 1),
                                        TD__NAMED_INT("keepdims", options->keepdims)};
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
    const td_up_sampling2d_layer *options = layer->options;
    int spatial = shapes[0].rank - 1;
    bool nearest = spatial == 3 || options->interpolation == TD_NEAREST;
    int64_t sizes[] = {1, 1, 1, 1, 1};
    memcpy(sizes + 2, factors_of(layer, spatial), (size_t)spatial * sizeof *sizes);
    td__attribute type = {.name = "to", .type = TD__DTYPE, .dtype = TD_FLOAT32};
    const char *whole = td__operator_integers(to, (size_t)spatial + 2, sizes);
    const td__attribute attributes[] = {
        TD__NAMED_TEXT("mode", nearest ? "nearest" : "linear"),
        TD__NAMED_TEXT("coordinate_transformation_mode", nearest ? "asymmetric" : "half_pixel"),
        TD__NAMED_TEXT("nearest_mode", "floor")};
    const char *resized[] = {td__operator_channels_first(to, inputs[0], spatial), "",
                             td__operator(to, "Cast", 1, &whole, 1, &type)};
    return td__operator_channels_last(
        to, td__operator(to, "Resize", 3, resized, nearest ? 3 : 2, attributes), spatial);
}

static const td__keras_option pool_keras[] = {{"pool_size", TD__KERAS_NUMBERS, "size"},
                                              {"strides", TD__KERAS_NUMBERS, "stride"},
                                              {"padding", TD__KERAS_PADDING, "padding"}};
static const td__keras_option global_keras[] = {{"keepdims", TD__KERAS_SWITCH, "keepdims"}};
static const td__keras_option up3_keras[] = {{"size", TD__KERAS_NUMBERS, "size"}};
static const td__keras_option up2_keras[] = {
    {"size", TD__KERAS_NUMBERS, "size"},
    {"interpolation", TD__KERAS_INTERPOLATION, "interpolation"}};

/* Plans and forward passes of each number of axes. */
#define PLAN(what, axes)                                                                           \
    static td_status plan_##what##axes(td__layer *layer, const td_shape *inputs,                   \
                                       td_error *error) {                                          \
        return plan_##what(layer, inputs, axes, error);                                            \
    }
#define FORWARD(what, axes)                                                                        \
    static td_tensor *what##axes##_forward(td__layer *layer, td_tape *tape,                        \
                                           td_tensor *const *inputs) {                             \
        return pool##axes(layer, tape, inputs[0], td_##what##_pool2d);                             \
    }
#define POOL(what, axes, torch_name)                                                               \
    const td__layer_kind td__##what##_pool##axes##d_kind = {                                       \
        TD__KIND_OF_ONE(pool##axes##_fields, td_##what##_pool##axes##d_layer, plan_pool##axes,     \
                        what##axes##_forward),                                                     \
        TD__IS(POOL, OTHER),                                                                       \
        .torch = {.name = "nn." torch_name "Pool" #axes "d", .channels_first = (axes) == 1},       \
        TD__KERAS(pool_keras, VARS),                                                               \
        .automatic = #what "_pooling" #axes "d",                                                   \
        .operators = what##_operators};
#define GLOBAL(what, axes, forward_function, masked, torch_name)                                   \
    const td__layer_kind td__global_##what##_pool##axes##d_kind = {                                \
        TD__KIND_OF_ONE(global_fields, td_global_pool_layer, plan_global##axes, forward_function), \
        TD__IS(POOL, OTHER),                                                                       \
        TD__TORCH("nn.Adaptive" torch_name "Pool" #axes "d(1)"),                                   \
        TD__KERAS(global_keras, VARS),                                                             \
        .automatic = "global_" #what "_pooling" #axes "d",                                         \
        .operators = global_##what##_operators,                                                    \
        .reads_mask = (masked)};
#define UP(axes)                                                                                   \
    const td__layer_kind td__up_sampling##axes##d_kind = {                                         \
        TD__KIND_OF_ONE(up##axes##_fields, td_up_sampling##axes##d_layer, plan_up##axes,           \
                        forward_up##axes),                                                         \
        TD__IS(SHAPE, OTHER), TD__TORCH("nn.Upsample"), TD__KERAS(up##axes##_keras, VARS),         \
        .operators = up_operators};
#define BOTH(axes)                                                                                 \
    PLAN(pool, axes)                                                                               \
    PLAN(global, axes)                                                                             \
    FORWARD(max, axes)                                                                             \
    FORWARD(average, axes)                                                                         \
    POOL(max, axes, "Max")                                                                         \
    POOL(average, axes, "Avg")
BOTH(1)
BOTH(2)
BOTH(3)
GLOBAL(average, 1, average_everywhere, true, "Avg")
GLOBAL(average, 2, global_average_forward, false, "Avg")
GLOBAL(average, 3, average_everywhere, false, "Avg")
GLOBAL(max, 1, max_everywhere, false, "Max")
GLOBAL(max, 2, global_max_forward, false, "Max")
GLOBAL(max, 3, max_everywhere, false, "Max")
PLAN(up, 2)
PLAN(up, 3)
UP(2)
UP(3)
