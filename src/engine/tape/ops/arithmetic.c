/* add, subtract, multiply, divide, maximum, minimum, power, prelu: c = f(a, b) with numpy's broadcasting
 *
 * da = g df/da, summed over the axes along which a repeats; the same for b. Equations and
 * derivatives stand in kernels/binary.c.
 */
#include "tape/broadcast.h"
#include "tape/reduce.h"

/* Which axes of the result an input of this shape repeats along. */
static void repeated_axes(const td_shape *input, const td_shape *result,
                          bool repeated[TD_MAX_RANK]) {
    int32_t missing = result->rank - input->rank;
    for (int32_t i = 0; i < result->rank; i++) {
        repeated[i] = i < missing || (input->dims[i - missing] == 1 && result->dims[i] != 1);
    }
}

/* Whether the derivative is 1: the gradient passes as it is. */
static bool is_one(td__binary op, int side) {
    return op == TD__ADD || (op == TD__SUBTRACT && side == 0);
}

/* The gradient of an input that repeats. */
static td_status reduced_gradient(td_tape *tape, td__node *node, td__binary op, int32_t side,
                                  const td__broadcast *plan) {
    const float *a = td__floats(node->inputs[0].tensor), *b = td__floats(node->inputs[1].tensor);
    const float *g = td__output_gradient(tape, node);
    td__buffer *whole = NULL;
    if (!is_one(op, side)) {
        whole = td__temporary(tape, (size_t)node->output->count * sizeof(float));
        if (!whole) {
            return TD_MEMORY;
        }
        td__broadcast_backward(plan, op, side, a, b, g, false, whole->data);
    }
    bool add, repeated[TD_MAX_RANK];
    repeated_axes(&node->inputs[side].tensor->shape, &plan->shape, repeated);
    float *d = td__gradient(tape, node, side, &add);
    td_status status = d ? td__reduce_axes(tape, TD__REDUCE_SUM, &plan->shape, repeated,
                                           whole ? whole->data : g, add, d)
                         : TD_MEMORY;
    if (whole) {
        td__buffer_drop(tape, whole);
    }
    return status;
}

/* last: the output's gradient is not needed any more after this, so its memory may be used. */
static td_status side_gradient(td_tape *tape, td__node *node, td__binary op, int32_t side,
                               const td__broadcast *plan, bool last) {
    if (node->inputs[side].tensor->count != node->output->count) {
        return reduced_gradient(tape, node, op, side, plan);
    }
    if (is_one(op, side)) {
        return td__gradient_pass(tape, node, side);
    }
    const float *a = td__floats(node->inputs[0].tensor), *b = td__floats(node->inputs[1].tensor);
    const float *g = td__output_gradient(tape, node);
    bool add;
    float *d =
        last ? td__gradient_in_place(tape, node, side, &add) : td__gradient(tape, node, side, &add);
    if (!d) {
        return TD_MEMORY;
    }
    td__broadcast_backward(plan, op, side, a, b, g, add, d);
    return TD_OK;
}

static td_status binary_backward(td_tape *tape, td__node *node, td__binary op) {
    td__broadcast plan;
    td__broadcast_plan(&node->inputs[0].tensor->shape, &node->inputs[1].tensor->shape, &plan);
    bool first = td__wants(tape, node, 0), second = td__wants(tape, node, 1);
    if (first && side_gradient(tape, node, op, 0, &plan, !second)) {
        return TD_MEMORY;
    }
    return second ? side_gradient(tape, node, op, 1, &plan, true) : TD_OK;
}

static td_tensor *binary(td_tape *tape, td__binary op, const td__op *record, td_tensor *a,
                         td_tensor *b) {
    if (!td__check_float(tape, record->name, "first operand", a) ||
        !td__check_float(tape, record->name, "second operand", b)) {
        return NULL;
    }
    td__broadcast plan;
    if (!td__broadcast_plan(&a->shape, &b->shape, &plan)) {
        char a_text[TD_SHAPE_TEXT_SIZE], b_text[TD_SHAPE_TEXT_SIZE];
        return td__fail(tape, TD_BAD_SHAPE,
                        "%s: %s and %s do not broadcast: counted from the end, dimensions must be "
                        "equal or 1",
                        record->name, td_shape_text(&a->shape, a_text),
                        td_shape_text(&b->shape, b_text));
    }
    td_tensor *c = td__output(tape, TD_FLOAT32, &plan.shape);
    if (!c) {
        return NULL;
    }
    td__broadcast_binary(&plan, op, td__floats(a), td__floats(b), td__floats(c));
    return td__record(tape, record, c, 2, (td_tensor *[]){a, b}, NULL);
}

#define DEFINE(function, symbol, member)                                                           \
    static td_status function##_backward(td_tape *tape, td__node *node) {                          \
        return binary_backward(tape, node, TD__##member);                                          \
    }                                                                                              \
    static const td__op function##_op = {.name = #function, .backward = function##_backward};      \
    td_tensor *symbol(td_tape *tape, td_tensor *a, td_tensor *b) {                                 \
        return binary(tape, TD__##member, &function##_op, a, b);                                   \
    }

DEFINE(add, td_add, ADD)
DEFINE(subtract, td_subtract, SUBTRACT)
DEFINE(multiply, td_multiply, MULTIPLY)
DEFINE(divide, td_divide, DIVIDE)
DEFINE(maximum, td_maximum, MAXIMUM)
DEFINE(minimum, td_minimum, MINIMUM)
DEFINE(power, td_power, POWER)
DEFINE(prelu, td__prelu, PRELU)
