/* Recurrence step by step.
 *
 *   rnn    h' = f(x W + h R + b)
 *   gru    z, r = f(x W + h R + b); c = g(x W + r (h R + b) + b) or g(x W + (r h) R + b);
 *          h' = (1 - z) c + z h
 *   lstm   i, f, o = f(x W + h R + b + p c); c' = f c + i g(x W + h R + b); h' = o h(c')
 *
 * After the end of an example's sequence its state stays and its output is 0.
 */
#include "graph/ops/recurrent.h"

#include <string.h>

/* Activation number i. */
static td_tensor *activate(td__graph_call *call, const td__graph_direction *d, int i,
                           td_tensor *x) {
    static const struct {
        const char *name;
        td_activation activation;
    } known[] = {{"Elu", TD_ELU},         {"LeakyRelu", TD_LEAKY_RELU}, {"Relu", TD_RELU},
                 {"Sigmoid", TD_SIGMOID}, {"Softplus", TD_SOFTPLUS},    {"Softsign", TD_SOFTSIGN},
                 {"Tanh", TD_TANH}};
    const char *name = d->activations[i];
    float alpha = d->alphas[i];
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        if (strcmp(known[k].name, name) == 0) {
            return td_activate(call->tape, x, known[k].activation, TD_SET(alpha));
        }
    }
    bool hard = strcmp(name, "HardSigmoid") == 0;
    if (hard || strcmp(name, "Affine") == 0) {
        td_tensor *y = td_affine(call->tape, x, alpha, d->betas[i]);
        return hard ? td_clip(call->tape, y, 0, 1) : y;
    }
    (void)td__graph_fail(call, TD_UNSUPPORTED, "activation '%.40s'", name);
    return NULL;
}

typedef struct stepping {
    td__graph_call *call;
    td_tape *tape;
    const td__graph_direction *d;
    td_tensor *h, *c;
} stepping;

/* Columns of gates [first, first + count). */
static td_tensor *gates_of(const stepping *s, td_tensor *x, int64_t first, int64_t count) {
    int64_t n = s->d->units, begin[] = {0, first * n}, size[] = {-1, count * n};
    return td_slice(s->tape, x, begin, size);
}

static td_tensor *clipped(const stepping *s, td_tensor *x) {
    return s->d->clip > 0 ? td_clip(s->tape, x, -s->d->clip, s->d->clip) : x;
}

static td_tensor *gate(const stepping *s, int activation, td_tensor *x) {
    return activate(s->call, s->d, activation, clipped(s, x));
}

/* z + p c, p being peephole number i */
static td_tensor *peek(const stepping *s, td_tensor *z, int64_t i, td_tensor *c) {
    if (!s->d->peepholes) {
        return z;
    }
    int64_t begin = i * s->d->units, size = s->d->units;
    td_tensor *p = td_slice(s->tape, s->d->peepholes, &begin, &size);
    return td_add(s->tape, z, td_multiply(s->tape, p, c));
}

static td_tensor *lstm_step(stepping *s, td_tensor *z) {
    td_tape *tape = s->tape;
    td_tensor *i = gate(s, 0, peek(s, gates_of(s, z, 0, 1), 0, s->c));
    td_tensor *f = s->d->input_forget ? td_affine(tape, i, -1, 1)
                                      : gate(s, 0, peek(s, gates_of(s, z, 1, 1), 2, s->c));
    td_tensor *g = gate(s, 1, gates_of(s, z, 2, 1));
    s->c = td_add(tape, td_multiply(tape, f, s->c), td_multiply(tape, i, g));
    td_tensor *o = gate(s, 0, peek(s, gates_of(s, z, 3, 1), 1, s->c));
    return td_multiply(tape, o, activate(s->call, s->d, 2, s->c));
}

/* Row i of a bias (2, …). */
static td_tensor *bias_row(const stepping *s, int64_t i) {
    td_tensor *b = s->d->bias;
    int64_t begin[] = {i, 0}, size[] = {1, -1};
    return b ? td_slice(s->tape, b, begin, size) : NULL;
}

static td_tensor *plus(td_tape *tape, td_tensor *x, td_tensor *bias) {
    return bias ? td_add(tape, x, bias) : x;
}

/* x W without a bias for a gru that resets after. */
static td_tensor *gru_step(stepping *s, td_tensor *x) {
    td_tape *tape = s->tape;
    const td__graph_direction *d = s->d;
    td_tensor *z, *candidate;
    if (d->reset_after) {
        td_tensor *a = plus(tape, x, bias_row(s, 0));
        td_tensor *b = plus(tape, td_matmul(tape, s->h, d->recurrent, NULL), bias_row(s, 1));
        td_tensor *zr = gate(s, 0, td_add(tape, gates_of(s, a, 0, 2), gates_of(s, b, 0, 2)));
        z = gates_of(s, zr, 0, 1);
        td_tensor *reset = td_multiply(tape, gates_of(s, zr, 1, 1), gates_of(s, b, 2, 1));
        candidate = gate(s, 1, td_add(tape, gates_of(s, a, 2, 1), reset));
    } else {
        td_tensor *gated = gates_of(s, d->recurrent, 0, 2);
        td_tensor *b = td_matmul(tape, s->h, gated, NULL);
        td_tensor *zr = gate(s, 0, td_add(tape, gates_of(s, x, 0, 2), b));
        z = gates_of(s, zr, 0, 1);
        td_tensor *reset = td_multiply(tape, gates_of(s, zr, 1, 1), s->h);
        td_tensor *back = td_matmul(tape, reset, gates_of(s, d->recurrent, 2, 1), NULL);
        candidate = gate(s, 1, td_add(tape, gates_of(s, x, 2, 1), back));
    }
    td_tensor *new = td_multiply(tape, td_affine(tape, z, -1, 1), candidate);
    return td_add(tape, new, td_multiply(tape, z, s->h));
}

/* 1 for examples whose sequence has this step, 0 for others; NULL: all have it. */
static td_tensor *mask_of(const stepping *s, int64_t step) {
    const int64_t *lengths = s->d->lengths;
    bool all = true;
    for (int64_t i = 0; lengths && i < s->d->batch; i++) {
        all = all && lengths[i] > step;
    }
    td_tensor *mask = all ? NULL : td__output(s->tape, TD_FLOAT32, &TD_SHAPE(s->d->batch, 1));
    for (int64_t i = 0; mask && i < s->d->batch; i++) {
        td__floats(mask)[i] = lengths[i] > step ? 1 : 0;
    }
    return mask;
}

/* new where the mask is 1, old elsewhere */
static td_tensor *choose(td_tape *tape, td_tensor *mask, td_tensor *new, td_tensor *old) {
    return td_add(tape, td_multiply(tape, new, mask),
                  td_multiply(tape, old, td_affine(tape, mask, -1, 1)));
}

/* One step with input x (batch, gates * units); returns the output. */
static td_tensor *step_cell(stepping *s, td_tensor *x, td_tensor *mask) {
    td_tape *tape = s->tape;
    td_tensor *h = s->h, *c = s->c, *y;
    if (s->d->cell == TD__GRAPH_GRU) {
        y = gru_step(s, x);
    } else {
        td_tensor *z = td_add(tape, x, td_matmul(tape, s->h, s->d->recurrent, NULL));
        y = s->d->cell == TD__GRAPH_LSTM ? lstm_step(s, z) : gate(s, 0, z);
    }
    s->h = mask ? choose(tape, mask, y, h) : y;
    s->c = mask && c ? choose(tape, mask, s->c, c) : s->c;
    return mask ? td_multiply(tape, y, mask) : y;
}

bool td__graph_run_steps(td__graph_call *call, const td__graph_direction *d,
                         td__graph_sequence *result) {
    td_tape *tape = call->tape;
    td_shape state = TD_SHAPE(d->batch, d->units);
    stepping s = {.call = call, .tape = tape, .d = d, .h = d->state, .c = d->cell_state};
    s.h = s.h ? s.h : td__graph_filled(tape, state, 0);
    if (d->cell == TD__GRAPH_LSTM) {
        s.c = s.c ? s.c : td__graph_filled(tape, state, 0);
    }
    td_tensor **outputs = td__scratch(tape, (size_t)d->time * sizeof *outputs + 1);
    bool apart = d->cell == TD__GRAPH_GRU && d->reset_after;
    td_tensor *products = td_dense(tape, d->x, d->kernel, apart ? NULL : d->bias, TD_LINEAR);
    if (!outputs || !products || !s.h) {
        return false;
    }
    int64_t width = d->gates * d->units;
    for (int64_t t = 0; t < d->time; t++) {
        int64_t place = d->reverse ? d->time - 1 - t : t;
        int64_t begin[] = {0, place, 0}, size[] = {-1, 1, -1};
        td_tensor *x = td_slice(tape, products, begin, size);
        x = td_reshape(tape, x, TD_SHAPE(d->batch, width));
        td_tensor *y = step_cell(&s, x, mask_of(&s, d->reverse ? place : t));
        outputs[place] = td_reshape(tape, y, TD_SHAPE(d->batch, 1, d->units));
        if (!outputs[place]) {
            return false;
        }
    }
    result->all = d->time > 0 ? td_concatenate(tape, (size_t)d->time, outputs, 1)
                              : td__graph_filled(tape, TD_SHAPE(d->batch, 0, d->units), 0);
    result->state = s.h;
    result->cell = s.c;
    return result->all;
}
