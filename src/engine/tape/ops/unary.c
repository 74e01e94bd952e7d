/* affine, exp, log, sqrt, square, absolute, clip, erf: y = f(x), element by element; dx = g f'(x).
 * Equations and derivatives stand in kernels/unary.c.
 *
 * stop_gradient: y = x, dx = 0
 */
#include "tape/kernels.h"
#include "tape/op.h"
#include "tape/parallel.h"

typedef struct unary_saved {
    td__unary kind;
    float p, q;
} unary_saved;

typedef struct unary_work {
    unary_saved f;
    const float *x, *y, *g;
    float *result;
    bool add;
} unary_work;

static void unary_forward_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const unary_work *w = context;
    td__kernels()->unary[w->f.kind](end - begin, w->f.p, w->f.q, w->x + begin, w->result + begin);
}

static void unary_backward_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const unary_work *w = context;
    td__kernels()->unary_backward[w->f.kind](end - begin, w->f.p, w->f.q, w->x + begin,
                                             w->y + begin, w->g + begin, w->add, w->result + begin);
}

static td_status unary_backward(td_tape *tape, td__node *node) {
    const unary_saved *saved = node->saved;
    unary_work work = {.f = *saved,
                       .x = td__floats(node->inputs[0].tensor),
                       .y = td__floats(node->output),
                       .g = td__output_gradient(tape, node)};
    work.result = td__gradient_in_place(tape, node, 0, &work.add);
    if (!work.result) {
        return TD_MEMORY;
    }
    td__parallel(node->output->count, 64, TD__GRAIN, unary_backward_part, &work);
    return TD_OK;
}

static td_tensor *unary(td_tape *tape, const td__op *op, td_tensor *x, unary_saved f) {
    if (!td__check_float(tape, op->name, "input", x)) {
        return NULL;
    }
    td_tensor *y = td__output(tape, TD_FLOAT32, &x->shape);
    unary_saved *saved = y ? td__scratch(tape, sizeof *saved) : NULL;
    if (!saved) {
        return NULL;
    }
    *saved = f;
    unary_work work = {.f = f, .x = td__floats(x), .result = td__floats(y)};
    td__parallel(x->count, 64, TD__GRAIN, unary_forward_part, &work);
    return td__record(tape, op, y, 1, &x, saved);
}

#define DEFINE(function, member)                                                                   \
    static const td__op function##_op = {.name = #function, .backward = unary_backward};           \
    td_tensor *td_##function(td_tape *tape, td_tensor *x) {                                        \
        return unary(tape, &function##_op, x, (unary_saved){.kind = TD__##member});                \
    }

DEFINE(exp, EXP)
DEFINE(log, LOG)
DEFINE(sqrt, SQRT)
DEFINE(square, SQUARE)
DEFINE(absolute, ABSOLUTE)

static const td__op affine_op = {.name = "affine", .backward = unary_backward};

td_tensor *td_affine(td_tape *tape, td_tensor *x, float scale, float offset) {
    return unary(tape, &affine_op, x, (unary_saved){TD__AFFINE, scale, offset});
}

static const td__op erf_op = {.name = "erf", .backward = unary_backward};

td_tensor *td__erf(td_tape *tape, td_tensor *x) {
    return unary(tape, &erf_op, x, (unary_saved){.kind = TD__ERF});
}

static const td__op clip_op = {.name = "clip", .backward = unary_backward};

td_tensor *td_clip(td_tape *tape, td_tensor *x, float minimum, float maximum) {
    if (!(minimum <= maximum)) {
        return td__fail(tape, TD_INVALID, "clip: the minimum %g is above the maximum %g",
                        (double)minimum, (double)maximum);
    }
    return unary(tape, &clip_op, x, (unary_saved){TD__CLIP, minimum, maximum});
}

static const td__op stop_gradient_op = {.name = "stop_gradient"};

td_tensor *td_stop_gradient(td_tape *tape, td_tensor *x) {
    if (!td__check_float(tape, "stop_gradient", "input", x)) {
        return NULL;
    }
    td_tensor *y = td__output_over(tape, TD_FLOAT32, &x->shape, x->data);
    return y ? td__record(tape, &stop_gradient_op, y, 1, &x, NULL) : NULL;
}
