/* slice: y = a box of x; dx = g in the box, 0 around it
 * pad: y = x in a box, value around it; dx = g in the box
 */
#include "tape/box.h"
#include "tape/kernels.h"

#include <string.h>

static td_status slice_backward(td_tape *tape, td__node *node) {
    bool add;
    float *dx = td__gradient(tape, node, 0, &add);
    if (!dx) {
        return TD_MEMORY;
    }
    if (!add) {
        memset(dx, 0, (size_t)node->inputs[0].tensor->count * sizeof *dx);
    }
    td__box_write(node->saved, td__output_gradient(tape, node), add, dx);
    return TD_OK;
}

static const td__op slice_op = {.name = "slice", .backward = slice_backward};

td_tensor *td_slice(td_tape *tape, td_tensor *x, const int64_t *begin, const int64_t *size) {
    if (!td__check_float(tape, "slice", "input", x)) {
        return NULL;
    }
    td__box *box = td__scratch(tape, sizeof *box);
    if (!box) {
        return NULL;
    }
    box->whole = x->shape;
    td_shape shape = {.rank = x->shape.rank};
    for (int32_t i = 0; i < shape.rank; i++) {
        int64_t whole = x->shape.dims[i];
        int64_t wanted = size[i] == -1 ? whole - begin[i] : size[i];
        if (begin[i] < 0 || begin[i] > whole || wanted < 0 || wanted > whole - begin[i]) {
            char text[TD_SHAPE_TEXT_SIZE];
            return td__fail(tape, TD_RANGE,
                            "slice: %lld elements from %lld on are not inside axis %d of input %s",
                            (long long)size[i], (long long)begin[i], (int)i,
                            td_shape_text(&x->shape, text));
        }
        box->begin[i] = begin[i];
        shape.dims[i] = box->size[i] = wanted;
    }
    td_tensor *y = td__output(tape, TD_FLOAT32, &shape);
    if (!y) {
        return NULL;
    }
    td__box_read(box, td__floats(x), false, td__floats(y));
    return td__record(tape, &slice_op, y, 1, &x, box);
}

static td_status pad_backward(td_tape *tape, td__node *node) {
    bool add;
    float *dx = td__gradient(tape, node, 0, &add);
    if (!dx) {
        return TD_MEMORY;
    }
    td__box_read(node->saved, td__output_gradient(tape, node), add, dx);
    return TD_OK;
}

static const td__op pad_op = {.name = "pad", .backward = pad_backward};

td_tensor *td_pad(td_tape *tape, td_tensor *x, const int64_t *before, const int64_t *after,
                  float value) {
    if (!td__check_float(tape, "pad", "input", x)) {
        return NULL;
    }
    td__box *box = td__scratch(tape, sizeof *box);
    if (!box) {
        return NULL;
    }
    box->whole = x->shape;
    for (int32_t i = 0; i < x->shape.rank; i++) {
        int64_t *whole = &box->whole.dims[i];
        if (before[i] < 0 || after[i] < 0 || __builtin_add_overflow(*whole, before[i], whole) ||
            __builtin_add_overflow(*whole, after[i], whole)) {
            char text[TD_SHAPE_TEXT_SIZE];
            return td__fail(tape, TD_RANGE,
                            "pad: %lld before and %lld after axis %d of input %s is not possible",
                            (long long)before[i], (long long)after[i], (int)i,
                            td_shape_text(&x->shape, text));
        }
        box->begin[i] = before[i];
        box->size[i] = x->shape.dims[i];
    }
    td_tensor *y = td__output(tape, TD_FLOAT32, &box->whole);
    if (!y) {
        return NULL;
    }
    if (y->count > x->count) {
        td__kernels()->expand(1, y->count, (td__operand){.data = &value}, 1, false, td__floats(y),
                              0);
    }
    td__box_write(box, td__floats(x), false, td__floats(y));
    return td__record(tape, &pad_op, y, 1, &x, box);
}
