/* conv2d_transpose: y is what a convolution's backward pass makes of x, plus a bias
 *
 * With the convolution C from (height, width, out) to (…, in) of the same kernel (h, w, out / groups,
 * in):
 * z = C^T x + bias; dx = C dz; dk = the kernel's gradient of C with input dz and output gradient x
 */
#include "tape/conv.h"

#include <math.h>

static const td__op transpose_op = {.name = "conv2d_transpose", .backward = td__conv_backward};

/* Keras's output size along one axis, and the padding of the convolution back from it. An output
 * padding that is given replaces what the stride would add. */
static void stretch(int64_t size, int64_t kernel, int64_t stride, int64_t dilation, bool same,
                    bool given, int64_t extra, int64_t *out, int64_t *before) {
    int64_t reach = (kernel - 1) * dilation + 1, min = (size - 1) * stride;
    if (given) {
        *out = min + (same ? reach % 2 : reach) + extra;
    } else {
        *out = same ? size * stride : min + (reach > stride ? reach : stride);
    }
    int64_t total = same ? min + reach - *out : 0;
    *before = total > 0 ? total / 2 : 0;
}

static bool check_shapes(td_tape *tape, const td_tensor *x, const td_tensor *kernel,
                         const td_tensor *bias, const td_conv_options *options, td__conv *conv) {
    char a[TD_SHAPE_TEXT_SIZE], b[TD_SHAPE_TEXT_SIZE];
    const int64_t *xs = x->shape.dims, *ks = kernel->shape.dims;
    if (x->shape.rank != 4 || kernel->shape.rank != 4 || ks[3] != xs[3] || ks[0] < 1 || ks[1] < 1) {
        td__fail(tape, TD_BAD_SHAPE,
                 "conv2d_transpose: input %s does not fit kernel %s: they must be (batch, height, "
                 "width, channels) and (height, width, filters / groups, channels)",
                 td_shape_text(&x->shape, a), td_shape_text(&kernel->shape, b));
        return false;
    }
    if (!td__conv_settings(tape, "conv2d_transpose", options, conv)) {
        return false;
    }
    if (ks[3] % conv->groups) {
        td__fail(tape, TD_BAD_SHAPE, "conv2d_transpose: %lld groups do not divide %lld channels",
                 (long long)conv->groups, (long long)ks[3]);
        return false;
    }
    if (!td__conv_check_bias(tape, "conv2d_transpose", bias, kernel, ks[2] * conv->groups)) {
        return false;
    }
    int64_t out[2];
    bool same = options && options->padding == TD_PADDING_SAME;
    bool given = options && (options->output_padding[0].set || options->output_padding[1].set);
    for (int axis = 0; axis < 2; axis++) {
        double padding = given ? options->output_padding[axis].value : 0;
        int64_t stride = conv->stride[axis];
        if (!(padding >= 0 && padding < (double)stride) || padding != trunc(padding)) {
            td__fail(tape, TD_INVALID,
                     "conv2d_transpose: output padding %g must be a whole number less than the "
                     "stride, %lld",
                     padding, (long long)stride);
            return false;
        }
        int64_t extra = (int64_t)padding;
        stretch(xs[1 + axis], ks[axis], stride, conv->dilation[axis], same, given, extra,
                &out[axis], &conv->before[axis]);
        if (same && (out[axis] + stride - 1) / stride != xs[1 + axis]) {
            td__fail(tape, TD_INVALID,
                     "conv2d_transpose: a kernel of even size and no output padding along one axis "
                     "do not go together with padding 'same'");
            return false;
        }
        conv->out[axis] = xs[1 + axis];
        conv->kernel[axis] = ks[axis];
    }
    conv->batch = xs[0];
    conv->height = out[0];
    conv->width = out[1];
    conv->channels = ks[2] * conv->groups;
    conv->filters = ks[3];
    return true;
}

td_tensor *td_conv2d_transpose(td_tape *tape, td_tensor *x, td_tensor *kernel, td_tensor *bias,
                               const td_conv_options *options) {
    td_activation activation = options ? options->activation : TD_LINEAR;
    td__conv conv = {0};
    if (!td__conv_check(tape, "conv2d_transpose", x, kernel, bias, activation) ||
        !check_shapes(tape, x, kernel, bias, options, &conv)) {
        return NULL;
    }
    return td__conv_run(tape, &transpose_op, &conv, true, x, kernel, bias,
                        (td__ending){.activation = activation});
}
