/* Numpy's broadcasting: how two shapes combine, and running a kernel over rows of the result.
 *
 * Axes along which neither operand changes the way it steps are merged, so that equal shapes are
 * one row, and a bias over many rows is two axes whatever the rank.
 */
#ifndef TAPEDECK_TAPE_BROADCAST_H
#define TAPEDECK_TAPE_BROADCAST_H

#include "tape/kernels.h"
#include "tape/op.h"

typedef struct td__broadcast {
    td_shape shape;                                            /* of the result */
    int32_t rank;                                              /* merged axes, at least 1 */
    int64_t dims[TD_MAX_RANK], a[TD_MAX_RANK], b[TD_MAX_RANK]; /* sizes and steps, in elements */
} td__broadcast;

/* False when the shapes do not fit. */
bool td__broadcast_plan(const td_shape *a, const td_shape *b, td__broadcast *plan);

/* c = op(a, b); c: plan->shape */
void td__broadcast_binary(const td__broadcast *plan, td__binary op, const float *a, const float *b,
                          float *c);
/* d (=|+=) g * derivative of op in a (side 0) or b (side 1); g, d: plan->shape; d may be g */
void td__broadcast_backward(const td__broadcast *plan, td__binary op, int side, const float *a,
                            const float *b, const float *g, bool add, float *d);
/* y (=|+=) scale * x, x being operand a; y: plan->shape */
void td__broadcast_expand(const td__broadcast *plan, const float *x, float scale, bool add,
                          float *y);

enum { TD__BROADCAST_OPERANDS = 3 };

/* Goes over the rows (along the last axis) of what operands give together:
 *
 *     while (td__broadcast_next_row(&rows)) for (i < rows.width) … a[rows.at[0] + i * rows.step[0]] …
 */
typedef struct td__broadcast_rows {
    td_shape shape;                       /* of the result */
    int64_t width;                        /* of a row */
    int64_t at[TD__BROADCAST_OPERANDS];   /* where this row begins in each operand */
    int64_t step[TD__BROADCAST_OPERANDS]; /* along the row: 0 or 1 */
    int64_t y;                            /* where it begins in the result */
    int64_t row, count;                   /* rows done, and how many there are */
    int64_t strides[TD__BROADCAST_OPERANDS][TD_MAX_RANK];
    int64_t index[TD_MAX_RANK];
} td__broadcast_rows;

/* False, and the tape's error (op in front), when the shapes do not fit. Operands that are NULL are not looked
 * at. */
bool td__broadcast_rows_init(td_tape *tape, const char *op, size_t count,
                             td_tensor *const *operands, td__broadcast_rows *rows);
bool td__broadcast_next_row(td__broadcast_rows *rows);

#endif
