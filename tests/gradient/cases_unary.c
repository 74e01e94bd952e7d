/* affine, exp, log, sqrt, square, absolute, clip, stop_gradient */
#include "gradient/op_table.h"

#define FUNCTION(name, call, expression)                                                           \
    static td_tensor *build_##name(td_tape *tape, td_tensor *const in[], const void *options) {    \
        (void)options;                                                                             \
        td_tensor *x = in[0];                                                                      \
        return (call);                                                                             \
    }                                                                                              \
    static void reference_##name(const op_array in[], op_array *out, const void *options) {        \
        (void)options;                                                                             \
        for (int64_t i = 0; i < out->count; i++) {                                                 \
            double x = in->values[i];                                                              \
            out->values[i] = (expression);                                                         \
        }                                                                                          \
    }
FUNCTION(affine, td_affine(tape, x, -1.5f, 0.25f), -1.5 * x + 0.25)
FUNCTION(exp, td_exp(tape, x), exp(x))
FUNCTION(log, td_log(tape, x), log(x))
FUNCTION(sqrt, td_sqrt(tape, x), sqrt(x))
FUNCTION(square, td_square(tape, x), x *x)
FUNCTION(absolute, td_absolute(tape, x), fabs(x))
FUNCTION(clip, td_clip(tape, x, -0.5f, 1), fmin(fmax(x, -0.5), 1))

static td_tensor *build_clip_backwards(td_tape *tape, td_tensor *const in[], const void *options) {
    (void)options;
    return td_clip(tape, in[0], 1, -0.5f);
}

/* x + stop(3 y): the second term has a value but no slope, so that for the reference it is 3 times
 * the numbers that y is given. */
static td_tensor *build_stop_gradient(td_tape *tape, td_tensor *const in[], const void *options) {
    (void)options;
    return td_add(tape, in[0], td_stop_gradient(tape, td_affine(tape, in[1], 3, 0)));
}
static void stop_gradient(const op_array in[], op_array *out, const void *options) {
    static const double fixed[] = {0.5, -1, 2};
    (void)options;
    for (int64_t i = 0; i < out->count; i++) {
        out->values[i] = in[0].values[i] + 3 * fixed[i];
    }
}

#define CASE(op, what, low_, high_, gap_, ...)                                                     \
    {                                                                                              \
        .name = #op ", " what, .output = TD_SHAPE(__VA_ARGS__), .build = build_##op,               \
        .inputs = {{.shape = TD_SHAPE(__VA_ARGS__), .low = low_, .high = high_, .gap = gap_}},     \
        .reference = reference_##op                                                                \
    }
#define BOTH(op, low, high, gap)                                                                   \
    CASE(op, "small", low, high, gap, 3, 5), CASE(op, "large", low, high, gap, 300, 251)

static const op_case cases[] = {
    BOTH(affine, -3, 3, 0),
    BOTH(exp, -10, 10, 0),
    BOTH(log, 0.01, 20, 0),
    BOTH(sqrt, 0.01, 20, 0),
    BOTH(square, -3, 3, 0),
    BOTH(absolute, -3, 3, 0.01),
    CASE(clip, "small", -2, 2, 0, 4, 5),
    {.name = "stop_gradient",
     .input_count = 2,
     .inputs = {{.shape = TD_SHAPE(3)},
                {.shape = TD_SHAPE(3), .values = (const double[]){0.5, -1, 2}}},
     .output = TD_SHAPE(3),
     .build = build_stop_gradient,
     .reference = stop_gradient},
};

static const op_mistake mistakes[] = {
    {.name = "clip, bounds swapped",
     .inputs = {{TD_SHAPE(3)}},
     .build = build_clip_backwards,
     .status = TD_INVALID,
     .text = "clip: the minimum 1 is above the maximum -0.5"},
    {.name = "sqrt, integers",
     .inputs = {{.shape = TD_SHAPE(3), .dtype = TD_UINT8, .low = 0, .high = 9}},
     .build = build_sqrt,
     .status = TD_DTYPE,
     .text = "sqrt: input 'in0' is uint8; operations compute in float32"},
};

const op_group cases_unary = {OP_LIST(cases), OP_LIST(mistakes)};
