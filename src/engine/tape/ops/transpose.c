/* transpose: y[i_p0, i_p1, …] = x[i_0, i_1, …]; the gradient takes the inverse permutation */
#include "tape/kernels.h"
#include "tape/parallel.h"
#include "tape/pick.h"

#include <string.h>

typedef struct transpose_saved {
    int32_t permutation[TD_MAX_RANK];
} transpose_saved;

/* Axes of the result, but for those that a row or a matrix runs along. */
typedef struct permuting {
    int32_t rank;
    int64_t dims[TD_MAX_RANK], from[TD_MAX_RANK], to[TD_MAX_RANK]; /* strides in x and y */
    int64_t inner, step;    /* the result's last axis: its size, its stride in x */
    int64_t columns, apart; /* x's last axis, where it is another one: its size, its stride in y */
    int64_t strips, pieces; /* of those columns; of inner */
    const float *x;
    float *y;
} permuting;

enum { STRIP = 64, PIECE = 1024 }; /* columns and rows of a matrix that are turned at a time */

/* A position along the outer axes, the result's innermost one first. */
typedef struct position {
    int64_t index[TD_MAX_RANK], from, to;
} position;

static position position_of(const permuting *p, int64_t number) {
    position at = {0};
    for (int32_t i = 0; i < p->rank; i++) {
        at.index[i] = number % p->dims[i];
        at.from += at.index[i] * p->from[i];
        at.to += at.index[i] * p->to[i];
        number /= p->dims[i];
    }
    return at;
}

static void go_on(const permuting *p, position *at) {
    for (int32_t i = 0; i < p->rank; i++) {
        at->from += p->from[i];
        at->to += p->to[i];
        if (++at->index[i] < p->dims[i]) {
            return;
        }
        at->from -= p->from[i] * p->dims[i];
        at->to -= p->to[i] * p->dims[i];
        at->index[i] = 0;
    }
}

/* Rows of the result, which are rows of x. */
static void copy_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const permuting *p = context;
    position at = position_of(p, begin);
    for (int64_t row = begin; row < end; row++) {
        memcpy(p->y + at.to, p->x + at.from, (size_t)p->inner * sizeof *p->y);
        go_on(p, &at);
    }
}

static int64_t min(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Pieces of matrices: (inner, columns) of x to (columns, inner) of the result. */
static void turn_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const permuting *p = context;
    int64_t each = p->strips * p->pieces;
    position at = position_of(p, begin / each);
    for (int64_t i = begin; i < end; i++) {
        int64_t row = i % each / p->strips * PIECE, column = i % p->strips * STRIP;
        td__kernels()->transpose(min(p->inner - row, PIECE), min(p->columns - column, STRIP),
                                 p->x + at.from + row * p->step + column, p->step,
                                 p->y + at.to + column * p->apart + row, p->apart);
        if ((i + 1) % each == 0) {
            go_on(p, &at);
        }
    }
}

static void transpose(const td_shape *shape, const int32_t *order, const float *x, float *y) {
    int32_t last = shape->rank - 1;
    int64_t of_x[TD_MAX_RANK] = {0}, stride = 1, rows = 1;
    td__strides(shape, of_x);
    permuting p = {.inner = shape->dims[order[last]],
                   .step = of_x[order[last]],
                   .columns = 1,
                   .strips = 1,
                   .pieces = 1,
                   .x = x,
                   .y = y};
    bool turns = order[last] != last;
    for (int32_t i = last; i >= 0; i--) { /* of the result, from the inside out */
        int64_t size = shape->dims[order[i]];
        if (turns && order[i] == last) {
            p.columns = size;
            p.apart = stride;
            p.strips = (size + STRIP - 1) / STRIP;
            p.pieces = (p.inner + PIECE - 1) / PIECE;
        } else if (i < last) {
            p.dims[p.rank] = size;
            p.from[p.rank] = of_x[order[i]];
            p.to[p.rank++] = stride;
            rows *= size;
        }
        stride *= size;
    }
    int64_t floats = turns ? min(p.inner, PIECE) * STRIP : p.inner;
    td__parallel(rows * p.strips * p.pieces, 1, TD__GRAIN / (floats + 1) + 1,
                 turns ? turn_part : copy_part, &p);
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
