/* lstm: z = x W + b + h' R, in four gates i, f, c, o (Keras's order); h', C' from the step before
 * C = s(f) C' + s(i) t(c); h = s(o) t(C); s the recurrent activation, t the activation
 *
 * dC += dh s(o) t'(C); di = dC t(c) s'; df = dC C' s'; dc = dC s(i) t'; do = dh t(C) s';
 * dC' = dC s(f); dh' = dz R^T; dW = x^T dz; dR = h'^T dz; db = sum dz
 */
#include "base/options.h"
#include "tape/linear.h"
#include "tape/parallel.h"
#include "tape/recurrent.h"

#include <string.h>

typedef struct lstm_saved {
    td__recurrent r; /* first */
    float *cells;    /* (batch, time, units), in the order of steps */
} lstm_saved;

typedef struct lstm_work {
    const lstm_saved *saved;
    const float *packed; /* R, or R^T on the way back */
    const float *g;
    const td_tensor *initial, *initial_cell;
    td__recurrent_gradients *d;
    float *cell, *shown; /* (batch, units): dC, and t(C) and then dh s(o) */
} lstm_work;

static void step_forward(const lstm_work *w, int64_t i, int64_t step) {
    const td__recurrent *r = &w->saved->r;
    const td__kernels_table *kernels = td__kernels();
    int64_t n = r->units;
    td__recurrent_activate(r, r->gate_activation, i, step, 0, 2 * n);
    td__recurrent_activate(r, r->activation, i, step, 2 * n, n);
    td__recurrent_activate(r, r->gate_activation, i, step, 3 * n, n);
    const float *gates = td__gate_row(r, r->gates, r->width, i, step);
    float *cell = w->saved->cells + (i * r->time + step) * n, *state = r->current + i * n;
    const float *previous = td__state_row(r, w->saved->cells, w->initial_cell, i, step - 1);
    if (td__recurrent_skips(r, i, step)) {
        memcpy(cell, previous, (size_t)n * sizeof *cell);
    } else {
        kernels->lstm_cell(n, gates, previous, cell);
        td__recurrent_apply(r->activation, n, cell, state);
        kernels->multiply(n, state, gates + 3 * n, state);
    }
    td__recurrent_keep(r, i, step);
}

static void lstm_forward_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const lstm_work *w = context;
    const td__recurrent *r = &w->saved->r;
    for (int64_t step = 0; step < r->time; step++) {
        td__recurrent_product(r, step, begin, end, td__recurrent_read(r, begin, end), w->packed,
                              r->width, r->gates, 0);
        for (int64_t i = begin; i < end; i++) {
            step_forward(w, i, step);
        }
    }
}

static void step_backward(const lstm_work *w, int64_t i, int64_t step) {
    const td__recurrent *r = &w->saved->r;
    const td__kernels_table *kernels = td__kernels();
    int64_t n = r->units;
    if (td__recurrent_skips(r, i, step)) {
        td__recurrent_gradients_skip(r, w->initial, i, step, w->d);
        return;
    }
    const float *gates = td__gate_row(r, r->gates, r->width, i, step);
    const float *cell = td__state_row(r, w->saved->cells, NULL, i, step);
    const float *previous = td__state_row(r, w->saved->cells, w->initial_cell, i, step - 1);
    float *dh = w->d->state + i * n, *dc = w->cell + i * n, *row = w->d->row + i * r->width;
    float *shown = w->shown + i * n, *through = row; /* dh s(o), before row is written */
    td__recurrent_apply(r->activation, n, cell, shown);
    kernels->multiply(n, dh, gates + 3 * n, through);
    bool from_output = td__activation_uses_output(r->activation);
    td__recurrent_apply_backward(r->activation, n, from_output ? shown : cell, through, true, dc);
    kernels->lstm_cell_backward(n, gates, previous, shown, dh, dc, row);
    td__recurrent_derive(r, r->gate_activation, i, step, 0, 2 * n, row);
    td__recurrent_derive(r, r->activation, i, step, 2 * n, n, row);
    td__recurrent_derive(r, r->gate_activation, i, step, 3 * n, n, row);
    td__recurrent_gradients_keep(r, w->initial, i, step, w->d);
}

static void lstm_backward_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const lstm_work *w = context;
    const td__recurrent *r = &w->saved->r;
    for (int64_t step = r->time - 1; step >= 0; step--) {
        td__recurrent_gradients_step(r, w->g, step, begin, end, w->d);
        for (int64_t i = begin; i < end; i++) {
            step_backward(w, i, step);
        }
        td__recurrent_back(r, begin, end, w->d->row, r->width, w->packed, false, w->d->state);
        td__recurrent_gradients_resume(r, step, begin, end, w->d);
    }
}

static td_status lstm_backward(td_tape *tape, td__node *node) {
    const lstm_saved *saved = node->saved;
    const td__recurrent *r = &saved->r;
    td__recurrent_gradients d;
    int64_t count = r->batch * r->units;
    if (td__recurrent_gradients_begin(tape, r, 2 * count, &d)) {
        return TD_MEMORY;
    }
    td__recurrent_panels packed;
    td_status status = td__recurrent_pack(tape, node->inputs[TD__RNN_RECURRENT].tensor, 0, true,
                                          r->units, r->width, &packed);
    if (!status) {
        lstm_work work = {.saved = saved,
                          .packed = packed.data,
                          .g = td__output_gradient(tape, node),
                          .initial = node->inputs[TD__RNN_STATE].tensor,
                          .initial_cell = node->inputs[TD__RNN_CELL].tensor,
                          .d = &d,
                          .cell = d.extra,
                          .shown = d.extra + count};
        memset(work.cell, 0, (size_t)count * sizeof(float));
        td__parallel(r->batch, 1, td__recurrent_worth(r), lstm_backward_part, &work);
        td__recurrent_unpack(tape, &packed);
        status = td__recurrent_gradients_all(tape, node, r, &d);
        status =
            status ? status : td__recurrent_gradient_state(tape, node, r, TD__RNN_CELL, work.cell);
    }
    td__buffer_drop(tape, d.memory);
    return status;
}

static const td__op lstm_op = {.name = "lstm", .backward = lstm_backward};

td_tensor *td_lstm(td_tape *tape, td_tensor *x, td_tensor *kernel, td_tensor *recurrent_kernel,
                   td_tensor *bias, const td_recurrent_options *options) {
    td_tensor *inputs[TD__RNN_INPUTS] = {x, kernel, recurrent_kernel, bias};
    td_recurrent_options given;
    options = td__options(&given, sizeof given, options);
    inputs[TD__RNN_STATE] = options->initial_state;
    inputs[TD__RNN_CELL] = options->initial_cell;
    lstm_saved *saved =
        (lstm_saved *)td__recurrent_begin(tape, "lstm", 4, inputs, options, sizeof *saved);
    if (!saved || !td__recurrent_check_bias(tape, "lstm", kernel, bias)) {
        return NULL;
    }
    td__recurrent *r = &saved->r;
    td_tensor *cells = td__output(tape, TD_FLOAT32, &TD_SHAPE(r->batch, r->time, r->units));
    if (!cells || td__recurrent_input(tape, r, inputs, bias ? td__floats(bias) : NULL)) {
        return NULL;
    }
    saved->cells = td__floats(cells);
    td__recurrent_panels packed;
    if (td__recurrent_pack(tape, recurrent_kernel, 0, false, r->width, r->units, &packed)) {
        return NULL;
    }
    lstm_work work = {.saved = saved, .packed = packed.data, .initial_cell = inputs[TD__RNN_CELL]};
    td__parallel(r->batch, 1, td__recurrent_worth(r), lstm_forward_part, &work);
    td__recurrent_unpack(tape, &packed);
    return td__record(tape, &lstm_op, r->output, TD__RNN_INPUTS, inputs, saved);
}
