/* gaussian_noise: y = x + stddev n in training, n with mean 0 and variance 1; dx = g
 *
 * Like a dropout's mask, the noise is a function of the tape's seed and step, the operation's number
 * and the element's, so that it does not depend on threads.
 */
#include "base/random.h"
#include "tape/kernels.h"
#include "tape/op.h"
#include "tape/parallel.h"

#include <math.h>

typedef struct noise_work {
    uint64_t key;
    float stddev;
    int64_t count;
    const float *x;
    float *y;
} noise_work;

/* Four elements of each number: two pairs by Box and Muller. */
static void noise_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const noise_work *w = context;
    for (int64_t block = begin; block < end; block++) {
        uint32_t bits[4];
        td__philox(w->key, (uint64_t)block, bits);
        for (int64_t k = 0; k < 4 && 4 * block + k < w->count; k++) {
            float uniform = ((float)(bits[k & 2] >> 8) + 0.5f) * 0x1p-24f; /* in (0, 1) */
            float radius = sqrtf(-2.0f * logf(uniform));
            float angle = 6.28318531f * 0x1p-32f * (float)bits[(k & 2) + 1];
            float normal = radius * (k & 1 ? sinf(angle) : cosf(angle));
            w->y[4 * block + k] = w->x[4 * block + k] + w->stddev * normal;
        }
    }
}

static td_status noise_backward(td_tape *tape, td__node *node) {
    const float *g = td__output_gradient(tape, node);
    bool add;
    float *dx = td__gradient_in_place(tape, node, 0, &add);
    if (!dx) {
        return TD_MEMORY;
    }
    for (int64_t i = 0; i < node->output->count; i++) {
        dx[i] = add ? dx[i] + g[i] : g[i];
    }
    return TD_OK;
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
    noise_work work = {.key = td__random_key(tape),
                       .stddev = stddev,
                       .count = x->count,
                       .x = td__floats(x),
                       .y = td__floats(y)};
    td__parallel((x->count + 3) / 4, 1, TD__GRAIN / 16, noise_part, &work);
    return td__record(tape, &noise_op, y, 1, &x, NULL);
}
