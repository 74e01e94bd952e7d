/* Images that are cut and padded, put together of blocks, sampled where a network says: AffineGrid,
 * CenterCropPad, Col2Im, DeformConv. Gradients flow through all of them. */
#include "base/memory.h"
#include "graph/ops/window.h"

#include <math.h>
#include <string.h>

/* --- CenterCropPad -------------------------------------------------------------------------- */

/* Where element k of the result along an axis comes from: what is missing or too much is so on both
 * sides, the odd one after. */
static int64_t centred(int64_t k, int64_t from, int64_t to) {
    int64_t place = from >= to ? k + (from - to) / 2 : k - (to - from) / 2;
    return place >= 0 && place < from ? place : -1;
}

static bool center_crop_pad(td__graph_call *call) {
    td_tensor *x = td__graph_plain(call, 0);
    int64_t sizes[TD_MAX_RANK], strides[TD_MAX_RANK];
    const int64_t *axes;
    size_t count, listed = td__graph_ints(call->node, "axes", &axes);
    if (!x || !td__graph_input_ints(call, 1, sizes, TD_MAX_RANK, &count)) {
        return false;
    }
    if (count != (listed ? listed : (size_t)x->shape.rank)) {
        return td__graph_fail(call, TD_BAD_SHAPE, "%zu sizes do not fit its axes", count);
    }
    td_shape to = x->shape;
    td__move_map map;
    for (size_t i = 0; i < count; i++) {
        int32_t axis;
        if (!td__graph_axis(call, listed ? axes[i] : (int64_t)i, to.rank, &axis)) {
            return false;
        }
        if (sizes[i] < 0) {
            return td__graph_fail(call, TD_RANGE, "a size of %lld", (long long)sizes[i]);
        }
        to.dims[axis] = sizes[i];
    }
    if (!td__move_map_init(call->tape, call->node->op_type, to, &map)) {
        return false;
    }
    td__strides(&x->shape, strides);
    for (int32_t i = 0; i < to.rank; i++) {
        for (int64_t k = 0; map.offsets[i] && k < to.dims[i]; k++) {
            int64_t from = centred(k, x->shape.dims[i], to.dims[i]);
            map.offsets[i][k] = from < 0 ? -1 : from * strides[i];
        }
    }
    return td__graph_output(call, 0, td__graph_input(call, 0)->type,
                            td__move(call->tape, x, &map, NULL));
}

/* --- Col2Im --------------------------------------------------------------------------------- */

/* The image's sizes are given, the blocks' are the kernel; pads as for convolutions. */
static bool read_blocks(td__graph_call *call, td__graph_window *w) {
    int64_t sizes[TD_MAX_RANK], blocks[TD_MAX_RANK];
    size_t count, block_count;
    td_shape shape = {.dims = {1, 1}};
    if (!td__graph_input_ints(call, 1, sizes, TD__GRAPH_MAX_SPATIAL, &count) ||
        !td__graph_input_ints(call, 2, blocks, TD__GRAPH_MAX_SPATIAL, &block_count)) {
        return false;
    }
    shape.rank = 2 + (int32_t)count;
    bool good = count == block_count;
    for (size_t i = 0; i < count; i++) {
        shape.dims[2 + i] = sizes[i];
        good = good && sizes[i] >= 0 && (i >= block_count || blocks[i] >= 1);
    }
    return good ? td__graph_window_init(call, &shape, blocks, w) &&
                      td__graph_window_fit(call, false, w)
                : td__graph_fail(call, TD_BAD_SHAPE, "its blocks do not fit its image");
}

/* The pixel that tap number `tap` of block number `block` is added to; -1: padding. */
static int64_t pixel_of(const td__graph_window *w, int64_t tap, int64_t block) {
    int64_t pixel = 0, stride = 1;
    for (int32_t i = w->count - 1; i >= 0; i--) {
        int64_t at =
            block % w->out[i] * w->stride[i] + tap % w->kernel[i] * w->dilation[i] - w->before[i];
        if (at < 0 || at >= w->size[i]) {
            return -1;
        }
        pixel += at * stride;
        stride *= w->size[i];
        block /= w->out[i];
        tap /= w->kernel[i];
    }
    return pixel;
}

/* x (n, c taps, blocks) -> (n, c, …): what lies on one pixel is added up. */
static bool col_to_im(td__graph_call *call) {
    td_tape *tape = call->tape;
    td_tensor *x = td__graph_is_float(call, 0) ? td__graph_plain(call, 0) : NULL;
    td__graph_window w;
    if (!x) {
        return td__graph_fail(call, TD_UNSUPPORTED, "only of type float");
    }
    if (!read_blocks(call, &w)) {
        return false;
    }
    int64_t taps = 1, blocks = 1, pixels = 1, count;
    td_shape to = {.rank = 2 + w.count, .dims = {x->shape.dims[0]}};
    for (int32_t i = 0; i < w.count; i++) {
        if (!td__multiply(taps, w.kernel[i], &taps) || !td__multiply(blocks, w.out[i], &blocks) ||
            !td__multiply(pixels, w.size[i], &pixels)) {
            return td__graph_fail(call, TD_RANGE, "its blocks are too large");
        }
        to.dims[2 + i] = w.size[i];
    }
    if (x->shape.rank != 3 || x->shape.dims[1] % taps || x->shape.dims[2] != blocks) {
        return td__graph_fail(call, TD_BAD_SHAPE, "its input does not fit %lld blocks of %lld",
                              (long long)blocks, (long long)taps);
    }
    to.dims[1] = x->shape.dims[1] / taps;
    if (td_shape_check(&to, TD_FLOAT64, &count, NULL)) {
        return td__graph_fail(call, TD_RANGE, "its output is too large");
    }
    int64_t *place = td__scratch(tape, (size_t)x->count * sizeof *place + 1);
    /* One more, for what falls onto the padding. */
    td_tensor *zeros = td__graph_filled(tape, TD_SHAPE(count + 1), 0);
    for (int64_t i = 0; place && i < x->count; i++) {
        int64_t plane = i / blocks / taps, at = pixel_of(&w, i / blocks % taps, i % blocks);
        place[i] = at < 0 ? count : plane * pixels + at;
    }
    td_tensor *y = place && zeros
                       ? td__scatter(tape, zeros, td_reshape(tape, x, TD_SHAPE(x->count)), place,
                                     TD__SCATTER_ADD)
                       : NULL;
    y = y ? td_slice(tape, y, (int64_t[]){0}, (int64_t[]){count}) : NULL;
    return td__graph_output(call, 0, td__graph_input(call, 0)->type,
                            y ? td_reshape(tape, y, to) : NULL);
}

/* --- AffineGrid ----------------------------------------------------------------------------- */

/* Pixel k of `count`, from -1 to 1: at their centres, or from edge to edge. */
static float position(int64_t k, int64_t count, bool align) {
    double n = (double)count, at = 2 * (double)k;
    return (float)(align ? (count > 1 ? at / (n - 1) - 1 : 0) : (at + 1) / n - 1);
}

/* theta (n, d, d + 1), size (n, c, …) -> (n, …, d): theta (x, y, …, 1) */
static bool affine_grid(td__graph_call *call) {
    td_tape *tape = call->tape;
    td_tensor *theta = td__graph_is_float(call, 0) ? td__graph_plain(call, 0) : NULL;
    int64_t size[TD_MAX_RANK], pixels = 1;
    size_t count;
    if (!theta || !td__graph_input_ints(call, 1, size, TD_MAX_RANK, &count)) {
        return theta ? false : td__graph_fail(call, TD_UNSUPPORTED, "only of type float");
    }
    int64_t d = (int64_t)count - 2;
    const int64_t *t = theta->shape.dims;
    if (d < 2 || d > 3 || theta->shape.rank != 3 || t[0] != size[0] || t[1] != d || t[2] != d + 1) {
        return td__graph_fail(call, TD_BAD_SHAPE, "its matrices do not fit its size");
    }
    td_shape to = {.rank = (int32_t)count, .dims = {t[0]}};
    for (int64_t i = 0; i < d; i++) {
        to.dims[1 + i] = size[2 + i];
        if (size[2 + i] < 1 || !td__multiply(pixels, size[2 + i], &pixels)) {
            return td__graph_fail(call, TD_RANGE, "a size of %lld", (long long)size[2 + i]);
        }
    }
    to.dims[1 + d] = d;
    bool align = td__graph_int(call->node, "align_corners", 0) != 0;
    td_tensor *base = td__output(tape, TD_FLOAT32, &TD_SHAPE(pixels, d + 1));
    for (int64_t i = 0; base && i < pixels; i++) {
        int64_t rest = i;
        for (int64_t axis = d - 1; axis >= 0; rest /= size[2 + axis--]) { /* x is the last */
            td__floats(base)[i * (d + 1) + d - 1 - axis] =
                position(rest % size[2 + axis], size[2 + axis], align);
        }
        td__floats(base)[i * (d + 1) + d] = 1;
    }
    td_tensor *y = base ? td_matmul(tape, base, theta,
                                    &(td_matmul_options){.size = sizeof(td_matmul_options),
                                                         .transpose_b = true})
                        : NULL;
    return td__graph_output(call, 0, td__graph_input(call, 0)->type,
                            y ? td_reshape(tape, y, to) : NULL);
}

/* --- DeformConv ----------------------------------------------------------------------------- */

/* Columns (n, groups of offsets, channels of one, taps, windows). */
typedef struct deformation {
    td__graph_window window;
    int64_t batch, channels, groups, taps, windows;
    td_tensor *places[2]; /* (n, groups, 1, taps, windows): how far from its place a tap is */
    int64_t *corner[2];   /* of each of them: the row, the column above and left of it */
} deformation;

/* The part of the offsets along one axis, and the pixels before the places they give: what is left of
 * a place is its distance from there. */
static td_tensor *fractions(td__graph_call *call, deformation *f, td_tensor *offset, int axis) {
    td_tape *tape = call->tape;
    const td__graph_window *w = &f->window;
    td_shape grid_shape = TD_SHAPE(f->batch, f->groups, f->taps, 2, f->windows);
    td_shape to = TD_SHAPE(f->batch, f->groups, 1, f->taps, f->windows);
    td_tensor *all = td_reshape(tape, offset, grid_shape);
    td_tensor *own =
        all ? td_slice(tape, all, (int64_t[]){0, 0, 0, axis, 0}, (int64_t[]){-1, -1, -1, 1, -1})
            : NULL;
    own = own ? td_reshape(tape, own, to) : NULL;
    td_tensor *shift = own ? td__output(tape, TD_FLOAT32, &to) : NULL;
    f->corner[axis] = shift ? td__scratch(tape, (size_t)shift->count * sizeof(int64_t) + 1) : NULL;
    for (int64_t i = 0; f->corner[axis] && i < shift->count; i++) {
        int64_t window = i % f->windows, tap = i / f->windows % f->taps;
        window = axis ? window % w->out[1] : window / w->out[1];
        tap = axis ? tap % w->kernel[1] : tap / w->kernel[1];
        int64_t base = window * w->stride[axis] + tap * w->dilation[axis] - w->before[axis];
        double at = (double)base + (double)td__floats(own)[i], low = floor(at);
        bool inside = low >= -1 && low < (double)w->size[axis]; /* else nothing of it counts */
        f->corner[axis][i] = inside ? (int64_t)low : -2;
        td__floats(shift)[i] = inside ? (float)((double)base - low) : 0;
    }
    return f->corner[axis] ? td_add(tape, own, shift) : NULL;
}

/* The pixels at one corner of the places, of every channel; 0 outside. */
static td_tensor *corner_pixels(td__graph_call *call, const deformation *f, td_tensor *x,
                                int corner) {
    const int64_t *size = f->window.size;
    int64_t inside = f->channels / f->groups, places = f->taps * f->windows;
    td_shape to = TD_SHAPE(f->batch, f->groups, inside, f->taps, f->windows);
    int64_t count;
    if (td_shape_check(&to, TD_FLOAT64, &count, NULL)) {
        (void)td__graph_fail(call, TD_RANGE, "it is too large");
        return NULL;
    }
    int64_t *from = td__scratch(call->tape, (size_t)count * sizeof *from + 1);
    for (int64_t i = 0; from && i < count; i++) {
        int64_t plane = i / places, at = plane / inside * places + i % places;
        int64_t row = f->corner[0][at] + (corner >> 1), column = f->corner[1][at] + (corner & 1);
        bool there = row >= 0 && row < size[0] && column >= 0 && column < size[1];
        from[i] = there ? (plane * size[0] + row) * size[1] + column : -1;
    }
    return from ? td__pick(call->tape, x, to, from) : NULL;
}

static td_tensor *deformed_columns(td__graph_call *call, deformation *f, td_tensor *x,
                                   td_tensor *offset, td_tensor *mask) {
    td_tape *tape = call->tape;
    td_tensor *sum = NULL, *weights[2][2];
    for (int axis = 0; axis < 2; axis++) {
        weights[axis][1] = fractions(call, f, offset, axis);
        weights[axis][0] = td_affine(tape, weights[axis][1], -1, 1);
    }
    for (int corner = 0; corner < 4 && weights[0][0] && weights[1][0]; corner++) {
        td_tensor *weight = td_multiply(tape, weights[0][corner >> 1], weights[1][corner & 1]);
        td_tensor *part = td_multiply(tape, corner_pixels(call, f, x, corner), weight);
        sum = sum ? td_add(tape, sum, part) : part;
    }
    td_shape of_mask = TD_SHAPE(f->batch, f->groups, 1, f->taps, f->windows);
    return sum && mask ? td_multiply(tape, sum, td_reshape(tape, mask, of_mask)) : sum;
}

/* x (n, c, h, w), kernel (out, c / group, rows, columns), offset (n, groups taps 2, …), bias, mask: a
 * convolution of the pixels that lie an offset from where its taps are. */
static bool deform_conv(td__graph_call *call) {
    td_tape *tape = call->tape;
    for (size_t i = 0; i < td__graph_input_count(call); i++) {
        if (td__graph_input(call, i) && !td__graph_is_float(call, i)) {
            return td__graph_fail(call, TD_UNSUPPORTED, "only of type float");
        }
    }
    td_tensor *x = td__graph_plain(call, 0), *kernel = td__graph_plain(call, 1);
    td_tensor *offset = td__graph_plain(call, 2), *bias = td__graph_plain(call, 3);
    td_tensor *mask = td__graph_plain(call, 4);
    if (!x || !kernel || !offset) {
        return false;
    }
    const int64_t *d = x->shape.dims, *k = kernel->shape.dims;
    int64_t group = td__graph_int(call->node, "group", 1);
    deformation f = {
        .batch = d[0], .channels = d[1], .groups = td__graph_int(call->node, "offset_group", 1)};
    if (x->shape.rank != 4 || kernel->shape.rank != 4) {
        return td__graph_fail(call, TD_UNSUPPORTED, "only of images with two axes");
    }
    if (!td__graph_window_init(call, &x->shape, k + 2, &f.window) ||
        !td__graph_window_fit(call, false, &f.window)) {
        return false;
    }
    const int64_t *out = f.window.out;
    f.taps = k[2] * k[3];
    f.windows = out[0] * out[1];
    bool fits = group >= 1 && f.groups >= 1 && d[1] % f.groups == 0 && d[1] % group == 0 &&
                k[0] % group == 0 && k[1] == d[1] / group &&
                offset->count == d[0] * f.groups * f.taps * 2 * f.windows &&
                (!mask || mask->count == d[0] * f.groups * f.taps * f.windows) &&
                (!bias || bias->count == k[0]);
    if (!fits) {
        return td__graph_fail(call, TD_BAD_SHAPE, "its inputs do not fit each other");
    }
    td_tensor *columns = deformed_columns(call, &f, x, offset, mask);
    columns =
        columns ? td_reshape(tape, columns, TD_SHAPE(d[0], group, k[1] * f.taps, f.windows)) : NULL;
    kernel = td_reshape(tape, kernel, TD_SHAPE(1, group, k[0] / group, k[1] * f.taps));
    td_tensor *y = columns && kernel ? td_matmul(tape, kernel, columns, NULL) : NULL;
    y = y ? td_reshape(tape, y, TD_SHAPE(d[0], k[0], out[0], out[1])) : NULL;
    y = y && bias ? td_add(tape, y, td_reshape(tape, bias, TD_SHAPE(k[0], 1, 1))) : y;
    return td__graph_output(call, 0, td__graph_input(call, 0)->type, y);
}

const td__graph_operator td__graph_images[] = {
    {"AffineGrid", affine_grid, 2, 2, 1, 20, 0, NULL},
    {"CenterCropPad", center_crop_pad, 2, 2, 1, 18, 0, NULL},
    {"Col2Im", col_to_im, 3, 3, 1, 18, 0, NULL},
    {"DeformConv", deform_conv, 3, 5, 1, 19, 0, td__graph_infer_conv},
    {0},
};
