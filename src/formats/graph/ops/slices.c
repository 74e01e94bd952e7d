/* Taking tensors apart and putting them together: parts, repetitions, borders. */
#include "graph/ops/common.h"

#include <string.h>

/* What a table says along one axis when nothing happens there. */
static void keep_axis(td__move_map *map, int32_t axis, int64_t stride) {
    for (int64_t i = 0; map->offsets[axis] && i < map->shape.dims[axis]; i++) {
        map->offsets[axis][i] = i * stride;
    }
}

/* --- Concat, Split ------------------------------------------------------------------------ */

/* Of types other than float: runs of elements side by side. */
static td_tensor *join_parts(td__graph_call *call, size_t count, td_tensor *const *parts,
                             int32_t axis) {
    td_shape to = parts[0]->shape;
    size_t size = td_dtype_size(parts[0]->dtype), inner = size, row = 0;
    to.dims[axis] = 0;
    for (size_t i = 0; i < count; i++) {
        td_shape rest = parts[i]->shape, first = to;
        rest.dims[axis] = first.dims[axis] = 0;
        if (rest.rank != to.rank || !td_shape_equal(&rest, &first) ||
            parts[i]->dtype != parts[0]->dtype) {
            (void)td__graph_fail(call, TD_BAD_SHAPE, "input %zu does not fit the first", i);
            return NULL;
        }
        to.dims[axis] += parts[i]->shape.dims[axis];
    }
    td_tensor *y = td__output(call->tape, parts[0]->dtype, &to);
    if (!y || y->count == 0) {
        return y;
    }
    inner *= (size_t)td__elements_from(&to, axis + 1);
    size_t whole = (size_t)to.dims[axis] * inner, rows = (size_t)y->count * size / whole;
    for (size_t i = 0; i < count; i++) {
        size_t own = (size_t)parts[i]->shape.dims[axis] * inner;
        for (size_t r = 0; own > 0 && r < rows; r++) {
            memcpy((char *)y->data + r * whole + row, (char *)parts[i]->data + r * own, own);
        }
        row += own;
    }
    return y;
}

td_tensor *td__graph_join(td__graph_call *call, size_t count, td_tensor *const *parts,
                          int32_t axis) {
    return parts[0]->dtype == TD_FLOAT32 ? td_concatenate(call->tape, count, parts, axis)
                                         : join_parts(call, count, parts, axis);
}

static bool concat(td__graph_call *call) {
    size_t count = call->node->input_count;
    td_tensor **parts = td__scratch(call->tape, count * sizeof *parts);
    int32_t rank = td__graph_shape(call, 0).rank, axis;
    bool last = false;
    if (!parts || !td__graph_axis(call, td__graph_int(call->node, "axis", 1), rank, &axis)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        last = last || (td__graph_is_last(call, i) && td__graph_shape(call, i).rank == rank);
        if (td__graph_input(call, i)->type != td__graph_input(call, 0)->type) {
            return td__graph_fail(call, TD_DTYPE, "its inputs are of different types");
        }
    }
    for (size_t i = 0; i < count; i++) {
        parts[i] = last ? td__graph_channels_last(call, i) : td__graph_plain(call, i);
        if (!parts[i]) {
            return false;
        }
    }
    axis = last ? td__graph_last_axis(axis, rank) : axis;
    td_tensor *y = td__graph_join(call, count, parts, axis);
    return td__graph_output_either(call, 0, td__graph_input(call, 0)->type, y, last);
}

/* Every step-th element along one axis. */
td_tensor *td__graph_cut(td__graph_call *call, td_tensor *x, int32_t axis, int64_t begin,
                         int64_t step, int64_t count) {
    int64_t from[TD_MAX_RANK] = {0}, size[TD_MAX_RANK], strides[TD_MAX_RANK];
    td_shape to = x->shape;
    for (int32_t i = 0; i < to.rank; i++) {
        size[i] = x->shape.dims[i];
    }
    from[axis] = begin;
    size[axis] = to.dims[axis] = count;
    if (x->dtype == TD_FLOAT32 && step == 1) {
        return td_slice(call->tape, x, from, size);
    }
    td__move_map map;
    if (!td__move_map_init(call->tape, call->node->op_type, to, &map)) {
        return NULL;
    }
    td__strides(&x->shape, strides);
    for (int32_t i = 0; i < to.rank; i++) {
        keep_axis(&map, i, strides[i]);
    }
    for (int64_t i = 0; map.offsets[axis] && i < count; i++) {
        map.offsets[axis][i] = (begin + i * step) * strides[axis];
    }
    return td__move(call->tape, x, &map, NULL);
}

/* How long the parts are: given, or equal but for the last. */
static bool part_sizes(td__graph_call *call, int64_t whole, int64_t *sizes, size_t room) {
    size_t outputs = call->node->output_count, count;
    const int64_t *given;
    count = td__graph_ints(call->node, "split", &given);
    if (count > 0 && count <= room) {
        memcpy(sizes, given, count * sizeof *sizes);
    } else if (!td__graph_input_ints(call, 1, sizes, room, &count)) {
        return false;
    }
    if (count == 0) {
        int64_t each = (whole + (int64_t)outputs - 1) / (int64_t)outputs, left = whole;
        for (; count < outputs; count++, left -= sizes[count - 1]) {
            sizes[count] = left < each ? left : each;
        }
    }
    int64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        if (sizes[i] < 0 || sizes[i] > whole - sum) {
            count = 0;
        } else {
            sum += sizes[i];
        }
    }
    if (count != outputs || sum != whole) {
        return td__graph_fail(call, TD_BAD_SHAPE, "its parts do not make up %lld",
                              (long long)whole);
    }
    return true;
}

static bool split_input(td__graph_call *call) {
    bool last;
    td_tensor *x = td__graph_either(call, 0, &last);
    size_t outputs = call->node->output_count;
    int64_t *sizes = td__scratch(call->tape, (outputs + 1) * sizeof *sizes), begin = 0;
    int32_t axis;
    if (!x || !sizes ||
        !td__graph_axis(call, td__graph_int(call->node, "axis", 0), x->shape.rank, &axis)) {
        return false;
    }
    axis = last ? td__graph_last_axis(axis, x->shape.rank) : axis;
    if (!part_sizes(call, x->shape.dims[axis], sizes, outputs)) {
        return false;
    }
    td__graph_type type = td__graph_input(call, 0)->type;
    for (size_t i = 0; i < outputs; begin += sizes[i++]) {
        td_tensor *part = td__graph_cut(call, x, axis, begin, 1, sizes[i]);
        if (!td__graph_output_either(call, i, type, part, last)) {
            return false;
        }
    }
    return true;
}

/* --- Slice -------------------------------------------------------------------------------- */

typedef struct slicing {
    int64_t starts[TD_MAX_RANK], ends[TD_MAX_RANK], axes[TD_MAX_RANK], steps[TD_MAX_RANK];
    size_t count;
} slicing;

static bool same_count(td__graph_call *call, size_t count, size_t wanted) {
    return count == wanted ||
           td__graph_fail(call, TD_BAD_SHAPE, "%zu numbers where there must be %zu", count, wanted);
}

/* Attributes until opset 9, inputs from then on. */
static bool read_slicing(td__graph_call *call, slicing *s) {
    size_t ends, axes, steps = 0;
    for (int64_t i = 0; i < TD_MAX_RANK; i++) {
        s->axes[i] = i;
        s->steps[i] = 1;
    }
    if (call->opset < 10) {
        const int64_t *from, *to, *along;
        s->count = td__graph_ints(call->node, "starts", &from);
        ends = td__graph_ints(call->node, "ends", &to);
        axes = td__graph_ints(call->node, "axes", &along);
        if (s->count > TD_MAX_RANK || !same_count(call, ends, s->count) ||
            !same_count(call, axes ? axes : s->count, s->count)) {
            return false;
        }
        memcpy(s->starts, from, s->count * sizeof *from);
        memcpy(s->ends, to, s->count * sizeof *to);
        if (axes) {
            memcpy(s->axes, along, axes * sizeof *along);
        }
        return true;
    }
    return td__graph_input_ints(call, 1, s->starts, TD_MAX_RANK, &s->count) &&
           td__graph_input_ints(call, 2, s->ends, TD_MAX_RANK, &ends) &&
           td__graph_input_ints(call, 3, s->axes, TD_MAX_RANK, &axes) &&
           td__graph_input_ints(call, 4, s->steps, TD_MAX_RANK, &steps) &&
           same_count(call, ends, s->count) && same_count(call, axes ? axes : ends, s->count) &&
           same_count(call, steps ? steps : ends, s->count);
}

static int64_t limit(int64_t value, int64_t min, int64_t max) {
    return value < min ? min : value > max ? max : value;
}

/* numpy's rules: negative positions count from the end, all are brought into range. */
static void settle_slice(int64_t size, int64_t step, int64_t *start, int64_t *count, int64_t end) {
    *start += *start < 0 ? size : 0;
    end += end < 0 ? size : 0;
    if (step > 0) {
        *start = limit(*start, 0, size);
        end = limit(end, 0, size);
        *count = end > *start ? (end - *start - 1) / step + 1 : 0;
    } else {
        *start = limit(*start, -1, size - 1);
        end = limit(end, -1, size - 1);
        *count = *start > end ? (*start - end - 1) / -step + 1 : 0;
    }
}

static bool slice(td__graph_call *call) {
    slicing s;
    bool last, seen[TD_MAX_RANK] = {false};
    td_tensor *x = td__graph_either(call, 0, &last);
    if (!x || !read_slicing(call, &s)) {
        return false;
    }
    int32_t rank = x->shape.rank;
    for (size_t i = 0; i < s.count && x; i++) {
        int32_t axis;
        int64_t count;
        if (!td__graph_axis(call, s.axes[i], rank, &axis)) {
            return false;
        }
        axis = last ? td__graph_last_axis(axis, rank) : axis;
        if (s.steps[i] == 0 || s.steps[i] < -INT32_MAX || seen[axis]) {
            return td__graph_fail(call, TD_INVALID, "a step of %lld, or an axis twice",
                                  (long long)s.steps[i]);
        }
        seen[axis] = true;
        settle_slice(x->shape.dims[axis], s.steps[i], &s.starts[i], &count, s.ends[i]);
        if (count != x->shape.dims[axis] || s.steps[i] < 0) {
            x = td__graph_cut(call, x, axis, count ? s.starts[i] : 0, s.steps[i], count);
        }
    }
    return td__graph_output_either(call, 0, td__graph_input(call, 0)->type, x, last);
}

/* --- Expand, Tile ------------------------------------------------------------------------- */

/* x over and over again until it fills the shape. */
static td_tensor *repeat_input(td__graph_call *call, td_tensor *x, td_shape to) {
    int64_t strides[TD_MAX_RANK];
    td__move_map map;
    if (!td__move_map_init(call->tape, call->node->op_type, to, &map)) {
        return NULL;
    }
    td__strides(&x->shape, strides);
    for (int32_t i = 0; i < to.rank; i++) {
        int32_t from = i - (to.rank - x->shape.rank);
        for (int64_t k = 0; map.offsets[i] && k < to.dims[i]; k++) {
            map.offsets[i][k] = from < 0 ? 0 : k % x->shape.dims[from] * strides[from];
        }
    }
    return td__move(call->tape, x, &map, NULL);
}

static bool expand(td__graph_call *call) {
    td_tensor *x = td__graph_plain(call, 0);
    td_shape to = {0};
    size_t count;
    if (!x || !td__graph_input_ints(call, 1, to.dims, TD_MAX_RANK, &count)) {
        return false;
    }
    td_shape from = x->shape, given = to;
    to.rank = (int32_t)count > from.rank ? (int32_t)count : from.rank;
    for (int32_t i = 0; i < to.rank; i++) {
        int32_t a = i - (to.rank - from.rank), b = i - (to.rank - (int32_t)count);
        int64_t own = a < 0 ? 1 : from.dims[a], wanted = b < 0 ? 1 : given.dims[b];
        if (own != wanted && own != 1 && wanted != 1) {
            return td__graph_fail(call, TD_BAD_SHAPE, "an axis of %lld to %lld", (long long)own,
                                  (long long)wanted);
        }
        to.dims[i] = own == 1 ? wanted : own;
    }
    return td__graph_output(call, 0, td__graph_input(call, 0)->type,
                            td_shape_equal(&to, &from) ? x : repeat_input(call, x, to));
}

static bool tile(td__graph_call *call) {
    td_tensor *x = td__graph_plain(call, 0);
    int64_t repeats[TD_MAX_RANK];
    size_t count;
    if (!x || !td__graph_input_ints(call, 1, repeats, TD_MAX_RANK, &count) ||
        !same_count(call, count, (size_t)x->shape.rank)) {
        return false;
    }
    td_shape to = x->shape;
    for (int32_t i = 0; i < to.rank; i++) {
        if (repeats[i] < 0 || __builtin_mul_overflow(to.dims[i], repeats[i], &to.dims[i])) {
            return td__graph_fail(call, TD_RANGE, "%lld times", (long long)repeats[i]);
        }
    }
    return td__graph_output(call, 0, td__graph_input(call, 0)->type, repeat_input(call, x, to));
}

/* --- Pad ---------------------------------------------------------------------------------- */

/* The element that stands `at` places after the first, which may be outside. */
static int64_t pad_source(char mode, int64_t at, int64_t size) {
    if (at >= 0 && at < size) {
        return at;
    }
    if (mode == 'c' || size == 0) {
        return -1;
    }
    if (mode == 'e') {
        return at < 0 ? 0 : size - 1;
    }
    if (mode == 'w') {
        return (at % size + size) % size;
    }
    int64_t period = size > 1 ? 2 * (size - 1) : 1; /* reflect: the border is not repeated */
    at = (at % period + period) % period;
    return at < size ? at : period - at;
}

/* How many before and after each axis; *mode by its first letter. */
static bool read_pads(td__graph_call *call, int32_t rank, int64_t *before, int64_t *after) {
    int64_t list[2 * TD_MAX_RANK], axes[TD_MAX_RANK];
    const int64_t *given;
    size_t count = td__graph_ints(call->node, call->opset < 2 ? "paddings" : "pads", &given);
    size_t axis_count = (size_t)rank;
    for (int64_t i = 0; i < TD_MAX_RANK; i++) {
        axes[i] = i;
    }
    if (call->opset < 11 && count <= 2 * TD_MAX_RANK) {
        memcpy(list, given, count * sizeof *list);
    } else if (!td__graph_input_ints(call, 1, list, 2 * TD_MAX_RANK, &count)) {
        return false;
    }
    if (td__graph_input(call, 3) &&
        !td__graph_input_ints(call, 3, axes, TD_MAX_RANK, &axis_count)) {
        return false;
    }
    if (!same_count(call, count, 2 * axis_count)) {
        return false;
    }
    for (int32_t i = 0; i < rank; i++) {
        before[i] = after[i] = 0;
    }
    for (size_t i = 0; i < axis_count; i++) {
        int32_t axis;
        if (!td__graph_axis(call, axes[i], rank, &axis)) {
            return false;
        }
        before[axis] = list[i];
        after[axis] = list[axis_count + i];
    }
    return true;
}

/* The element that constant padding consists of, in x's type. */
static bool pad_value(td__graph_call *call, const td_tensor *x, double *memory, const void **fill) {
    float attribute = td__graph_float(call->node, "value", 0);
    const td_tensor *given = call->opset < 11 ? NULL : td__graph_plain(call, 2);
    memset(memory, 0, sizeof *memory);
    *fill = memory;
    if (given && (given->dtype != x->dtype || given->count != 1)) {
        return td__graph_fail(call, TD_DTYPE, "its value is not one number of the input's type");
    }
    if (given) {
        *fill = given->data;
    } else if (x->dtype == TD_FLOAT32) {
        memcpy(memory, &attribute, sizeof attribute);
    }
    return true;
}

static bool pad(td__graph_call *call) {
    char mode = *td__graph_text(call->node, "mode", "constant");
    int64_t before[TD_MAX_RANK], after[TD_MAX_RANK], strides[TD_MAX_RANK];
    bool last;
    double memory;
    const void *fill;
    td_tensor *x = td__graph_either(call, 0, &last);
    td__move_map map;
    if (!x || !read_pads(call, x->shape.rank, before, after) ||
        !pad_value(call, x, &memory, &fill)) {
        return false;
    }
    td_shape to = x->shape;
    for (int32_t i = 0; i < to.rank; i++) {
        int32_t axis = last ? td__graph_last_axis(i, to.rank) : i;
        int64_t *size = &to.dims[axis];
        if (__builtin_add_overflow(*size, before[i], size) ||
            __builtin_add_overflow(*size, after[i], size) || *size < 0) {
            return td__graph_fail(call, TD_RANGE, "by %lld and %lld", (long long)before[i],
                                  (long long)after[i]);
        }
    }
    if (!td__move_map_init(call->tape, call->node->op_type, to, &map)) {
        return false;
    }
    td__strides(&x->shape, strides);
    for (int32_t i = 0; i < to.rank; i++) {
        int32_t axis = last ? td__graph_last_axis(i, to.rank) : i;
        for (int64_t k = 0; map.offsets[axis] && k < to.dims[axis]; k++) {
            int64_t source = pad_source(mode, k - before[i], x->shape.dims[axis]);
            map.offsets[axis][k] = source < 0 ? -1 : source * strides[axis];
        }
    }
    return td__graph_output_either(call, 0, td__graph_input(call, 0)->type,
                                   td__move(call->tape, x, &map, fill), last);
}

const td__graph_operator td__graph_slices[] = {
    {"Concat", concat, 1, 255, 1, 0, 0, td__graph_infer_concat},
    {"Expand", expand, 2, 2, 1, 0, 0, td__graph_infer_expand},
    {"Pad", pad, 1, 4, 1, 0, 0, td__graph_infer_pad},
    {"Slice", slice, 1, 5, 1, 0, 0, td__graph_infer_slice},
    {"Split", split_input, 1, 2, 255, 0, 0, td__graph_infer_split},
    {"Tile", tile, 2, 2, 1, 6, 0, td__graph_infer_tile},
    {0},
};
