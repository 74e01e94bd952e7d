/* Inference for windows that slide, products, recurrent layers and pictures that change their size. */
#include "graph/infer.h"

#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

/* --- windows -------------------------------------------------------------------------------- */

/* Attribute `name`, a number for each of `count` axes, or all otherwise; false when it has others. */
static bool read(const td__graph_node *node, const char *name, int64_t fallback, size_t count,
                 int64_t *out) {
    const int64_t *given;
    size_t have = td__graph_ints(node, name, &given);
    bool fits = have == 0 || have == count;
    for (size_t i = 0; i < count; i++) {
        out[i] = have == count ? given[i] : fallback;
        fits = fits && out[i] >= 0 && out[i] <= INT32_MAX;
    }
    return fits;
}

typedef struct window {
    int64_t kernel[TD_MAX_RANK], stride[TD_MAX_RANK], dilation[TD_MAX_RANK];
    int64_t pads[2 * TD_MAX_RANK];
    bool same, ceil;
} window;

static bool read_window(const td__graph_node *node, size_t axes, window *w) {
    const char *automatic = td__graph_text(node, "auto_pad", "NOTSET");
    w->same = strncmp(automatic, "SAME", 4) == 0;
    w->ceil = td__graph_int(node, "ceil_mode", 0) != 0;
    bool fits = read(node, "strides", 1, axes, w->stride) &&
                read(node, "dilations", 1, axes, w->dilation) &&
                read(node, "pads", 0, 2 * axes, w->pads);
    for (size_t i = 0; i < axes; i++) {
        fits = fits && w->stride[i] > 0;
    }
    return fits;
}

/* How many windows there are along an axis. */
static td__graph_size slide(td__graph_sizes *sizes, const window *w, size_t axes, size_t i,
                            td__graph_size size) {
    int64_t stride = w->stride[i], reach = (w->kernel[i] - 1) * w->dilation[i] + 1;
    if (w->same) {
        return td__graph_size_divide(
            sizes, td__graph_size_add(sizes, size, td__onnx_number(stride - 1)), stride);
    }
    td__graph_size room =
        td__graph_size_add(sizes, size, td__onnx_number(w->pads[i] + w->pads[axes + i] - reach));
    bool ceil = w->ceil && stride > 1;
    td__graph_size up = td__graph_size_add(sizes, room, td__onnx_number(ceil ? stride - 1 : 0));
    td__graph_size out =
        td__graph_size_add(sizes, td__graph_size_divide(sizes, up, stride), td__onnx_number(1));
    if (ceil && !td__graph_is_number(size)) { /* the last may begin outside: it depends */
        return td__graph_any_size(sizes);
    }
    if (ceil && (out.plus - 1) * stride >= size.plus + w->pads[i]) {
        out.plus--;
    }
    return out;
}

/* x and the kernel are inputs of these numbers. */
static bool convolution(td__graph_inference *node, size_t x, size_t kernel, td__graph_type type,
                        bool last) {
    const td__graph_extent *in = td__graph_extent_in(node, x);
    const td__graph_extent *weights = td__graph_extent_in(node, kernel);
    int32_t rank = in ? in->rank : weights ? weights->rank : 0;
    td__graph_extent *out = td__graph_extent_out(node, 0, type, rank >= 3 ? rank : -1);
    size_t axes = out->known ? (size_t)rank - 2 : 0;
    window w;
    out->last = last;
    if (!in || !weights || !out->known || weights->rank != rank ||
        !read_window(node->node, axes, &w)) {
        return true;
    }
    out->dims[0] = in->dims[0];
    out->dims[1] = weights->dims[0];
    for (size_t i = 0; i < axes; i++) {
        if (td__graph_is_number(weights->dims[2 + i]) && weights->dims[2 + i].plus <= INT32_MAX) {
            w.kernel[i] = weights->dims[2 + i].plus;
            out->dims[2 + i] = slide(node->sizes, &w, axes, i, in->dims[2 + i]);
        }
    }
    return true;
}

bool td__graph_infer_conv(td__graph_inference *node) {
    bool integers = strcmp(node->node->op_type, "ConvInteger") == 0;
    return convolution(node, 0, 1, integers ? TD__GRAPH_INT32 : td__graph_type_in(node, 0),
                       !integers);
}

bool td__graph_infer_qlinear_conv(td__graph_inference *node) {
    return convolution(node, 0, 3, td__graph_type_in(node, 7), false);
}

bool td__graph_infer_conv_transpose(td__graph_inference *node) {
    const td__graph_extent *in = td__graph_extent_in(node, 0);
    const td__graph_extent *kernel = td__graph_extent_in(node, 1);
    td__graph_extent *out = td__graph_extent_out(node, 0, td__graph_type_in(node, 0),
                                                 in && in->rank >= 3 ? in->rank : -1);
    size_t axes = out->known ? (size_t)out->rank - 2 : 0;
    int64_t extra[TD_MAX_RANK], wanted[TD_MAX_RANK];
    window w;
    out->last = true;
    if (!out->known || !kernel || kernel->rank != out->rank || !read_window(node->node, axes, &w) ||
        !read(node->node, "output_padding", 0, axes, extra) ||
        !read(node->node, "output_shape", 0, axes, wanted)) {
        return true;
    }
    out->dims[0] = in->dims[0];
    int64_t groups = td__graph_int(node->node, "group", 1);
    out->dims[1] = td__graph_size_scale(node->sizes, kernel->dims[1], groups);
    for (size_t i = 0; i < axes; i++) {
        td__graph_size size = in->dims[2 + i], taps = kernel->dims[2 + i];
        if (wanted[i]) {
            out->dims[2 + i] = td__onnx_number(wanted[i]);
        } else if (w.same) {
            out->dims[2 + i] = td__graph_size_scale(node->sizes, size, w.stride[i]);
        } else if (td__graph_is_number(taps) && taps.plus <= INT32_MAX) {
            int64_t reach = (taps.plus - 1) * w.dilation[i] + 1;
            int64_t more = reach - w.stride[i] + extra[i] - w.pads[i] - w.pads[axes + i];
            out->dims[2 + i] = td__graph_size_add(
                node->sizes, td__graph_size_scale(node->sizes, size, w.stride[i]),
                td__onnx_number(more));
        }
    }
    return true;
}

bool td__graph_infer_pool(td__graph_inference *node) {
    const td__graph_extent *in = td__graph_extent_in(node, 0);
    bool known = in && in->rank >= 3;
    size_t axes = known ? (size_t)in->rank - 2 : 0;
    window w;
    bool windows = known && read_window(node->node, axes, &w) &&
                   read(node->node, "kernel_shape", 0, axes, w.kernel);
    for (size_t o = 0; known && o < 2; o++) {
        td__graph_extent *out = td__graph_extent_out(
            node, o, o == 0 ? td__graph_type_in(node, 0) : TD__GRAPH_INT64, in->rank);
        out->dims[0] = in->dims[0];
        out->dims[1] = in->dims[1];
        out->last = o == 0;
        for (size_t i = 0; windows && i < axes; i++) {
            out->dims[2 + i] = slide(node->sizes, &w, axes, i, in->dims[2 + i]);
        }
    }
    return true;
}

bool td__graph_infer_global_pool(td__graph_inference *node) {
    const td__graph_extent *in = td__graph_extent_in(node, 0);
    td__graph_extent *out =
        td__graph_extent_out(node, 0, td__graph_type_in(node, 0), in ? in->rank : -1);
    for (int32_t i = 0; i < out->rank; i++) {
        out->dims[i] = i < 2 ? in->dims[i] : td__onnx_number(1);
    }
    out->last = true;
    return true;
}

/* --- Resize --------------------------------------------------------------------------------- */

static td__graph_size times(td__graph_sizes *sizes, td__graph_size size, double scale) {
    double over = 1 / scale;
    if (td__graph_is_number(size)) {
        double to = floor((double)size.plus * scale);
        return to >= 0 && to < 0x1p40 ? td__onnx_number((int64_t)to) : td__graph_any_size(sizes);
    }
    return scale == floor(scale) && scale >= 1 && scale < 0x1p31
               ? td__graph_size_scale(sizes, size, (int64_t)scale)
           : over == floor(over) && over >= 1 && over < 0x1p31 /* exact, as powers of two are */
               ? td__graph_size_divide(sizes, size, (int64_t)over)
               : td__graph_any_size(sizes);
}

/* The scales: of a constant, an attribute, or numbers that were calculated. NAN: not known. */
static bool find_scales(td__graph_inference *node, size_t input, int32_t rank, double *scales) {
    const td__graph_attribute *attribute = td__graph_attribute_of(node->node, "scales");
    int32_t v = input < node->node->input_count ? node->node->inputs[input] : -1;
    const td_tensor *tensor = v < 0 ? NULL : td__graph_known_tensor(node, v);
    td__graph_numbers numbers;
    for (int32_t i = 0; i < rank; i++) {
        scales[i] = NAN;
    }
    if (attribute && attribute->count == (size_t)rank) {
        for (int32_t i = 0; i < rank && attribute->numbers; i++) {
            scales[i] = (double)attribute->numbers[i];
        }
        return true;
    }
    if (tensor && tensor->count == rank && tensor->dtype == TD_FLOAT32) {
        for (int32_t i = 0; i < rank; i++) {
            scales[i] = (double)((const float *)tensor->data)[i];
        }
        return true;
    }
    bool found = td__graph_numbers_in(node, input, &numbers) && numbers.count == (size_t)rank;
    for (int32_t i = 0; found && i < rank; i++) {
        scales[i] = td__graph_is_number(numbers.all[i]) ? (double)numbers.all[i].plus : NAN;
    }
    return found;
}

bool td__graph_infer_resize(td__graph_inference *node) {
    const td__graph_extent *in = td__graph_extent_in(node, 0);
    td__graph_extent *out =
        td__graph_extent_out(node, 0, td__graph_type_in(node, 0), in ? in->rank : -1);
    const int64_t *axes;
    double scales[TD_MAX_RANK];
    td__graph_numbers sizes;
    bool crop = strcmp(td__graph_text(node->node, "coordinate_transformation_mode", ""),
                       "tf_crop_and_resize") == 0;
    out->last = out->known && in->last && !crop;
    if (!out->known || td__graph_ints(node->node, "axes", &axes) ||
        strcmp(td__graph_text(node->node, "keep_aspect_ratio_policy", "stretch"), "stretch") != 0) {
        return true;
    }
    if (td__graph_numbers_in(node, 3, &sizes) && sizes.count == (size_t)out->rank) {
        memcpy(out->dims, sizes.all, sizes.count * sizeof *sizes.all);
    } else if (find_scales(node, node->opset < 11 ? 1 : 2, out->rank, scales)) {
        for (int32_t i = 0; i < out->rank; i++) {
            out->dims[i] =
                scales[i] > 0 ? times(node->sizes, in->dims[i], scales[i]) : out->dims[i];
        }
    }
    return true;
}

/* --- products ------------------------------------------------------------------------------- */

static bool product(td__graph_inference *node, size_t left, size_t right, td__graph_type type) {
    const td__graph_extent *a = td__graph_extent_in(node, left);
    const td__graph_extent *b = td__graph_extent_in(node, right);
    if (!a || !b || a->rank == 0 || b->rank == 0) {
        (void)td__graph_extent_out(node, 0, type, -1);
        return true;
    }
    int32_t rows = a->rank > 1, columns = b->rank > 1;
    int32_t max = a->rank > b->rank ? a->rank : b->rank;
    int32_t batches = max > 2 ? max - 2 : 0;
    td__graph_extent *out = td__graph_extent_out(node, 0, type, batches + rows + columns);
    td__graph_extent x = {.rank = a->rank > 2 ? a->rank - 2 : 0}, y = {0},
                     stack = {.rank = batches};
    y.rank = b->rank > 2 ? b->rank - 2 : 0;
    memcpy(x.dims, a->dims, (size_t)x.rank * sizeof *x.dims);
    memcpy(y.dims, b->dims, (size_t)y.rank * sizeof *y.dims);
    bool fits = td__graph_broadcast_dims(node, &x, &y, &stack);
    memcpy(out->dims, stack.dims, (size_t)batches * sizeof *out->dims);
    if (rows) {
        out->dims[batches] = a->dims[a->rank - 2];
    }
    if (columns) {
        out->dims[batches + rows] = b->dims[b->rank - 1];
    }
    return fits;
}

bool td__graph_infer_matmul(td__graph_inference *node) {
    bool integers = strcmp(node->node->op_type, "MatMulInteger") == 0;
    return product(node, 0, 1, integers ? TD__GRAPH_INT32 : td__graph_type_in(node, 0));
}

bool td__graph_infer_qlinear_matmul(td__graph_inference *node) {
    return product(node, 0, 3, td__graph_type_in(node, 7));
}

bool td__graph_infer_float_matmul(td__graph_inference *node) {
    return product(node, 0, 1, TD__GRAPH_FLOAT);
}

bool td__graph_infer_gemm(td__graph_inference *node) {
    const td__graph_extent *a = td__graph_extent_in(node, 0), *b = td__graph_extent_in(node, 1);
    td__graph_extent *out = td__graph_extent_out(node, 0, td__graph_type_in(node, 0), 2);
    if (a && a->rank == 2) {
        out->dims[0] = a->dims[td__graph_int(node->node, "transA", 0) != 0];
    }
    if (b && b->rank == 2) {
        out->dims[1] = b->dims[td__graph_int(node->node, "transB", 0) == 0];
    }
    return true;
}

/* --- LSTM, GRU, RNN ------------------------------------------------------------------------- */

/* X (time, batch, width), R (directions, gates × units, units): Y (time, directions, batch, units) and
 * the states (directions, batch, units); with layout 1 the batch comes first. */
bool td__graph_infer_recurrent(td__graph_inference *node) {
    const td__graph_extent *x = td__graph_extent_in(node, 0), *r = td__graph_extent_in(node, 2);
    const td__graph_extent *state = td__graph_extent_in(node, 5);
    bool batch_first = td__graph_int(node->node, "layout", 0) != 0;
    td__graph_type type = td__graph_type_in(node, 0);
    if (!x || !r || x->rank != 3 || r->rank != 3) {
        return true;
    }
    td__graph_size time = x->dims[batch_first], batch = x->dims[!batch_first];
    td__graph_size directions = r->dims[0], units = r->dims[2];
    td__graph_size all[] = {batch_first ? batch : time, batch_first ? time : directions,
                            batch_first ? directions : batch, units};
    td__graph_size end[] = {batch_first ? batch : directions, batch_first ? directions : batch,
                            units};
    memcpy(td__graph_extent_out(node, 0, type, 4)->dims, all, sizeof all);
    for (size_t o = 1; o < 3; o++) {
        memcpy(td__graph_extent_out(node, o, type, 3)->dims, end, sizeof end);
    }
    td__graph_size own = state && state->rank == 3 ? state->dims[!batch_first] : batch;
    return td__graph_same_size(own, batch) ||
           !(td__graph_is_number(own) && td__graph_same_size(batch, node->batch));
}
