/* max_pool2d: y = the largest value of each window
 *
 * dx = g at the tap that was largest (the first of equal ones). Its number is kept in a byte, or,
 * for windows of more than 256 taps, in four.
 *
 * global_max_pool2d is the reduction over all pixels, whose gradient goes to equal ones in equal
 * parts, as in Keras.
 */
#include "tape/parallel.h"
#include "tape/pool.h"

typedef struct max_pool_saved {
    td__pool pool;
    uint8_t *bytes; /* like the output; NULL: see words */
    int32_t *words;
} max_pool_saved;

typedef struct max_pool_work {
    const max_pool_saved *saved;
    const float *from; /* x or g */
    float *to;         /* y or dx */
    bool add;
} max_pool_work;

static uint8_t *bytes_at(const max_pool_saved *saved, int64_t offset) {
    return saved->bytes ? saved->bytes + offset : NULL;
}

static int32_t *words_at(const max_pool_saved *saved, int64_t offset) {
    return saved->words ? saved->words + offset : NULL;
}

static void visit_forward(void *context, const td__pool_run *run) {
    const max_pool_work *w = context;
    td__kernels()->max_pool(run->pixels, run->channels, &run->window, w->from + run->input,
                            w->to + run->output, bytes_at(w->saved, run->output),
                            words_at(w->saved, run->output));
}

static void visit_backward(void *context, const td__pool_run *run) {
    const max_pool_work *w = context;
    td__kernels()->max_pool_backward(
        run->pixels, run->channels, &run->window, bytes_at(w->saved, run->output),
        words_at(w->saved, run->output), w->from + run->output,
        !td__pool_overwrites(&w->saved->pool, w->add), w->to + run->input);
}

static void max_pool2d_forward_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const max_pool_work *w = context;
    td__pool_rows(&w->saved->pool, begin, end, visit_forward, context);
}

static void max_pool2d_backward_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const max_pool_work *w = context;
    td__pool_images(&w->saved->pool, begin, end, w->add, w->to, visit_backward, context);
}

static td_status max_pool_backward(td_tape *tape, td__node *node) {
    max_pool_work work = {.saved = node->saved, .from = td__output_gradient(tape, node)};
    work.to = td__gradient(tape, node, 0, &work.add);
    if (!work.to) {
        return TD_MEMORY;
    }
    const td__pool *pool = &work.saved->pool;
    td__parallel(pool->batch, 1, td__pool_worth(pool, pool->batch), max_pool2d_backward_part,
                 &work);
    return TD_OK;
}

static const td__op max_pool_op = {.name = "max_pool2d", .backward = max_pool_backward};

td_tensor *td__max_pool(td_tape *tape, td_tensor *x, const td__pool *pool) {
    td_tensor *y = td__output(tape, TD_FLOAT32,
                              &TD_SHAPE(pool->batch, pool->out[0], pool->out[1], pool->channels));
    max_pool_saved *saved = y ? td__scratch(tape, sizeof *saved) : NULL;
    if (!saved) {
        return NULL;
    }
    *saved = (max_pool_saved){.pool = *pool};
    if (td__is_recording(tape)) {
        bool small = pool->window[0] * pool->window[1] <= 256;
        size_t bytes = (size_t)y->count * (small ? sizeof(uint8_t) : sizeof(int32_t));
        void *index = td__scratch(tape, bytes);
        if (!index) {
            return NULL;
        }
        saved->bytes = small ? index : NULL;
        saved->words = small ? NULL : index;
    }
    max_pool_work work = {.saved = saved, .from = td__floats(x), .to = td__floats(y)};
    int64_t rows = pool->batch * pool->out[0];
    td__parallel(rows, 1, td__pool_worth(pool, rows), max_pool2d_forward_part, &work);
    return td__record(tape, &max_pool_op, y, 1, &x, saved);
}

td_tensor *td_max_pool2d(td_tape *tape, td_tensor *x, const td_pool_options *options) {
    td__pool pool;
    if (!td__pool_fit(tape, "max_pool2d", x, options, &pool)) {
        return NULL;
    }
    return td__max_pool(tape, x, &pool);
}

td_tensor *td_global_max_pool2d(td_tape *tape, td_tensor *x) {
    td__pool pool;
    if (!td__pool_fit_whole(tape, "global_max_pool2d", x, &pool)) {
        return NULL;
    }
    td_reduce_options pixels = {.size = sizeof pixels, .count = 2, .axes = {1, 2}};
    return td_max(tape, x, &pixels);
}
