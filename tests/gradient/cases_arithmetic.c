/* add, subtract, multiply, divide, maximum, minimum, power, prelu, with broadcasting */
#include "gradient/op_table.h"

#include "tape/op.h"

/* The element of an operand that goes into element `at` of the result. */
static double operand(const op_array *in, const op_array *out, int64_t at) {
    int64_t from = 0, step = 1;
    for (int32_t back = 0; back < out->shape.rank; back++) {
        int64_t size = out->shape.dims[out->shape.rank - 1 - back], index = at % size;
        at /= size;
        int64_t own = back < in->shape.rank ? in->shape.dims[in->shape.rank - 1 - back] : 1;
        from += own == 1 ? 0 : index * step;
        step *= own;
    }
    return in->values[from];
}

#define OPERATION(name, expression) DEFINE(name, td_##name, expression)
#define DEFINE(name, function, expression)                                                         \
    static td_tensor *build_##name(td_tape *tape, td_tensor *const in[], const void *options) {    \
        (void)options;                                                                             \
        return function(tape, in[0], in[1]);                                                       \
    }                                                                                              \
    static void name(const op_array in[], op_array *out, const void *options) {                    \
        (void)options;                                                                             \
        for (int64_t i = 0; i < out->count; i++) {                                                 \
            double a = operand(&in[0], out, i), b = operand(&in[1], out, i);                       \
            out->values[i] = (expression);                                                         \
        }                                                                                          \
    }
OPERATION(add, a + b)
OPERATION(subtract, a - b)
OPERATION(multiply, a *b)
OPERATION(divide, a / b)
OPERATION(maximum, fmax(a, b))
OPERATION(minimum, fmin(a, b))
OPERATION(power, pow(a, b))
DEFINE(prelu, td__prelu, fmax(a, 0) + b * fmin(a, 0))

/* x * x: both operands are the same tensor */
static td_tensor *build_self_product(td_tape *tape, td_tensor *const in[], const void *options) {
    (void)options;
    return td_multiply(tape, in[0], in[0]);
}
static void self_product(const op_array in[], op_array *out, const void *options) {
    (void)options;
    for (int64_t i = 0; i < out->count; i++) {
        out->values[i] = in->values[i] * in->values[i];
    }
}

/* (x + y) - x * y: sums that share gradients */
static td_tensor *build_diamond(td_tape *tape, td_tensor *const in[], const void *options) {
    (void)options;
    return td_subtract(tape, td_add(tape, in[0], in[1]), td_multiply(tape, in[0], in[1]));
}
static void diamond(const op_array in[], op_array *out, const void *options) {
    (void)options;
    for (int64_t i = 0; i < out->count; i++) {
        double x = in[0].values[i], y = in[1].values[i];
        out->values[i] = x + y - x * y;
    }
}

#define SHAPE(...) TD_SHAPE(__VA_ARGS__)
#define SCALAR ((td_shape){0})
/* Operands from the ranges given, away from 0 where that matters. */
#define CASE(op, what, a, b, c, low_, high_, gap_)                                                 \
    {                                                                                              \
        .name = #op ", " what, .input_count = 2,                                                   \
        .inputs = {{.shape = a, .low = low_, .high = high_, .gap = gap_},                          \
                   {.shape = b, .low = low_, .high = high_, .gap = gap_}},                         \
        .output = c, .build = build_##op, .reference = op                                          \
    }
/* Every way two shapes combine, for one operation. */
#define SHAPES(op, low, high, gap)                                                                 \
    CASE(op, "same shape", SHAPE(3, 4), SHAPE(3, 4), SHAPE(3, 4), low, high, gap),                 \
        CASE(op, "scalars", SCALAR, SCALAR, SCALAR, low, high, gap),                               \
        CASE(op, "scalar on the right", SHAPE(3, 5), SCALAR, SHAPE(3, 5), low, high, gap),         \
        CASE(op, "scalar on the left", SHAPE(1, 1), SHAPE(3, 5), SHAPE(3, 5), low, high, gap),     \
        CASE(op, "rows", SHAPE(2, 3, 7), SHAPE(7), SHAPE(2, 3, 7), low, high, gap),                \
        CASE(op, "columns", SHAPE(6, 1), SHAPE(6, 5), SHAPE(6, 5), low, high, gap),                \
        CASE(op, "both repeat", SHAPE(4, 1, 3), SHAPE(1, 2, 1), SHAPE(4, 2, 3), low, high, gap),   \
        CASE(op, "five axes", SHAPE(2, 1, 3, 1, 2), SHAPE(3, 1, 4, 1), SHAPE(2, 3, 3, 4, 2), low,  \
             high, gap)

static const op_case cases[] = {
    SHAPES(add, -2, 2, 0),
    SHAPES(subtract, -2, 2, 0),
    SHAPES(multiply, -2, 2, 0),
    SHAPES(divide, -2, 2, 0.3),
    SHAPES(maximum, -2, 2, 0),
    SHAPES(minimum, -2, 2, 0),
    SHAPES(power, 0.2, 2, 0),
    SHAPES(prelu, -2, 2, 0.01),
    {.name = "multiply, a tensor with itself",
     .inputs = {{.shape = SHAPE(3, 4)}},
     .output = SHAPE(3, 4),
     .build = build_self_product,
     .reference = self_product},
    CASE(diamond, "shared gradients", SHAPE(3, 4), SHAPE(3, 4), SHAPE(3, 4), -2, 2, 0),
    /* Large: threads, narrow rows made wide, each kernel's long loops. */
    CASE(add, "large, same shape", SHAPE(200, 300), SHAPE(200, 300), SHAPE(200, 300), -2, 2, 0),
    CASE(add, "large, rows", SHAPE(200, 300), SHAPE(300), SHAPE(200, 300), -2, 2, 0),
    CASE(add, "large, narrow rows", SHAPE(13001, 3), SHAPE(3), SHAPE(13001, 3), -2, 2, 0),
    CASE(subtract, "large, narrow rows left", SHAPE(5), SHAPE(9003, 5), SHAPE(9003, 5), -2, 2, 0),
    CASE(multiply, "large, same shape", SHAPE(200, 300), SHAPE(200, 300), SHAPE(200, 300), -2, 2,
         0),
    CASE(multiply, "large, rows", SHAPE(200, 300), SHAPE(300), SHAPE(200, 300), -2, 2, 0),
    CASE(multiply, "large, scalar", SHAPE(200, 300), SCALAR, SHAPE(200, 300), -2, 2, 0),
    CASE(multiply, "large, columns", SHAPE(200, 300), SHAPE(200, 1), SHAPE(200, 300), -2, 2, 0),
    CASE(prelu, "large, channels", SHAPE(4, 30, 30, 11), SHAPE(1, 1, 11), SHAPE(4, 30, 30, 11), -2,
         2, 0.01),
    CASE(divide, "large, two long rows", SHAPE(2, 25000), SHAPE(2, 1), SHAPE(2, 25000), -2, 2, 0.3),
    CASE(multiply, "large, channels in the middle", SHAPE(20, 8, 500), SHAPE(8, 1),
         SHAPE(20, 8, 500), -2, 2, 0),
    CASE(maximum, "nothing", SHAPE(0, 3), SHAPE(3), SHAPE(0, 3), -2, 2, 0),
};

#define MISTAKE(op, a, b, text_)                                                                   \
    {                                                                                              \
        .name = #op ", shapes do not fit", .input_count = 2,                                       \
        .inputs = {{.shape = a}, {.shape = b}}, .build = build_##op, .status = TD_BAD_SHAPE,       \
        .text = text_                                                                              \
    }

static const op_mistake mistakes[] = {
    MISTAKE(add, SHAPE(3, 4), SHAPE(3),
            "add: (3, 4) and (3,) do not broadcast: counted from the end, dimensions must be equal "
            "or 1"),
    MISTAKE(power, SHAPE(2, 1, 4), SHAPE(3, 5),
            "power: (2, 1, 4) and (3, 5) do not broadcast: counted from the end, dimensions must "
            "be equal or 1"),
    MISTAKE(maximum, SHAPE(0), SHAPE(3),
            "maximum: (0,) and (3,) do not broadcast: counted from the end, dimensions must be "
            "equal or 1"),
    {.name = "divide, integers",
     .input_count = 2,
     .inputs = {{.shape = SHAPE(2)}, {.shape = SHAPE(2), .dtype = TD_INT64}},
     .build = build_divide,
     .status = TD_DTYPE,
     .text = "divide: second operand 'in1' is int64; operations compute in float32"},
};

const op_group cases_arithmetic = {OP_LIST(cases), OP_LIST(mistakes)};
