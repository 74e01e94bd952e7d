/* average_pool2d, global_average_pool2d: y = the mean of each window, padding left out
 *
 * dx = sum over the windows of g / taps in the window
 */
#include "tape/pool.h"

static td_status average_pool_backward(td_tape *tape, td__node *node) {
    bool add;
    float *dx = td__gradient(tape, node, 0, &add);
    if (!dx) {
        return TD_MEMORY;
    }
    td__pool_spread(node->saved, true, td__output_gradient(tape, node), add, dx);
    return TD_OK;
}

static const td__op average_pool_op = {.name = "average_pool2d", .backward = average_pool_backward};

td_tensor *td__average_pool(td_tape *tape, td_tensor *x, const td__pool *pool, td_shape shape) {
    td_tensor *y = td__output(tape, TD_FLOAT32, &shape);
    td__pool *saved = y ? td__scratch(tape, sizeof *saved) : NULL;
    if (!saved) {
        return NULL;
    }
    *saved = *pool;
    td__pool_sum(pool, true, td__floats(x), false, td__floats(y));
    return td__record(tape, &average_pool_op, y, 1, &x, saved);
}

td_tensor *td_average_pool2d(td_tape *tape, td_tensor *x, const td_pool_options *options) {
    td__pool pool;
    if (!td__pool_fit(tape, "average_pool2d", x, options, &pool)) {
        return NULL;
    }
    return td__average_pool(tape, x, &pool,
                            TD_SHAPE(pool.batch, pool.out[0], pool.out[1], pool.channels));
}

td_tensor *td_global_average_pool2d(td_tape *tape, td_tensor *x) {
    td__pool pool;
    if (!td__pool_fit_whole(tape, "global_average_pool2d", x, &pool)) {
        return NULL;
    }
    return td__average_pool(tape, x, &pool, TD_SHAPE(pool.batch, pool.channels));
}
