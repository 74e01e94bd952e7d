/* dropout: y = x m / (1 - rate), m = 0 with probability rate, else 1; dx = g m / (1 - rate)
 *
 * The mask is a function of the tape's seed and step, the operation's number and the element's, so
 * that it does not depend on threads. It is kept as bytes for the way back.
 */
#include "tape/kernels.h"
#include "tape/op.h"
#include "tape/parallel.h"

typedef struct dropout_saved {
    uint8_t *mask;
    float scale;
} dropout_saved;

typedef struct dropout_work {
    const dropout_saved *saved;
    uint64_t key;
    uint32_t threshold;
    const float *x;
    float *y;
    bool add;
} dropout_work;

static void dropout_forward_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const dropout_work *w = context;
    const td__kernels_table *kernels = td__kernels();
    enum { AT_ONCE = 16 * TD__MASK_BLOCK }; /* the mask is used while it is in the cache */
    for (int64_t i = begin; i < end; i += AT_ONCE) {
        int64_t n = end - i < AT_ONCE ? end - i : AT_ONCE;
        kernels->random_mask(i, n, w->key, w->threshold, w->saved->mask + i);
        kernels->masked_scale(n, w->saved->scale, w->saved->mask + i, w->x + i, false, w->y + i);
    }
}

static void dropout_backward_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const dropout_work *w = context;
    td__kernels()->masked_scale(end - begin, w->saved->scale, w->saved->mask + begin, w->x + begin,
                                w->add, w->y + begin);
}

static td_status dropout_backward(td_tape *tape, td__node *node) {
    dropout_work work = {.saved = node->saved, .x = td__output_gradient(tape, node)};
    work.y = td__gradient_in_place(tape, node, 0, &work.add);
    if (!work.y) {
        return TD_MEMORY;
    }
    td__parallel(node->output->count, TD__MASK_BLOCK, TD__GRAIN, dropout_backward_part, &work);
    return TD_OK;
}

static const td__op dropout_op = {.name = "dropout", .backward = dropout_backward};

td_tensor *td_dropout(td_tape *tape, td_tensor *x, float rate) {
    if (!td__check_float(tape, "dropout", "input", x)) {
        return NULL;
    }
    if (!(rate >= 0 && rate <= 1)) {
        return td__fail(tape, TD_RANGE, "dropout: rate %g is not between 0 and 1", (double)rate);
    }
    if (rate == 0 || !td_tape_is_training(tape)) {
        return td_reshape(tape, x, x->shape); /* the same values */
    }
    td_tensor *y = td__output(tape, TD_FLOAT32, &x->shape);
    dropout_saved *saved = y ? td__scratch(tape, sizeof *saved) : NULL;
    uint8_t *mask = saved ? td__scratch(tape, (size_t)x->count) : NULL;
    if (!mask) {
        return NULL;
    }
    *saved = (dropout_saved){.mask = mask, .scale = rate < 1 ? 1.0f / (1.0f - rate) : 0.0f};
    double threshold = (double)rate * 0x1p32;
    dropout_work work = {.saved = saved,
                         .key = td__random_key(tape),
                         .threshold = threshold < 0x1p32 ? (uint32_t)threshold : UINT32_MAX,
                         .x = td__floats(x),
                         .y = td__floats(y)};
    td__parallel(x->count, TD__MASK_BLOCK, TD__GRAIN / 4, dropout_forward_part, &work);
    return td__record(tape, &dropout_op, y, 1, &x, saved);
}
