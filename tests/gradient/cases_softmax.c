/* softmax and log_softmax */
#include "gradient/op_table.h"

static td_tensor *build_softmax(td_tape *tape, td_tensor *const in[], const void *options) {
    return td_softmax(tape, in[0], *(const int32_t *)options);
}

static td_tensor *build_log_softmax(td_tape *tape, td_tensor *const in[], const void *options) {
    return td_log_softmax(tape, in[0], *(const int32_t *)options);
}

/* Elements along the axis are `inner` apart; lines start at every place with index 0 there. */
static void lines(const op_array *x, op_array *y, int32_t axis, bool logarithm) {
    int32_t resolved = axis < 0 ? axis + x->shape.rank : axis;
    int64_t length = x->shape.dims[resolved], inner = 1;
    for (int32_t i = resolved + 1; i < x->shape.rank; i++) {
        inner *= x->shape.dims[i];
    }
    for (int64_t start = 0; start < x->count; start++) {
        if (start / inner % length != 0) {
            continue;
        }
        double total = 0;
        for (int64_t k = 0; k < length; k++) {
            total += exp(x->values[start + k * inner]);
        }
        for (int64_t k = 0; k < length; k++) {
            double value = x->values[start + k * inner];
            y->values[start + k * inner] = logarithm ? value - log(total) : exp(value) / total;
        }
    }
}

static void softmax(const op_array in[], op_array *out, const void *options) {
    lines(in, out, *(const int32_t *)options, false);
}

static void log_softmax(const op_array in[], op_array *out, const void *options) {
    lines(in, out, *(const int32_t *)options, true);
}

static const int32_t first = 0, middle = 1, last = -1, too_far = 3;

#define CASE(op, what, axis, ...)                                                                  \
    {                                                                                              \
        .name = #op ", " what, .inputs = {{.shape = TD_SHAPE(__VA_ARGS__), .low = -5, .high = 5}}, \
        .output = TD_SHAPE(__VA_ARGS__), .build = build_##op, .reference = op, .options = axis     \
    }

static const op_case cases[] = {
    CASE(softmax, "last axis", &last, 4, 7),
    CASE(softmax, "one element", &last, 3, 1),
    CASE(softmax, "first axis", &first, 5, 3),
    CASE(softmax, "middle axis", &middle, 2, 5, 3),
    CASE(softmax, "many rows", &last, 300, 130),
    CASE(log_softmax, "last axis", &last, 4, 7),
    CASE(log_softmax, "middle axis", &middle, 2, 5, 3),
    CASE(log_softmax, "many rows", &last, 300, 130),
};

static const op_mistake mistakes[] = {
    {.name = "softmax, no such axis",
     .inputs = {{TD_SHAPE(2, 5, 3)}},
     .build = build_softmax,
     .options = &too_far,
     .status = TD_RANGE,
     .text = "softmax: input (2, 5, 3) has no axis 3"},
    {.name = "log_softmax of integers",
     .inputs = {{.shape = TD_SHAPE(2, 5), .dtype = TD_INT32}},
     .build = build_log_softmax,
     .options = &last,
     .status = TD_DTYPE,
     .text = "log_softmax: input 'in0' is int32; operations compute in float32"},
};

const op_group cases_softmax = {OP_LIST(cases), OP_LIST(mistakes)};
