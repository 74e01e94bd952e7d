/* reshape, transpose, concatenate, slice, pad, planes */
#include "gradient/op_table.h"

#include "tape/pick.h"

/* --- reshape ------------------------------------------------------------------------------- */

static td_tensor *build_reshape(td_tape *tape, td_tensor *const in[], const void *options) {
    return td_reshape(tape, in[0], *(const td_shape *)options);
}

static void reshape(const op_array in[], op_array *out, const void *options) {
    (void)options;
    for (int64_t i = 0; i < out->count; i++) {
        out->values[i] = in->values[i];
    }
}

/* --- transpose ------------------------------------------------------------------------------ */

static td_tensor *build_transpose(td_tape *tape, td_tensor *const in[], const void *options) {
    return td_transpose(tape, in[0], options);
}

/* The index of element `at` on every axis, and back. */
static void unravel(const td_shape *shape, int64_t at, int64_t index[TD_MAX_RANK]) {
    for (int32_t i = shape->rank - 1; i >= 0; i--) {
        index[i] = at % shape->dims[i];
        at /= shape->dims[i];
    }
}

static int64_t ravel(const td_shape *shape, const int64_t index[TD_MAX_RANK]) {
    int64_t at = 0;
    for (int32_t i = 0; i < shape->rank; i++) {
        at = at * shape->dims[i] + index[i];
    }
    return at;
}

static void transpose(const op_array in[], op_array *out, const void *options) {
    const int32_t *permutation = options;
    for (int64_t i = 0; i < in->count; i++) {
        int64_t from[TD_MAX_RANK] = {0}, to[TD_MAX_RANK] = {0};
        unravel(&in->shape, i, from);
        for (int32_t axis = 0; axis < in->shape.rank; axis++) {
            to[axis] = from[permutation[axis]];
        }
        out->values[ravel(&out->shape, to)] = in->values[i];
    }
}

/* --- concatenate ---------------------------------------------------------------------------- */

typedef struct {
    size_t count;
    int32_t axis;
} joining;

static td_tensor *build_concatenate(td_tape *tape, td_tensor *const in[], const void *options) {
    const joining *o = options;
    return td_concatenate(tape, o->count, in, o->axis);
}

static void concatenate(const op_array in[], op_array *out, const void *options) {
    const joining *o = options;
    int32_t axis = o->axis < 0 ? o->axis + out->shape.rank : o->axis;
    int64_t before = 0;
    for (size_t part = 0; part < o->count; part++) {
        for (int64_t i = 0; i < in[part].count; i++) {
            int64_t index[TD_MAX_RANK] = {0};
            unravel(&in[part].shape, i, index);
            index[axis] += before;
            out->values[ravel(&out->shape, index)] = in[part].values[i];
        }
        before += in[part].shape.dims[axis];
    }
}

/* --- slice and pad --------------------------------------------------------------------------- */

typedef struct {
    int64_t first[4], second[4]; /* begin and size, or before and after */
} ranges;

static td_tensor *build_slice(td_tape *tape, td_tensor *const in[], const void *options) {
    const ranges *o = options;
    return td_slice(tape, in[0], o->first, o->second);
}

static void slice(const op_array in[], op_array *out, const void *options) {
    const ranges *o = options;
    for (int64_t i = 0; i < out->count; i++) {
        int64_t index[TD_MAX_RANK] = {0};
        unravel(&out->shape, i, index);
        for (int32_t axis = 0; axis < out->shape.rank; axis++) {
            index[axis] += o->first[axis];
        }
        out->values[i] = in->values[ravel(&in->shape, index)];
    }
}

static td_tensor *build_pad(td_tape *tape, td_tensor *const in[], const void *options) {
    const ranges *o = options;
    return td_pad(tape, in[0], o->first, o->second, 0.5f);
}

static void pad(const op_array in[], op_array *out, const void *options) {
    const ranges *o = options;
    for (int64_t i = 0; i < out->count; i++) {
        out->values[i] = 0.5;
    }
    for (int64_t i = 0; i < in->count; i++) {
        int64_t index[TD_MAX_RANK] = {0};
        unravel(&in->shape, i, index);
        for (int32_t axis = 0; axis < in->shape.rank; axis++) {
            index[axis] += o->first[axis];
        }
        out->values[ravel(&out->shape, index)] = in->values[i];
    }
}

/* --- planes ---------------------------------------------------------------------------------- */

static td_tensor *build_planes(td_tape *tape, td_tensor *const in[], const void *options) {
    return td__planes_beside(tape, in[0], options);
}

static void planes(const op_array in[], op_array *out, const void *options) {
    const td__planes *o = options;
    td_shape apart = TD_SHAPE(in->shape.dims[0], o->depth, in->shape.dims[2], in->shape.dims[3],
                              o->groups, o->count, in->shape.dims[4] / o->groups);
    for (int64_t i = 0; i < out->count; i++) {
        int64_t index[TD_MAX_RANK];
        unravel(&apart, i, index);
        int64_t at = index[1] * o->stride + index[5] * o->dilation - o->before;
        const int64_t from[TD_MAX_RANK] = {index[0], at, index[2], index[3],
                                           index[4] * apart.dims[6] + index[6]};
        bool inside = at >= 0 && at < in->shape.dims[1];
        out->values[i] = inside ? in->values[ravel(&in->shape, from)] : 0;
    }
}

/* --- the table ------------------------------------------------------------------------------- */

#define SHAPE(...) TD_SHAPE(__VA_ARGS__)
#define TO(...) &TD_SHAPE(__VA_ARGS__)
#define ORDER(...)                                                                                 \
    (const int32_t[]) {                                                                            \
        __VA_ARGS__                                                                                \
    }
#define LIST(...)                                                                                  \
    { __VA_ARGS__ }
#define RANGES(a, b)                                                                               \
    &(const ranges) {                                                                              \
        a, b                                                                                       \
    }
#define CASE(op, what, x, y, options_)                                                             \
    {                                                                                              \
        .name = #op ", " what, .inputs = {{.shape = x}}, .output = y, .build = build_##op,         \
        .reference = op, .options = options_                                                       \
    }
#define PLANES(what, x, y, ...) CASE(planes, what, x, y, (&(const td__planes){__VA_ARGS__}))
#define JOIN(what, axis, a, b, c, y)                                                               \
    {                                                                                              \
        .name = "concatenate, " what, .input_count = 3,                                            \
        .inputs = {{.shape = a}, {.shape = b}, {.shape = c}}, .output = y,                         \
        .build = build_concatenate, .reference = concatenate, .options = &(const joining) {        \
            3, axis                                                                                \
        }                                                                                          \
    }

static const op_case cases[] = {
    CASE(reshape, "flatten", SHAPE(2, 3, 4), SHAPE(2, 12), TO(2, 12)),
    CASE(reshape, "a dimension inferred", SHAPE(2, 3, 4), SHAPE(4, 3, 2), TO(4, -1, 2)),
    CASE(reshape, "to one element", SHAPE(1, 1), SHAPE(1), TO(-1)),
    CASE(transpose, "matrix", SHAPE(3, 5), SHAPE(5, 3), ORDER(1, 0)),
    CASE(transpose, "four axes", SHAPE(2, 3, 4, 5), SHAPE(4, 2, 5, 3), ORDER(2, 0, 3, 1)),
    CASE(transpose, "last axis stays", SHAPE(4, 3, 6), SHAPE(3, 4, 6), ORDER(1, 0, 2)),
    CASE(transpose, "large", SHAPE(300, 200), SHAPE(200, 300), ORDER(1, 0)),
    JOIN("first axis", 0, SHAPE(2, 3), SHAPE(1, 3), SHAPE(4, 3), SHAPE(7, 3)),
    JOIN("last axis", -1, SHAPE(2, 3), SHAPE(2, 1), SHAPE(2, 4), SHAPE(2, 8)),
    JOIN("middle axis", 1, SHAPE(2, 2, 3), SHAPE(2, 1, 3), SHAPE(2, 3, 3), SHAPE(2, 6, 3)),
    JOIN("an empty part", 0, SHAPE(2, 3), SHAPE(0, 3), SHAPE(1, 3), SHAPE(3, 3)),
    JOIN("large", -1, SHAPE(300, 100), SHAPE(300, 60), SHAPE(300, 41), SHAPE(300, 201)),
    CASE(slice, "one axis", SHAPE(7), SHAPE(3), RANGES(LIST(2), LIST(3))),
    CASE(slice, "rows", SHAPE(5, 4), SHAPE(2, 4), RANGES(LIST(1, 0), LIST(2, -1))),
    CASE(slice, "a box", SHAPE(4, 5, 6), SHAPE(2, 3, 4), RANGES(LIST(1, 2, 1), LIST(2, -1, 4))),
    CASE(slice, "middle axis of four", SHAPE(2, 5, 2, 3), SHAPE(2, 2, 2, 3),
         RANGES(LIST(0, 3, 0, 0), LIST(2, 2, 2, 3))),
    CASE(slice, "nothing", SHAPE(4, 5), SHAPE(0, 5), RANGES(LIST(4, 0), LIST(-1, 5))),
    CASE(slice, "large", SHAPE(300, 250), SHAPE(299, 200), RANGES(LIST(1, 25), LIST(299, 200))),
    CASE(pad, "one axis", SHAPE(3), SHAPE(6), RANGES(LIST(1), LIST(2))),
    CASE(pad, "an image", SHAPE(2, 3, 3, 2), SHAPE(2, 5, 6, 2),
         RANGES(LIST(0, 1, 1, 0), LIST(0, 1, 2, 0))),
    CASE(pad, "nothing around", SHAPE(2, 3), SHAPE(2, 3), RANGES(LIST(0, 0), LIST(0, 0))),
    CASE(pad, "large", SHAPE(300, 200), SHAPE(302, 210), RANGES(LIST(1, 4), LIST(1, 6))),
    PLANES("inside", SHAPE(2, 4, 2, 3, 2), SHAPE(6, 2, 3, 4), .depth = 3, .count = 2, .stride = 1,
           .dilation = 1, .groups = 1),
    PLANES("zeros around", SHAPE(2, 3, 2, 2, 3), SHAPE(6, 2, 2, 9), .depth = 3, .count = 3,
           .before = 1, .stride = 1, .dilation = 1, .groups = 1),
    PLANES("steps of two", SHAPE(2, 5, 2, 2, 2), SHAPE(6, 2, 2, 6), .depth = 3, .count = 3,
           .stride = 2, .before = 1, .dilation = 1, .groups = 1),
    PLANES("every other plane", SHAPE(1, 5, 2, 2, 2), SHAPE(3, 2, 2, 4), .depth = 3, .count = 2,
           .dilation = 2, .stride = 1, .groups = 1),
    PLANES("groups", SHAPE(2, 3, 2, 2, 6), SHAPE(6, 2, 2, 18), .depth = 3, .count = 3, .before = 1,
           .groups = 3, .stride = 1, .dilation = 1),
    PLANES("planes that nobody uses", SHAPE(2, 5, 1, 2, 1), SHAPE(4, 1, 2, 1), .depth = 2,
           .count = 1, .stride = 3, .dilation = 1, .groups = 1),
    PLANES("no examples", SHAPE(0, 3, 2, 2, 2), SHAPE(0, 2, 2, 4), .depth = 2, .count = 2,
           .stride = 1, .dilation = 1, .groups = 1),
    PLANES("large", SHAPE(3, 8, 16, 16, 16), SHAPE(24, 16, 16, 48), .depth = 8, .count = 3,
           .before = 1, .stride = 1, .dilation = 1, .groups = 1),
};

#define MISTAKE(op, what, x, options_, status_, text_)                                             \
    {                                                                                              \
        .name = #op ", " what, .inputs = {{.shape = x}}, .build = build_##op, .options = options_, \
        .status = status_, .text = text_                                                           \
    }

static const op_mistake mistakes[] = {
    MISTAKE(reshape, "another count", SHAPE(2, 3), TO(4, 2), TD_BAD_SHAPE,
            "reshape: input (2, 3) does not fit shape (4, 2)"),
    MISTAKE(reshape, "two unknowns", SHAPE(2, 3), TO(-1, -1), TD_BAD_SHAPE,
            "reshape: input (2, 3) does not fit shape (-1, -1)"),
    MISTAKE(reshape, "not divisible", SHAPE(2, 3), TO(4, -1), TD_BAD_SHAPE,
            "reshape: input (2, 3) does not fit shape (4, -1)"),
    MISTAKE(reshape, "dimensions that overflow", SHAPE(2, 3), TO(INT64_MAX, INT64_MAX, 6),
            TD_BAD_SHAPE,
            "reshape: input (2, 3) does not fit shape (9223372036854775807, 9223372036854775807, "
            "6)"),
    MISTAKE(transpose, "an axis twice", SHAPE(2, 3), ORDER(1, 1), TD_INVALID,
            "transpose: entry 1 of the permutation, 1, is not an axis of input (2, 3) or stands "
            "there twice"),
    MISTAKE(slice, "too long", SHAPE(4, 5), RANGES(LIST(0, 2), LIST(4, 4)), TD_RANGE,
            "slice: 4 elements from 2 on are not inside axis 1 of input (4, 5)"),
    MISTAKE(slice, "before the start", SHAPE(4), RANGES(LIST(-1), LIST(2)), TD_RANGE,
            "slice: 2 elements from -1 on are not inside axis 0 of input (4,)"),
    MISTAKE(pad, "less than nothing", SHAPE(4), RANGES(LIST(0), LIST(-1)), TD_RANGE,
            "pad: 0 before and -1 after axis 0 of input (4,) is not possible"),
    MISTAKE(pad, "more than memory", SHAPE(4), RANGES(LIST(INT64_MAX), LIST(1)), TD_RANGE,
            "pad: 9223372036854775807 before and 1 after axis 0 of input (4,) is not possible"),
    {.name = "concatenate, other shapes",
     .input_count = 2,
     .inputs = {{.shape = SHAPE(2, 3)}, {.shape = SHAPE(2, 4)}},
     .build = build_concatenate,
     .options = &(const joining){2, 0},
     .status = TD_BAD_SHAPE,
     .text = "concatenate: part 1 (2, 4) does not fit part 0 (2, 3): all but axis 0 must be equal"},
    MISTAKE(concatenate, "no such axis", SHAPE(2, 3), (&(const joining){1, 2}), TD_RANGE,
            "concatenate: part 0 (2, 3) has no axis 2"),
    MISTAKE(concatenate, "nothing", SHAPE(2, 3), (&(const joining){0, 0}), TD_INVALID,
            "concatenate: no parts given"),
};

const op_group cases_shapes = {OP_LIST(cases), OP_LIST(mistakes)};
