/* Inference for operators that say, change and move shapes, and pick elements. */
#include "graph/infer.h"

#include "tensor/tensor.h"

#include <string.h>

static td__graph_size count_of(td__graph_inference *node, const td__graph_extent *extent,
                               int32_t from, int32_t end) {
    td__graph_size count = td__onnx_number(1);
    for (int32_t i = from; i < end; i++) {
        count = td__graph_size_multiply(node->sizes, count, extent->dims[i]);
    }
    return count;
}

/* The numbers of input 0 are those of an output that has them in another shape. */
static void pass_numbers(const td__graph_inference *node, td__graph_extent *out) {
    const td__graph_extent *in = td__graph_extent_in(node, 0);
    if (in && in->numbers && out->known && out->rank <= 1) {
        td__graph_put_numbers(out, in->numbers);
    }
}

/* --- shapes as numbers ---------------------------------------------------------------------- */

bool td__graph_infer_shape(td__graph_inference *node) {
    const td__graph_extent *in = td__graph_extent_in(node, 0);
    td__graph_extent *out = td__graph_extent_out(node, 0, TD__GRAPH_INT64, 1);
    if (!in) {
        return true;
    }
    int64_t start = td__graph_int(node->node, "start", 0);
    int64_t end = td__graph_int(node->node, "end", in->rank);
    start += start < 0 ? in->rank : 0;
    end += end < 0 ? in->rank : 0;
    td__graph_numbers numbers = {0};
    for (int64_t i = start < 0 ? 0 : start; i < end && i < in->rank; i++) {
        numbers.all[numbers.count++] = in->dims[i];
    }
    out->dims[0] = td__onnx_number((int64_t)numbers.count);
    td__graph_put_numbers(out, &numbers);
    return true;
}

bool td__graph_infer_size(td__graph_inference *node) {
    const td__graph_extent *in = td__graph_extent_in(node, 0);
    td__graph_extent *out = td__graph_extent_out(node, 0, TD__GRAPH_INT64, 0);
    if (in) {
        td__graph_put_numbers(
            out, &(td__graph_numbers){.count = 1, .all = {count_of(node, in, 0, in->rank)}});
    }
    return true;
}

bool td__graph_infer_constant_of_shape(td__graph_inference *node) {
    const td__graph_attribute *value = td__graph_attribute_of(node->node, "value");
    const td_tensor *one = value ? value->constant.tensor : NULL;
    td__graph_numbers shape, numbers = {0};
    if (!td__graph_numbers_in(node, 0, &shape) || shape.count > TD_MAX_RANK) {
        return true;
    }
    td__graph_extent *out = td__graph_extent_out(
        node, 0, one ? value->constant.type : TD__GRAPH_FLOAT, (int64_t)shape.count);
    memcpy(out->dims, shape.all, shape.count * sizeof *shape.all);
    bool few = shape.count == 1 && td__graph_is_number(shape.all[0]) && shape.all[0].plus >= 0 &&
               shape.all[0].plus <= TD__GRAPH_MAX_NUMBERS;
    if (few && one && one->dtype == TD_INT64 && one->count == 1) {
        numbers.count = (size_t)shape.all[0].plus;
        for (size_t i = 0; i < numbers.count; i++) {
            numbers.all[i] = td__onnx_number(*(const int64_t *)one->data);
        }
        td__graph_put_numbers(out, &numbers);
    }
    return true;
}

bool td__graph_infer_range(td__graph_inference *node) {
    td__graph_extent *out = td__graph_extent_out(node, 0, td__graph_type_in(node, 0), 1);
    td__graph_numbers start, end, step;
    if (td__graph_numbers_in(node, 0, &start) && td__graph_numbers_in(node, 1, &end) &&
        td__graph_numbers_in(node, 2, &step) && start.count == 1 && end.count == 1 &&
        step.count == 1 && td__graph_is_size(step.all[0], 1)) {
        td__graph_size from = td__graph_size_scale(node->sizes, start.all[0], -1);
        td__graph_size count = td__graph_size_add(node->sizes, end.all[0], from);
        out->dims[0] = td__graph_is_number(count) && count.plus < 0 ? td__onnx_number(0) : count;
    }
    return true;
}

/* --- the same elements in another shape ----------------------------------------------------- */

bool td__graph_infer_reshape(td__graph_inference *node) {
    const td__graph_extent *in = td__graph_extent_in(node, 0);
    const int64_t *attribute;
    td__graph_numbers to = {.count = td__graph_ints(node->node, "shape", &attribute)};
    for (size_t i = 0; i < to.count && i < TD_MAX_RANK; i++) {
        to.all[i] = td__onnx_number(attribute[i]);
    }
    if ((to.count == 0 && !td__graph_numbers_in(node, 1, &to)) || to.count > TD_MAX_RANK) {
        return true;
    }
    td__graph_extent *out =
        td__graph_extent_out(node, 0, td__graph_type_in(node, 0), (int64_t)to.count);
    bool keep = td__graph_int(node->node, "allowzero", 0) == 0;
    size_t open = to.count, others = 0;
    td__graph_size parts[TD_MAX_RANK];
    if (in && in->rank > 0 && to.count > 0 && td__graph_same_size(in->dims[0], node->batch) &&
        node->declared > 0 && td__graph_is_size(to.all[0], node->declared)) {
        to.all[0] = node->batch; /* the file's own, in a constant */
    }
    for (size_t i = 0; i < to.count; i++) {
        bool zero = keep && td__graph_is_size(to.all[i], 0);
        if (zero) {
            to.all[i] = in && (int32_t)i < in->rank ? in->dims[i] : td__graph_any_size(node->sizes);
        }
        if (td__graph_is_size(to.all[i], -1)) {
            open = i;
        } else {
            parts[others++] = out->dims[i] = to.all[i];
        }
    }
    if (open < to.count && in) {
        out->dims[open] =
            node->trusting && open == 0 && td__graph_same_size(in->dims[0], node->batch)
                ? node->batch
                : td__graph_size_left(node->sizes, (size_t)in->rank, in->dims, others, parts);
    }
    pass_numbers(node, out);
    return true;
}

bool td__graph_infer_flatten(td__graph_inference *node) {
    const td__graph_extent *in = td__graph_extent_in(node, 0);
    td__graph_extent *out = td__graph_extent_out(node, 0, td__graph_type_in(node, 0), 2);
    int64_t axis = td__graph_int(node->node, "axis", 1);
    axis += in && axis < 0 ? in->rank : 0;
    if (in && axis >= 0 && axis <= in->rank) {
        out->dims[0] = count_of(node, in, 0, (int32_t)axis);
        out->dims[1] = count_of(node, in, (int32_t)axis, in->rank);
    }
    return true;
}

/* Axes as an attribute or as input 1; false when they are not known. */
static bool list_axes(td__graph_inference *node, int64_t axes[TD_MAX_RANK], size_t *count) {
    const int64_t *given;
    *count = td__graph_ints(node->node, "axes", &given);
    if (*count > 0 && *count <= TD_MAX_RANK) {
        memcpy(axes, given, *count * sizeof *axes);
        return true;
    }
    return *count == 0 && (node->node->input_count < 2 || node->node->inputs[1] < 0 ||
                           td__graph_constants_in(node, 1, axes, TD_MAX_RANK, count));
}

static bool mark(const int64_t *axes, size_t count, int64_t rank, bool marked[TD_MAX_RANK]) {
    memset(marked, 0, TD_MAX_RANK * sizeof *marked);
    for (size_t i = 0; i < count; i++) {
        int64_t axis = axes[i] + (axes[i] < 0 ? rank : 0);
        if (axis < 0 || axis >= rank || rank > TD_MAX_RANK) {
            return false;
        }
        marked[axis] = true;
    }
    return true;
}

bool td__graph_infer_squeeze(td__graph_inference *node) {
    const td__graph_extent *in = td__graph_extent_in(node, 0);
    int64_t axes[TD_MAX_RANK];
    bool marked[TD_MAX_RANK], known = true;
    size_t count;
    td__graph_size dims[TD_MAX_RANK];
    int32_t rank = 0;
    if (!in || !list_axes(node, axes, &count) || !mark(axes, count, in->rank, marked)) {
        return true;
    }
    for (int32_t i = 0; i < in->rank; i++) {
        known = known && (count > 0 || td__graph_is_number(in->dims[i]));
        if (count > 0 ? !marked[i] : !td__graph_is_size(in->dims[i], 1)) {
            dims[rank++] = in->dims[i];
        }
    }
    td__graph_extent *out =
        td__graph_extent_out(node, 0, td__graph_type_in(node, 0), known ? rank : -1);
    memcpy(out->dims, dims, (size_t)out->rank * sizeof *dims);
    pass_numbers(node, out);
    return true;
}

bool td__graph_infer_unsqueeze(td__graph_inference *node) {
    const td__graph_extent *in = td__graph_extent_in(node, 0);
    int64_t axes[TD_MAX_RANK];
    bool marked[TD_MAX_RANK];
    size_t count;
    if (!in || !list_axes(node, axes, &count) ||
        !mark(axes, count, in->rank + (int64_t)count, marked)) {
        return true;
    }
    td__graph_extent *out =
        td__graph_extent_out(node, 0, td__graph_type_in(node, 0), in->rank + (int64_t)count);
    for (int32_t i = 0, k = 0; i < out->rank; i++) {
        out->dims[i] = marked[i] || k == in->rank ? td__onnx_number(1) : in->dims[k++];
    }
    pass_numbers(node, out);
    return true;
}

static bool is_last(const int32_t *order, int32_t rank, bool back) {
    bool is = rank >= 3;
    for (int32_t i = 0; i < rank; i++) {
        int32_t to = back ? i : order[i], from = back ? order[i] : i;
        is = is && from == (to == 0 ? 0 : to == 1 ? rank - 1 : to - 1);
    }
    return is;
}

bool td__graph_infer_transpose(td__graph_inference *node) {
    const td__graph_extent *in = td__graph_extent_in(node, 0);
    const int64_t *given;
    size_t count = td__graph_ints(node->node, "perm", &given);
    int32_t order[TD_MAX_RANK] = {0};
    if (!in || (count && count != (size_t)in->rank)) {
        return true;
    }
    td__graph_extent *out = td__graph_extent_out(node, 0, td__graph_type_in(node, 0), in->rank);
    for (int32_t i = 0; i < in->rank; i++) {
        int64_t from = count ? given[i] : in->rank - 1 - i;
        from += from < 0 ? in->rank : 0;
        if (from < 0 || from >= in->rank) {
            return true;
        }
        order[i] = (int32_t)from;
        out->dims[i] = in->dims[from];
    }
    /* To the channels last of what is so already: plain. From them: nothing moves either. */
    out->last = !(in->last && is_last(order, in->rank, false)) && is_last(order, in->rank, true);
    pass_numbers(node, out);
    return true;
}

static bool blocks(td__graph_inference *node, bool to_space) {
    const td__graph_extent *in = td__graph_extent_in(node, 0);
    td__graph_extent *out = td__graph_extent_out(node, 0, td__graph_type_in(node, 0), 4);
    int64_t b = td__graph_int(node->node, "blocksize", 1);
    out->last = true;
    if (!in || in->rank != 4 || b < 1 || b > 4096) {
        return true;
    }
    out->dims[0] = in->dims[0];
    out->dims[1] = to_space ? td__graph_size_divide(node->sizes, in->dims[1], b * b)
                            : td__graph_size_scale(node->sizes, in->dims[1], b * b);
    for (int32_t i = 2; i < 4; i++) {
        out->dims[i] = to_space ? td__graph_size_scale(node->sizes, in->dims[i], b)
                                : td__graph_size_divide(node->sizes, in->dims[i], b);
    }
    return true;
}

bool td__graph_infer_depth_to_space(td__graph_inference *node) {
    return blocks(node, true);
}
bool td__graph_infer_space_to_depth(td__graph_inference *node) {
    return blocks(node, false);
}
