/* Arithmetic on two and more operands, with broadcasting. In float the tape computes, in the form
 * (channels last or not) that the operands are in; in other types the host does. */
#include "graph/host.h"
#include "graph/ops/common.h"

typedef td_tensor *binary(td_tape *tape, td_tensor *a, td_tensor *b);

enum { MAX_OPERANDS = 64 };

/* f(f(a, b), c) … */
static bool combine(td__graph_call *call, binary *f, float scale) {
    td_tensor *operands[MAX_OPERANDS];
    size_t count = call->node->input_count;
    bool last;
    if (count > MAX_OPERANDS) {
        return td__graph_fail(call, TD_UNSUPPORTED, "more than %d operands", MAX_OPERANDS);
    }
    if (!td__graph_is_float(call, 0)) {
        return td__graph_host_arithmetic(call);
    }
    if (call->opset < 7 && !td__graph_plain(call, 0)) { /* axes are counted in the plain form */
        return false;
    }
    if (!td__graph_operands(call, count, operands, &last)) {
        return false;
    }
    td_tensor *y = operands[0];
    for (size_t i = 1; i < count && y; i++) {
        y = f(call->tape, y, td__graph_at_axis(call, y, operands[i]));
    }
    y = y && scale != 1 ? td_affine(call->tape, y, scale, 0) : y;
    return td__graph_output_either(call, 0, td__graph_input(call, 0)->type, y, last);
}

#define DEFINE(name, function)                                                                     \
    static bool name(td__graph_call *call) {                                                       \
        return combine(call, function, 1);                                                         \
    }
DEFINE(add, td_add)
DEFINE(subtract, td_subtract)
DEFINE(multiply, td_multiply)
DEFINE(divide, td_divide)
DEFINE(maximum, td_maximum)
DEFINE(minimum, td_minimum)

static bool mean(td__graph_call *call) {
    return combine(call, td_add, 1 / (float)call->node->input_count);
}

/* The exponent may be of another type than the base, which is the result's. */
static bool power(td__graph_call *call) {
    if (!td__graph_is_float(call, 0)) {
        return td__graph_host_arithmetic(call);
    }
    td__graph_type type = td__graph_input(call, 0)->type;
    td_tensor *exponent = td__graph_as_float(call, 1);
    bool last = false;
    if (!exponent) {
        return false;
    }
    td_tensor *x = exponent->count == 1 && exponent->shape.rank == 0
                       ? td__graph_either(call, 0, &last)
                       : td__graph_plain(call, 0);
    bool square = !exponent->recording && exponent->count == 1 && td_tensor_scalar(exponent) == 2;
    td_tensor *y = square && exponent->shape.rank == 0 ? td_square(call->tape, x)
                                                       : td_power(call->tape, x, exponent);
    return td__graph_output_either(call, 0, type, y, last);
}

/* x or slope x; before opset 7 a list of slopes was one for each channel */
static bool prelu(td__graph_call *call) {
    td_tensor *operands[2];
    bool last;
    if (!td__graph_is_float(call, 0)) {
        return td__graph_host_arithmetic(call);
    }
    if (!td__graph_operands(call, 2, operands, &last)) {
        return false;
    }
    td_tensor *x = operands[0], *slope = operands[1];
    int32_t rank = x->shape.rank;
    int64_t channels = rank >= 2 ? x->shape.dims[last ? rank - 1 : 1] : 0;
    if (call->opset < 7 && td__graph_shape(call, 1).rank == 1 && slope->count == channels) {
        td_shape shape = {.rank = rank};
        for (int32_t i = 0; i < rank; i++) {
            shape.dims[i] = i == (last ? rank - 1 : 1) ? channels : 1;
        }
        slope = td_reshape(call->tape, slope, shape);
    }
    return td__graph_output_either(call, 0, td__graph_input(call, 0)->type,
                                   td__prelu(call->tape, x, slope), last);
}

const td__graph_operator td__graph_arithmetic[] = {
    {"Add", add, 2, 2, 1, 0, 0, td__graph_infer_arithmetic},
    {"Div", divide, 2, 2, 1, 0, 0, td__graph_infer_arithmetic},
    {"Max", maximum, 1, 255, 1, 0, 0, td__graph_infer_arithmetic},
    {"Mean", mean, 1, 255, 1, 0, 0, td__graph_infer_broadcast},
    {"Min", minimum, 1, 255, 1, 0, 0, td__graph_infer_broadcast},
    {"Mul", multiply, 2, 2, 1, 0, 0, td__graph_infer_arithmetic},
    {"PRelu", prelu, 2, 2, 1, 0, 0, td__graph_infer_same},
    {"Pow", power, 2, 2, 1, 0, 0, td__graph_infer_broadcast},
    {"Sub", subtract, 2, 2, 1, 0, 0, td__graph_infer_arithmetic},
    {"Sum", add, 1, 255, 1, 0, 0, td__graph_infer_broadcast},
    {0},
};
