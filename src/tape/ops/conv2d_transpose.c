/* conv2d_transpose: y is what a convolution's backward pass makes of x, plus a bias
 *
 * With the convolution C from (height, width, out) to (…, in) of the same kernel (h, w, out, in):
 * z = C^T x + bias; dx = C dz; dk = the kernel's gradient of C with input dz and output gradient x
 */
#include "tape/conv.h"
#include "tape/kernels.h"
#include "tape/linear.h"

typedef struct transpose_saved {
    td__conv conv; /* from y to x */
    td__linear *linear;
} transpose_saved;

static td_status transpose_backward(td_tape *tape, td__node *node) {
    const transpose_saved *saved = node->saved;
    const td__conv *c = &saved->conv;
    const float *x = td__floats(node->inputs[0].tensor);
    const float *kernel = td__floats(node->inputs[1].tensor);
    td__buffer *dz;
    if (td__linear_backward(tape, node, saved->linear, c->batch * c->height * c->width, c->channels,
                            2, &dz)) {
        return TD_MEMORY;
    }
    td_status status = TD_OK;
    bool add;
    if (td__wants(tape, node, 1)) {
        float *dw = td__gradient(tape, node, 1, &add);
        status = dw ? td__conv_to_kernel(tape, c, dz->data, x, add, dw) : TD_MEMORY;
    }
    if (!status && td__wants(tape, node, 0)) {
        float *dx = td__gradient(tape, node, 0, &add);
        status = dx ? td__conv_forward(tape, c, dz->data, kernel, NULL, dx, add ? TD__TILE_ADD : 0)
                    : TD_MEMORY;
    }
    td__buffer_drop(tape, dz);
    return status;
}

static const td__op transpose_op = {.name = "conv2d_transpose", .backward = transpose_backward};

/* Keras's output size along one axis, and the padding of the convolution back from it. */
static void stretch(int64_t size, int64_t kernel, int64_t stride, int64_t dilation, bool same,
                    int64_t extra, int64_t *out, int64_t *before) {
    int64_t reach = (kernel - 1) * dilation + 1;
    *before = 0;
    if (same) {
        /* The convolution from size * stride gives size again. */
        *out = size * stride;
        int64_t total = (size - 1) * stride + reach - *out;
        *before = total > 0 ? total / 2 : 0;
    } else {
        *out = size * stride + (reach > stride ? reach - stride : 0);
    }
    *out += extra;
}

static bool fit(td_tape *tape, const td_tensor *x, const td_tensor *kernel, const td_tensor *bias,
                const td_conv_options *options, td__conv *conv) {
    char a[TD_SHAPE_TEXT_SIZE], b[TD_SHAPE_TEXT_SIZE];
    const int64_t *xs = x->shape.dims, *ks = kernel->shape.dims;
    if (x->shape.rank != 4 || kernel->shape.rank != 4 || ks[3] != xs[3] || ks[0] < 1 || ks[1] < 1) {
        td__fail(tape, TD_SHAPE,
                 "conv2d_transpose: input %s does not fit kernel %s: they must be (batch, height, "
                 "width, channels) and (height, width, filters, channels)",
                 td_shape_text(&x->shape, a), td_shape_text(&kernel->shape, b));
        return false;
    }
    if (!td__conv_settings(tape, "conv2d_transpose", options, conv)) {
        return false;
    }
    if (conv->groups != 1) {
        td__fail(tape, TD_UNSUPPORTED, "conv2d_transpose: groups must be 1, not %lld",
                 (long long)conv->groups);
        return false;
    }
    if (bias && (bias->shape.rank != 1 || bias->shape.dims[0] != ks[2])) {
        td__fail(
            tape, TD_SHAPE, "conv2d_transpose: bias %s does not fit kernel %s: it must be (%lld,)",
            td_shape_text(&bias->shape, a), td_shape_text(&kernel->shape, b), (long long)ks[2]);
        return false;
    }
    int64_t out[2];
    for (int axis = 0; axis < 2; axis++) {
        int64_t extra = options ? options->output_padding[axis] : 0;
        if (extra < 0 || extra >= conv->stride[axis]) {
            if (extra != 0) {
                td__fail(tape, TD_INVALID,
                         "conv2d_transpose: output padding %lld must be less than the stride, %lld",
                         (long long)extra, (long long)conv->stride[axis]);
                return false;
            }
        }
        stretch(xs[1 + axis], ks[axis], conv->stride[axis], conv->dilation[axis],
                options && options->padding == TD_PADDING_SAME, extra, &out[axis],
                &conv->before[axis]);
        conv->out[axis] = xs[1 + axis];
        conv->kernel[axis] = ks[axis];
    }
    conv->batch = xs[0];
    conv->height = out[0];
    conv->width = out[1];
    conv->channels = ks[2];
    conv->filters = ks[3];
    return true;
}

td_tensor *td_conv2d_transpose(td_tape *tape, td_tensor *x, td_tensor *kernel, td_tensor *bias,
                               const td_conv_options *options) {
    td_activation activation = options ? options->activation : TD_LINEAR;
    td__conv conv = {0};
    if (!td__check_float(tape, "conv2d_transpose", "input", x) ||
        !td__check_float(tape, "conv2d_transpose", "kernel", kernel) ||
        (bias && !td__check_float(tape, "conv2d_transpose", "bias", bias)) ||
        !td__linear_check(tape, "conv2d_transpose", activation) ||
        !fit(tape, x, kernel, bias, options, &conv)) {
        return NULL;
    }
    td_tensor *y =
        td__output(tape, TD_FLOAT32, &TD_SHAPE(conv.batch, conv.height, conv.width, conv.channels));
    transpose_saved *saved = y ? td__scratch(tape, sizeof *saved) : NULL;
    if (!saved) {
        return NULL;
    }
    *saved = (transpose_saved){.conv = conv, .linear = td__linear_begin(tape, y, activation)};
    if (!saved->linear || td__conv_to_input(tape, &conv, td__floats(x), td__floats(kernel),
                                            bias ? td__floats(bias) : NULL, saved->linear->z,
                                            saved->linear->fused_relu ? TD__TILE_RELU : 0)) {
        return NULL;
    }
    td__linear_end(y, saved->linear);
    return td__record(tape, &transpose_op, y, 3, (td_tensor *[]){x, kernel, bias}, saved);
}
