/* sum, mean, max, min over axes
 *
 * sum:  dx = g, repeated along the reduced axes
 * mean: dx = g / n, repeated
 * max, min: dx = g / (number of elements that equal the extreme) at those elements
 */
#include "tape/reduce.h"

#include "base/options.h"
#include "tape/broadcast.h"

typedef struct reduce_saved {
    td__axis_reduction reduction;
    td_shape kept; /* of the result, with the reduced axes as 1 */
    bool reduced[TD_MAX_RANK];
    float scale; /* 1, or 1 / n for the mean */
} reduce_saved;

static td_status sum_backward(td_tape *tape, td__node *node) {
    const reduce_saved *saved = node->saved;
    const td_tensor *x = node->inputs[0].tensor;
    if (x->count == node->output->count) { /* every axis had size 1 */
        return td__gradient_pass(tape, node, 0);
    }
    td__broadcast plan;
    td__broadcast_plan(&saved->kept, &x->shape, &plan);
    bool add;
    float *dx = td__gradient(tape, node, 0, &add);
    if (!dx) {
        return TD_MEMORY;
    }
    td__broadcast_expand(&plan, td__output_gradient(tape, node), saved->scale, add, dx);
    return TD_OK;
}

/* mask = (x = y); share = g / sum of mask; dx = mask share */
static td_status extreme_backward(td_tape *tape, td__node *node) {
    const reduce_saved *saved = node->saved;
    const td_tensor *x = node->inputs[0].tensor, *y = node->output;
    td__broadcast plan;
    td__broadcast_plan(&saved->kept, &x->shape, &plan);
    td__buffer *mask = td__temporary(tape, (size_t)x->count * sizeof(float));
    td__buffer *share = mask ? td__temporary(tape, (size_t)y->count * sizeof(float)) : NULL;
    bool add;
    float *dx = share ? td__gradient(tape, node, 0, &add) : NULL;
    td_status status = dx ? TD_OK : TD_MEMORY;
    if (!status) {
        td__broadcast_binary(&plan, TD__EQUAL, td__floats(y), td__floats(x), mask->data);
        status = td__reduce_axes(tape, TD__REDUCE_SUM, &x->shape, saved->reduced, mask->data, false,
                                 share->data);
    }
    if (!status) {
        const float *g = td__output_gradient(tape, node);
        for (int64_t i = 0; i < y->count; i++) {
            share->data[i] = g[i] / share->data[i];
        }
        td__broadcast_backward(&plan, TD__MULTIPLY, 1, share->data, td__floats(x), mask->data, add,
                               dx);
    }
    if (share) {
        td__buffer_drop(tape, share);
    }
    if (mask) {
        td__buffer_drop(tape, mask);
    }
    return status;
}

static bool mark_axes(td_tape *tape, const char *op, const td_tensor *x,
                      const td_reduce_options *options, bool reduced[TD_MAX_RANK]) {
    int32_t count = options->count, rank = x->shape.rank;
    for (int32_t i = 0; i < TD_MAX_RANK; i++) {
        reduced[i] = count == 0;
    }
    char text[TD_SHAPE_TEXT_SIZE];
    if (count < 0 || count > rank) {
        td__fail(tape, TD_INVALID, "%s: %d axes given for input %s", op, (int)count,
                 td_shape_text(&x->shape, text));
        return false;
    }
    for (int32_t i = 0; i < count; i++) {
        int32_t axis;
        if (!td__axis(rank, options->axes[i], &axis)) {
            td__fail(tape, TD_RANGE, "%s: input %s has no axis %d", op,
                     td_shape_text(&x->shape, text), (int)options->axes[i]);
            return false;
        }
        if (reduced[axis]) {
            td__fail(tape, TD_INVALID, "%s: axis %d of input %s is given twice", op, (int)axis,
                     td_shape_text(&x->shape, text));
            return false;
        }
        reduced[axis] = true;
    }
    return true;
}

/* Fills kept and returns the shape of the result. */
static td_shape reduced_shape(const td_shape *x, bool keep, reduce_saved *saved) {
    td_shape shape = {0};
    saved->kept = *x;
    for (int32_t i = 0; i < x->rank; i++) {
        if (saved->reduced[i]) {
            saved->kept.dims[i] = 1;
        }
        if (keep || !saved->reduced[i]) {
            shape.dims[shape.rank++] = saved->kept.dims[i];
        }
    }
    return shape;
}

static td_tensor *reduce_axes(td_tape *tape, const td__op *op, td__axis_reduction reduction,
                              bool mean, td_tensor *x, const td_reduce_options *options) {
    if (!td__check_float(tape, op->name, "input", x)) {
        return NULL;
    }
    td_reduce_options given;
    options = td__options(&given, sizeof given, options);
    reduce_saved *saved = td__scratch(tape, sizeof *saved);
    if (!saved || !mark_axes(tape, op->name, x, options, saved->reduced)) {
        return NULL;
    }
    td_shape shape = reduced_shape(&x->shape, options->keep, saved);
    td_tensor *y = td__output(tape, TD_FLOAT32, &shape);
    if (!y) {
        return NULL;
    }
    if (x->count == 0 && y->count > 0 && (mean || reduction != TD__REDUCE_SUM)) {
        char text[TD_SHAPE_TEXT_SIZE];
        return td__fail(tape, TD_BAD_SHAPE, "%s: input %s has no elements along the reduced axes",
                        op->name, td_shape_text(&x->shape, text));
    }
    saved->reduction = reduction;
    saved->scale = mean && x->count > 0 ? (float)y->count / (float)x->count : 1.0f;
    if (td__reduce_axes(tape, reduction, &x->shape, saved->reduced, td__floats(x), false,
                        td__floats(y))) {
        return NULL;
    }
    if (mean) {
        td__kernels()->unary[TD__AFFINE](y->count, saved->scale, 0, td__floats(y), td__floats(y));
    }
    return td__record(tape, op, y, 1, &x, saved);
}

#define DEFINE(function, member, is_mean, backward_)                                               \
    static const td__op function##_op = {.name = #function, .backward = backward_};                \
    td_tensor *td_##function(td_tape *tape, td_tensor *x, const td_reduce_options *options) {      \
        return reduce_axes(tape, &function##_op, TD__REDUCE_##member, is_mean, x, options);        \
    }

DEFINE(sum, SUM, false, sum_backward)
DEFINE(mean, SUM, true, sum_backward)
DEFINE(max, MAX, false, extreme_backward)
DEFINE(min, MIN, false, extreme_backward)
