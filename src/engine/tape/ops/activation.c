/* activations: y = f(x), element by element; softmax and log_softmax over the last axis
 *
 * dx = g f'(x)
 */
#include "tape/kernels.h"
#include "tape/linear.h"
#include "tape/op.h"

#include <string.h>

static const char *const names[TD_ACTIVATION_COUNT] = {
#define ACTIVATION_NAME(member, text) [TD_##member] = text,
    TD_ACTIVATION_LIST(ACTIVATION_NAME)
#undef ACTIVATION_NAME
};

const char *td_activation_name(td_activation activation) {
    return (unsigned)activation < TD_ACTIVATION_COUNT ? names[activation] : NULL;
}

td_status td_activation_find(const char *name, td_activation *activation, td_error *error) {
    for (int i = 0; i < TD_ACTIVATION_COUNT; i++) {
        if (strcmp(name, names[i]) == 0) {
            *activation = (td_activation)i;
            return TD_OK;
        }
    }
    if (strcmp(name, "silu") == 0) { /* Keras's other name for swish */
        *activation = TD_SWISH;
        return TD_OK;
    }
    return td_error_set(error, TD_NOT_FOUND, "there is no activation '%s'", name);
}

typedef struct activation_saved {
    td_activation activation;
    float alpha;
} activation_saved;

static td_status activation_backward(td_tape *tape, td__node *node) {
    const activation_saved *saved = node->saved;
    const td_tensor *x = node->inputs[0].tensor, *y = node->output;
    bool add;
    float *dx = td__gradient_in_place(tape, node, 0, &add);
    if (!dx) {
        return TD_MEMORY;
    }
    /* With a negative slope the sign of y is no longer that of x. */
    bool from_output = td__activation_uses_output(saved->activation) && saved->alpha >= 0;
    const td_tensor *v = from_output ? y : x;
    td__activate_backward_all(saved->activation, saved->alpha, x->count, td__floats(v),
                              td__output_gradient(tape, node), add, dx);
    return TD_OK;
}

static const td__op activation_op = {.name = "activation", .backward = activation_backward};

td_tensor *td_activate(td_tape *tape, td_tensor *x, td_activation activation, td_number alpha) {
    if (activation == TD_SOFTMAX) {
        return td_softmax(tape, x, -1);
    }
    if (activation == TD_LOG_SOFTMAX) {
        return td_log_softmax(tape, x, -1);
    }
    const char *name = td_activation_name(activation);
    if (!name) {
        return td__fail(tape, TD_INVALID, "%d is no activation", (int)activation);
    }
    if (!td__check_float(tape, name, "input", x)) {
        return NULL;
    }
    if (activation == TD_ELU && alpha.set && alpha.value < 0) {
        return td__fail(tape, TD_RANGE, "elu: alpha is %g, it must not be negative", alpha.value);
    }
    td_tensor *y = td__output(tape, TD_FLOAT32, &x->shape);
    activation_saved *saved = y ? td__scratch(tape, sizeof *saved) : NULL;
    if (!saved) {
        return NULL;
    }
    *saved = (activation_saved){activation, td__activation_alpha(activation, alpha)};
    td__activate_all(activation, saved->alpha, x->count, td__floats(x), td__floats(y));
    return td__record(tape, &activation_op, y, 1, &x, saved);
}

td_tensor *td_relu(td_tape *tape, td_tensor *x) {
    return td_activate(tape, x, TD_RELU, TD_DEFAULT);
}
td_tensor *td_sigmoid(td_tape *tape, td_tensor *x) {
    return td_activate(tape, x, TD_SIGMOID, TD_DEFAULT);
}
td_tensor *td_tanh(td_tape *tape, td_tensor *x) {
    return td_activate(tape, x, TD_TANH, TD_DEFAULT);
}
