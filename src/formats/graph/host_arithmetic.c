/* Element-wise operators on integers and doubles. Integers wrap around, as in C's unsigned types;
 * the output's type then cuts them to its width. */
#include "graph/host.h"
#include "tape/broadcast.h"

#include <math.h>
#include <string.h>

/* --- functions of two numbers ------------------------------------------------------------- */

static int64_t add_integers(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a + (uint64_t)b);
}
static int64_t subtract(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a - (uint64_t)b);
}
static int64_t multiply(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a * (uint64_t)b);
}
/* Towards zero, as in C; by 0 is 0, as in numpy. */
static int64_t divide(int64_t a, int64_t b) {
    return b == 0 ? 0 : b == -1 ? subtract(0, a) : a / b;
}
static int64_t greater(int64_t a, int64_t b) {
    return a > b ? a : b;
}
static int64_t lesser(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static int64_t power(int64_t base, int64_t exponent) {
    if (exponent < 0) {
        return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
    }
    int64_t result = 1;
    for (; exponent; exponent >>= 1, base = multiply(base, base)) {
        result = exponent & 1 ? multiply(result, base) : result;
    }
    return result;
}
static int64_t prelu(int64_t x, int64_t slope) {
    return x < 0 ? multiply(x, slope) : x;
}

static double add_real(double a, double b) {
    return a + b;
}
static double subtract_real(double a, double b) {
    return a - b;
}
static double multiply_real(double a, double b) {
    return a * b;
}
static double divide_real(double a, double b) {
    return a / b;
}
/* What is not a number stays so. */
static double greater_real(double a, double b) {
    return isnan(a) || a > b ? a : b;
}
static double lesser_real(double a, double b) {
    return isnan(a) || a < b ? a : b;
}
static double prelu_real(double x, double slope) {
    return x < 0 ? x * slope : x;
}

static const struct {
    const char *name;
    int64_t (*integer)(int64_t a, int64_t b);
    double (*real)(double a, double b);
} of_two[] = {
    {"Add", add_integers, add_real}, {"Div", divide, divide_real}, {"Max", greater, greater_real},
    {"Mean", NULL, add_real},        {"Min", lesser, lesser_real}, {"Mul", multiply, multiply_real},
    {"PRelu", prelu, prelu_real},    {"Pow", power, pow},          {"Sub", subtract, subtract_real},
    {"Sum", add_integers, add_real},
};

static td_tensor *combine(td__graph_call *call, size_t f, td_tensor *a, td_tensor *b) {
    td__broadcast_rows rows;
    td_tensor *y =
        td__broadcast_rows_init(call->tape, call->node->op_type, 2, (td_tensor *[]){a, b}, &rows)
            ? td__graph_new(call, td__graph_input(call, 0)->type, rows.shape)
            : NULL;
    bool integers = td__graph_is_integer(a) && td__graph_is_integer(b);
    while (y && td__broadcast_next_row(&rows)) {
        for (int64_t i = 0; i < rows.width; i++) {
            int64_t at = rows.at[0] + i * rows.step[0], bt = rows.at[1] + i * rows.step[1];
            if (integers) {
                td__graph_put_integer(
                    y, rows.y + i,
                    of_two[f].integer(td__graph_integer(a, at), td__graph_integer(b, bt)));
            } else {
                td__graph_put_real(y, rows.y + i,
                                   of_two[f].real(td__graph_real(a, at), td__graph_real(b, bt)));
            }
        }
    }
    return y;
}

static bool of_operands(td__graph_call *call, size_t f) {
    bool is_mean = !strcmp(of_two[f].name, "Mean"), is_power = !strcmp(of_two[f].name, "Pow");
    td_tensor *y = td__graph_plain(call, 0);
    if (y && td__graph_is_integer(y) && !of_two[f].integer) {
        return td__graph_fail(call, TD_UNSUPPORTED, "not of integers");
    }
    for (size_t i = 1; y && i < call->node->input_count; i++) {
        const td__graph_value *value = td__graph_input(call, i);
        td_tensor *operand = td__graph_plain(call, i);
        if (value && value->type != td__graph_input(call, 0)->type && !is_power) {
            return td__graph_fail(call, TD_DTYPE, "its inputs are of different types");
        }
        y = operand ? combine(call, f, y, operand) : NULL;
    }
    if (y && is_mean && call->node->input_count > 1) {
        for (int64_t i = 0; i < y->count; i++) {
            ((double *)y->data)[i] /= (double)call->node->input_count;
        }
    }
    return td__graph_output(call, 0, td__graph_input(call, 0)->type, y);
}

/* --- functions of one number -------------------------------------------------------------- */

static int64_t absolute(int64_t x) {
    return x < 0 ? subtract(0, x) : x;
}
static int64_t negative(int64_t x) {
    return subtract(0, x);
}
static int64_t relu(int64_t x) {
    return x > 0 ? x : 0;
}
static int64_t sign(int64_t x) {
    return (x > 0) - (x < 0);
}

static double negative_real(double x) {
    return -x;
}
static double reciprocal(double x) {
    return 1 / x;
}
static double relu_real(double x) {
    return x < 0 ? 0 : x;
}
static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}
static double sign_real(double x) {
    return x > 0 ? 1 : x < 0 ? -1 : x;
}
static double softplus(double x) {
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}
static double softsign(double x) {
    return x / (1 + fabs(x));
}

static const struct {
    const char *name;
    int64_t (*integer)(int64_t x);
    double (*real)(double x);
} of_one[] = {
    {"Abs", absolute, fabs},
    {"Acos", NULL, acos},
    {"Acosh", NULL, acosh},
    {"Asin", NULL, asin},
    {"Asinh", NULL, asinh},
    {"Atan", NULL, atan},
    {"Atanh", NULL, atanh},
    {"Ceil", NULL, ceil},
    {"Cos", NULL, cos},
    {"Cosh", NULL, cosh},
    {"Erf", NULL, erf},
    {"Exp", NULL, exp},
    {"Floor", NULL, floor},
    {"Log", NULL, log},
    {"Neg", negative, negative_real},
    {"Reciprocal", NULL, reciprocal},
    {"Relu", relu, relu_real},
    {"Round", NULL, rint},
    {"Sigmoid", NULL, sigmoid},
    {"Sign", sign, sign_real},
    {"Sin", NULL, sin},
    {"Sinh", NULL, sinh},
    {"Softplus", NULL, softplus},
    {"Softsign", NULL, softsign},
    {"Sqrt", NULL, sqrt},
    {"Tan", NULL, tan},
    {"Tanh", NULL, tanh},
};

static bool of_operand(td__graph_call *call, size_t f) {
    td_tensor *x = td__graph_plain(call, 0);
    if (x && td__graph_is_integer(x) && !of_one[f].integer) {
        return td__graph_fail(call, TD_UNSUPPORTED, "not of integers");
    }
    td__graph_type type = td__graph_input(call, 0)->type;
    td_tensor *y = x ? td__graph_new(call, type, x->shape) : NULL;
    for (int64_t i = 0; y && i < y->count; i++) {
        if (td__graph_is_integer(x)) {
            td__graph_put_integer(y, i, of_one[f].integer(td__graph_integer(x, i)));
        } else {
            td__graph_put_real(y, i, of_one[f].real(td__graph_real(x, i)));
        }
    }
    return td__graph_output(call, 0, type, y);
}

/* --- clip --------------------------------------------------------------------------------- */

/* Bounds are inputs: integers had none before opset 12. */
static bool clip(td__graph_call *call) {
    td_tensor *x = td__graph_plain(call, 0), *bounds[2] = {NULL, NULL};
    td__graph_type type = td__graph_input(call, 0)->type;
    for (size_t i = 0; i < 2; i++) {
        const td__graph_value *value = td__graph_input(call, i + 1);
        bounds[i] = td__graph_plain(call, i + 1);
        if (value && (!bounds[i] || bounds[i]->count != 1 || value->type != type)) {
            return td__graph_fail(call, TD_BAD_SHAPE, "its bounds are not one %s each",
                                  td__graph_type_name(type));
        }
    }
    td_tensor *y = x ? td__graph_new(call, type, x->shape) : NULL;
    for (int64_t i = 0; y && i < y->count; i++) {
        if (td__graph_is_integer(x)) {
            int64_t value = td__graph_integer(x, i);
            value = bounds[0] ? greater(value, td__graph_integer(bounds[0], 0)) : value;
            value = bounds[1] ? lesser(value, td__graph_integer(bounds[1], 0)) : value;
            td__graph_put_integer(y, i, value);
        } else {
            double value = td__graph_real(x, i);
            value = bounds[0] ? greater_real(value, td__graph_real(bounds[0], 0)) : value;
            value = bounds[1] ? lesser_real(value, td__graph_real(bounds[1], 0)) : value;
            td__graph_put_real(y, i, value);
        }
    }
    return td__graph_output(call, 0, type, y);
}

bool td__graph_host_arithmetic(td__graph_call *call) {
    const char *name = call->node->op_type;
    for (size_t i = 0; i < sizeof of_two / sizeof *of_two; i++) {
        if (!strcmp(of_two[i].name, name)) {
            return of_operands(call, i);
        }
    }
    for (size_t i = 0; i < sizeof of_one / sizeof *of_one; i++) {
        if (!strcmp(of_one[i].name, name)) {
            return of_operand(call, i);
        }
    }
    if (!strcmp(name, "Clip")) {
        return clip(call);
    }
    return td__graph_fail(call, TD_UNSUPPORTED, "not of type %s",
                          td__graph_type_name(td__graph_input(call, 0)->type));
}
