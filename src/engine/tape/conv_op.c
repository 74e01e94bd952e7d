/* What conv2d and conv2d_transpose have in common: one is the other read backwards.
 *
 * A convolution C maps images to outputs: z = C x + bias, dx = C^T dz. The transposed one maps outputs
 * to images: z = C^T x + bias, dx = C dz. The kernel's gradient pairs image and output in both.
 */
#include "tape/conv.h"

#include "base/options.h"
#include "tape/kernels.h"

bool td__conv_check(td_tape *tape, const char *op, const td_tensor *x, const td_tensor *kernel,
                    const td_tensor *bias, td_activation activation) {
    return td__check_float(tape, op, "input", x) && td__check_float(tape, op, "kernel", kernel) &&
           (!bias || td__check_float(tape, op, "bias", bias)) &&
           td__linear_check(tape, op, activation);
}

bool td__conv_check_bias(td_tape *tape, const char *op, const td_tensor *bias,
                         const td_tensor *kernel, int64_t count) {
    if (!bias || (bias->shape.rank == 1 && bias->shape.dims[0] == count)) {
        return true;
    }
    char a[TD_SHAPE_TEXT_SIZE], b[TD_SHAPE_TEXT_SIZE];
    td__fail(tape, TD_BAD_SHAPE, "%s: bias %s does not fit kernel %s: it must be (%lld,)", op,
             td_shape_text(&bias->shape, a), td_shape_text(&kernel->shape, b), (long long)count);
    return false;
}

static int64_t or_one(int64_t value) {
    return value ? value : 1;
}

bool td__conv_settings(td_tape *tape, const char *op, const td_conv_options *options,
                       td__conv *conv) {
    td_conv_options given;
    (void)td__options(&given, sizeof given, options);
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

typedef td_status product(td_tape *tape, const td__conv *conv, const float *from,
                          const float *kernel, const float *bias, float *to, int flags);

td_tensor *td__conv_run(td_tape *tape, const td__op *op, const td__conv *conv, bool transposed,
                        td_tensor *x, td_tensor *kernel, td_tensor *bias, td__ending ending) {
    td_shape shape = transposed ? TD_SHAPE(conv->batch, conv->height, conv->width, conv->channels)
                                : TD_SHAPE(conv->batch, conv->out[0], conv->out[1], conv->filters);
    td_tensor *y = td__linear_output(tape, &shape, ending);
    td__conv_saved *saved = y ? td__scratch(tape, sizeof *saved) : NULL;
    if (!saved) {
        return NULL;
    }
    *saved = (td__conv_saved){
        .conv = *conv, .transposed = transposed, .linear = td__linear_begin(tape, y, ending)};
    saved->conv.kernel_is_weight = kernel->weight;
    if (!transposed && saved->linear) {
        saved->conv.finish = td__linear_finish(saved->linear, y);
    }
    product *run = transposed ? td__conv_to_input : td__conv_forward;
    if (!saved->linear ||
        run(tape, &saved->conv, td__floats(x), td__floats(kernel), bias ? td__floats(bias) : NULL,
            saved->linear->z, td__linear_flags(saved->linear, ending))) {
        return NULL;
    }
    td__linear_end(y, saved->linear);
    return td__record(tape, op, y, 3, (td_tensor *[]){x, kernel, bias}, saved);
}

td_status td__conv_backward(td_tape *tape, td__node *node) {
    const td__conv_saved *saved = node->saved;
    const td__conv *c = &saved->conv;
    const float *x = td__floats(node->inputs[0].tensor);
    const float *kernel = td__floats(node->inputs[1].tensor);
    int64_t width = node->output->shape.dims[3];
    int64_t pixels = node->output->count / (width ? width : 1);
    td__buffer *dz;
    if (td__linear_backward(tape, node, saved->linear, pixels, width, 2, &dz)) {
        return TD_MEMORY;
    }
    td_status status = TD_OK;
    bool add;
    if (td__wants(tape, node, 1)) {
        const float *image = saved->transposed ? dz->data : x;
        const float *output = saved->transposed ? x : dz->data;
        float *dw = td__gradient(tape, node, 1, &add);
        status = dw ? td__conv_to_kernel(tape, c, image, output, add, dw) : TD_MEMORY;
    }
    if (!status && td__wants(tape, node, 0)) {
        product *run = saved->transposed ? td__conv_forward : td__conv_to_input;
        float *dx = td__gradient(tape, node, 0, &add);
        status = dx ? run(tape, c, dz->data, kernel, NULL, dx, add ? TD__TILE_ADD : 0) : TD_MEMORY;
    }
    td__buffer_drop(tape, dz);
    return status;
}
