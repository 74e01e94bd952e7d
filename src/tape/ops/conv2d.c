/* conv2d: y = f(x * kernel + bias), channels last; conv1d: the same with one row
 *
 * z[b, i, j, n] = bias[n] + sum over u, v, c of x[b, i s + u d - p, j s + v d - p, c] k[u, v, c, n]
 * with g groups: filter n sees the channels of its group only.
 * dz = g f'; dk = x * dz; dx = dz * flipped k; dbias = sum of dz
 */
#include "tape/conv.h"
#include "tape/kernels.h"
#include "tape/linear.h"

typedef struct conv_saved {
    td__conv conv;
    td__linear *linear;
} conv_saved;

static td_status conv_backward(td_tape *tape, td__node *node) {
    const conv_saved *saved = node->saved;
    const td__conv *c = &saved->conv;
    const float *x = td__floats(node->inputs[0].tensor);
    const float *kernel = td__floats(node->inputs[1].tensor);
    td__buffer *dz;
    if (td__linear_backward(tape, node, saved->linear, c->batch * c->out[0] * c->out[1], c->filters,
                            2, &dz)) {
        return TD_MEMORY;
    }
    td_status status = TD_OK;
    bool add;
    if (td__wants(tape, node, 1)) {
        float *dw = td__gradient(tape, node, 1, &add);
        status = dw ? td__conv_to_kernel(tape, c, x, dz->data, add, dw) : TD_MEMORY;
    }
    if (!status && td__wants(tape, node, 0)) {
        float *dx = td__gradient(tape, node, 0, &add);
        status = dx ? td__conv_to_input(tape, c, dz->data, kernel, NULL, dx, add ? TD__TILE_ADD : 0)
                    : TD_MEMORY;
    }
    td__buffer_drop(tape, dz);
    return status;
}

static const td__op conv2d_op = {.name = "conv2d", .backward = conv_backward};

static int64_t or_one(int64_t value) {
    return value ? value : 1;
}

bool td__conv_settings(td_tape *tape, const char *op, const td_conv_options *options,
                       td__conv *conv) {
    td_conv_options given = options ? *options : (td_conv_options){0};
    conv->groups = or_one(given.groups);
    bool positive = conv->groups > 0;
    for (int axis = 0; axis < 2; axis++) {
        conv->stride[axis] = or_one(given.stride[axis]);
        conv->dilation[axis] = or_one(given.dilation[axis]);
        positive = positive && conv->stride[axis] > 0 && conv->dilation[axis] > 0;
    }
    if (!positive) {
        td__fail(tape, TD_INVALID, "%s: strides, dilations and groups must be positive", op);
    }
    return positive;
}

/* The shape rule: fills conv or says what does not fit. */
static bool fit(td_tape *tape, const td_tensor *x, const td_tensor *kernel, const td_tensor *bias,
                const td_conv_options *options, td__conv *conv) {
    char a[TD_SHAPE_TEXT_SIZE], b[TD_SHAPE_TEXT_SIZE];
    const int64_t *xs = x->shape.dims, *ks = kernel->shape.dims;
    if (x->shape.rank != 4 || kernel->shape.rank != 4) {
        td__fail(tape, TD_SHAPE,
                 "conv2d: input %s and kernel %s must be (batch, height, width, channels) and "
                 "(height, width, channels, filters)",
                 td_shape_text(&x->shape, a), td_shape_text(&kernel->shape, b));
        return false;
    }
    if (!td__conv_settings(tape, "conv2d", options, conv)) {
        return false;
    }
    conv->batch = xs[0];
    conv->height = xs[1];
    conv->width = xs[2];
    conv->channels = xs[3];
    conv->kernel[0] = ks[0];
    conv->kernel[1] = ks[1];
    conv->filters = ks[3];
    if (conv->groups * ks[2] != xs[3] || ks[3] % conv->groups != 0 || ks[0] < 1 || ks[1] < 1) {
        td__fail(tape, TD_SHAPE,
                 "conv2d: input %s does not fit kernel %s with %lld group(s): the input needs %lld "
                 "channels and the filters must divide by the groups",
                 td_shape_text(&x->shape, a), td_shape_text(&kernel->shape, b),
                 (long long)conv->groups, (long long)(conv->groups * ks[2]));
        return false;
    }
    if (bias && (bias->shape.rank != 1 || bias->shape.dims[0] != ks[3])) {
        td__fail(tape, TD_SHAPE, "conv2d: bias %s does not fit kernel %s: it must be (%lld,)",
                 td_shape_text(&bias->shape, a), td_shape_text(&kernel->shape, b),
                 (long long)ks[3]);
        return false;
    }
    td_padding padding = options ? options->padding : TD_PADDING_VALID;
    for (int axis = 0; axis < 2; axis++) {
        if (!td__conv_axis(xs[1 + axis], ks[axis], conv->stride[axis], conv->dilation[axis],
                           padding == TD_PADDING_CAUSAL && axis == 0 ? TD_PADDING_VALID : padding,
                           &conv->out[axis], &conv->before[axis])) {
            td__fail(tape, TD_SHAPE,
                     "conv2d: kernel %s is larger than input %s; use padding 'same' or a smaller "
                     "kernel",
                     td_shape_text(&kernel->shape, b), td_shape_text(&x->shape, a));
            return false;
        }
    }
    return true;
}

td_tensor *td_conv2d(td_tape *tape, td_tensor *x, td_tensor *kernel, td_tensor *bias,
                     const td_conv_options *options) {
    td_activation activation = options ? options->activation : TD_LINEAR;
    td__conv conv = {0};
    if (!td__check_float(tape, "conv2d", "input", x) ||
        !td__check_float(tape, "conv2d", "kernel", kernel) ||
        (bias && !td__check_float(tape, "conv2d", "bias", bias)) ||
        !td__linear_check(tape, "conv2d", activation) ||
        !fit(tape, x, kernel, bias, options, &conv)) {
        return NULL;
    }
    td_tensor *y =
        td__output(tape, TD_FLOAT32, &TD_SHAPE(conv.batch, conv.out[0], conv.out[1], conv.filters));
    conv_saved *saved = y ? td__scratch(tape, sizeof *saved) : NULL;
    if (!saved) {
        return NULL;
    }
    *saved = (conv_saved){.conv = conv, .linear = td__linear_begin(tape, y, activation)};
    if (!saved->linear || td__conv_forward(tape, &conv, td__floats(x), td__floats(kernel),
                                           bias ? td__floats(bias) : NULL, saved->linear->z,
                                           saved->linear->fused_relu ? TD__TILE_RELU : 0)) {
        return NULL;
    }
    td__linear_end(y, saved->linear);
    return td__record(tape, &conv2d_op, y, 3, (td_tensor *[]){x, kernel, bias}, saved);
}

td_tensor *td_conv1d(td_tape *tape, td_tensor *x, td_tensor *kernel, td_tensor *bias,
                     const td_conv_options *options) {
    if (!td__check_float(tape, "conv1d", "input", x) ||
        !td__check_float(tape, "conv1d", "kernel", kernel)) {
        return NULL;
    }
    char a[TD_SHAPE_TEXT_SIZE], b[TD_SHAPE_TEXT_SIZE];
    if (x->shape.rank != 3 || kernel->shape.rank != 3) {
        return td__fail(
            tape, TD_SHAPE,
            "conv1d: input %s and kernel %s must be (batch, steps, channels) and (size, "
            "channels, filters)",
            td_shape_text(&x->shape, a), td_shape_text(&kernel->shape, b));
    }
    td_conv_options wide = options ? *options : (td_conv_options){0};
    wide.stride[1] = wide.stride[0];
    wide.dilation[1] = wide.dilation[0];
    wide.stride[0] = wide.dilation[0] = 1;
    const int64_t *xs = x->shape.dims, *ks = kernel->shape.dims;
    td_tensor *image = td_reshape(tape, x, TD_SHAPE(xs[0], 1, xs[1], xs[2]));
    td_tensor *window = td_reshape(tape, kernel, TD_SHAPE(1, ks[0], ks[1], ks[2]));
    td_tensor *y = image && window ? td_conv2d(tape, image, window, bias, &wide) : NULL;
    return y ? td_reshape(tape, y, TD_SHAPE(y->shape.dims[0], y->shape.dims[2], y->shape.dims[3]))
             : NULL;
}
