/* conv1d_transpose, conv2d_transpose, conv3d_transpose: activation(y + bias), y being what a
 * convolution's backward pass makes of x
 *
 * Output sizes, with k = (kernel - 1) * dilation + 1 for what a dilated kernel spans:
 *   same     in * stride
 *   valid    in * stride + max(k - stride, 0)
 *   with output_padding (in - 1) * stride + (same ? k % 2 : k) + output_padding
 *
 * Steps are an image of one column. Of a volume each plane is stretched for every plane of the kernel
 * at once, and an output plane is the sum of those that reach it.
 */
#include "nn/operators.h"
#include "tape/pick.h"

enum { MAX_SPATIAL = 3 };

/* One of each number where there are steps, two of an image, three of a volume. */
#define FIELDS(layer, NUMBERS)                                                                     \
    TD__LAYER_FIELDS, TD__CONVOLUTION_SIZES(layer, TD__##NUMBERS),                                 \
        TD__FIELD(NUMBERS, layer, output_padding, .number = true, .no_default = true,              \
                  .quiet = true),                                                                  \
        TD__CONVOLUTION_REST(layer)

static const td__field fields1[] = {FIELDS(td_conv2d_layer, INTEGER)};
static const td__field fields2[] = {FIELDS(td_conv2d_layer, PAIR)};
static const td__field fields3[] = {FIELDS(td_conv3d_layer, TRIPLE)};

/* What both option structs say. */
typedef struct stretching {
    int spatial;
    int64_t filters, groups;
    int64_t kernel[MAX_SPATIAL], stride[MAX_SPATIAL], dilation[MAX_SPATIAL];
    td_number output_padding[MAX_SPATIAL]; /* all set, or none */
    td_padding padding;
} stretching;

static stretching stretching_of(const td__layer *layer) {
    if (layer->info.kind == TD_LAYER_CONV3D_TRANSPOSE) {
        const td_conv3d_layer *o = layer->options;
        return (stretching){3,
                            o->filters,
                            o->groups,
                            {o->kernel[0], o->kernel[1], o->kernel[2]},
                            {o->stride[0], o->stride[1], o->stride[2]},
                            {o->dilation[0], o->dilation[1], o->dilation[2]},
                            {o->output_padding[0], o->output_padding[1], o->output_padding[2]},
                            o->padding};
    }
    const td_conv2d_layer *o = layer->options;
    bool steps = layer->info.kind == TD_LAYER_CONV1D_TRANSPOSE;
    return (stretching){steps ? 1 : 2,
                        o->filters,
                        o->groups,
                        {o->kernel[0], steps ? 1 : o->kernel[1]},
                        {o->stride[0], steps ? 1 : o->stride[1]},
                        {o->dilation[0], steps ? 1 : o->dilation[1]},
                        {o->output_padding[0], steps ? TD_DEFAULT : o->output_padding[1]},
                        o->padding};
}

static int64_t span(const stretching *s, int i) {
    return (s->kernel[i] - 1) * s->dilation[i] + 1;
}

/* How far the last element's window reaches along an axis. */
static int64_t reach(const stretching *s, int i) {
    int64_t k = span(s, i), stride = s->stride[i];
    bool same = s->padding == TD_PADDING_SAME;
    if (s->output_padding[i].set) {
        return (same ? k % 2 : k) + (int64_t)s->output_padding[i].value;
    }
    return same || k < stride ? stride : k;
}

static td_status check_transposed(const td__layer *layer, const stretching *s, int64_t in,
                                  td_error *error) {
    if (s->padding == TD_PADDING_CAUSAL) {
        return td__layer_error(layer, error, TD_INVALID, "causal padding is for conv1d");
    }
    if (in % s->groups || s->filters % s->groups) {
        return td__layer_error(layer, error, TD_BAD_SHAPE,
                               "%lld groups do not divide %lld input channels and %lld filters",
                               (long long)s->groups, (long long)in, (long long)s->filters);
    }
    for (int i = 0; i < s->spatial; i++) {
        if (s->output_padding[i].value >= (double)s->stride[i]) {
            return td__layer_error(
                layer, error, TD_INVALID,
                "'output_padding' has %.0f, it must be less than the stride, %lld",
                s->output_padding[i].value, (long long)s->stride[i]);
        }
        if (s->padding == TD_PADDING_SAME && reach(s, i) < 1) {
            return td__layer_error(layer, error, TD_INVALID,
                                   "a kernel of even size and no output padding along one axis do "
                                   "not go together with padding 'same'");
        }
    }
    return TD_OK;
}

/* The output's shape; *kernel gets the kernel's. */
static td_status plan_transposed(td__layer *layer, const td_shape *inputs, td_shape *kernel,
                                 td_error *error) {
    stretching s = stretching_of(layer);
    int64_t in = 0;
    td_status status = td__layer_need_map(layer, inputs, s.spatial, error);
    status = status ? status : td__layer_need_last(layer, inputs, &in, error);
    status = status ? status : check_transposed(layer, &s, in, error);
    if (status) {
        return status;
    }
    td_shape output = inputs[0];
    *kernel = (td_shape){.rank = s.spatial + 2};
    for (int i = 0; i < s.spatial; i++) {
        int64_t size = output.dims[i];
        output.dims[i] = size < 0 ? size : (size - 1) * s.stride[i] + reach(&s, i);
        kernel->dims[i] = s.kernel[i];
    }
    output.dims[s.spatial] = s.filters;
    kernel->dims[s.spatial] = s.filters / s.groups;
    kernel->dims[s.spatial + 1] = in;
    layer->info.output = output;
    return TD_OK;
}

/* Kernel and bias; both option structs have the same members, at other places. */
#define PLAN_WITH_PARAMETERS(name, struct_type)                                                    \
    static td_status name(td__layer *layer, const td_shape *inputs, td_error *error) {             \
        const struct_type *options = layer->options;                                               \
        td_shape kernel;                                                                           \
        td_status status = plan_transposed(layer, inputs, &kernel, error);                         \
        if (status) {                                                                              \
            return status;                                                                         \
        }                                                                                          \
        td__layer_parameter(layer, 0, "kernel", kernel, options->kernel_initializer,               \
                            options->kernel_l1, options->kernel_l2);                               \
        if (!options->no_bias) {                                                                   \
            td__layer_parameter(layer, 1, "bias", TD_SHAPE(options->filters),                      \
                                options->bias_initializer, options->bias_l1, options->bias_l2);    \
        }                                                                                          \
        layer->activation = options->activation;                                                   \
        return TD_OK;                                                                              \
    }
PLAN_WITH_PARAMETERS(plan_images, td_conv2d_layer)
PLAN_WITH_PARAMETERS(plan_volumes, td_conv3d_layer)

/* --- steps and images ------------------------------------------------------------------------- */

/* Over the last two spatial axes, or the only one and a column. */
static td_conv_options operation_options(const stretching *s) {
    int first = s->spatial == 3 ? 1 : 0;
    return (td_conv_options){
        .size = sizeof(td_conv_options),
        .stride = {s->stride[first], s->stride[first + 1]},
        .dilation = {s->dilation[first], s->dilation[first + 1]},
        .groups = s->groups,
        .padding = s->padding,
        .output_padding = {s->output_padding[first], s->output_padding[first + 1]}};
}

static td_tensor *forward_images(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    stretching s = stretching_of(layer);
    td_conv_options options = operation_options(&s);
    options.activation = layer->fused;
    td_tensor *x = inputs[0], *kernel = layer->slot[0];
    if (s.spatial == 2) {
        return td_conv2d_transpose(tape, x, kernel, layer->slot[1], &options);
    }
    const int64_t *dims = x->shape.dims, *size = kernel->shape.dims;
    td_tensor *y = td_conv2d_transpose(
        tape, td_reshape(tape, x, TD_SHAPE(dims[0], dims[1], 1, dims[2])),
        td_reshape(tape, kernel, TD_SHAPE(size[0], 1, size[1], size[2])), layer->slot[1], &options);
    return y ? td_reshape(tape, y, TD_SHAPE(dims[0], y->shape.dims[1], s.filters)) : NULL;
}

/* --- volumes ---------------------------------------------------------------------------------- */

/* How many planes at most reach an output plane: every kernel plane that is a stride apart. */
static int64_t terms_of(const stretching *s) {
    int64_t max = 0;
    for (int64_t phase = 0; phase < s->stride[0]; phase++) {
        int64_t count = 0;
        for (int64_t k = 0; k < s->kernel[0]; k++) {
            count += k * s->dilation[0] % s->stride[0] == phase;
        }
        max = count > max ? count : max;
    }
    return max;
}

/* planes (batch * in, height, width, groups * kernel planes * own) -> (batch, out, terms, height *
 * width, filters): for each output plane the parts that reach it, zeros where there are fewer. */
static td_tensor *gather_terms(td_tape *tape, const stretching *s, td_tensor *planes, int64_t in,
                               int64_t out, int64_t before) {
    int64_t batch = planes->shape.dims[0] / in, terms = terms_of(s), depth = s->kernel[0];
    int64_t area = planes->shape.dims[1] * planes->shape.dims[2], channels = planes->shape.dims[3];
    int64_t own = s->filters / s->groups;
    td__move_map map;
    if (!td__move_map_init(tape, "conv3d_transpose",
                           TD_SHAPE(batch, out * terms, area, s->groups, own), &map)) {
        return NULL;
    }
    if (!map.offsets[0]) { /* an empty batch */
        return td_reshape(tape, planes, TD_SHAPE(batch, out, terms, area, s->filters));
    }
    for (int64_t i = 0; i < batch; i++) {
        map.offsets[0][i] = i * in * area * channels;
    }
    for (int64_t o = 0; o < out; o++) {
        int64_t term = 0;
        for (int64_t k = 0; k < depth; k++) {
            int64_t at = o + before - k * s->dilation[0];
            if (at >= 0 && at % s->stride[0] == 0 && at / s->stride[0] < in) {
                map.offsets[1][o * terms + term++] = at / s->stride[0] * area * channels + k * own;
            }
        }
        while (term < terms) {
            map.offsets[1][o * terms + term++] = -1;
        }
    }
    for (int64_t i = 0; i < area; i++) {
        map.offsets[2][i] = i * channels;
    }
    for (int64_t i = 0; i < s->groups; i++) {
        map.offsets[3][i] = i * depth * own;
    }
    for (int64_t i = 0; i < own; i++) {
        map.offsets[4][i] = i;
    }
    td_tensor *all = td__move(tape, planes, &map, NULL);
    return td_reshape(tape, all, TD_SHAPE(batch, out, terms, area, s->filters));
}

static td_tensor *forward_volumes(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    stretching s = stretching_of(layer);
    td_tensor *x = inputs[0];
    const int64_t *dims = x->shape.dims, *size = layer->slot[0]->shape.dims;
    td_conv_options options = operation_options(&s);
    td_tensor *flat = td_transpose(tape, layer->slot[0], (const int32_t[]){1, 2, 0, 3, 4});
    flat = td_reshape(tape, flat, TD_SHAPE(size[1], size[2], size[0] * size[3], size[4]));
    td_tensor *planes = td_conv2d_transpose(
        tape, td_reshape(tape, x, TD_SHAPE(dims[0] * dims[1], dims[2], dims[3], dims[4])), flat,
        NULL, &options);
    if (!planes) {
        return NULL;
    }
    int64_t out = (dims[1] - 1) * s.stride[0] + reach(&s, 0);
    int64_t cut = s.padding == TD_PADDING_SAME ? span(&s, 0) - reach(&s, 0) : 0;
    td_tensor *all = gather_terms(tape, &s, planes, dims[1], out, cut > 0 ? cut / 2 : 0);
    const td_reduce_options terms = {.size = sizeof terms, .count = 1, .axes = {2}};
    td_tensor *y =
        td_reshape(tape, td_sum(tape, all, &terms),
                   TD_SHAPE(dims[0], out, planes->shape.dims[1], planes->shape.dims[2], s.filters));
    y = layer->slot[1] ? td_add(tape, y, layer->slot[1]) : y;
    return layer->fused == TD_LINEAR ? y : td_activate(tape, y, layer->fused, TD_DEFAULT);
}

/* --- as operators ----------------------------------------------------------------------------- */

/* What the window reaches beyond the output is cut away on both sides; what it does not reach is
 * output_padding. */
static const char *transposed_operators(const td__layer *layer, td__operators *to,
                                        const char *const *inputs, const td_shape *shapes) {
    stretching s = stretching_of(layer);
    td__window window = {.spatial = s.spatial, .padding = TD_PADDING_VALID};
    int64_t missing[MAX_SPATIAL] = {0};
    for (int i = 0; i < s.spatial; i++) {
        window.kernel[i] = s.kernel[i];
        window.stride[i] = s.stride[i];
        window.dilation[i] = s.dilation[i];
    }
    size_t used = td__operator_window(&window, shapes);
    for (int i = 0; i < s.spatial; i++) {
        int64_t beyond = span(&s, i) - reach(&s, i);
        missing[i] = beyond < 0 ? -beyond : 0;
        window.pads[i] = beyond > 0 ? beyond / 2 : 0;
        window.pads[s.spatial + i] = beyond > 0 ? beyond - beyond / 2 : 0;
    }
    window.attributes[used++] = TD__NAMED_INTS("output_padding", missing, (size_t)s.spatial);
    return td__operator_convolve(to, "ConvTranspose", layer, inputs[0], &window, used, s.groups);
}

static const td__keras_option keras[] = {{"filters", TD__KERAS_NUMBER, "filters"},
                                         {"groups", TD__KERAS_ONE, "groups"},
                                         {"output_padding", TD__KERAS_NUMBERS, "output_padding"},
                                         TD__KERAS_WINDOW,
                                         TD__KERAS_KERNEL_AND_BIAS};
#define TORCH(rank, ...)                                                                           \
    { TD__TORCH_KERNEL(rank, __VA_ARGS__), TD__TORCH_VECTOR("bias", "bias", ) }
static const td__torch_weight torch1[] = TORCH(3, 2, 1, 0);
static const td__torch_weight torch2[] = TORCH(4, 2, 3, 1, 0);
static const td__torch_weight torch3[] = TORCH(5, 2, 3, 4, 1, 0);

#define KIND(axes, struct_type, what)                                                              \
    {                                                                                              \
        TD__KIND_OF_ONE(fields##axes, struct_type, plan_##what, forward_##what),                   \
            TD__IS(LINEAR, OTHER), .unit_axis = 2, TD__KERAS(keras, VARS),                         \
                                   .torch = {"nn.ConvTranspose" #axes "d", torch##axes,            \
                                             TD__COUNT(torch##axes), (axes) == 1},                 \
                                   .has_activation = true, .operators = transposed_operators       \
    }
const td__layer_kind td__conv1d_transpose_kind = KIND(1, td_conv2d_layer, images);
const td__layer_kind td__conv2d_transpose_kind = KIND(2, td_conv2d_layer, images);
const td__layer_kind td__conv3d_transpose_kind = KIND(3, td_conv3d_layer, volumes);
