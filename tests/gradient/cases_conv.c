/* conv2d, conv1d and conv2d_transpose */
#include "gradient/op_table.h"

static td_tensor *build_conv2d(td_tape *tape, td_tensor *const in[], const void *options) {
    return td_conv2d(tape, in[0], in[1], in[2], options);
}

static td_tensor *build_conv1d(td_tape *tape, td_tensor *const in[], const void *options) {
    return td_conv1d(tape, in[0], in[1], in[2], options);
}

static td_tensor *build_transpose(td_tape *tape, td_tensor *const in[], const void *options) {
    return td_conv2d_transpose(tape, in[0], in[1], in[2], options);
}

/* Everything a reference needs, with defaults. */
typedef struct settings {
    int64_t stride[2], dilation[2], groups, before[2];
} settings;

static settings settle(const td_conv_options *options, const int64_t size[2], const int64_t out[2],
                       const int64_t kernel[2]) {
    settings s = {.stride = {1, 1}, .dilation = {1, 1}, .groups = 1};
    if (options && options->groups) {
        s.groups = options->groups;
    }
    for (int i = 0; i < 2 && options; i++) {
        s.stride[i] = options->stride[i] ? options->stride[i] : 1;
        s.dilation[i] = options->dilation[i] ? options->dilation[i] : 1;
        int64_t reach = (kernel[i] - 1) * s.dilation[i] + 1;
        int64_t total = (out[i] - 1) * s.stride[i] + reach - size[i];
        if (options->padding == TD_PADDING_SAME && total > 0) {
            s.before[i] = total / 2;
        }
        if (options->padding == TD_PADDING_CAUSAL) {
            s.before[i] = reach - 1;
        }
    }
    return s;
}

/* big (b, h, w, c), small (b, oh, ow, n), kernel (kh, kw, c / groups, n); visits every tap. */
static void each_tap(const settings *s, const int64_t big[4], const int64_t small[4],
                     const int64_t kernel[2],
                     void (*visit)(double *values[3], int64_t big, int64_t kernel, int64_t small),
                     double *values[3]) {
    int64_t depth = big[3] / s->groups, filters = small[3] / s->groups;
    int64_t count = small[0] * small[1] * small[2] * small[3];
    for (int64_t o = 0; o < count; o++) {
        int64_t n = o % small[3], j = o / small[3] % small[2];
        int64_t i = o / small[3] / small[2] % small[1], b = o / small[3] / small[2] / small[1];
        for (int64_t k = 0; k < kernel[0] * kernel[1] * depth; k++) {
            int64_t d = k % depth, v = k / depth % kernel[1], u = k / depth / kernel[1];
            int64_t y = i * s->stride[0] + u * s->dilation[0] - s->before[0];
            int64_t x = j * s->stride[1] + v * s->dilation[1] - s->before[1];
            if (y >= 0 && y < big[1] && x >= 0 && x < big[2]) {
                visit(values, ((b * big[1] + y) * big[2] + x) * big[3] + n / filters * depth + d,
                      k * small[3] + n, o);
            }
        }
    }
}

static void to_small(double *values[3], int64_t big, int64_t kernel, int64_t small) {
    values[2][small] += values[0][big] * values[1][kernel];
}

static void to_big(double *values[3], int64_t big, int64_t kernel, int64_t small) {
    values[0][big] += values[2][small] * values[1][kernel];
}

static void start_with_bias(const op_array *bias, op_array *out) {
    for (int64_t i = 0; i < out->count; i++) {
        out->values[i] = bias->shape.rank == 1 ? bias->values[i % bias->count] : 0;
    }
}

static void finish(op_array *out, const td_conv_options *options) {
    for (int64_t i = 0; i < out->count && options; i++) {
        double z = out->values[i];
        out->values[i] = options->activation == TD_RELU   ? (z > 0 ? z : 0)
                         : options->activation == TD_TANH ? tanh(z)
                                                          : z;
    }
}

static void conv2d(const op_array in[], op_array *out, const void *options) {
    settings s = settle(options, in[0].shape.dims + 1, out->shape.dims + 1, in[1].shape.dims);
    start_with_bias(&in[2], out);
    each_tap(&s, in[0].shape.dims, out->shape.dims, in[1].shape.dims, to_small,
             (double *[]){in[0].values, in[1].values, out->values});
    finish(out, options);
}

static void conv1d(const op_array in[], op_array *out, const void *options) {
    const int64_t *xs = in[0].shape.dims, *ks = in[1].shape.dims, *ys = out->shape.dims;
    td_conv_options wide = options ? *(const td_conv_options *)options : (td_conv_options){0};
    wide.stride[1] = wide.stride[0];
    wide.dilation[1] = wide.dilation[0];
    wide.stride[0] = wide.dilation[0] = 1;
    int64_t big[] = {xs[0], 1, xs[1], xs[2]}, small[] = {ys[0], 1, ys[1], ys[2]};
    int64_t kernel[] = {1, ks[0]};
    settings s = settle(&wide, big + 1, small + 1, kernel);
    start_with_bias(&in[2], out);
    each_tap(&s, big, small, kernel, to_small,
             (double *[]){in[0].values, in[1].values, out->values});
    finish(out, &wide);
}

static void transpose(const op_array in[], op_array *out, const void *options) {
    settings s = settle(options, out->shape.dims + 1, in[0].shape.dims + 1, in[1].shape.dims);
    start_with_bias(&in[2], out);
    each_tap(&s, out->shape.dims, in[0].shape.dims, in[1].shape.dims, to_big,
             (double *[]){out->values, in[1].values, in[0].values});
    finish(out, options);
}

#define OPTIONS(...) (&(const td_conv_options){.size = sizeof(td_conv_options), __VA_ARGS__})
#define S(...) TD_SHAPE(__VA_ARGS__)
#define CASE(op, what, x, kernel, bias, y, ...)                                                    \
    {                                                                                              \
        .name = what, .inputs = {{x}, {kernel}, bias}, .input_count = 3, .output = y,              \
        .build = build_##op, .reference = op, .options = OPTIONS(__VA_ARGS__),                     \
        .value_tolerance = 2e-5                                                                    \
    }
#define BIAS(n)                                                                                    \
    { TD_SHAPE(n) }
#define NO_BIAS                                                                                    \
    { .optional = true }

static const op_case cases[] = {
    CASE(conv2d, "conv2d, valid", S(2, 5, 6, 3), S(3, 3, 3, 4), BIAS(4), S(2, 3, 4, 4),
         .groups = 1),
    CASE(conv2d, "conv2d, same", S(2, 5, 6, 3), S(3, 2, 3, 4), BIAS(4), S(2, 5, 6, 4),
         .padding = TD_PADDING_SAME),
    CASE(conv2d, "conv2d, stride 2, same", S(1, 6, 5, 2), S(3, 3, 2, 17), BIAS(17), S(1, 3, 3, 17),
         .stride = {2, 2}, .padding = TD_PADDING_SAME),
    CASE(conv2d, "conv2d, stride 3 over a kernel of 2", S(1, 7, 8, 2), S(2, 2, 2, 3), NO_BIAS,
         S(1, 2, 3, 3), .stride = {3, 3}),
    CASE(conv2d, "conv2d, dilation", S(1, 7, 7, 2), S(3, 3, 2, 3), BIAS(3), S(1, 3, 5, 3),
         .dilation = {2, 1}),
    CASE(conv2d, "conv2d, dilation across", S(1, 5, 7, 2), S(2, 3, 2, 3), BIAS(3), S(1, 5, 7, 3),
         .dilation = {1, 2}, .padding = TD_PADDING_SAME),
    CASE(conv2d, "conv2d, groups", S(2, 4, 4, 6), S(3, 3, 2, 9), BIAS(9), S(2, 2, 2, 9),
         .groups = 3),
    CASE(conv2d, "conv2d, depthwise", S(1, 4, 4, 5), S(3, 3, 1, 5), BIAS(5), S(1, 4, 4, 5),
         .groups = 5, .padding = TD_PADDING_SAME),
    CASE(conv2d, "conv2d, 1x1", S(2, 3, 3, 5), S(1, 1, 5, 4), BIAS(4), S(2, 3, 3, 4), .groups = 1),
    CASE(conv2d, "conv2d, relu", S(2, 5, 5, 1), S(3, 3, 1, 4), BIAS(4), S(2, 3, 3, 4),
         .activation = TD_RELU),
    CASE(conv2d, "conv2d, tanh", S(1, 4, 4, 2), S(2, 2, 2, 3), BIAS(3), S(1, 3, 3, 3),
         .activation = TD_TANH),
    CASE(conv1d, "conv1d, valid", S(2, 7, 3), S(3, 3, 4), BIAS(4), S(2, 5, 4), .groups = 1),
    CASE(conv1d, "conv1d, causal, dilated", S(2, 7, 3), S(3, 3, 4), BIAS(4), S(2, 7, 4),
         .padding = TD_PADDING_CAUSAL, .dilation = {2}),
    CASE(conv1d, "conv1d, stride 2, same", S(2, 7, 3), S(4, 3, 4), NO_BIAS, S(2, 4, 4),
         .padding = TD_PADDING_SAME, .stride = {2}),
    CASE(transpose, "conv2d_transpose, valid", S(1, 3, 4, 3), S(3, 3, 5, 3), BIAS(5), S(1, 5, 6, 5),
         .groups = 1),
    CASE(transpose, "conv2d_transpose, stride 2, same", S(2, 3, 3, 4), S(3, 3, 2, 4), BIAS(2),
         S(2, 6, 6, 2), .stride = {2, 2}, .padding = TD_PADDING_SAME),
    CASE(transpose, "conv2d_transpose, stride 2 over a kernel of 1", S(1, 3, 3, 2), S(1, 1, 3, 2),
         BIAS(3), S(1, 6, 6, 3), .stride = {2, 2}),
    CASE(transpose, "conv2d_transpose, output padding, valid", S(1, 4, 3, 2), S(2, 3, 2, 2),
         BIAS(2), S(1, 12, 10, 2), .stride = {3, 3}, .output_padding = {SET(1), SET(1)}),
    CASE(transpose, "conv2d_transpose, output padding, same", S(1, 3, 3, 2), S(3, 2, 2, 2), BIAS(2),
         S(1, 5, 5, 2), .stride = {2, 2}, .padding = TD_PADDING_SAME,
         .output_padding = {SET(0), SET(1)}),
    CASE(transpose, "conv2d_transpose, output padding of 0", S(1, 3, 3, 2), S(3, 3, 2, 2), BIAS(2),
         S(1, 5, 5, 2), .stride = {2, 2}, .padding = TD_PADDING_SAME, .output_padding = {SET(0)}),
    CASE(transpose, "conv2d_transpose, relu", S(1, 3, 3, 2), S(2, 2, 3, 2), BIAS(3), S(1, 6, 6, 3),
         .stride = {2, 2}, .activation = TD_RELU),
};

static const op_mistake mistakes[] = {
    {.name = "conv2d, channels differ",
     .inputs = {{S(2, 5, 5, 3)}, {S(3, 3, 2, 4)}, NO_BIAS},
     .input_count = 3,
     .build = build_conv2d,
     .status = TD_BAD_SHAPE,
     .text =
         "conv2d: input (2, 5, 5, 3) does not fit kernel (3, 3, 2, 4) with 1 group(s): the input "
         "needs 2 channels and the filters must divide by the groups"},
    {.name = "conv2d, kernel too large",
     .inputs = {{S(2, 2, 5, 3)}, {S(3, 3, 3, 4)}, NO_BIAS},
     .input_count = 3,
     .build = build_conv2d,
     .status = TD_BAD_SHAPE,
     .text =
         "conv2d: kernel (3, 3, 3, 4) is larger than input (2, 2, 5, 3); use padding 'same' or a "
         "smaller kernel"},
    {.name = "conv2d of a vector",
     .inputs = {{S(2, 2)}, {S(3, 3, 3, 4)}, NO_BIAS},
     .input_count = 3,
     .build = build_conv2d,
     .status = TD_BAD_SHAPE,
     .text =
         "conv2d: input (2, 2) and kernel (3, 3, 3, 4) must be (batch, height, width, channels) "
         "and (height, width, channels, filters)"},
    {.name = "conv2d, negative stride",
     .inputs = {{S(2, 5, 5, 3)}, {S(3, 3, 3, 4)}, NO_BIAS},
     .input_count = 3,
     .build = build_conv2d,
     .options = OPTIONS(.stride = {-1, 1}),
     .status = TD_INVALID,
     .text = "conv2d: strides, dilations and groups must be positive"},
    {.name = "conv2d, bias too short",
     .inputs = {{S(2, 5, 5, 3)}, {S(3, 3, 3, 4)}, BIAS(2)},
     .input_count = 3,
     .build = build_conv2d,
     .status = TD_BAD_SHAPE,
     .text = "conv2d: bias (2,) does not fit kernel (3, 3, 3, 4): it must be (4,)"},
    {.name = "conv1d of an image",
     .inputs = {{S(2, 5, 5, 3)}, {S(3, 3, 4)}, NO_BIAS},
     .input_count = 3,
     .build = build_conv1d,
     .status = TD_BAD_SHAPE,
     .text = "conv1d: input (2, 5, 5, 3) and kernel (3, 3, 4) must be (batch, steps, channels) and "
             "(size, channels, filters)"},
    {.name = "conv2d_transpose, channels differ",
     .inputs = {{S(2, 5, 5, 3)}, {S(3, 3, 3, 4)}, NO_BIAS},
     .input_count = 3,
     .build = build_transpose,
     .status = TD_BAD_SHAPE,
     .text = "conv2d_transpose: input (2, 5, 5, 3) does not fit kernel (3, 3, 3, 4): they must be "
             "(batch, height, width, channels) and (height, width, filters / groups, channels)"},
    {.name = "conv2d_transpose, output padding as large as the stride",
     .inputs = {{S(2, 5, 5, 3)}, {S(3, 3, 4, 3)}, NO_BIAS},
     .input_count = 3,
     .build = build_transpose,
     .options = OPTIONS(.stride = {2, 2}, .output_padding = {SET(2), SET(0)}),
     .status = TD_INVALID,
     .text = "conv2d_transpose: output padding 2 must be a whole number less than the stride, 2"},
    {.name = "conv2d_transpose, output padding that no convolution leads back from",
     .inputs = {{S(2, 5, 5, 3)}, {S(2, 2, 4, 3)}, NO_BIAS},
     .input_count = 3,
     .build = build_transpose,
     .options =
         OPTIONS(.stride = {2, 2}, .padding = TD_PADDING_SAME, .output_padding = {SET(1), SET(0)}),
     .status = TD_INVALID,
     .text =
         "conv2d_transpose: a kernel of even size and no output padding along one axis do not go "
         "together with padding 'same'"},
};

const op_group cases_conv = {OP_LIST(cases), OP_LIST(mistakes)};
