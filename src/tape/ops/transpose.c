/* transpose: y[i_p0, i_p1, …] = x[i_0, i_1, …]; the gradient takes the inverse permutation */
#include "tape/op.h"
#include "tape/parallel.h"

#include <string.h>

typedef struct transpose_saved {
    int32_t permutation[TD_MAX_RANK];
} transpose_saved;

typedef struct permuting {
    td_shape to;
    int64_t strides[TD_MAX_RANK]; /* in x, of the result's axes */
    const float *x;
    float *y;
} permuting;

/* Rows [begin, end) of the result, in order; along the innermost axis a strided copy. */
static void permute_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const permuting *p = context;
    int32_t last = p->to.rank - 1;
    int64_t index[TD_MAX_RANK] = {0}, inner = p->to.dims[last], step = p->strides[last];
    int64_t offset = 0, rest = begin;
    for (int32_t i = last - 1; i >= 0; i--) {
        index[i] = rest % p->to.dims[i];
        rest /= p->to.dims[i];
        offset += index[i] * p->strides[i];
    }
    float *y = p->y + begin * inner;
    for (int64_t row = begin; row < end; row++, y += inner) {
        const float *from = p->x + offset;
        if (step == 1) {
            memcpy(y, from, (size_t)inner * sizeof *y);
        } else {
            for (int64_t j = 0; j < inner; j++) {
                y[j] = from[j * step];
            }
        }
        for (int32_t i = last - 1; i >= 0; i--) {
            offset += p->strides[i];
            if (++index[i] < p->to.dims[i]) {
                break;
            }
            offset -= p->strides[i] * p->to.dims[i];
            index[i] = 0;
        }
    }
}

static void transpose(const td_shape *from, const int32_t *order, const float *x, float *y) {
    int64_t strides[TD_MAX_RANK] = {0}, stride = 1, rows = 1;
    for (int32_t i = from->rank - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= from->dims[i];
    }
    permuting p = {.to = {.rank = from->rank}, .x = x, .y = y};
    for (int32_t i = 0; i < from->rank; i++) {
        p.to.dims[i] = from->dims[order[i]];
        p.strides[i] = strides[order[i]];
        rows *= i < from->rank - 1 ? p.to.dims[i] : 1;
    }
    td__parallel(rows, 1, TD__GRAIN / (p.to.dims[from->rank - 1] + 1) + 1, permute_part, &p);
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
