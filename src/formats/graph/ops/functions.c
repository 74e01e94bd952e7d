/* Functions of one operand, element by element: activations and what a pocket calculator has. */
#include "graph/host.h"
#include "graph/ops/common.h"
#include "tape/parallel.h"

#include <math.h>

/* --- functions the tape does not have ----------------------------------------------------- */

/* y = f(x; p, q), dx = g f'(x; p, q) */
typedef struct function {
    float (*value)(float x, float p, float q);
    float (*slope)(float x, float y, float p, float q); /* NULL: no gradient */
} function;

typedef struct function_work {
    function f;
    float p, q;
    const float *x, *y, *g;
    float *result;
    bool add;
} function_work;

static void value_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const function_work *w = context;
    for (int64_t i = begin; i < end; i++) {
        w->result[i] = w->f.value(w->x[i], w->p, w->q);
    }
}

static void slope_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const function_work *w = context;
    for (int64_t i = begin; i < end; i++) {
        float d = w->g[i] * w->f.slope(w->x[i], w->y[i], w->p, w->q);
        w->result[i] = w->add ? w->result[i] + d : d;
    }
}

static td_status function_backward(td_tape *tape, td__node *node) {
    function_work work = *(const function_work *)node->saved;
    work.x = td__floats(node->inputs[0].tensor);
    work.y = td__floats(node->output);
    work.g = td__output_gradient(tape, node);
    work.result = td__gradient_in_place(tape, node, 0, &work.add);
    if (!work.result) {
        return TD_MEMORY;
    }
    td__parallel(node->output->count, 64, TD__GRAIN / 8, slope_part, &work);
    return TD_OK;
}

static const td__op smooth_op = {.name = "function", .backward = function_backward};
static const td__op steps_op = {.name = "function"};

static td_tensor *map(td_tape *tape, td_tensor *x, function f, float p, float q) {
    if (!td__check_float(tape, "function", "input", x)) {
        return NULL;
    }
    td_tensor *y = td__output(tape, TD_FLOAT32, &x->shape);
    function_work *work = y ? td__scratch(tape, sizeof *work) : NULL;
    if (!work) {
        return NULL;
    }
    *work = (function_work){.f = f, .p = p, .q = q, .x = td__floats(x), .result = td__floats(y)};
    td__parallel(x->count, 64, TD__GRAIN / 8, value_part, work);
    return td__record(tape, f.slope ? &smooth_op : &steps_op, y, 1, &x, work);
}

/* --- the operators ------------------------------------------------------------------------ */

typedef td_tensor *transform(td__graph_call *call, td_tensor *x);

static bool apply(td__graph_call *call, transform *f) {
    if (!td__graph_is_float(call, 0)) {
        return td__graph_host_arithmetic(call);
    }
    bool last;
    td_tensor *x = td__graph_either(call, 0, &last);
    td_tensor *y = x ? f(call, x) : NULL;
    return td__graph_output_either(call, 0, td__graph_input(call, 0)->type, y, last);
}

#define OPERATOR(name, result)                                                                     \
    static td_tensor *name##_of(td__graph_call *call, td_tensor *x) {                              \
        return result;                                                                             \
    }                                                                                              \
    static bool name(td__graph_call *call) {                                                       \
        return apply(call, name##_of);                                                             \
    }

/* A function of x and its derivative, of x and y. */
#define FUNCTION(name, formula, derivative)                                                        \
    static float name##_value(float x, float p, float q) {                                         \
        (void)p, (void)q;                                                                          \
        return formula;                                                                            \
    }                                                                                              \
    static float name##_slope(float x, float y, float p, float q) {                                \
        (void)x, (void)y, (void)p, (void)q;                                                        \
        return derivative;                                                                         \
    }                                                                                              \
    OPERATOR(name, map(call->tape, x, (function){name##_value, name##_slope}, 0, 0))

#define STEPS(name, formula)                                                                       \
    static float name##_value(float x, float p, float q) {                                         \
        (void)p, (void)q;                                                                          \
        return formula;                                                                            \
    }                                                                                              \
    OPERATOR(name, map(call->tape, x, (function){name##_value, NULL}, 0, 0))

FUNCTION(sine, sinf(x), cosf(x))
FUNCTION(cosine, cosf(x), -sinf(x))
FUNCTION(tangent, tanf(x), 1 + y * y)
FUNCTION(arc_sine, asinf(x), 1 / sqrtf(1 - x * x))
FUNCTION(arc_cosine, acosf(x), -1 / sqrtf(1 - x * x))
FUNCTION(arc_tangent, atanf(x), 1 / (1 + x * x))
FUNCTION(sinh_, sinhf(x), coshf(x))
FUNCTION(cosh_, coshf(x), sinhf(x))
FUNCTION(asinh_, asinhf(x), 1 / sqrtf(x * x + 1))
FUNCTION(acosh_, acoshf(x), 1 / sqrtf(x * x - 1))
FUNCTION(atanh_, atanhf(x), 1 / (1 - x * x))
OPERATOR(error_function, td__erf(call->tape, x))
FUNCTION(reciprocal, 1 / x, -y *y)
STEPS(ceiling, ceilf(x))
STEPS(floor_, floorf(x))
STEPS(round_, rintf(x)) /* halves to even */
STEPS(sign, x > 0 ? 1.0f : x < 0 ? -1.0f : x)

static float thresholded_value(float x, float alpha, float unused) {
    (void)unused;
    return x > alpha ? x : 0;
}
static float thresholded_slope(float x, float y, float alpha, float unused) {
    (void)y, (void)unused;
    return x > alpha ? 1 : 0;
}
static float shrink_value(float x, float lambda, float bias) {
    return x < -lambda ? x + bias : x > lambda ? x - bias : 0;
}
static float shrink_slope(float x, float y, float lambda, float bias) {
    (void)y, (void)bias;
    return x < -lambda || x > lambda ? 1 : 0;
}

static float number(td__graph_call *call, const char *name, float fallback) {
    return td__graph_float(call->node, name, fallback);
}

OPERATOR(absolute, td_absolute(call->tape, x))
OPERATOR(exponential, td_exp(call->tape, x))
OPERATOR(logarithm, td_log(call->tape, x))
OPERATOR(negative, td_affine(call->tape, x, -1, 0))
OPERATOR(square_root, td_sqrt(call->tape, x))

OPERATOR(relu, td_relu(call->tape, x))
OPERATOR(sigmoid, td_sigmoid(call->tape, x))
OPERATOR(tanh_, td_tanh(call->tape, x))
OPERATOR(softplus, td_activate(call->tape, x, TD_SOFTPLUS, TD_DEFAULT))
OPERATOR(softsign, td_activate(call->tape, x, TD_SOFTSIGN, TD_DEFAULT))
OPERATOR(thresholded_relu, map(call->tape, x, (function){thresholded_value, thresholded_slope},
                               number(call, "alpha", 1), 0))
OPERATOR(shrink, map(call->tape, x, (function){shrink_value, shrink_slope},
                     number(call, "lambd", 0.5f), number(call, "bias", 0)))

/* Where alpha is 0 these two are relu, which makes no negative zeros. */
static td_tensor *with_alpha(td_tape *tape, td_tensor *x, td_activation activation, float alpha) {
    return alpha != 0 ? td_activate(tape, x, activation, TD_SET(alpha)) : td_relu(tape, x);
}
OPERATOR(leaky_relu, with_alpha(call->tape, x, TD_LEAKY_RELU, number(call, "alpha", 0.01f)))
OPERATOR(elu, with_alpha(call->tape, x, TD_ELU, number(call, "alpha", 1)))
OPERATOR(selu, td_affine(call->tape,
                         with_alpha(call->tape, x, TD_ELU, number(call, "alpha", 1.67326319f)),
                         number(call, "gamma", 1.05070102f), 0))

/* max(0, x) + min(0, alpha (e^(x / alpha) - 1)) */
static td_tensor *scaled_elu(td_tape *tape, td_tensor *x, float alpha) {
    td_tensor *inner = td_activate(tape, td_affine(tape, x, 1 / alpha, 0), TD_ELU, TD_SET(1));
    return td_affine(tape, inner, alpha, 0);
}
OPERATOR(celu, scaled_elu(call->tape, x, number(call, "alpha", 1)))

static td_tensor *between_0_and_1(td_tape *tape, td_tensor *x, float scale, float offset) {
    return td_clip(tape, td_affine(tape, x, scale, offset), 0, 1);
}
OPERATOR(hard_sigmoid,
         between_0_and_1(call->tape, x, number(call, "alpha", 0.2f), number(call, "beta", 0.5f)))
OPERATOR(hard_swish, td_multiply(call->tape, x, between_0_and_1(call->tape, x, 1.0f / 6, 0.5f)))
OPERATOR(mish,
         td_multiply(call->tape, x,
                     td_tanh(call->tape, td_activate(call->tape, x, TD_SOFTPLUS, TD_DEFAULT))))

static bool is_tanh(td__graph_call *call) {
    return *td__graph_text(call->node, "approximate", "none") == 't';
}
OPERATOR(gelu, td_activate(call->tape, x, is_tanh(call) ? TD_GELU_TANH : TD_GELU, TD_DEFAULT))

/* --- clip --------------------------------------------------------------------------------- */

/* A bound: an attribute until opset 10, an input from then on. */
static bool bound(td__graph_call *call, const char *name, size_t input, float fallback,
                  float *value) {
    *value = call->opset < 11 ? number(call, name, fallback) : fallback;
    if (call->opset < 11 || !td__graph_input(call, input)) {
        return true;
    }
    const td_tensor *given = td__graph_as_float(call, input);
    if (given && given->count != 1) {
        return td__graph_fail(call, TD_BAD_SHAPE, "its %s is not one number", name);
    }
    *value = given ? td_tensor_scalar(given) : 0;
    return given;
}

static bool clip(td__graph_call *call) {
    if (!td__graph_is_float(call, 0)) {
        return td__graph_host_arithmetic(call);
    }
    float min, max;
    bool last;
    if (!bound(call, "min", 1, -HUGE_VALF, &min) || !bound(call, "max", 2, HUGE_VALF, &max)) {
        return false;
    }
    td_tensor *x = td__graph_either(call, 0, &last);
    td_tensor *y = td_clip(call->tape, x, min < max ? min : max, max);
    return td__graph_output_either(call, 0, td__graph_input(call, 0)->type, y, last);
}

const td__graph_operator td__graph_functions[] = {
    {"Abs", absolute, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"Acos", arc_cosine, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"Acosh", acosh_, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"Asin", arc_sine, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"Asinh", asinh_, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"Atan", arc_tangent, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"Atanh", atanh_, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"Ceil", ceiling, 1, 1, 1, 0, 0, td__graph_infer_passed},
    {"Celu", celu, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"Clip", clip, 1, 3, 1, 0, 0, td__graph_infer_same},
    {"Cos", cosine, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"Cosh", cosh_, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"Elu", elu, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"Erf", error_function, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"Exp", exponential, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"Floor", floor_, 1, 1, 1, 0, 0, td__graph_infer_passed},
    {"Gelu", gelu, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"HardSigmoid", hard_sigmoid, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"HardSwish", hard_swish, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"LeakyRelu", leaky_relu, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"Log", logarithm, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"Mish", mish, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"Neg", negative, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"Reciprocal", reciprocal, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"Relu", relu, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"Round", round_, 1, 1, 1, 0, 0, td__graph_infer_passed},
    {"Selu", selu, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"Shrink", shrink, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"Sigmoid", sigmoid, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"Sign", sign, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"Sin", sine, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"Sinh", sinh_, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"Softplus", softplus, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"Softsign", softsign, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"Sqrt", square_root, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"Tan", tangent, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"Tanh", tanh_, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"ThresholdedRelu", thresholded_relu, 1, 1, 1, 0, 0, td__graph_infer_same},
    {0},
};
