/* ATen's operators as those of ONNX: shapes, parts and their order. */
#include "exported/convert.h"

#include <string.h>

#define SELF(call) td__aten_value(call, "self")

static const char *reshape_as(td__aten_call *call) {
    return TD__OPERATOR(call->to, "Reshape", SELF(call),
                        TD__OPERATOR(call->to, "Shape", td__aten_value(call, "other")));
}

static const char *expand_as(td__aten_call *call) {
    return TD__OPERATOR(call->to, "Expand", SELF(call),
                        TD__OPERATOR(call->to, "Shape", td__aten_value(call, "other")));
}

static const char *reshape(td__aten_call *call) {
    return TD__OPERATOR(call->to, "Reshape", SELF(call),
                        td__aten_sizes(call, td__aten_argument(call, "size") ? "size" : "shape"));
}

/* -1 is the size that there is: 1 broadcasts to it. */
static const char *expand(td__aten_call *call) {
    const char *size = td__aten_sizes(call, "size"),
               *one = td__operator_integers(call->to, 1, (int64_t[]){1});
    return TD__OPERATOR(call->to, "Expand", SELF(call), TD__OPERATOR(call->to, "Max", size, one));
}

static const char *permute(td__aten_call *call) {
    int64_t order[TD_MAX_RANK];
    size_t count = td__aten_ints(call, "dims", order);
    td_shape shape;
    int32_t rank = td__aten_shape(call, "self", &shape);
    for (size_t i = 0; count <= TD_MAX_RANK && i < count; i++) {
        order[i] += order[i] < 0 ? rank : 0;
    }
    return count <= TD_MAX_RANK ? td__operator_transpose(call->to, SELF(call), count, order) : NULL;
}

/* Axes [first, last] of the shape as these sizes: -1 where one is open. */
static const char *regroup(td__aten_call *call, const td_shape *shape, int64_t first, int64_t last,
                           size_t parts, const int64_t *sizes) {
    td__operators *to = call->to;
    int64_t dims[TD_MAX_RANK];
    size_t count = 0, open = 0;
    if ((size_t)shape->rank - (size_t)(last - first + 1) + parts > TD_MAX_RANK) {
        return td__operator_refuse(to, "too many axes");
    }
    for (int64_t i = 0; i < first; i++) {
        dims[count++] = 0;
    }
    for (size_t i = 0; i < parts; i++) {
        open += sizes[i] < 0;
        dims[count++] = sizes[i];
    }
    for (int64_t i = last + 1; i < shape->rank; i++) {
        open += shape->dims[i] < 0;
        dims[count++] = shape->dims[i];
    }
    return open > 1 ? td__operator_refuse(to, "with open sizes behind it")
                    : td__operator_reshape(to, SELF(call), count, dims);
}

static const char *flatten(td__aten_call *call) {
    td_shape shape;
    int32_t rank = td__aten_shape(call, "self", &shape);
    if (rank == 0) {
        return td__operator_reshape(call->to, SELF(call), 1, (int64_t[]){1});
    }
    int64_t first = td__aten_axis(call, "self", td__aten_int(call, "start_dim", 0));
    int64_t last = td__aten_axis(call, "self", td__aten_int(call, "end_dim", -1)), all = 1;
    if (first < 0 || last < first) {
        return NULL;
    }
    for (int64_t i = first; i <= last; i++) {
        all = all < 0 || shape.dims[i] < 0 || all > INT32_MAX ? -1 : all * shape.dims[i];
    }
    return regroup(call, &shape, first, last, 1, &all);
}

static const char *unflatten(td__aten_call *call) {
    td_shape shape;
    int64_t sizes[TD_MAX_RANK];
    int64_t axis = td__aten_axis(call, "self", td__aten_int(call, "dim", 0));
    size_t parts = td__aten_ints(call, "sizes", sizes);
    return axis < 0 || parts > TD_MAX_RANK || td__aten_shape(call, "self", &shape) < 1
               ? NULL
               : regroup(call, &shape, axis, axis, parts, sizes);
}

static const char *swap(td__aten_call *call, int64_t a, int64_t b) {
    td_shape shape;
    int64_t order[TD_MAX_RANK];
    int32_t rank = td__aten_shape(call, "self", &shape);
    a = td__aten_axis(call, "self", a);
    b = td__aten_axis(call, "self", b);
    if (a < 0 || b < 0) {
        return NULL;
    }
    for (int64_t i = 0; i < rank; i++) {
        order[i] = i == a ? b : i == b ? a : i;
    }
    return td__operator_transpose(call->to, SELF(call), (size_t)rank, order);
}

/* transpose, swapaxes, swapdims */
static const char *transpose(td__aten_call *call) {
    bool axes = td__aten_argument(call, "axis0");
    return swap(call, td__aten_int(call, axes ? "axis0" : "dim0", 0),
                td__aten_int(call, axes ? "axis1" : "dim1", 1));
}

static const char *turn(td__aten_call *call) {
    return swap(call, 0, 1);
}

static const char *turn_last(td__aten_call *call) {
    return swap(call, -2, -1);
}

/* The axes of `source` stand at `destination`, the others follow in their order. */
static const char *movedim(td__aten_call *call) {
    td_shape shape;
    int64_t from[TD_MAX_RANK], at[TD_MAX_RANK], order[TD_MAX_RANK];
    bool used[TD_MAX_RANK] = {false};
    int32_t rank = td__aten_shape(call, "self", &shape);
    size_t count = td__aten_ints(call, "source", from);
    if (rank < 1 || count > (size_t)rank || td__aten_ints(call, "destination", at) != count) {
        return NULL;
    }
    memset(order, -1, sizeof order);
    for (size_t i = 0; i < count; i++) {
        from[i] = td__aten_axis(call, "self", from[i]);
        at[i] = td__aten_axis(call, "self", at[i]);
        if (from[i] < 0 || at[i] < 0) {
            return NULL;
        }
        order[at[i]] = from[i];
        used[from[i]] = true;
    }
    for (int32_t i = 0, next = 0; i < rank; i++) {
        for (; order[i] < 0 && next < rank && used[next]; next++) {
        }
        order[i] = order[i] < 0 ? next++ : order[i];
    }
    return td__operator_transpose(call->to, SELF(call), (size_t)rank, order);
}

static const char *with_axes(td__aten_call *call) {
    int64_t axes[TD_MAX_RANK], kept[TD_MAX_RANK];
    td_shape shape;
    size_t count = td__aten_ints(call, "dim", axes), used = 0;
    bool squeezes = *call->row->word == 'S';
    int32_t rank = td__aten_shape(call, "self", &shape);
    if (!count || count > TD_MAX_RANK || rank < 0) {
        return td__operator_refuse(call->to, "without axes");
    }
    for (size_t i = 0; i < count; i++) { /* an axis of another size than 1 stays */
        int64_t axis = axes[i] + (axes[i] < 0 ? rank : 0);
        if (!squeezes || (axis >= 0 && axis < rank && shape.dims[axis] == 1)) {
            kept[used++] = axes[i];
        }
    }
    return used ? TD__OPERATOR(call->to, call->row->word, SELF(call),
                               td__operator_integers(call->to, used, kept))
                : SELF(call);
}

static const char *squeeze_all(td__aten_call *call) {
    int64_t axes[TD_MAX_RANK];
    td_shape shape;
    size_t used = 0;
    int32_t rank = td__aten_shape(call, "self", &shape);
    for (int32_t i = 0; i < rank; i++) {
        if (shape.dims[i] == 1) {
            axes[used++] = i;
        }
    }
    return used ? TD__OPERATOR(call->to, "Squeeze", SELF(call),
                               td__operator_integers(call->to, used, axes))
                : SELF(call);
}

static const char *concatenate(td__aten_call *call) {
    const char *parts[TD__ATEN_PARTS];
    size_t count = td__aten_list(call, "tensors", parts);
    int64_t axis = td__aten_int(call, "dim", 0);
    if (!count || count > TD__ATEN_PARTS) {
        return td__operator_refuse(call->to, "of no tensors");
    }
    for (size_t i = 0; *call->row->word == 'S' && i < count; i++) { /* along an axis of its own */
        parts[i] = TD__OPERATOR(call->to, "Unsqueeze", parts[i],
                                td__operator_integers(call->to, 1, &axis));
    }
    return td__operator(call->to, "Concat", count, parts, 1, &TD__NAMED_INT("axis", axis));
}

static const char *slice(td__aten_call *call) {
    int64_t axis = td__aten_int(call, "dim", 0);
    td__operators *to = call->to;
    return TD__OPERATOR(to, "Slice", SELF(call), td__aten_size(call, "start", 0),
                        td__aten_size(call, "end", INT64_MAX), td__operator_integers(to, 1, &axis),
                        td__aten_size(call, "step", 1));
}

static const char *narrow(td__aten_call *call) {
    int64_t axis = td__aten_int(call, "dim", 0);
    td__operators *to = call->to;
    const char *start = td__aten_size(call, "start", 0);
    const char *end = TD__OPERATOR(to, "Add", start, td__aten_size(call, "length", 0));
    if (json_integer_value(json_object_get(td__aten_argument(call, "start"), "as_int")) < 0) {
        int64_t length = td__aten_int(call, "length", 0);
        if (length < 0) {
            return td__operator_refuse(to, "of less than nothing");
        }
        int64_t last = td__aten_int(call, "start", 0) + length;
        last = last ? last : INT64_MAX; /* 0 is the end, not the beginning */
        end = td__operator_integers(to, 1, &last);
    }
    return TD__OPERATOR(to, "Slice", SELF(call), start, end, td__operator_integers(to, 1, &axis));
}

static const char *select_one(td__aten_call *call) {
    int64_t axis = td__aten_int(call, "dim", 0), at = td__aten_int(call, "index", 0);
    int64_t end = at == -1 ? INT64_MAX : at + 1;
    td__operators *to = call->to;
    const char *axes = td__operator_integers(to, 1, &axis);
    if (!json_object_get(td__aten_argument(call, "index"), "as_int")) {
        return td__operator_refuse(to, "of a place that is not in the file");
    }
    const char *part = TD__OPERATOR(to, "Slice", SELF(call), td__operator_integers(to, 1, &at),
                                    td__operator_integers(to, 1, &end), axes);
    return TD__OPERATOR(to, "Squeeze", part, axes);
}

/* --- several outputs ---------------------------------------------------------------------- */

static const char *split_into(td__aten_call *call, int64_t axis, size_t count,
                              const int64_t *sizes) {
    const char *inputs[2] = {SELF(call), td__operator_integers(call->to, count, sizes)};
    const char *parts[TD__ATEN_PARTS];
    td__operator_outputs(call->to, "Split", 2, inputs, 1, &TD__NAMED_INT("axis", axis), count,
                         parts);
    for (size_t i = 1; i < count; i++) {
        td__aten_give(call, i, parts[i]);
    }
    return parts[0];
}

/* Parts that differ by one at most, the larger first. */
static const char *split_evenly(td__aten_call *call) {
    td_shape shape;
    int64_t axis = td__aten_axis(call, "self", td__aten_int(call, "dim", 0));
    int64_t sizes[TD__ATEN_PARTS], count = (int64_t)td__aten_outputs(call);
    if (axis < 0 || td__aten_shape(call, "self", &shape) < 1 || shape.dims[axis] < 0 || count < 1 ||
        count > TD__ATEN_PARTS || count != td__aten_int(call, "sections", 0)) {
        return td__operator_refuse(call->to, "of an open axis, or into other parts");
    }
    for (int64_t i = 0; i < count; i++) {
        sizes[i] = shape.dims[axis] / count + (i < shape.dims[axis] % count);
    }
    return split_into(call, axis, (size_t)count, sizes);
}

/* Equal parts; the last may be smaller. */
static const char *convert_split(td__aten_call *call) {
    td_shape shape;
    int32_t rank = td__aten_shape(call, "self", &shape);
    int64_t axis = td__aten_int(call, "dim", 0), sizes[TD__ATEN_PARTS];
    size_t count = td__aten_outputs(call);
    axis += axis < 0 ? rank : 0;
    int64_t all = axis >= 0 && axis < rank ? shape.dims[axis] : -1;
    int64_t each = td__aten_int(call, "split_size", 0);
    each = each > 0 ? each : count ? (all + (int64_t)count - 1) / (int64_t)count : 0;
    if (all < 1 || !count || count > TD__ATEN_PARTS || each < 1 ||
        (all + each - 1) / each != (int64_t)count) {
        return td__operator_refuse(call->to, "of an open axis, or into other parts");
    }
    for (size_t i = 0; i < count; i++) {
        sizes[i] = i + 1 < count ? each : all - each * ((int64_t)count - 1);
    }
    return split_into(call, axis, count, sizes);
}

static const char *split_with_sizes(td__aten_call *call) {
    int64_t sizes[TD_MAX_RANK];
    int64_t axis = td__aten_axis(call, "self", td__aten_int(call, "dim", 0));
    size_t count = td__aten_ints(call, "split_sizes", sizes);
    return axis < 0 || !count || count > TD_MAX_RANK || count != td__aten_outputs(call)
               ? td__operator_refuse(call->to, "into these parts")
               : split_into(call, axis, count, sizes);
}

static const char *unbind(td__aten_call *call) {
    int64_t axis = td__aten_axis(call, "self", td__aten_int(call, "dim", 0));
    size_t count = td__aten_outputs(call);
    const char *first = NULL, *axes = td__operator_integers(call->to, 1, &axis);
    if (axis < 0 || !count || count > TD__ATEN_PARTS) {
        return td__operator_refuse(call->to, "into these parts");
    }
    for (size_t i = 0; i < count; i++) {
        int64_t at = (int64_t)i, end = at + 1;
        const char *part =
            TD__OPERATOR(call->to, "Slice", SELF(call), td__operator_integers(call->to, 1, &at),
                         td__operator_integers(call->to, 1, &end), axes);
        part = TD__OPERATOR(call->to, "Squeeze", part, axes);
        first = i ? first : part;
        td__aten_give(call, i, part);
    }
    return first;
}

static const char *meshgrid(td__aten_call *call) {
    td__operators *to = call->to;
    const char *parts[TD__ATEN_PARTS], *indexing = td__aten_text(call, "indexing");
    const char *sizes[TD_MAX_RANK];
    size_t count = td__aten_list(call, "tensors", parts);
    if (!count || count > TD_MAX_RANK || count != td__aten_outputs(call) ||
        (indexing && strcmp(indexing, "ij") != 0)) {
        return td__operator_refuse(to, "indexed otherwise than by rows");
    }
    for (size_t i = 0; i < count; i++) {
        sizes[i] = TD__OPERATOR(to, "Shape", parts[i]);
    }
    const char *shape = td__operator(to, "Concat", count, sizes, 1, &TD__NAMED_INT("axis", 0));
    for (size_t i = 0; i < count; i++) {
        int64_t spread[TD_MAX_RANK];
        for (size_t k = 0; k < count; k++) {
            spread[k] = k == i ? -1 : 1;
        }
        parts[i] =
            TD__OPERATOR(to, "Expand", td__operator_reshape(to, parts[i], count, spread), shape);
        td__aten_give(call, i, parts[i]);
    }
    return parts[0];
}

/* --- repeated, turned round --------------------------------------------------------------- */

/* As many axes as there are factors; new ones come first. */
static const char *repeat(td__aten_call *call) {
    td__operators *to = call->to;
    td_shape shape;
    const char *name = td__aten_argument(call, "repeats") ? "repeats" : "dims";
    const json_t *argument = td__aten_argument(call, name);
    const json_t *list = json_object_get(argument, "as_ints");
    size_t count = json_array_size(list ? list : json_object_get(argument, "as_sym_ints"));
    int32_t rank = td__aten_shape(call, "self", &shape);
    const char *x = SELF(call);
    if (rank < 0 || count < (size_t)rank || count > TD_MAX_RANK) {
        return td__operator_refuse(to, "fewer factors than axes");
    }
    int64_t axes[TD_MAX_RANK];
    for (size_t i = 0; i + (size_t)rank < count; i++) {
        axes[i] = (int64_t)i;
    }
    if (count > (size_t)rank) {
        x = TD__OPERATOR(to, "Unsqueeze", x, td__operator_integers(to, count - (size_t)rank, axes));
    }
    return TD__OPERATOR(to, "Tile", x, td__aten_sizes(call, name));
}

/* Each element n times: an axis of its own, which joins the one before. */
static const char *repeat_interleave(td__aten_call *call) {
    td__operators *to = call->to;
    td_shape shape;
    int64_t n = td__aten_int(call, "repeats", 0), factors[TD_MAX_RANK], dims[TD_MAX_RANK];
    int64_t axis = td__aten_axis(call, "self", td__aten_int(call, "dim", 0));
    int32_t rank = td__aten_shape(call, "self", &shape);
    if (axis < 0 || rank >= TD_MAX_RANK || n < 1 || !td__aten_argument(call, "dim")) {
        return td__operator_refuse(to, "without an axis, or by different numbers");
    }
    int open = 0;
    for (int32_t i = 0; i <= rank; i++) {
        factors[i] = i == axis + 1 ? n : 1;
    }
    for (int32_t i = 0; i < rank; i++) {
        dims[i] = i < axis                          ? 0
                  : i == axis && shape.dims[i] >= 0 ? shape.dims[i] * n
                                                    : shape.dims[i];
        open += dims[i] < 0;
    }
    int64_t after = axis + 1;
    const char *x = TD__OPERATOR(to, "Unsqueeze", SELF(call), td__operator_integers(to, 1, &after));
    x = TD__OPERATOR(to, "Tile", x, td__operator_integers(to, (size_t)rank + 1, factors));
    return open > 1 ? td__operator_refuse(to, "of open axes")
                    : td__operator_reshape(to, x, (size_t)rank, dims);
}

static const char *flip(td__aten_call *call) {
    td__operators *to = call->to;
    int64_t axes[TD_MAX_RANK], first[TD_MAX_RANK], end[TD_MAX_RANK], step[TD_MAX_RANK];
    size_t count = td__aten_ints(call, "dims", axes);
    if (!count || count > TD_MAX_RANK) {
        return td__operator_refuse(to, "without axes");
    }
    for (size_t i = 0; i < count; i++) {
        first[i] = -1;
        end[i] = -INT64_MAX;
        step[i] = -1;
    }
    return TD__OPERATOR(to, "Slice", SELF(call), td__operator_integers(to, count, first),
                        td__operator_integers(to, count, end),
                        td__operator_integers(to, count, axes),
                        td__operator_integers(to, count, step));
}

/* What goes out at the end comes in at the beginning. */
static const char *roll(td__aten_call *call) {
    td__operators *to = call->to;
    int64_t shifts[TD_MAX_RANK], axes[TD_MAX_RANK];
    size_t count = td__aten_ints(call, "shifts", shifts);
    const char *x = SELF(call);
    td_shape shape;
    if (!count || count > TD_MAX_RANK || td__aten_ints(call, "dims", axes) != count ||
        td__aten_shape(call, "self", &shape) < 1) {
        return td__operator_refuse(to, "without axes");
    }
    for (size_t i = 0; i < count; i++) {
        int64_t axis = td__aten_axis(call, "self", axes[i]), zero = 0, end = INT64_MAX;
        int64_t size = axis < 0 ? 0 : shape.dims[axis], from = -shifts[i];
        if (size < 0 && shifts[i] == 0) {
            continue;
        }
        if (axis < 0 || size == 0) {
            return td__operator_refuse(to, "of nothing");
        }
        from = size > 0 ? (from % size + size) % size : from;
        const char *at = td__operator_integers(to, 1, &from),
                   *along = td__operator_integers(to, 1, &axis);
        const char *parts[2] = {
            TD__OPERATOR(to, "Slice", x, at, td__operator_integers(to, 1, &end), along),
            TD__OPERATOR(to, "Slice", x, td__operator_integers(to, 1, &zero), at, along)};
        x = from ? td__operator(to, "Concat", 2, parts, 1, &TD__NAMED_INT("axis", axis)) : x;
    }
    return x;
}

/* Windows of an axis, which overlap: picked by their places, and put last. */
static const char *unfold(td__aten_call *call) {
    td__operators *to = call->to;
    td_shape shape;
    enum { MOST = 1 << 16 };
    int64_t size = td__aten_int(call, "size", 1), step = td__aten_int(call, "step", 1);
    int64_t axis = td__aten_axis(call, "self", td__aten_int(call, "dimension", 0));
    int32_t rank = td__aten_shape(call, "self", &shape);
    int64_t n = axis < 0 ? -1 : shape.dims[axis];
    if (n < size || size < 1 || step < 1 || rank >= TD_MAX_RANK || n > MOST) {
        return td__operator_refuse(to, "of an open axis, or too many windows");
    }
    int64_t count = (n - size) / step + 1;
    const char *zero = TD__OPERATOR(to, "Squeeze", td__operator_integers(to, 1, (int64_t[]){0}));
    const char *one = TD__OPERATOR(to, "Squeeze", td__operator_integers(to, 1, (int64_t[]){1}));
    const char *each = TD__OPERATOR(to, "Squeeze", td__operator_integers(to, 1, &step));
    const char *starts = TD__OPERATOR(
        to, "Range", zero, TD__OPERATOR(to, "Squeeze", td__operator_integers(to, 1, &count)), one);
    starts = td__operator_reshape(to, TD__OPERATOR(to, "Mul", starts, each), 2, (int64_t[]){-1, 1});
    const char *inside = TD__OPERATOR(
        to, "Range", zero, TD__OPERATOR(to, "Squeeze", td__operator_integers(to, 1, &size)), one);
    const char *inputs[2] = {SELF(call), TD__OPERATOR(to, "Add", starts, inside)};
    const char *y = td__operator(to, "Gather", 2, inputs, 1, &TD__NAMED_INT("axis", axis));
    int64_t order[TD_MAX_RANK];
    for (int64_t i = 0; i <= rank; i++) { /* the window goes last */
        order[i] = i == rank ? axis + 1 : i > axis ? i + 1 : i;
    }
    return td__operator_transpose(to, y, (size_t)rank + 1, order);
}

static const char *convert_size(td__aten_call *call) {
    int64_t axis = td__aten_int(call, "dim", 0), end = axis == -1 ? INT64_MAX : axis + 1;
    td__operators *to = call->to;
    return TD__OPERATOR(to, "Slice", TD__OPERATOR(to, "Shape", SELF(call)),
                        td__operator_integers(to, 1, &axis), td__operator_integers(to, 1, &end));
}

/* Python's own, on sizes. */
static const char *of_sizes(td__aten_call *call) {
    return TD__OPERATOR(call->to, call->row->word, td__aten_sizes(call, "a"),
                        td__aten_sizes(call, "b"));
}

/* --- the table ---------------------------------------------------------------------------- */

const td__aten_operator td__aten_shapes[] = {
    {"_operator.add", of_sizes, "Add"},
    {"_operator.floordiv", of_sizes, "Div"},
    {"_operator.mul", of_sizes, "Mul"},
    {"_operator.sub", of_sizes, "Sub"},
    {"aten._unsafe_view.default", reshape, NULL},
    {"aten.cat.default", concatenate, "Concat"},
    {"aten.chunk.default", convert_split, NULL},
    {"aten.concat.default", concatenate, "Concat"},
    {"aten.concatenate.default", concatenate, "Concat"},
    {"aten.expand.default", expand, NULL},
    {"aten.expand_as.default", expand_as, NULL},
    {"aten.flatten.using_ints", flatten, NULL},
    {"aten.flip.default", flip, NULL},
    {"aten.mT.default", turn_last, NULL},
    {"aten.meshgrid.default", meshgrid, NULL},
    {"aten.meshgrid.indexing", meshgrid, NULL},
    {"aten.movedim.int", movedim, NULL},
    {"aten.movedim.intlist", movedim, NULL},
    {"aten.narrow.default", narrow, NULL},
    {"aten.numpy_T.default", turn, NULL},
    {"aten.permute.default", permute, NULL},
    {"aten.repeat.default", repeat, NULL},
    {"aten.repeat_interleave.self_int", repeat_interleave, NULL},
    {"aten.reshape.default", reshape, NULL},
    {"aten.reshape_as.default", reshape_as, NULL},
    {"aten.roll.default", roll, NULL},
    {"aten.select.int", select_one, NULL},
    {"aten.slice.Tensor", slice, NULL},
    {"aten.split.Tensor", convert_split, NULL},
    {"aten.split_with_sizes.default", split_with_sizes, NULL},
    {"aten.squeeze.default", squeeze_all, NULL},
    {"aten.squeeze.dim", with_axes, "Squeeze"},
    {"aten.squeeze.dims", with_axes, "Squeeze"},
    {"aten.stack.default", concatenate, "Stack"},
    {"aten.swapaxes.default", transpose, NULL},
    {"aten.swapdims.default", transpose, NULL},
    {"aten.sym_size.int", convert_size, NULL},
    {"aten.t.default", turn, NULL},
    {"aten.tensor_split.sections", split_evenly, NULL},
    {"aten.tile.default", repeat, NULL},
    {"aten.transpose.int", transpose, NULL},
    {"aten.unbind.int", unbind, NULL},
    {"aten.unflatten.int", unflatten, NULL},
    {"aten.unfold.default", unfold, NULL},
    {"aten.unsafe_chunk.default", convert_split, NULL},
    {"aten.unsafe_split.Tensor", convert_split, NULL},
    {"aten.unsqueeze.default", with_axes, "Unsqueeze"},
    {"aten.view.default", reshape, NULL},
    {"aten.view_as.default", reshape_as, NULL},
    {0},
};
