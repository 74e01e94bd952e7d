/* reshape: the same elements in another shape, in the same memory; the gradient passes as it is */
#include "tape/op.h"

static td_status reshape_backward(td_tape *tape, td__node *node) {
    return td__gradient_pass(tape, node, 0);
}

static const td__op reshape_op = {.name = "reshape", .backward = reshape_backward};

/* Replaces a dimension of -1 by what is left of count; false when nothing fits. */
static bool infer(td_shape *shape, int64_t count) {
    int32_t unknown = -1;
    int64_t known = 1;
    for (int32_t i = 0; i < shape->rank; i++) {
        if (shape->dims[i] == -1 && unknown < 0) {
            unknown = i;
        } else if (shape->dims[i] < 0 || __builtin_mul_overflow(known, shape->dims[i], &known)) {
            return false;
        }
    }
    if (unknown >= 0) {
        if (known == 0 || count % known != 0) {
            return false;
        }
        shape->dims[unknown] = count / known;
        known = count;
    }
    return known == count;
}

td_tensor *td_reshape(td_tape *tape, td_tensor *x, td_shape shape) {
    if (!td__check_float(tape, "reshape", "input", x)) {
        return NULL;
    }
    td_shape wanted = shape;
    if (shape.rank < 0 || shape.rank > TD_MAX_RANK || !infer(&wanted, x->count)) {
        char a[TD_SHAPE_TEXT_SIZE], b[TD_SHAPE_TEXT_SIZE];
        return td__fail(tape, TD_BAD_SHAPE, "reshape: input %s does not fit shape %s",
                        td_shape_text(&x->shape, a), td_shape_text(&shape, b));
    }
    td_tensor *y = td__output_over(tape, TD_FLOAT32, &wanted, x->data);
    if (y) {
        y->weight = x->weight;
    }
    return y ? td__record(tape, &reshape_op, y, 1, &x, NULL) : NULL;
}
