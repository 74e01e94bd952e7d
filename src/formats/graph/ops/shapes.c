/* Shapes: reading them, and giving the same elements another one. */
#include "graph/ops/common.h"

#include <string.h>

/* --- asking ------------------------------------------------------------------------------- */

static int64_t clamp(int64_t value, int64_t max) {
    return value < 0 ? 0 : value > max ? max : value;
}

static bool shape(td__graph_call *call) {
    td_shape shape = td__graph_shape(call, 0);
    int64_t begin = td__graph_int(call->node, "start", 0);
    int64_t end = td__graph_int(call->node, "end", shape.rank);
    begin = clamp(begin < 0 ? begin + shape.rank : begin, shape.rank);
    end = clamp(end < 0 ? end + shape.rank : end, shape.rank);
    int64_t count = end > begin ? end - begin : 0;
    td_tensor *y = td__output(call->tape, TD_INT64, &TD_SHAPE(count));
    if (y && count > 0) {
        memcpy(y->data, shape.dims + begin, (size_t)count * sizeof *shape.dims);
    }
    return td__graph_output(call, 0, TD__GRAPH_INT64, y);
}

static bool size(td__graph_call *call) {
    td_shape shape = td__graph_shape(call, 0);
    td_tensor *y = td__output(call->tape, TD_INT64, &(td_shape){0});
    if (y) {
        int64_t *count = y->data;
        *count = 1;
        for (int32_t i = 0; i < shape.rank; i++) {
            *count *= shape.dims[i];
        }
    }
    return td__graph_output(call, 0, TD__GRAPH_INT64, y);
}

/* --- constants ---------------------------------------------------------------------------- */

static bool constant_numbers(td__graph_call *call, const td__graph_attribute *attribute) {
    bool list = attribute->kind == TD__GRAPH_ATTRIBUTE_FLOATS ||
                attribute->kind == TD__GRAPH_ATTRIBUTE_INTS;
    bool real = attribute->kind == TD__GRAPH_ATTRIBUTE_FLOATS ||
                attribute->kind == TD__GRAPH_ATTRIBUTE_FLOAT;
    td_shape shape = list ? TD_SHAPE((int64_t)attribute->count) : (td_shape){0};
    td_tensor *y = td__output(call->tape, real ? TD_FLOAT32 : TD_INT64, &shape);
    if (y && y->count > 0) {
        const void *from = real ? (list ? (const void *)attribute->numbers : &attribute->number)
                                : (list ? (const void *)attribute->integers : &attribute->integer);
        memcpy(y->data, from, (size_t)y->count * td_dtype_size(y->dtype));
    }
    return td__graph_output(call, 0, real ? TD__GRAPH_FLOAT : TD__GRAPH_INT64, y);
}

static bool constant_text(td__graph_call *call, const td__graph_attribute *list,
                          const td__graph_attribute *one) {
    td_shape shape = list ? TD_SHAPE((int64_t)list->count) : (td_shape){0};
    td_tensor *y = td__output(call->tape, TD_INT64, &shape);
    for (int64_t i = 0; y && i < y->count; i++) {
        td__graph_put_text(y, i, list ? list->texts[i] : one->text);
    }
    return td__graph_output(call, 0, TD__GRAPH_STRING, y);
}

static bool constant(td__graph_call *call) {
    static const char *const names[] = {"value_float", "value_floats", "value_int", "value_ints"};
    const td__graph_attribute *value = td__graph_attribute_of(call->node, "value");
    if (value && value->kind == TD__GRAPH_ATTRIBUTE_TENSOR) {
        return td__graph_output(call, 0, value->constant.type, value->constant.tensor);
    }
    const td__graph_attribute *text = td__graph_attribute_of(call->node, "value_string");
    const td__graph_attribute *texts = td__graph_attribute_of(call->node, "value_strings");
    if ((text && text->kind == TD__GRAPH_ATTRIBUTE_TEXT) ||
        (texts && texts->kind == TD__GRAPH_ATTRIBUTE_TEXTS)) {
        return constant_text(call, text ? NULL : texts, text);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const td__graph_attribute *each = td__graph_attribute_of(call->node, names[i]);
        if (each && each->kind != TD__GRAPH_ATTRIBUTE_OTHER) {
            return constant_numbers(call, each);
        }
    }
    return td__graph_fail(call, TD_UNSUPPORTED, "a constant that is no tensor of numbers");
}

/* The integers of a shape or the like, none negative; -1: input i has something else. */
static bool wanted_shape(td__graph_call *call, size_t i, td_shape *out) {
    size_t count;
    *out = (td_shape){0};
    if (!td__graph_input_ints(call, i, out->dims, TD_MAX_RANK, &count)) {
        return false;
    }
    out->rank = (int32_t)count;
    for (int32_t k = 0; k < out->rank; k++) {
        if (out->dims[k] < 0) {
            return td__graph_fail(call, TD_RANGE, "a size of %lld", (long long)out->dims[k]);
        }
    }
    return true;
}

static bool constant_of_shape(td__graph_call *call) {
    static float zero;
    const td__graph_attribute *value = td__graph_attribute_of(call->node, "value");
    const td_tensor *one = value ? value->constant.tensor : NULL;
    td_shape shape;
    if (!wanted_shape(call, 0, &shape)) {
        return false;
    }
    if (one && one->count != 1) {
        return td__graph_fail(call, TD_BAD_SHAPE, "its value is not one number");
    }
    const void *element = one ? one->data : &zero;
    td_tensor *y = td__output(call->tape, one ? one->dtype : TD_FLOAT32, &shape);
    size_t bytes = y ? td_dtype_size(y->dtype) : 0;
    for (int64_t i = 0; y && i < y->count; i++) {
        memcpy((char *)y->data + (size_t)i * bytes, element, bytes);
    }
    return td__graph_output(call, 0, one ? value->constant.type : TD__GRAPH_FLOAT, y);
}

/* --- the same elements in another shape --------------------------------------------------- */

static bool viewed(td__graph_call *call, td_shape as) {
    td_tensor *x = td__graph_plain(call, 0);
    return td__graph_output(call, 0, td__graph_input(call, 0)->type,
                            td__graph_view(call->tape, x, as));
}

/* 0 keeps the input's size, -1 is what is left. */
static bool reshape(td__graph_call *call) {
    td_shape from = td__graph_shape(call, 0), to = {0};
    const int64_t *attribute;
    size_t count = td__graph_ints(call->node, "shape", &attribute);
    bool keep = td__graph_int(call->node, "allowzero", 0) == 0;
    if (count > TD_MAX_RANK) {
        return td__graph_fail(call, TD_UNSUPPORTED, "to a rank of %zu", count);
    }
    if (count > 0) {
        memcpy(to.dims, attribute, count * sizeof *attribute);
    } else if (!td__graph_input_ints(call, 1, to.dims, TD_MAX_RANK, &count)) {
        return false;
    }
    to.rank = (int32_t)count;
    if (to.rank > 0 && from.rank > 0 && from.dims[0] == td__graph_batch_for(call, to.dims[0])) {
        to.dims[0] = from.dims[0];
    }
    int64_t total = td__elements_from(&from, 0), known = 1;
    int32_t open = -1;
    for (int32_t i = 0; i < to.rank; i++) {
        if (to.dims[i] == 0 && keep && i < from.rank) {
            to.dims[i] = from.dims[i];
        }
        if (to.dims[i] == -1 && open < 0) {
            open = i;
        } else if (to.dims[i] < 0 || __builtin_mul_overflow(known, to.dims[i], &known)) {
            return td__graph_fail(call, TD_BAD_SHAPE, "a size of %lld", (long long)to.dims[i]);
        }
    }
    if (open >= 0) {
        to.dims[open] = known > 0 ? total / known : 0;
    }
    return viewed(call, to);
}

static bool flatten(td__graph_call *call) {
    td_shape from = td__graph_shape(call, 0), to = {.rank = 2, .dims = {1, 1}};
    int64_t axis = td__graph_int(call->node, "axis", 1);
    axis = axis < 0 ? axis + from.rank : axis;
    if (axis < 0 || axis > from.rank) {
        return td__graph_fail(call, TD_RANGE, "axis %lld", (long long)axis);
    }
    for (int32_t i = 0; i < from.rank; i++) {
        to.dims[i >= axis] *= from.dims[i];
    }
    return viewed(call, to);
}

static bool squeeze(td__graph_call *call) {
    td_shape from = td__graph_shape(call, 0), to = {0};
    bool marked[TD_MAX_RANK], given;
    if (!td__graph_axes(call, 1, from.rank, marked, &given)) {
        return false;
    }
    for (int32_t i = 0; i < from.rank; i++) {
        if (given && marked[i] && from.dims[i] != 1) {
            return td__graph_fail(call, TD_BAD_SHAPE, "axis %d has size %lld, not 1", (int)i,
                                  (long long)from.dims[i]);
        }
        if (given ? !marked[i] : from.dims[i] != 1) {
            to.dims[to.rank++] = from.dims[i];
        }
    }
    return viewed(call, to);
}

static bool unsqueeze(td__graph_call *call) {
    td_shape from = td__graph_shape(call, 0), to = {0};
    const int64_t *axes;
    const td__graph_value *input = td__graph_input(call, 1);
    size_t count = input && input->plain ? (size_t)input->plain->count
                                         : td__graph_ints(call->node, "axes", &axes);
    bool marked[TD_MAX_RANK], given;
    if (count > (size_t)(TD_MAX_RANK - from.rank)) {
        return td__graph_fail(call, TD_UNSUPPORTED, "to a rank of %zu", count + (size_t)from.rank);
    }
    to.rank = from.rank + (int32_t)count;
    if (!td__graph_axes(call, 1, to.rank, marked, &given)) {
        return false;
    }
    for (int32_t i = 0, k = 0; i < to.rank; i++) {
        to.dims[i] = marked[i] ? 1 : from.dims[k++];
    }
    return viewed(call, to);
}

static bool identity(td__graph_call *call) {
    return td__graph_pass(call, 0, 0);
}

/* --- transposition ------------------------------------------------------------------------ */

static td_tensor *permute(td__graph_call *call, td_tensor *x, const int32_t *order) {
    if (x->dtype == TD_FLOAT32) {
        return td_transpose(call->tape, x, order);
    }
    int64_t strides[TD_MAX_RANK];
    td_shape to = {.rank = x->shape.rank};
    td__move_map map;
    td__strides(&x->shape, strides);
    for (int32_t i = 0; i < to.rank; i++) {
        to.dims[i] = x->shape.dims[order[i]];
    }
    if (!td__move_map_init(call->tape, call->node->op_type, to, &map)) {
        return NULL;
    }
    for (int32_t i = 0; x->count > 0 && i < to.rank; i++) {
        for (int64_t k = 0; k < to.dims[i]; k++) {
            map.offsets[i][k] = k * strides[order[i]];
        }
    }
    return td__move(call->tape, x, &map, NULL);
}

/* Between (n, c, …) and (n, …, c) nothing moves: the other form is the result. */
static bool transpose(td__graph_call *call) {
    td__graph_type type = td__graph_input(call, 0)->type;
    int32_t rank = td__graph_shape(call, 0).rank, order[TD_MAX_RANK];
    const int64_t *given;
    size_t count = td__graph_ints(call->node, "perm", &given);
    bool to_last = rank >= 3, from_last = rank >= 3, seen[TD_MAX_RANK] = {false};
    if (count != 0 && count != (size_t)rank) {
        return td__graph_fail(call, TD_BAD_SHAPE, "'perm' has %zu numbers for a rank of %d", count,
                              (int)rank);
    }
    for (int32_t i = 0; i < rank; i++) {
        if (!td__graph_axis(call, count ? given[i] : rank - 1 - i, rank, &order[i])) {
            return false;
        }
        if (seen[order[i]]) {
            return td__graph_fail(call, TD_INVALID, "'perm' is no permutation");
        }
        seen[order[i]] = true;
        to_last = to_last && td__graph_last_axis(order[i], rank) == i;
        from_last = from_last && td__graph_last_axis(i, rank) == order[i];
    }
    if (to_last && td__graph_is_last(call, 0)) {
        return td__graph_output(call, 0, type, td__graph_channels_last(call, 0));
    }
    td_tensor *x = td__graph_plain(call, 0);
    if (from_last && x && x->dtype == TD_FLOAT32) {
        return td__graph_output_last(call, 0, type, x);
    }
    return td__graph_output(call, 0, type, x ? permute(call, x, order) : NULL);
}

/* --- between depth and space -------------------------------------------------------------- */

/* (n, h, w, c) in pieces of blocks, permuted, in the new shape. */
static bool rearrange(td__graph_call *call, td_tensor *x, td_shape pieces, const int32_t *order,
                      td_shape to) {
    td_tape *tape = call->tape;
    td_tensor *y = td_transpose(tape, td_reshape(tape, x, pieces), order);
    return td__graph_output_last(call, 0, td__graph_input(call, 0)->type, td_reshape(tape, y, to));
}

static td_tensor *blocks(td__graph_call *call, int64_t *b) {
    td_tensor *x = td__graph_channels_last(call, 0);
    *b = td__graph_int(call->node, "blocksize", 1);
    if (x && (x->shape.rank != 4 || *b < 1 || *b > 4096)) {
        (void)td__graph_fail(call, TD_BAD_SHAPE,
                             "its input must be images, its block size 1 or more");
        return NULL;
    }
    return x;
}

static bool depth_to_space(td__graph_call *call) {
    int64_t b;
    td_tensor *x = blocks(call, &b);
    if (!x) {
        return false;
    }
    const int64_t *d = x->shape.dims;
    int64_t c = d[3] / (b * b);
    td_shape to = TD_SHAPE(d[0], d[1] * b, d[2] * b, c);
    if (strcmp(td__graph_text(call->node, "mode", "DCR"), "CRD") == 0) {
        return rearrange(call, x, TD_SHAPE(d[0], d[1], d[2], c, b, b),
                         (int32_t[]){0, 1, 4, 2, 5, 3}, to);
    }
    return rearrange(call, x, TD_SHAPE(d[0], d[1], d[2], b, b, c), (int32_t[]){0, 1, 3, 2, 4, 5},
                     to);
}

static bool space_to_depth(td__graph_call *call) {
    int64_t b;
    td_tensor *x = blocks(call, &b);
    if (!x) {
        return false;
    }
    const int64_t *d = x->shape.dims;
    bool depth_first = strcmp(td__graph_text(call->node, "mode", "DCR"), "CRD") == 0;
    static const int32_t orders[][6] = {{0, 1, 3, 2, 4, 5}, {0, 1, 3, 5, 2, 4}};
    return rearrange(call, x, TD_SHAPE(d[0], d[1] / b, b, d[2] / b, b, d[3]), orders[depth_first],
                     TD_SHAPE(d[0], d[1] / b, d[2] / b, b * b * d[3]));
}

const td__graph_operator td__graph_shapes[] = {
    {"Constant", constant, 0, 0, 1, 0, 0, NULL},
    {"ConstantOfShape", constant_of_shape, 1, 1, 1, 0, 0, td__graph_infer_constant_of_shape},
    {"DepthToSpace", depth_to_space, 1, 1, 1, 0, 0, td__graph_infer_depth_to_space},
    {"Flatten", flatten, 1, 1, 1, 0, 0, td__graph_infer_flatten},
    {"Identity", identity, 1, 1, 1, 0, 0, td__graph_infer_passed},
    {"Reshape", reshape, 1, 2, 1, 0, 0, td__graph_infer_reshape},
    {"Shape", shape, 1, 1, 1, 0, 0, td__graph_infer_shape},
    {"Size", size, 1, 1, 1, 0, 0, td__graph_infer_size},
    {"SpaceToDepth", space_to_depth, 1, 1, 1, 0, 0, td__graph_infer_space_to_depth},
    {"Squeeze", squeeze, 1, 2, 1, 0, 0, td__graph_infer_squeeze},
    {"Transpose", transpose, 1, 1, 1, 0, 0, td__graph_infer_transpose},
    {"Unsqueeze", unsqueeze, 1, 2, 1, 0, 0, td__graph_infer_unsqueeze},
    {0},
};
