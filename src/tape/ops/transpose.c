/* transpose: y[i_p0, i_p1, …] = x[i_0, i_1, …]; the gradient takes the inverse permutation */
#include "tape/op.h"

#include <string.h>

typedef struct transpose_saved {
    int32_t permutation[TD_MAX_RANK];
} transpose_saved;

/* Walks the result in order; the innermost axis is a strided copy. */
static void permute(const td_shape *to, const int64_t *strides, const float *x, float *y) {
    int32_t last = to->rank - 1;
    int64_t index[TD_MAX_RANK] = {0}, inner = to->dims[last], step = strides[last];
    int64_t outer = 1;
    for (int32_t i = 0; i < last; i++) {
        outer *= to->dims[i];
    }
    int64_t offset = 0;
    for (int64_t row = 0; row < outer; row++) {
        const float *from = x + offset;
        if (step == 1) {
            memcpy(y, from, (size_t)inner * sizeof *y);
        } else {
            for (int64_t j = 0; j < inner; j++) {
                y[j] = from[j * step];
            }
        }
        y += inner;
        for (int32_t i = last - 1; i >= 0; i--) {
            offset += strides[i];
            if (++index[i] < to->dims[i]) {
                break;
            }
            offset -= strides[i] * to->dims[i];
            index[i] = 0;
        }
    }
}

static void transpose(const td_shape *from, const int32_t *permutation, const float *x, float *y) {
    int64_t strides[TD_MAX_RANK] = {0}, moved[TD_MAX_RANK] = {0}, stride = 1;
    for (int32_t i = from->rank - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= from->dims[i];
    }
    td_shape to = {.rank = from->rank};
    for (int32_t i = 0; i < from->rank; i++) {
        to.dims[i] = from->dims[permutation[i]];
        moved[i] = strides[permutation[i]];
    }
    permute(&to, moved, x, y);
}

static td_status transpose_backward(td_tape *tape, td__node *node) {
    const transpose_saved *saved = node->saved;
    const td_shape *shape = &node->output->shape;
    int32_t inverse[TD_MAX_RANK];
    for (int32_t i = 0; i < shape->rank; i++) {
        inverse[saved->permutation[i]] = i;
    }
    float *dx = td__gradient_begin(tape, node, 0);
    if (!dx) {
        return TD_MEMORY;
    }
    transpose(shape, inverse, td__output_gradient(tape, node), dx);
    td__gradient_end(tape, node, 0);
    return TD_OK;
}

static const td__op transpose_op = {.name = "transpose", .backward = transpose_backward};

td_tensor *td_transpose(td_tape *tape, td_tensor *x, const int32_t *permutation) {
    if (!td__check_float(tape, "transpose", "input", x)) {
        return NULL;
    }
    int32_t rank = x->shape.rank;
    if (rank == 0) {
        return x;
    }
    transpose_saved *saved = td__scratch(tape, sizeof *saved);
    if (!saved) {
        return NULL;
    }
    bool seen[TD_MAX_RANK] = {false};
    td_shape shape = {.rank = rank};
    char text[TD_SHAPE_TEXT_SIZE];
    for (int32_t i = 0; i < rank; i++) {
        int32_t axis;
        if (!td__axis(rank, permutation[i], &axis) || seen[axis]) {
            return td__fail(
                tape, TD_INVALID,
                "transpose: entry %d of the permutation, %d, is not an axis of input %s "
                "or stands there twice",
                (int)i, (int)permutation[i], td_shape_text(&x->shape, text));
        }
        seen[axis] = true;
        saved->permutation[i] = axis;
        shape.dims[i] = x->shape.dims[axis];
    }
    td_tensor *y = td__output(tape, TD_FLOAT32, &shape);
    if (!y) {
        return NULL;
    }
    if (y->count > 0) {
        transpose(&x->shape, saved->permutation, td__floats(x), td__floats(y));
    }
    return td__record(tape, &transpose_op, y, 1, &x, saved);
}
