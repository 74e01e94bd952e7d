/* layer_normalization: y = h gamma + beta, h = (x - mean) / sqrt(variance + epsilon) over the last
 * axis
 *
 * With e = g gamma: dx = (e - mean(e) - h mean(e h)) / sqrt(…); dgamma = sum over rows of g h;
 * dbeta = sum over rows of g
 */
#include "tape/kernels.h"
#include "tape/op.h"
#include "tape/parallel.h"

#include <string.h>

typedef struct layer_norm_saved {
    int64_t rows, n;
    float *stats; /* (rows, 2): mean and 1 / sqrt(variance + epsilon) */
    float *ones;  /* (n,) in place of a gamma that was left out */
} layer_norm_saved;

typedef struct layer_norm_work {
    const layer_norm_saved *saved;
    const float *x, *gamma, *beta, *g;
    float *y; /* or dx */
    float epsilon;
    bool add;
    float *partial; /* (parts, 2, n): sums of g h and of g */
} layer_norm_work;

static void layer_normalization_forward_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const layer_norm_work *w = context;
    int64_t n = w->saved->n;
    td__kernels()->layer_norm(end - begin, n, w->epsilon, w->x + begin * n, w->gamma, w->beta,
                              w->saved->stats + 2 * begin, w->y + begin * n);
}

static void layer_normalization_backward_part(void *context, int part, int64_t begin, int64_t end) {
    const layer_norm_work *w = context;
    int64_t n = w->saved->n;
    const float *x = w->x + begin * n, *stats = w->saved->stats + 2 * begin, *g = w->g + begin * n;
    /* The sums first: dx may take the memory of g. */
    if (w->partial) {
        float *sums = w->partial + 2 * part * n;
        memset(sums, 0, (size_t)(2 * n) * sizeof *sums);
        td__kernels()->layer_norm_sums(end - begin, n, x, stats, g, sums, sums + n);
    }
    if (w->y) {
        td__kernels()->layer_norm_backward(end - begin, n, x, stats, w->gamma, g, w->add,
                                           w->y + begin * n);
    }
}

/* Adds up the parts' sums of one parameter. */
static td_status add_partial(td_tape *tape, td__node *node, int32_t i, int parts, int64_t n,
                             const float *partial) {
    if (!td__wants(tape, node, i)) {
        return TD_OK;
    }
    bool add;
    float *sums = td__gradient(tape, node, i, &add);
    for (int part = 0; sums && part < parts; part++) {
        for (int64_t k = 0; k < n; k++) {
            float value = partial[2 * part * n + k];
            sums[k] = part || add ? sums[k] + value : value;
        }
    }
    return sums ? TD_OK : TD_MEMORY;
}

static td_status layer_norm_backward(td_tape *tape, td__node *node) {
    const layer_norm_saved *saved = node->saved;
    const td_tensor *gamma = node->inputs[1].tensor;
    layer_norm_work work = {.saved = saved,
                            .x = td__floats(node->inputs[0].tensor),
                            .gamma = gamma ? td__floats(gamma) : saved->ones,
                            .g = td__output_gradient(tape, node)};
    td__buffer *partial = NULL;
    if (td__wants(tape, node, 1) || td__wants(tape, node, 2)) {
        size_t bytes = (size_t)(2 * saved->n) * sizeof(float);
        partial = td__temporary(tape, bytes * (size_t)td_threads());
        if (!partial) {
            return TD_MEMORY;
        }
        work.partial = partial->data;
        memset(partial->data, 0, bytes); /* without rows nobody else does */
    }
    if (td__wants(tape, node, 0)) {
        work.y = td__gradient_in_place(tape, node, 0, &work.add);
        if (!work.y) {
            return TD_MEMORY;
        }
    }
    int parts = td__parallel(saved->rows, 1, TD__GRAIN / (saved->n + 1) + 1,
                             layer_normalization_backward_part, &work);
    td_status status = TD_OK;
    if (partial) {
        status = add_partial(tape, node, 1, parts, saved->n, partial->data);
        status =
            status ? status : add_partial(tape, node, 2, parts, saved->n, partial->data + saved->n);
        td__buffer_drop(tape, partial);
    }
    return status;
}

static const td__op layer_norm_op = {.name = "layer_normalization",
                                     .backward = layer_norm_backward};

/* gamma and beta must be as long as the last axis. */
static bool check_parameter(td_tape *tape, const td_tensor *x, const td_tensor *parameter,
                            const char *role) {
    int32_t rank = x->shape.rank;
    char a[TD_SHAPE_TEXT_SIZE], b[TD_SHAPE_TEXT_SIZE];
    if (parameter && !td__check_float(tape, "layer_normalization", role, parameter)) {
        return false;
    }
    if (parameter &&
        (parameter->shape.rank != 1 || parameter->shape.dims[0] != x->shape.dims[rank - 1])) {
        td__fail(tape, TD_BAD_SHAPE,
                 "layer_normalization: %s %s does not fit input %s: it must be (%lld,)", role,
                 td_shape_text(&parameter->shape, a), td_shape_text(&x->shape, b),
                 (long long)x->shape.dims[rank - 1]);
        return false;
    }
    return true;
}

td_tensor *td_layer_normalization(td_tape *tape, td_tensor *x, td_tensor *gamma, td_tensor *beta,
                                  float epsilon) {
    if (!td__check_float(tape, "layer_normalization", "input", x)) {
        return NULL;
    }
    int32_t rank = x->shape.rank;
    if (rank == 0) {
        return td__fail(tape, TD_BAD_SHAPE, "layer_normalization: input () has no axis");
    }
    if (!check_parameter(tape, x, gamma, "gamma") || !check_parameter(tape, x, beta, "beta")) {
        return NULL;
    }
    if (!(epsilon >= 0)) {
        return td__fail(tape, TD_RANGE, "layer_normalization: epsilon is %g, it must be 0 or more",
                        (double)epsilon);
    }
    int64_t n = x->shape.dims[rank - 1], rows = n ? x->count / n : 0;
    td_tensor *y = td__output(tape, TD_FLOAT32, &x->shape);
    layer_norm_saved *saved = y ? td__scratch(tape, sizeof *saved) : NULL;
    float *memory = saved ? td__scratch(tape, (size_t)(2 * rows + 2 * n) * sizeof(float)) : NULL;
    if (!memory) {
        return NULL;
    }
    *saved = (layer_norm_saved){.rows = rows, .n = n, .stats = memory, .ones = memory + 2 * rows};
    float *zeros = saved->ones + n;
    for (int64_t i = 0; i < n; i++) {
        saved->ones[i] = 1.0f;
        zeros[i] = 0.0f;
    }
    layer_norm_work work = {.saved = saved,
                            .x = td__floats(x),
                            .gamma = gamma ? td__floats(gamma) : saved->ones,
                            .beta = beta ? td__floats(beta) : zeros,
                            .y = td__floats(y),
                            .epsilon = epsilon};
    td__parallel(rows, 1, TD__GRAIN / (n + 1) + 1, layer_normalization_forward_part, &work);
    return td__record(tape, &layer_norm_op, y, 3, (td_tensor *[]){x, gamma, beta}, saved);
}
