/* sum, mean, max, min over axes */
#include "gradient/op_table.h"

#define BUILD(name)                                                                                \
    static td_tensor *build_##name(td_tape *tape, td_tensor *const in[], const void *options) {    \
        return td_##name(tape, in[0], options);                                                    \
    }
BUILD(sum)
BUILD(mean)
BUILD(max)
BUILD(min)

typedef enum { SUM, MEAN, MAX, MIN } reduction;

static bool is_reduced(const td_reduce_options *options, int32_t rank, int32_t axis) {
    bool found = !options || options->count == 0;
    for (int32_t i = 0; options && i < options->count; i++) {
        int32_t given = options->axes[i];
        found = found || (given < 0 ? given + rank : given) == axis;
    }
    return found;
}

/* Every element goes to the result with the reduced indices left out. */
static void reduce(const op_array *x, op_array *y, const td_reduce_options *options, reduction r) {
    int32_t rank = x->shape.rank;
    int64_t each = y->count ? x->count / y->count : 0;
    for (int64_t i = 0; i < y->count; i++) {
        y->values[i] = r == MAX ? -INFINITY : r == MIN ? INFINITY : 0;
    }
    for (int64_t i = 0; i < x->count; i++) {
        int64_t rest = i, to = 0, step = 1;
        for (int32_t axis = rank - 1; axis >= 0; axis--) {
            int64_t size = x->shape.dims[axis];
            if (!is_reduced(options, rank, axis)) {
                to += rest % size * step;
                step *= size;
            }
            rest /= size;
        }
        double v = x->values[i], *sum = &y->values[to];
        *sum = r == MAX ? fmax(*sum, v) : r == MIN ? fmin(*sum, v) : *sum + v;
    }
    for (int64_t i = 0; r == MEAN && i < y->count; i++) {
        y->values[i] /= (double)each;
    }
}

static void reference_sum(const op_array in[], op_array *out, const void *options) {
    reduce(in, out, options, SUM);
}
static void reference_mean(const op_array in[], op_array *out, const void *options) {
    reduce(in, out, options, MEAN);
}
static void reference_max(const op_array in[], op_array *out, const void *options) {
    reduce(in, out, options, MAX);
}
static void reference_min(const op_array in[], op_array *out, const void *options) {
    reduce(in, out, options, MIN);
}

#define AXES(keep_, ...)                                                                           \
    &(const td_reduce_options) {                                                                   \
        .size = sizeof(td_reduce_options), .keep = keep_, .axes = {__VA_ARGS__},                   \
        .count = sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t)                                \
    }
#define SHAPE(...) TD_SHAPE(__VA_ARGS__)
#define SCALAR ((td_shape){0})
#define CASE(op, what, x, y, axes)                                                                 \
    {                                                                                              \
        .name = #op ", " what, .output = y,                                                        \
        .inputs = {{.shape = x, .low = -1, .high = 3, .distinct = true}}, .build = build_##op,     \
        .reference = reference_##op, .options = axes                                               \
    }
#define AXIS_CASES(op)                                                                             \
    CASE(op, "all", SHAPE(3, 4, 2), SCALAR, NULL), CASE(op, "of a scalar", SCALAR, SCALAR, NULL),  \
        CASE(op, "all, kept", SHAPE(3, 4), SHAPE(1, 1), AXES(true, 0, 1)),                         \
        CASE(op, "first axis", SHAPE(5, 3), SHAPE(3), AXES(false, 0)),                             \
        CASE(op, "last axis", SHAPE(5, 3), SHAPE(5), AXES(false, -1)),                             \
        CASE(op, "middle axis, kept", SHAPE(2, 4, 3), SHAPE(2, 1, 3), AXES(true, 1)),              \
        CASE(op, "all but the last", SHAPE(2, 3, 4, 5), SHAPE(5), AXES(false, 0, 1, 2)),           \
        CASE(op, "first and last", SHAPE(3, 4, 5), SHAPE(4), AXES(false, 2, 0)),                   \
        CASE(op, "every other axis", SHAPE(2, 3, 2, 3, 2), SHAPE(3, 3), AXES(false, 0, 2, 4)),     \
        CASE(op, "axis of size 1", SHAPE(3, 1, 4), SHAPE(3, 4), AXES(false, 1)),                   \
        CASE(op, "large, all", SHAPE(125, 401), SCALAR, NULL),                                     \
        CASE(op, "large, first axis", SHAPE(1000, 50), SHAPE(50), AXES(false, 0)),                 \
        CASE(op, "large, narrow rows", SHAPE(10011, 5), SHAPE(5), AXES(false, 0)),                 \
        CASE(op, "large, last axis", SHAPE(150, 333), SHAPE(150), AXES(false, -1))

static const op_case cases[] = {
    AXIS_CASES(sum),
    AXIS_CASES(mean),
    AXIS_CASES(max),
    AXIS_CASES(min),
    CASE(sum, "nothing is 0", SHAPE(0, 3), SHAPE(3), AXES(false, 0)),
    CASE(max, "no columns", SHAPE(100, 0), SHAPE(0), AXES(false, 0)),
    CASE(mean, "no rows", SHAPE(0, 3), SHAPE(0), AXES(false, 1)),
};

#define MISTAKE(op, what, x, axes, status_, text_)                                                 \
    {                                                                                              \
        .name = #op ", " what, .inputs = {{.shape = x}}, .build = build_##op, .options = axes,     \
        .status = status_, .text = text_                                                           \
    }

static const op_mistake mistakes[] = {
    MISTAKE(sum, "no such axis", SHAPE(2, 3), AXES(false, 0, -3), TD_RANGE,
            "sum: input (2, 3) has no axis -3"),
    MISTAKE(mean, "an axis twice", SHAPE(2, 3), AXES(false, 1, -1), TD_INVALID,
            "mean: axis 1 of input (2, 3) is given twice"),
    MISTAKE(max, "too many axes", SHAPE(2, 3), AXES(false, 0, 1, 2), TD_INVALID,
            "max: 3 axes given for input (2, 3)"),
    MISTAKE(mean, "of nothing", SHAPE(0, 3), NULL, TD_BAD_SHAPE,
            "mean: input (0, 3) has no elements along the reduced axes"),
    MISTAKE(min, "of nothing", SHAPE(3, 0), AXES(false, 1), TD_BAD_SHAPE,
            "min: input (3, 0) has no elements along the reduced axes"),
};

const op_group cases_reduce = {OP_LIST(cases), OP_LIST(mistakes)};
