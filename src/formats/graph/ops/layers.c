/* Products: Conv, ConvTranspose, Gemm, MatMul. */
#include "graph/ops/window.h"
#include "tape/conv.h"

#include <string.h>

/* --- convolutions ------------------------------------------------------------------------- */

static const td__op conv_op = {.name = "conv2d", .backward = td__conv_backward};
static const td__op conv_transpose_op = {.name = "conv2d_transpose", .backward = td__conv_backward};

/* One spatial axis becomes two, the first of size 1. */
static td_shape two_axes(const td_shape *shape, bool kernel) {
    const int64_t *d = shape->dims;
    if (shape->rank == 4) {
        return *shape;
    }
    return kernel ? TD_SHAPE(1, d[0], d[1], d[2]) : TD_SHAPE(d[0], 1, d[1], d[2]);
}

static void spread_axes(const td__graph_window *w, td__conv *conv) {
    for (int axis = 0; axis < 2; axis++) {
        int32_t from = axis - (2 - w->count);
        conv->kernel[axis] = from < 0 ? 1 : w->kernel[from];
        conv->stride[axis] = from < 0 ? 1 : w->stride[from];
        conv->dilation[axis] = from < 0 ? 1 : w->dilation[from];
        conv->before[axis] = from < 0 ? 0 : w->before[from];
    }
}

static td_tensor *convolve(td__graph_call *call, const td__op *op, const td__conv *c,
                           bool transposed, td_tensor *x, td_tensor *kernel, td_tensor *bias,
                           td__ending ending) {
    if (td__graph_is_probing(call)) {
        td_shape shape = transposed ? TD_SHAPE(c->batch, c->height, c->width, c->channels)
                                    : TD_SHAPE(c->batch, c->out[0], c->out[1], c->filters);
        return td__graph_zeros(call, shape);
    }
    return td__conv_run(call->tape, op, c, transposed, x, kernel, bias, ending);
}

static const td__ending no_ending = {.activation = TD_LINEAR};

/* Runs it on images of two spatial axes and sets the output in as many as there were. */
static bool run_conv(td__graph_call *call, const td__conv *conv, int32_t axes, bool transposed) {
    td_tape *tape = call->tape;
    td_tensor *x = td__graph_channels_last(call, 0), *kernel = td__graph_kernel(call, 1);
    td_tensor *bias = td__graph_plain(call, 2);
    const td__op *op = transposed ? &conv_transpose_op : &conv_op;
    if (!x || !kernel || (td__graph_input(call, 2) && !bias)) {
        return false;
    }
    if (axes == 1) {
        x = td_reshape(tape, x, two_axes(&x->shape, false));
        kernel = td_reshape(tape, kernel, two_axes(&kernel->shape, true));
    }
    if (!td__conv_check(tape, op->name, x, kernel, bias, TD_LINEAR) ||
        !td__conv_check_bias(tape, op->name, bias, kernel,
                             transposed ? conv->channels : conv->filters)) {
        return false;
    }
    td__ending ending =
        transposed
            ? no_ending
            : td__graph_ending(
                  call, &TD_SHAPE(conv->batch, conv->out[0], conv->out[1], conv->filters), true);
    td_tensor *y = convolve(call, op, conv, transposed, x, kernel, bias, ending);
    if (y && axes == 1) {
        const int64_t *d = y->shape.dims;
        td_tensor *flat = td_reshape(tape, y, TD_SHAPE(d[0], d[2], d[3]));
        if (flat) {
            td__share_memory(y, flat);
            td__recycle(tape, y);
        }
        y = flat;
    }
    return td__graph_output_last(call, 0, td__graph_input(call, 0)->type, y);
}

/* What tap number k of the windows sees along the first of three axes: (n * windows, h, w, c). */
static td_tensor *plane(td__graph_call *call, td_tensor *x, const td__graph_window *w, int64_t k) {
    const int64_t *d = x->shape.dims;
    int64_t pixels = d[2] * d[3] * d[4];
    td__move_map map;
    if (!td__move_map_init(call->tape, call->node->op_type, TD_SHAPE(d[0], w->out[0], pixels),
                           &map)) {
        return NULL;
    }
    for (int64_t i = 0; map.offsets[0] && i < d[0]; i++) {
        map.offsets[0][i] = i * d[1] * pixels;
    }
    for (int64_t i = 0; map.offsets[1] && i < w->out[0]; i++) {
        int64_t depth = i * w->stride[0] + k * w->dilation[0] - w->before[0];
        map.offsets[1][i] = depth < 0 || depth >= d[1] ? -1 : depth * pixels;
    }
    for (int64_t i = 0; map.offsets[2] && i < pixels; i++) {
        map.offsets[2][i] = i;
    }
    return td_reshape(call->tape, td__move(call->tape, x, &map, NULL),
                      TD_SHAPE(d[0] * w->out[0], d[2], d[3], d[4]));
}

/* Over three axes: the sum of convolutions over two, one for each tap along the first. */
static bool run_volume(td__graph_call *call, td__conv conv, const td__graph_window *w) {
    td_tape *tape = call->tape;
    td_tensor *x = td__graph_channels_last(call, 0), *kernel = td__graph_kernel(call, 1);
    td_tensor *bias = td__graph_plain(call, 2), *sum = NULL;
    int64_t batch = conv.batch;
    if (!x || !kernel || !td__conv_check(tape, conv_op.name, x, kernel, bias, TD_LINEAR) ||
        !td__conv_check_bias(tape, conv_op.name, bias, kernel, conv.filters)) {
        return false;
    }
    if (__builtin_mul_overflow(batch, w->out[0], &conv.batch)) {
        return td__graph_fail(call, TD_RANGE, "its output is too large");
    }
    for (int64_t k = 0; k < w->kernel[0]; k++) {
        int64_t begin[TD_MAX_RANK] = {k}, size[TD_MAX_RANK] = {1, -1, -1, -1, -1};
        const int64_t *d = kernel->shape.dims;
        td_tensor *tap =
            td_reshape(tape, td_slice(tape, kernel, begin, size), TD_SHAPE(d[1], d[2], d[3], d[4]));
        td_tensor *from = plane(call, x, w, k);
        td_tensor *y = tap && from ? convolve(call, &conv_op, &conv, false, from, tap,
                                              k == 0 ? bias : NULL, no_ending)
                                   : NULL;
        sum = sum ? td_add(tape, sum, y) : y;
        if (!sum) {
            return false;
        }
    }
    sum = td_reshape(tape, sum, TD_SHAPE(batch, w->out[0], conv.out[0], conv.out[1], conv.filters));
    return td__graph_output_last(call, 0, td__graph_input(call, 0)->type, sum);
}

/* Planes (n * size, h, w, c) at the depths that tap number k puts them, along the first of three axes
 * of the output: (n, out, h, w, c). */
static td_tensor *spread_planes(td__graph_call *call, td_tensor *y, const td__graph_window *w,
                                int64_t batch, int64_t k) {
    const int64_t *d = y->shape.dims;
    int64_t pixels = d[1] * d[2] * d[3];
    td__move_map map;
    if (!td__move_map_init(call->tape, call->node->op_type, TD_SHAPE(batch, w->out[0], pixels),
                           &map)) {
        return NULL;
    }
    for (int64_t i = 0; map.offsets[0] && i < batch; i++) {
        map.offsets[0][i] = i * w->size[0] * pixels;
    }
    for (int64_t i = 0; map.offsets[1] && i < w->out[0]; i++) {
        int64_t reach = i + w->before[0] - k * w->dilation[0], depth = reach / w->stride[0];
        bool hit = reach >= 0 && reach % w->stride[0] == 0 && depth < w->size[0];
        map.offsets[1][i] = hit ? depth * pixels : -1;
    }
    for (int64_t i = 0; map.offsets[2] && i < pixels; i++) {
        map.offsets[2][i] = i;
    }
    return td_reshape(call->tape, td__move(call->tape, y, &map, NULL),
                      TD_SHAPE(batch, w->out[0], d[1], d[2], d[3]));
}

/* The transposed one over three axes: likewise a sum over the taps along the first. */
static bool run_volume_transposed(td__graph_call *call, td__conv conv, const td__graph_window *w) {
    td_tape *tape = call->tape;
    td_tensor *x = td__graph_channels_last(call, 0), *kernel = td__graph_kernel(call, 1);
    td_tensor *bias = td__graph_plain(call, 2), *sum = NULL;
    int64_t batch = conv.batch;
    if (!x || !kernel ||
        !td__conv_check(tape, conv_transpose_op.name, x, kernel, bias, TD_LINEAR) ||
        !td__conv_check_bias(tape, conv_transpose_op.name, bias, kernel, conv.channels)) {
        return false;
    }
    if (__builtin_mul_overflow(batch, w->size[0], &conv.batch)) {
        return td__graph_fail(call, TD_RANGE, "its input is too large");
    }
    const int64_t *s = x->shape.dims, *d = kernel->shape.dims;
    td_tensor *planes = td_reshape(tape, x, TD_SHAPE(conv.batch, s[2], s[3], s[4]));
    for (int64_t k = 0; planes && k < w->kernel[0]; k++) {
        int64_t begin[TD_MAX_RANK] = {k}, size[TD_MAX_RANK] = {1, -1, -1, -1, -1};
        td_tensor *tap =
            td_reshape(tape, td_slice(tape, kernel, begin, size), TD_SHAPE(d[1], d[2], d[3], d[4]));
        td_tensor *y =
            tap ? convolve(call, &conv_transpose_op, &conv, true, planes, tap, NULL, no_ending)
                : NULL;
        y = y ? spread_planes(call, y, w, batch, k) : NULL;
        sum = sum ? td_add(tape, sum, y) : y;
        if (!sum) {
            return false;
        }
    }
    sum = sum && bias ? td_add(tape, sum, bias) : sum;
    return td__graph_output_last(call, 0, td__graph_input(call, 0)->type, sum);
}

/* Shapes of input and weight, which must be of the same rank. */
static bool conv_shapes(td__graph_call *call, td_shape *x, td_shape *w, int64_t *groups) {
    char a[TD_SHAPE_TEXT_SIZE], b[TD_SHAPE_TEXT_SIZE];
    *x = td__graph_shape(call, 0);
    *w = td__graph_shape(call, 1);
    *groups = td__graph_int(call->node, "group", 1);
    if (!td__graph_is_float(call, 0) || !td__graph_is_float(call, 1)) {
        return td__graph_fail(call, TD_UNSUPPORTED, "only of type float");
    }
    if (x->rank != w->rank || *groups < 1 || *groups > INT32_MAX ||
        (w->rank > 1 && w->dims[1] > INT32_MAX)) {
        return td__graph_fail(call, TD_BAD_SHAPE, "input %s does not fit weight %s",
                              td_shape_text(x, a), td_shape_text(w, b));
    }
    return true;
}

static bool misfit(td__graph_call *call, const td_shape *x, const td_shape *w, int64_t groups) {
    char a[TD_SHAPE_TEXT_SIZE], b[TD_SHAPE_TEXT_SIZE];
    return td__graph_fail(call, TD_BAD_SHAPE, "input %s does not fit weight %s with %lld group(s)",
                          td_shape_text(x, a), td_shape_text(w, b), (long long)groups);
}

/* weight (out, in / groups, …) */
static bool conv(td__graph_call *call) {
    td_shape x, w;
    int64_t groups;
    td__graph_window window;
    if (!conv_shapes(call, &x, &w, &groups) ||
        !td__graph_window_init(call, &x, w.dims + 2, &window) ||
        !td__graph_window_fit(call, false, &window)) {
        return false;
    }
    if (groups * w.dims[1] != x.dims[1] || w.dims[0] % groups != 0) {
        return misfit(call, &x, &w, groups);
    }
    int32_t n = window.count; /* the last two are height and width */
    td__conv conv = {.batch = x.dims[0],
                     .height = n >= 2 ? window.size[n - 2] : 1,
                     .width = window.size[n - 1],
                     .channels = x.dims[1],
                     .filters = w.dims[0],
                     .groups = groups,
                     .out = {n >= 2 ? window.out[n - 2] : 1, window.out[n - 1]}};
    spread_axes(&window, &conv);
    return n == 3 ? run_volume(call, conv, &window) : run_conv(call, &conv, n, false);
}

/* Sizes of the transposed one's output, and the padding of the convolution back from it. */
static bool stretch(td__graph_call *call, td__graph_window *w) {
    const int64_t *pads, *extra, *wanted;
    size_t pad_count = td__graph_ints(call->node, "pads", &pads);
    size_t extra_count = td__graph_ints(call->node, "output_padding", &extra);
    size_t wanted_count = td__graph_ints(call->node, "output_shape", &wanted);
    const char *automatic = td__graph_text(call->node, "auto_pad", "NOTSET");
    bool same = strncmp(automatic, "SAME", 4) == 0;
    size_t axes = (size_t)w->count;
    if ((pad_count && pad_count != 2 * axes) || (extra_count && extra_count != axes) ||
        (wanted_count && wanted_count < axes)) {
        return td__graph_fail(call, TD_BAD_SHAPE,
                              "pads, output_padding or output_shape do not fit");
    }
    for (size_t i = 0; i < axes; i++) {
        int64_t reach = (w->kernel[i] - 1) * w->dilation[i] + 1;
        int64_t more = extra_count ? extra[i] : 0;
        int64_t before = pad_count ? pads[i] : 0, after = pad_count ? pads[axes + i] : 0;
        if (more < 0 || more > INT32_MAX || before < 0 || before > INT32_MAX ||
            after < -INT32_MAX || after > INT32_MAX) {
            return td__graph_fail(call, TD_RANGE, "pads or output_padding are out of range");
        }
        int64_t full = (w->size[i] - 1) * w->stride[i] + reach + more;
        int64_t out = same ? w->size[i] * w->stride[i] : 0;
        out = wanted_count ? wanted[wanted_count - axes + i] : out;
        if (out > 0) {
            int64_t total = full > out ? full - out : 0;
            w->before[i] = strcmp(automatic, "SAME_LOWER") == 0 ? total - total / 2 : total / 2;
        } else {
            w->before[i] = before;
            out = full - before - after;
        }
        if (out < 1 || out > INT32_MAX) {
            return td__graph_fail(call, TD_BAD_SHAPE, "its output would have size %lld",
                                  (long long)out);
        }
        w->out[i] = out;
    }
    return true;
}

/* weight (in, out / groups, …): the convolution from the output back to the input */
static bool conv_transpose(td__graph_call *call) {
    td_shape x, w;
    int64_t groups;
    td__graph_window window;
    if (!conv_shapes(call, &x, &w, &groups) ||
        !td__graph_window_init(call, &x, w.dims + 2, &window) || !stretch(call, &window)) {
        return false;
    }
    if (w.dims[0] != x.dims[1] || w.dims[0] % groups != 0) {
        return misfit(call, &x, &w, groups);
    }
    int32_t axes = window.count;
    td__conv conv = {.batch = x.dims[0],
                     .height = axes > 1 ? window.out[axes - 2] : 1,
                     .width = window.out[axes - 1],
                     .channels = w.dims[1] * groups,
                     .filters = w.dims[0],
                     .groups = groups,
                     .out = {axes > 1 ? window.size[axes - 2] : 1, window.size[axes - 1]}};
    spread_axes(&window, &conv);
    return axes == 3 ? run_volume_transposed(call, conv, &window)
                     : run_conv(call, &conv, axes, true);
}

/* --- matrices ----------------------------------------------------------------------------- */

/* A bias that td_dense can add itself. */
static bool is_bias(const td_tensor *c, const td_tensor *kernel) {
    return c && c->shape.rank == 1 && c->shape.dims[0] == kernel->shape.dims[1];
}

/* x kernel + bias over the last axis of x. whole: the output is just that, so that the rest of the step
 * may come with it. */
static td_tensor *product(td__graph_call *call, td_tensor *x, td_tensor *kernel, td_tensor *bias,
                          bool whole) {
    int32_t last = x->shape.rank - 1;
    td_shape shape = x->shape;
    shape.dims[last] = kernel->shape.dims[1];
    if (td__graph_is_probing(call) && x->shape.dims[last] == kernel->shape.dims[0]) {
        return td__graph_zeros(call, shape);
    }
    td__ending ending = no_ending;
    if (whole && call->step) {
        bool more = call->step->bias >= 0;
        bias = more ? td__graph_step_bias(call, shape.dims[last]) : bias;
        ending = more && !bias ? no_ending : td__graph_ending(call, &shape, false);
    }
    return td__dense(call->tape, x, kernel, bias, ending);
}

/* alpha A' B' + beta C */
static bool gemm(td__graph_call *call) {
    td_tape *tape = call->tape;
    bool transpose_a = td__graph_int(call->node, "transA", 0) != 0;
    bool transpose_b = td__graph_int(call->node, "transB", 0) != 0;
    float alpha = td__graph_float(call->node, "alpha", 1);
    float beta = td__graph_float(call->node, "beta", 1);
    if (!td__graph_is_float(call, 0) || !td__graph_is_float(call, 1)) {
        return td__graph_fail(call, TD_UNSUPPORTED, "only of type float");
    }
    td_tensor *a = td__graph_plain(call, 0), *c = td__graph_plain(call, 2);
    td_tensor *b = transpose_b ? td__graph_kernel(call, 1) : td__graph_plain(call, 1);
    if (!a || !b || a->shape.rank != 2 || b->shape.rank != 2) {
        return a && b ? td__graph_fail(call, TD_BAD_SHAPE, "its inputs must be matrices") : false;
    }
    if (transpose_a) {
        a = td_transpose(tape, a, (int32_t[]){1, 0});
    }
    bool fused = alpha == 1 && beta == 1 && is_bias(c, b);
    td_tensor *y = a ? product(call, a, b, fused ? c : NULL, alpha == 1 && (fused || !c)) : NULL;
    y = alpha != 1 ? td_affine(tape, y, alpha, 0) : y;
    if (c && !fused) {
        y = td_add(tape, y, beta != 1 ? td_affine(tape, c, beta, 0) : c);
    }
    return td__graph_output(call, 0, td__graph_input(call, 0)->type, y);
}

/* numpy's matmul: a vector is a row on the left and a column on the right. */
static bool matmul(td__graph_call *call) {
    td_tape *tape = call->tape;
    if (!td__graph_is_float(call, 0) || !td__graph_is_float(call, 1)) {
        return td__graph_fail(call, TD_UNSUPPORTED, "only of type float");
    }
    td_tensor *a = td__graph_plain(call, 0), *b = td__graph_plain(call, 1);
    if (!a || !b || a->shape.rank == 0 || b->shape.rank == 0) {
        return a && b ? td__graph_fail(call, TD_BAD_SHAPE, "its inputs must not be scalars")
                      : false;
    }
    bool row = a->shape.rank == 1, column = b->shape.rank == 1;
    a = row ? td_reshape(tape, a, TD_SHAPE(1, a->count)) : a;
    b = column ? td_reshape(tape, b, TD_SHAPE(b->count, 1)) : b;
    td_tensor *y = a && b && b->shape.rank == 2 ? product(call, a, b, NULL, !row && !column)
                                                : td_matmul(tape, a, b, NULL);
    if (y && (row || column)) {
        td_shape shape = {0};
        for (int32_t i = 0; i < y->shape.rank; i++) {
            bool made = (row && i == y->shape.rank - 2) || (column && i == y->shape.rank - 1);
            if (!made) {
                shape.dims[shape.rank++] = y->shape.dims[i];
            }
        }
        y = td_reshape(tape, y, shape);
    }
    return td__graph_output(call, 0, td__graph_input(call, 0)->type, y);
}

const td__graph_operator td__graph_layers[] = {
    {"Conv", conv, 2, 3, 1, 0, 0, td__graph_infer_conv},
    {"ConvTranspose", conv_transpose, 2, 3, 1, 0, 0, td__graph_infer_conv_transpose},
    {"Gemm", gemm, 2, 3, 1, 0, 0, td__graph_infer_gemm},
    {"MatMul", matmul, 2, 2, 1, 0, 0, td__graph_infer_matmul},
    {0},
};
