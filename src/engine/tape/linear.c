/* Activations after a product. */
#include "tape/linear.h"
#include "base/options.h"

#include "tape/kernels.h"
#include "tape/parallel.h"
#include "tape/tape.h"

#include <math.h>

bool td__activation_uses_output(td_activation activation) {
    static const bool uses_output[TD_ACTIVATION_COUNT] = {
        [TD_LINEAR] = true,      [TD_RELU] = true,
        [TD_LEAKY_RELU] = true,  [TD_ELU] = true,
        [TD_SELU] = true,        [TD_SIGMOID] = true,
        [TD_TANH] = true,        [TD_EXPONENTIAL] = true,
        [TD_RELU6] = true,       [TD_SOFTMAX] = true,
        [TD_LOG_SOFTMAX] = true, [TD_HARD_SIGMOID] = true,
        [TD_CELU] = true,        [TD_HARD_SIGMOID_KERAS2] = true,
    };
    return uses_output[activation];
}

float td__activation_alpha(td_activation activation, td_number alpha) {
    return (float)td__number_or(alpha, activation == TD_LEAKY_RELU ? 0.2 : 1);
}

bool td__linear_check(td_tape *tape, const char *op, td_activation activation) {
    if ((unsigned)activation < TD_ACTIVATION_COUNT && td__kernels()->activate[activation]) {
        return true;
    }
    const char *name = td_activation_name(activation);
    td__fail(tape, TD_INVALID,
             "%s: activation %s is not one of single elements; use td_activate on "
             "the result",
             op, name ? name : "(unknown)");
    return false;
}

typedef struct activation_work {
    td_activation activation;
    float alpha;
    const float *x, *g;
    float *y;
    bool add;
} activation_work;

static void activate_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const activation_work *w = context;
    td__kernels()->activate[w->activation](end - begin, w->alpha, w->x + begin, w->y + begin);
}

static void linear_backward_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const activation_work *w = context;
    td__kernels()->activate_backward[w->activation](end - begin, w->alpha, w->x + begin,
                                                    w->g + begin, w->add, w->y + begin);
}

void td__activate_all(td_activation activation, float alpha, int64_t n, const float *x, float *y) {
    activation_work work = {.activation = activation, .alpha = alpha, .x = x, .y = y};
    td__parallel(n, 64, TD__GRAIN, activate_part, &work);
}

void td__activate_backward_all(td_activation activation, float alpha, int64_t n, const float *v,
                               const float *g, bool add, float *dx) {
    activation_work work = {
        .activation = activation, .alpha = alpha, .x = v, .g = g, .y = dx, .add = add};
    td__parallel(n, 64, TD__GRAIN, linear_backward_part, &work);
}

void td__finish_run(const td__finish *finish, int64_t n, float *y) {
    if (finish->activation != TD_LINEAR) {
        td__kernels()->activate[finish->activation](n, finish->alpha, y, y);
    }
}

td_tensor *td__linear_output(td_tape *tape, const td_shape *shape, td__ending ending) {
    td_tensor *onto = ending.onto;
    if (!onto) {
        return td__output(tape, TD_FLOAT32, shape);
    }
    td_tensor *y = td__output_over(tape, TD_FLOAT32, shape, onto->data);
    if (y) {
        y->memory = onto->memory;
        onto->memory = NULL;
    }
    return y;
}

int td__linear_flags(const td__linear *linear, td__ending ending) {
    int end = linear->activation == TD_RELU6 ? TD__TILE_RELU6 : TD__TILE_RELU;
    return (linear->fused ? end : 0) | (ending.onto ? TD__TILE_ADD : 0);
}

td__linear *td__linear_begin(td_tape *tape, td_tensor *y, td__ending ending) {
    td__linear *linear = td__scratch(tape, sizeof *linear);
    if (!linear) {
        return NULL;
    }
    *linear = (td__linear){.activation = ending.activation,
                           .alpha = td__activation_alpha(ending.activation, ending.alpha),
                           .fused = ending.activation == TD_RELU || ending.activation == TD_RELU6,
                           .z = td__floats(y)};
    if (td__is_recording(tape) && !td__activation_uses_output(ending.activation)) {
        linear->z = td__scratch(tape, (size_t)y->count * sizeof(float));
    }
    return linear->z ? linear : NULL;
}

td__finish td__linear_finish(td__linear *linear, const td_tensor *y) {
    linear->finished = !linear->fused && linear->z == td__floats(y);
    return linear->finished ? (td__finish){linear->activation, linear->alpha}
                            : (td__finish){TD_LINEAR, 0};
}

void td__linear_end(td_tensor *y, const td__linear *linear) {
    if (linear->activation != TD_LINEAR && !linear->fused && !linear->finished) {
        td__activate_all(linear->activation, linear->alpha, y->count, linear->z, td__floats(y));
    }
}

typedef struct sum_work {
    const float *x;
    int64_t n;
    float *partial; /* (parts, n) */
} sum_work;

static void sum_part(void *context, int part, int64_t begin, int64_t end) {
    const sum_work *w = context;
    td__kernels()->sum_rows(end - begin, w->n, w->x + begin * w->n, false,
                            w->partial + part * w->n);
}

td_status td__sum_rows_all(td_tape *tape, int64_t rows, int64_t n, const float *x, bool add,
                           float *sums) {
    if (td_threads() == 1 || rows * n < 2 * TD__GRAIN) {
        td__kernels()->sum_rows(rows, n, x, add, sums);
        return TD_OK;
    }
    td__buffer *partial = td__temporary(tape, (size_t)(td_threads() * n) * sizeof(float));
    if (!partial) {
        return TD_MEMORY;
    }
    sum_work work = {.x = x, .n = n, .partial = partial->data};
    int parts = td__parallel(rows, 1, TD__GRAIN / n + 1, sum_part, &work);
    td__kernels()->sum_rows(parts, n, partial->data, add, sums);
    td__buffer_drop(tape, partial);
    return TD_OK;
}

/* Rows of the gradient before the activation, and their column sums while they are in the cache. */
typedef struct linear_work {
    const td__linear *linear;
    int64_t out;
    const float *v, *g; /* what the derivative looks at; the gradient after the activation */
    float *dz;
    float *partial; /* (parts, out), or NULL: no sums */
} linear_work;

static void linear_part(void *context, int part, int64_t begin, int64_t end) {
    const linear_work *w = context;
    const td__kernels_table *kernels = td__kernels();
    int64_t chunk = 8192 / (w->out + 1) + 1;
    for (int64_t row = begin; row < end; row += chunk) {
        int64_t rows = end - row < chunk ? end - row : chunk, at = row * w->out;
        if (w->linear->activation != TD_LINEAR) {
            kernels->activate_backward[w->linear->activation](
                rows * w->out, w->linear->alpha, w->v + at, w->g + at, false, w->dz + at);
        }
        if (w->partial) {
            kernels->sum_rows(rows, w->out, w->dz + at, row > begin, w->partial + part * w->out);
        }
    }
}

/* Runs linear_part over all threads; the gradient of the bias is the sum of the parts' sums. */
static td_status run_linear(td_tape *tape, td__node *node, linear_work *work, int64_t rows,
                            int32_t bias_input) {
    bool wants_bias = node->inputs[bias_input].tensor && td__wants(tape, node, bias_input);
    if (!wants_bias && work->linear->activation == TD_LINEAR) {
        return TD_OK;
    }
    td__buffer *partial = NULL;
    if (wants_bias) {
        partial = td__buffer_take(tape, (size_t)(td_threads() * work->out) * sizeof(float));
        if (!partial) {
            return TD_MEMORY;
        }
        work->partial = partial->data;
    }
    int parts = td__parallel(rows, 1, TD__GRAIN / (work->out + 1) + 1, linear_part, work);
    if (!wants_bias) {
        return TD_OK;
    }
    bool add;
    float *db = td__gradient(tape, node, bias_input, &add);
    if (db) {
        td__kernels()->sum_rows(rows ? parts : 0, work->out, partial->data, add, db);
    }
    td__buffer_drop(tape, partial);
    return db ? TD_OK : TD_MEMORY;
}

td_status td__linear_backward(td_tape *tape, td__node *node, const td__linear *linear, int64_t rows,
                              int64_t out, int32_t bias_input, td__buffer **dz) {
    const td__slot *output = &tape->slots[node->output->slot];
    td__buffer *gradient = output->gradient;
    bool from_output = td__activation_uses_output(linear->activation);
    linear_work work = {.linear = linear,
                        .out = out,
                        .v = from_output ? td__floats(node->output) : linear->z,
                        .g = gradient->data};
    if (linear->activation == TD_LINEAR || (gradient->references == 1 && !output->is_target)) {
        gradient->references++; /* nobody else looks at it: the activation runs in place */
    } else {
        gradient = td__buffer_take(tape, gradient->bytes);
        if (!gradient) {
            return TD_MEMORY;
        }
    }
    work.dz = gradient->data;
    if (run_linear(tape, node, &work, rows, bias_input)) {
        td__buffer_drop(tape, gradient);
        return TD_MEMORY;
    }
    *dz = gradient;
    return TD_OK;
}
