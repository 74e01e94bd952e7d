/* gaussian_noise: y = x + stddev n in training, n with mean 0 and variance 1; dx = g
 *
 * Like a dropout's mask, the noise is a function of the tape's seed and step, the operation's number
 * and the element's, so that it does not depend on threads.
 */
#include "tape/kernels.h"
#include "tape/op.h"
#include "tape/parallel.h"

#include <math.h>

typedef struct noise_work {
    uint64_t key;
    float stddev;
    const float *x;
    float *y;
} noise_work;

static void noise_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const noise_work *w = context;
    td__kernels()->add_noise(begin, end - begin, w->key, w->stddev, w->x + begin, w->y + begin);
}

static td_status noise_backward(td_tape *tape, td__node *node) {
    return td__gradient_pass(tape, node, 0);
}

static const td__op noise_op = {.name = "gaussian_noise", .backward = noise_backward};

td_tensor *td_gaussian_noise(td_tape *tape, td_tensor *x, float stddev) {
    if (!td__check_float(tape, "gaussian_noise", "input", x)) {
        return NULL;
    }
    if (!(stddev >= 0 && isfinite(stddev))) {
        return td__fail(tape, TD_RANGE, "gaussian_noise: stddev %g is not 0 or more",
                        (double)stddev);
    }
    if (stddev == 0 || !td_tape_is_training(tape)) {
        return td_reshape(tape, x, x->shape); /* the same values */
    }
    td_tensor *y = td__output(tape, TD_FLOAT32, &x->shape);
    if (!y) {
        return NULL;
    }
    noise_work work = {
        .key = td__random_key(tape), .stddev = stddev, .x = td__floats(x), .y = td__floats(y)};
    td__parallel(x->count, TD__MASK_BLOCK, TD__GRAIN / 8, noise_part, &work);
    return td__record(tape, &noise_op, y, 1, &x, NULL);
}
