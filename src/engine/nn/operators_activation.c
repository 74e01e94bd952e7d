/* Activations as operators; see operators.h. */
#include "nn/operators.h"

#include <math.h>

static const char *times(td__operators *to, const char *x, double factor) {
    return TD__OPERATOR(to, "Mul", x, td__operator_number(to, factor));
}

static const char *plus(td__operators *to, const char *x, double term) {
    return TD__OPERATOR(to, "Add", x, td__operator_number(to, term));
}

/* x / 2 * (1 + erf(x / sqrt(2))) */
static const char *gelu(td__operators *to, const char *x) {
    const char *gate = TD__OPERATOR(to, "Erf", times(to, x, sqrt(0.5)));
    return TD__OPERATOR(to, "Mul", times(to, x, 0.5), plus(to, gate, 1));
}

/* x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) */
static const char *gelu_tanh(td__operators *to, const char *x) {
    const char *cube = TD__OPERATOR(to, "Mul", x, TD__OPERATOR(to, "Mul", x, x));
    const char *inner = TD__OPERATOR(to, "Add", x, times(to, cube, 0.044715));
    const char *gate = TD__OPERATOR(to, "Tanh", times(to, inner, sqrt(2 / acos(-1))));
    return TD__OPERATOR(to, "Mul", times(to, x, 0.5), plus(to, gate, 1));
}

static const char *clipped(td__operators *to, const char *x, double minimum, double maximum) {
    return TD__OPERATOR(to, "Clip", x, td__operator_number(to, minimum),
                        td__operator_number(to, maximum));
}

/* x sigmoid(x) */
static const char *swish(td__operators *to, const char *x) {
    return TD__OPERATOR(to, "Mul", x, TD__OPERATOR(to, "Sigmoid", x));
}

static const char *relu6(td__operators *to, const char *x) {
    return clipped(to, x, 0, 6);
}

static const char *hard_tanh(td__operators *to, const char *x) {
    return clipped(to, x, -1, 1);
}

static const char *tanh_shrink(td__operators *to, const char *x) {
    return TD__OPERATOR(to, "Sub", x, TD__OPERATOR(to, "Tanh", x));
}

/* x tanh(softplus(x)) */
static const char *mish(td__operators *to, const char *x) {
    return TD__OPERATOR(to, "Mul", x, TD__OPERATOR(to, "Tanh", TD__OPERATOR(to, "Softplus", x)));
}

/* -softplus(-x) */
static const char *log_sigmoid(td__operators *to, const char *x) {
    return TD__OPERATOR(to, "Neg", TD__OPERATOR(to, "Softplus", TD__OPERATOR(to, "Neg", x)));
}

/* (x + sqrt(x^2 + 4)) / 2 */
static const char *squareplus(td__operators *to, const char *x) {
    const char *root = TD__OPERATOR(to, "Sqrt", plus(to, TD__OPERATOR(to, "Mul", x, x), 4));
    return times(to, TD__OPERATOR(to, "Add", x, root), 0.5);
}

/* ((x between -1 and 1) + 1)^2 / 4 + relu(x - 1) */
static const char *sparse_plus(td__operators *to, const char *x) {
    const char *inner = plus(to, clipped(to, x, -1, 1), 1);
    return TD__OPERATOR(to, "Add", times(to, TD__OPERATOR(to, "Mul", inner, inner), 0.25),
                        TD__OPERATOR(to, "Relu", plus(to, x, -1)));
}

/* Those that are several operators. */
static const char *(*const composed[TD_ACTIVATION_COUNT])(td__operators *to, const char *x) = {
    [TD_GELU] = gelu,
    [TD_GELU_TANH] = gelu_tanh,
    [TD_SWISH] = swish,
    [TD_RELU6] = relu6,
    [TD_HARD_TANH] = hard_tanh,
    [TD_TANH_SHRINK] = tanh_shrink,
    [TD_MISH] = mish,
    [TD_LOG_SIGMOID] = log_sigmoid,
    [TD_SQUAREPLUS] = squareplus,
    [TD_SPARSE_PLUS] = sparse_plus,
};

/* Those that are one operator, with up to two numbers. */
static const struct {
    const char *type;
    const char *keys[2];
    float numbers[2];
    bool alpha; /* the first number is the layer's alpha, where it has one */
    bool last;  /* over the last axis */
} plain[TD_ACTIVATION_COUNT] = {
    [TD_RELU] = {.type = "Relu"},
    [TD_LEAKY_RELU] = {.type = "LeakyRelu", .keys = {"alpha"}, .numbers = {0.2f}, .alpha = true},
    [TD_ELU] = {.type = "Elu", .keys = {"alpha"}, .numbers = {1}, .alpha = true},
    [TD_SELU] = {.type = "Selu"},
    [TD_SOFTPLUS] = {.type = "Softplus"},
    [TD_SIGMOID] = {.type = "Sigmoid"},
    [TD_TANH] = {.type = "Tanh"},
    [TD_SOFTMAX] = {.type = "Softmax", .last = true},
    [TD_LOG_SOFTMAX] = {.type = "LogSoftmax", .last = true},
    [TD_EXPONENTIAL] = {.type = "Exp"},
    [TD_HARD_SIGMOID] = {.type = "HardSigmoid",
                         .keys = {"alpha", "beta"},
                         .numbers = {1 / 6.0f, 0.5f}},
    [TD_HARD_SIGMOID_KERAS2] = {.type = "HardSigmoid",
                                .keys = {"alpha", "beta"},
                                .numbers = {0.2f, 0.5f}},
    [TD_SOFTSIGN] = {.type = "Softsign"},
    [TD_HARD_SILU] = {.type = "HardSwish"},
    [TD_HARD_SHRINK] = {.type = "Shrink", .keys = {"lambd"}, .numbers = {0.5f}},
    [TD_SOFT_SHRINK] = {.type = "Shrink", .keys = {"lambd", "bias"}, .numbers = {0.5f, 0.5f}},
    [TD_CELU] = {.type = "Celu"},
    [TD_SPARSE_SIGMOID] = {.type = "HardSigmoid",
                           .keys = {"alpha", "beta"},
                           .numbers = {0.5f, 0.5f}},
};

const char *td__operator_activation(td__operators *to, const char *x, td_activation activation,
                                    td_number alpha) {
    if (activation == TD_LINEAR) {
        return x;
    }
    if (composed[activation]) {
        return composed[activation](to, x);
    }
    td__attribute attributes[3] = {TD__NAMED_INT("axis", -1)};
    size_t used = plain[activation].last;
    for (int i = 0; i < 2 && plain[activation].keys[i]; i++) {
        bool own = i == 0 && plain[activation].alpha && alpha.set;
        attributes[used++] =
            (td__attribute){.name = plain[activation].keys[i],
                            .type = TD__REAL,
                            .number = own ? (float)alpha.value : plain[activation].numbers[i]};
    }
    return td__operator(to, plain[activation].type, 1, &x, used, attributes);
}
