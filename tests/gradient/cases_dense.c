/* dense, with every activation that can be fused */
#include "gradient/op_table.h"

static td_tensor *build(td_tape *tape, td_tensor *const in[], const void *options) {
    return td_dense(tape, in[0], in[1], in[2], *(const td_activation *)options);
}

static double activate(td_activation activation, double x) {
    switch (activation) {
    case TD_RELU:
        return x > 0 ? x : 0;
    case TD_TANH:
        return tanh(x);
    case TD_GELU:
        return 0.5 * x * erfc(-x / sqrt(2));
    case TD_SIGMOID:
        return 1 / (1 + exp(-x));
    default:
        return x;
    }
}

static void reference(const op_array in[], op_array *out, const void *options) {
    int64_t depth = in[1].shape.dims[0], units = in[1].shape.dims[1];
    for (int64_t i = 0; i < out->count; i++) {
        double sum = in[2].shape.rank ? in[2].values[i % units] : 0;
        for (int64_t k = 0; k < depth; k++) {
            sum += in[0].values[i / units * depth + k] * in[1].values[k * units + i % units];
        }
        out->values[i] = activate(*(const td_activation *)options, sum);
    }
}

static const td_activation linear = TD_LINEAR, relu = TD_RELU, tangent = TD_TANH, gelu = TD_GELU,
                           sigmoid = TD_SIGMOID, softmax = TD_SOFTMAX;

#define CASE(what, rows, in_, out_, f)                                                             \
    {                                                                                              \
        .name = "dense, " what,                                                                    \
        .inputs = {{TD_SHAPE(rows, in_)}, {TD_SHAPE(in_, out_)}, {TD_SHAPE(out_)}},                \
        .input_count = 3, .output = TD_SHAPE(rows, out_), .build = build, .reference = reference,  \
        .options = f                                                                               \
    }

static const op_case cases[] = {
    CASE("linear", 4, 5, 3, &linear),
    CASE("relu", 7, 5, 10, &relu),
    CASE("tanh", 3, 6, 33, &tangent),
    CASE("gelu", 3, 6, 17, &gelu),
    CASE("sigmoid", 15, 2, 16, &sigmoid),
    CASE("one of everything", 1, 1, 1, &tangent),
    CASE("rows of two tiles", 29, 3, 40, &linear),
    {.name = "dense, three axes",
     .inputs = {{TD_SHAPE(2, 3, 5)}, {TD_SHAPE(5, 4)}, {TD_SHAPE(4)}},
     .input_count = 3,
     .output = TD_SHAPE(2, 3, 4),
     .build = build,
     .reference = reference,
     .options = &relu},
    {.name = "dense, without bias",
     .inputs = {{TD_SHAPE(3, 5)}, {TD_SHAPE(5, 4)}, {.optional = true}},
     .input_count = 3,
     .output = TD_SHAPE(3, 4),
     .build = build,
     .reference = reference,
     .options = &linear},
};

static const op_mistake mistakes[] = {
    {.name = "dense, depths differ",
     .inputs = {{TD_SHAPE(3, 5)}, {TD_SHAPE(4, 2)}, {.optional = true}},
     .input_count = 3,
     .build = build,
     .options = &linear,
     .status = TD_BAD_SHAPE,
     .text =
         "dense: input (3, 5) does not fit kernel (4, 2): the input's last dimension must be the "
         "kernel's first"},
    {.name = "dense, bias too long",
     .inputs = {{TD_SHAPE(3, 4)}, {TD_SHAPE(4, 2)}, {TD_SHAPE(3)}},
     .input_count = 3,
     .build = build,
     .options = &linear,
     .status = TD_BAD_SHAPE,
     .text = "dense: bias (3,) does not fit kernel (4, 2): it must be (2,)"},
    {.name = "dense with softmax",
     .inputs = {{TD_SHAPE(3, 4)}, {TD_SHAPE(4, 2)}, {.optional = true}},
     .input_count = 3,
     .build = build,
     .options = &softmax,
     .status = TD_INVALID,
     .text = "dense: activation softmax is not one of single elements; use td_activate on the "
             "result"},
};

const op_group cases_dense = {OP_LIST(cases), OP_LIST(mistakes)};
