/* Inference for operators that work element by element, or along axes: functions, arithmetic,
 * comparisons, reductions, orders, quantisation. */
#include "graph/infer.h"

#include <string.h>

/* Output o has the dims of an input. */
static td__graph_extent *like(td__graph_inference *node, size_t o, const td__graph_extent *in,
                              td__graph_type type) {
    td__graph_extent *out = td__graph_extent_out(node, o, type, in ? in->rank : -1);
    for (int32_t i = 0; i < out->rank; i++) {
        out->dims[i] = in->dims[i];
    }
    out->last = out->known && in->last;
    return out;
}

bool td__graph_infer_same(td__graph_inference *node) {
    (void)like(node, 0, td__graph_extent_in(node, 0), td__graph_type_in(node, 0));
    return true;
}

bool td__graph_infer_passed(td__graph_inference *node) {
    const td__graph_extent *in = td__graph_extent_in(node, 0);
    td__graph_extent *out = like(node, 0, in, td__graph_type_in(node, 0));
    if (in && in->numbers) {
        td__graph_put_numbers(out, in->numbers);
    }
    return true;
}

bool td__graph_infer_images(td__graph_inference *node) {
    like(node, 0, td__graph_extent_in(node, 0), td__graph_type_in(node, 0))->last = true;
    return true;
}

bool td__graph_infer_dropout(td__graph_inference *node) {
    const td__graph_extent *in = td__graph_extent_in(node, 0);
    (void)like(node, 0, in, td__graph_type_in(node, 0));
    (void)like(node, 1, in, TD__GRAPH_BOOL);
    return true;
}

bool td__graph_infer_boolean(td__graph_inference *node) {
    (void)like(node, 0, td__graph_extent_in(node, 0), TD__GRAPH_BOOL);
    return true;
}

bool td__graph_infer_cast(td__graph_inference *node) {
    int64_t to = td__graph_int(node->node, "to", TD__GRAPH_UNDEFINED);
    bool alike = strcmp(node->node->op_type, "CastLike") == 0;
    td__graph_type type = alike                                 ? td__graph_type_in(node, 1)
                          : to < 0 || to > TD__GRAPH_FLOAT6E3M2 ? TD__GRAPH_UNDEFINED
                                                                : (td__graph_type)to;
    const td__graph_extent *in = td__graph_extent_in(node, 0);
    bool real = type == td__graph_type_in(node, 0);
    td__graph_extent *out = like(node, 0, in, type);
    out->last = out->last && (real || td__graph_type_in(node, 0) == TD__GRAPH_FLOAT);
    bool counts = type == TD__GRAPH_INT64 || type == TD__GRAPH_INT32 || type == TD__GRAPH_FLOAT ||
                  type == TD__GRAPH_BOOL;
    bool bits = strcmp(node->node->op_type, "BitCast") == 0;
    if (in && in->numbers && counts && !bits) { /* they are small, and whole */
        td__graph_put_numbers(out, in->numbers);
    }
    return true;
}

/* --- two and more operands ------------------------------------------------------------------ */

static td__graph_extent *broadcast(td__graph_inference *node, td__graph_type type, bool *fits) {
    size_t count = node->node->input_count;
    int32_t rank = 0;
    bool known = count > 0, last = false;
    for (size_t i = 0; i < count; i++) {
        const td__graph_extent *in = td__graph_extent_in(node, i);
        known = known && in;
        rank = in && in->rank > rank ? in->rank : rank;
    }
    td__graph_extent *out = td__graph_extent_out(node, 0, type, known ? rank : -1);
    *fits = true;
    for (int32_t i = 0; i < out->rank; i++) {
        out->dims[i] = td__onnx_number(1);
    }
    bool placed = node->opset < 7 && td__graph_attribute_of(node->node, "axis");
    for (size_t i = 0; known && i < count; i++) {
        const td__graph_extent *in = td__graph_extent_in(node, i);
        last = last || (in->last && in->rank == rank);
        td__graph_extent before = *out;
        if (i == 0 || !placed) { /* before opset 7, the second stands where it says */
            *fits = td__graph_broadcast_dims(node, &before, in, out) && *fits;
        }
    }
    out->last = last;
    return out;
}

bool td__graph_infer_broadcast(td__graph_inference *node) {
    bool fits;
    (void)broadcast(node, td__graph_type_in(node, 0), &fits);
    return fits;
}

/* Of floats only where nothing is left. */
static td__graph_size quotient(td__graph_inference *node, td__graph_size a, td__graph_size b) {
    bool real = td__graph_type_in(node, 0) == TD__GRAPH_FLOAT;
    if (td__graph_same_size(a, b) && !td__graph_is_size(a, 0)) {
        return td__onnx_number(1);
    }
    if (!td__graph_is_number(b) || b.plus <= 0 || (td__graph_is_number(a) && a.plus < 0) ||
        (real && (a.times % b.plus || a.plus % b.plus))) {
        return td__graph_any_size(node->sizes);
    }
    return td__graph_size_divide(node->sizes, a, b.plus);
}

/* A size is 1 at least. */
static td__graph_size largest(td__graph_inference *node, td__graph_size a, td__graph_size b) {
    if (td__graph_is_number(a) && td__graph_is_number(b)) {
        return a.plus > b.plus ? a : b;
    }
    td__graph_size number = td__graph_is_number(a) ? a : b, other = td__graph_is_number(a) ? b : a;
    bool min =
        td__graph_is_number(number) && number.plus <= 1 && other.times > 0 && other.plus >= 0;
    return td__graph_same_size(a, b) || min ? other : td__graph_any_size(node->sizes);
}

static td__graph_size calculate(td__graph_inference *node, td__graph_size a, td__graph_size b) {
    const char *name = node->node->op_type;
    td__graph_sizes *sizes = node->sizes;
    return !strcmp(name, "Add")   ? td__graph_size_add(sizes, a, b)
           : !strcmp(name, "Mul") ? td__graph_size_multiply(sizes, a, b)
           : !strcmp(name, "Div") ? quotient(node, a, b)
           : !strcmp(name, "Max") ? largest(node, a, b)
           : !strcmp(name, "Sub") ? td__graph_size_add(sizes, a, td__graph_size_scale(sizes, b, -1))
                                  : td__graph_any_size(sizes);
}

/* Add, Sub, Mul, Div, Max. */
bool td__graph_infer_arithmetic(td__graph_inference *node) {
    bool fits;
    td__graph_extent *out = broadcast(node, td__graph_type_in(node, 0), &fits);
    const td__graph_extent *a = td__graph_extent_in(node, 0), *b = td__graph_extent_in(node, 1);
    const td__graph_numbers *left = a ? a->numbers : NULL, *right = b ? b->numbers : NULL;
    if (!left || !right || out->rank > 1 || node->node->input_count != 2 || left->count == 0 ||
        right->count == 0 ||
        (left->count != right->count && left->count != 1 && right->count != 1)) {
        return fits;
    }
    td__graph_numbers made = {.count = left->count > right->count ? left->count : right->count};
    for (size_t i = 0; i < made.count; i++) {
        made.all[i] = calculate(node, left->all[left->count == 1 ? 0 : i],
                                right->all[right->count == 1 ? 0 : i]);
    }
    td__graph_put_numbers(out, &made);
    return fits;
}

/* 1, 0, or any size when it depends: sizes are not negative. */
static td__graph_size are_equal(td__graph_inference *node, td__graph_size a, td__graph_size b) {
    bool numbers = td__graph_is_number(a) && td__graph_is_number(b);
    td__graph_size number = td__graph_is_number(a) ? a : b, other = td__graph_is_number(a) ? b : a;
    bool never = (numbers && a.plus != b.plus) ||
                 (td__graph_is_number(number) && number.plus < 0 && !td__graph_is_number(other) &&
                  other.times > 0 && other.plus >= 0);
    return td__graph_same_size(a, b) ? td__onnx_number(1)
           : never                   ? td__onnx_number(0)
                                     : td__graph_any_size(node->sizes);
}

bool td__graph_infer_compared(td__graph_inference *node) {
    bool fits;
    td__graph_extent *out = broadcast(node, TD__GRAPH_BOOL, &fits);
    const td__graph_extent *a = td__graph_extent_in(node, 0), *b = td__graph_extent_in(node, 1);
    out->last = false;
    if (a && b && a->numbers && b->numbers && a->numbers->count == b->numbers->count &&
        out->rank <= 1 && strcmp(node->node->op_type, "Equal") == 0) {
        td__graph_numbers made = {.count = a->numbers->count};
        for (size_t i = 0; i < made.count; i++) {
            made.all[i] = are_equal(node, a->numbers->all[i], b->numbers->all[i]);
        }
        td__graph_put_numbers(out, &made);
    }
    return fits;
}

bool td__graph_infer_where(td__graph_inference *node) {
    bool fits;
    td__graph_extent *out = broadcast(node, td__graph_type_in(node, 1), &fits);
    const td__graph_extent *in[3];
    bool all = out->rank <= 1;
    for (size_t i = 0; i < 3; i++) {
        in[i] = td__graph_extent_in(node, i);
        all = all && in[i] && in[i]->numbers && in[i]->numbers->count == in[0]->numbers->count;
    }
    if (all) {
        td__graph_numbers made = {.count = in[0]->numbers->count};
        for (size_t i = 0; i < made.count; i++) {
            td__graph_size which = in[0]->numbers->all[i];
            made.all[i] = td__graph_is_number(which) ? in[which.plus ? 1 : 2]->numbers->all[i]
                                                     : td__graph_any_size(node->sizes);
        }
        td__graph_put_numbers(out, &made);
    }
    return fits;
}

/* --- along axes ----------------------------------------------------------------------------- */

static bool mark_axes(td__graph_inference *node, int32_t rank, bool marked[TD_MAX_RANK],
                      size_t *count) {
    int64_t list[TD_MAX_RANK];
    const int64_t *axes;
    *count = td__graph_ints(node->node, "axes", &axes);
    bool known = *count <= TD_MAX_RANK;
    if (*count == 0 && node->node->input_count > 1 && node->node->inputs[1] >= 0) {
        known = td__graph_constants_in(node, 1, list, TD_MAX_RANK, count);
        axes = list;
    }
    memset(marked, 0, TD_MAX_RANK * sizeof *marked);
    for (size_t i = 0; known && i < *count; i++) {
        known = axes[i] >= -rank && axes[i] < rank;
        if (known) {
            marked[axes[i] < 0 ? axes[i] + rank : axes[i]] = true;
        }
    }
    return known;
}

static void reduce_numbers(td__graph_inference *node, const td__graph_extent *in,
                           td__graph_extent *out) {
    bool product = strcmp(node->node->op_type, "ReduceProd") == 0;
    if (in->numbers && (product || strcmp(node->node->op_type, "ReduceSum") == 0)) {
        td__graph_numbers made = {.count = 1, .all = {td__onnx_number(product)}};
        for (size_t i = 0; i < in->numbers->count; i++) {
            made.all[0] = (product ? td__graph_size_multiply : td__graph_size_add)(
                node->sizes, made.all[0], in->numbers->all[i]);
        }
        td__graph_put_numbers(out, &made);
    }
}

static bool reduce_extent(td__graph_inference *node, td__graph_type type,
                          const td__graph_extent *in, const bool reduced[TD_MAX_RANK]) {
    bool keep = td__graph_int(node->node, "keepdims", 1) != 0;
    td__graph_size dims[TD_MAX_RANK];
    int32_t rank = 0;
    for (int32_t i = 0; i < in->rank; i++) {
        if (!reduced[i] || keep) {
            dims[rank++] = reduced[i] ? td__onnx_number(1) : in->dims[i];
        }
    }
    td__graph_extent *out = td__graph_extent_out(node, 0, type, rank);
    memcpy(out->dims, dims, (size_t)rank * sizeof *dims);
    out->last = in->last && keep;
    if (in->rank == 1 && reduced[0]) {
        reduce_numbers(node, in, out);
    }
    return true;
}

bool td__graph_infer_reduced(td__graph_inference *node) {
    const td__graph_extent *in = td__graph_extent_in(node, 0);
    bool reduced[TD_MAX_RANK];
    size_t count;
    if (!in || !mark_axes(node, in->rank, reduced, &count)) {
        return true;
    }
    if (count == 0 && td__graph_int(node->node, "noop_with_empty_axes", 0)) {
        return td__graph_infer_same(node);
    }
    for (int32_t i = 0; i < in->rank; i++) {
        reduced[i] = reduced[i] || count == 0;
    }
    return reduce_extent(node, td__graph_type_in(node, 0), in, reduced);
}

bool td__graph_infer_softmax(td__graph_inference *node) {
    (void)td__graph_infer_same(node);
    if (node->opset < 13) { /* over all axes from one on, in the plain form */
        int32_t v = node->node->outputs[0];
        const td__graph_extent *in = td__graph_extent_in(node, 0);
        int64_t axis = td__graph_int(node->node, "axis", 1);
        bool one = in && (axis == -1 || axis == in->rank - 1);
        if (v >= 0) {
            node->extents[v].last = node->extents[v].last && one;
        }
    }
    return true;
}

/* ArgMax, ArgMin. */
bool td__graph_infer_arg(td__graph_inference *node) {
    const td__graph_extent *in = td__graph_extent_in(node, 0);
    int64_t axis = td__graph_int(node->node, "axis", 0);
    bool reduced[TD_MAX_RANK] = {false};
    if (!in || axis < -in->rank || axis >= in->rank) {
        return true;
    }
    reduced[axis < 0 ? axis + in->rank : axis] = true;
    td__graph_extent plain = *in;
    plain.last = false;
    plain.numbers = NULL;
    return reduce_extent(node, TD__GRAPH_INT64, &plain, reduced);
}

bool td__graph_infer_top_k(td__graph_inference *node) {
    const td__graph_extent *in = td__graph_extent_in(node, 0);
    int64_t axis = td__graph_int(node->node, "axis", -1), k = td__graph_int(node->node, "k", -1);
    size_t count = 1;
    if (!in || axis < -in->rank || axis >= in->rank) {
        return true;
    }
    bool known = k >= 0 || td__graph_constants_in(node, 1, &k, 1, &count);
    for (size_t o = 0; o < 2; o++) {
        td__graph_extent *out =
            like(node, o, in, o == 0 ? td__graph_type_in(node, 0) : TD__GRAPH_INT64);
        out->last = false;
        out->dims[axis < 0 ? axis + in->rank : axis] =
            known && count == 1 ? td__onnx_number(k) : td__graph_any_size(node->sizes);
    }
    return true;
}

/* --- quantisation --------------------------------------------------------------------------- */

bool td__graph_infer_quantized(td__graph_inference *node) {
    int64_t declared = td__graph_int(node->node, "output_dtype", 0);
    td__graph_type type = declared > 0 && declared <= TD__GRAPH_FLOAT6E3M2
                              ? (td__graph_type)declared
                          : node->node->input_count > 2 ? td__graph_type_in(node, 2)
                                                        : TD__GRAPH_UINT8;
    like(node, 0, td__graph_extent_in(node, 0), type)->last = false;
    return true;
}

bool td__graph_infer_dequantized(td__graph_inference *node) {
    like(node, 0, td__graph_extent_in(node, 0), td__graph_type_in(node, 1))->last = false;
    return true;
}

bool td__graph_infer_dynamic_quantized(td__graph_inference *node) {
    like(node, 0, td__graph_extent_in(node, 0), TD__GRAPH_UINT8)->last = false;
    (void)td__graph_extent_out(node, 1, TD__GRAPH_FLOAT, 0);
    (void)td__graph_extent_out(node, 2, TD__GRAPH_UINT8, 0);
    return true;
}
