/* conv2d: y = f(x * kernel + bias), channels last; conv1d: the same with one row
 *
 * z[b, i, j, n] = bias[n] + sum over u, v, c of x[b, i s + u d - p, j s + v d - p, c] k[u, v, c, n]
 * with g groups: filter n sees the channels of its group only.
 * dz = g f'; dk = x * dz; dx = dz * flipped k; dbias = sum of dz
 */
#include "tape/conv.h"

static const td__op conv2d_op = {.name = "conv2d", .backward = td__conv_backward};

/* The shape rule: fills conv or says what does not fit. */
static bool check_shapes(td_tape *tape, const td_tensor *x, const td_tensor *kernel,
                         const td_tensor *bias, const td_conv_options *options, td__conv *conv) {
    char a[TD_SHAPE_TEXT_SIZE], b[TD_SHAPE_TEXT_SIZE];
    const int64_t *xs = x->shape.dims, *ks = kernel->shape.dims;
    if (x->shape.rank != 4 || kernel->shape.rank != 4) {
        td__fail(tape, TD_BAD_SHAPE,
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
        td__fail(tape, TD_BAD_SHAPE,
                 "conv2d: input %s does not fit kernel %s with %lld group(s): the input needs %lld "
                 "channels and the filters must divide by the groups",
                 td_shape_text(&x->shape, a), td_shape_text(&kernel->shape, b),
                 (long long)conv->groups, (long long)(conv->groups * ks[2]));
        return false;
    }
    if (!td__conv_check_bias(tape, "conv2d", bias, kernel, ks[3])) {
        return false;
    }
    td_padding padding = options ? options->padding : TD_PADDING_VALID;
    for (int axis = 0; axis < 2; axis++) {
        if (!td__conv_axis(xs[1 + axis], ks[axis], conv->stride[axis], conv->dilation[axis],
                           padding == TD_PADDING_CAUSAL && axis == 0 ? TD_PADDING_VALID : padding,
                           &conv->out[axis], &conv->before[axis])) {
            td__fail(tape, TD_BAD_SHAPE,
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
    if (!td__conv_check(tape, "conv2d", x, kernel, bias, activation) ||
        !check_shapes(tape, x, kernel, bias, options, &conv)) {
        return NULL;
    }
    return td__conv_run(tape, &conv2d_op, &conv, false, x, kernel, bias,
                        (td__ending){.activation = activation});
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
            tape, TD_BAD_SHAPE,
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
