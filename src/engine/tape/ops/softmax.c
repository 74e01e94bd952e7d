/* softmax: y = e^x / sum e^x along an axis; dx = y (g - sum g y)
 * log_softmax: y = x - ln sum e^x; dx = g - e^y sum g
 */
#include "tape/kernels.h"
#include "tape/op.h"
#include "tape/parallel.h"

typedef void forward_kernel(int64_t rows, int64_t n, const float *x, float *y);
typedef void backward_kernel(int64_t rows, int64_t n, const float *y, const float *g, bool add,
                             float *dx);

typedef struct softmax_work {
    forward_kernel *forward;
    backward_kernel *backward;
    int64_t n;
    const float *x, *g;
    float *y;
    bool add;
} softmax_work;

static void softmax_forward_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const softmax_work *w = context;
    w->forward(end - begin, w->n, w->x + begin * w->n, w->y + begin * w->n);
}

static void softmax_backward_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const softmax_work *w = context;
    int64_t at = begin * w->n;
    w->backward(end - begin, w->n, w->x + at, w->g + at, w->add, w->y + at);
}

static td_status backward_rows(td_tape *tape, td__node *node, backward_kernel *kernel) {
    const td_tensor *y = node->output;
    int64_t n = y->shape.dims[y->shape.rank - 1];
    softmax_work work = {.backward = kernel, .n = n, .x = td__floats(y)};
    work.g = td__output_gradient(tape, node);
    work.y = td__gradient_in_place(tape, node, 0, &work.add);
    if (!work.y) {
        return TD_MEMORY;
    }
    td__parallel(n ? y->count / n : 0, 1, TD__GRAIN / 4 / (n + 1) + 1, softmax_backward_part,
                 &work);
    return TD_OK;
}

static td_status softmax_backward(td_tape *tape, td__node *node) {
    return backward_rows(tape, node, td__kernels()->softmax_backward);
}

static td_status log_softmax_backward(td_tape *tape, td__node *node) {
    return backward_rows(tape, node, td__kernels()->log_softmax_backward);
}

static const td__op softmax_op = {.name = "softmax", .backward = softmax_backward};
static const td__op log_softmax_op = {.name = "log_softmax", .backward = log_softmax_backward};

/* Along the last axis; another one is brought there and back. */
static td_tensor *along_axis(td_tape *tape, td_tensor *x, int32_t axis, const td__op *op,
                             forward_kernel *kernel) {
    if (!td__check_float(tape, op->name, "input", x)) {
        return NULL;
    }
    char text[TD_SHAPE_TEXT_SIZE];
    int32_t rank = x->shape.rank, resolved;
    if (!td__axis(rank, axis, &resolved)) {
        return td__fail(tape, TD_RANGE, "%s: input %s has no axis %d", op->name,
                        td_shape_text(&x->shape, text), (int)axis);
    }
    if (resolved != rank - 1) {
        int32_t swapped[TD_MAX_RANK];
        for (int32_t i = 0; i < rank; i++) {
            swapped[i] = i == resolved ? rank - 1 : i == rank - 1 ? resolved : i;
        }
        td_tensor *moved = td_transpose(tape, x, swapped);
        moved = moved ? along_axis(tape, moved, -1, op, kernel) : NULL;
        return moved ? td_transpose(tape, moved, swapped) : NULL;
    }
    td_tensor *y = td__output(tape, TD_FLOAT32, &x->shape);
    if (!y) {
        return NULL;
    }
    int64_t n = x->shape.dims[rank - 1];
    softmax_work work = {.forward = kernel, .n = n, .x = td__floats(x), .y = td__floats(y)};
    td__parallel(n ? x->count / n : 0, 1, TD__GRAIN / 4 / (n + 1) + 1, softmax_forward_part, &work);
    return td__record(tape, op, y, 1, &x, NULL);
}

td_tensor *td_softmax(td_tape *tape, td_tensor *x, int32_t axis) {
    return along_axis(tape, x, axis, &softmax_op, td__kernels()->softmax);
}

td_tensor *td_log_softmax(td_tape *tape, td_tensor *x, int32_t axis) {
    return along_axis(tape, x, axis, &log_softmax_op, td__kernels()->log_softmax);
}
