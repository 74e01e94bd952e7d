/* simple_rnn: h = f(x W + b + h' R), h' the state before
 *
 * dz = (g + dz'' R^T) f', dz'' of the step after; dx = dz W^T; dW = x^T dz; dR = h'^T dz; db = sum
 * dz; all sums over examples and steps
 */
#include "base/options.h"
#include "tape/parallel.h"
#include "tape/recurrent.h"

#include <string.h>

typedef struct simple_rnn_work {
    const td__recurrent *r;
    const float *packed; /* R, or R^T on the way back */
    const float *g;
    const td_tensor *initial;
    td__recurrent_gradients *d;
} simple_rnn_work;

static void simple_rnn_forward_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const simple_rnn_work *w = context;
    const td__recurrent *r = w->r;
    for (int64_t step = 0; step < r->time; step++) {
        td__recurrent_product(r, step, begin, end, td__recurrent_read(r, begin, end), w->packed,
                              r->units, r->gates, 0);
        for (int64_t i = begin; i < end; i++) {
            td__recurrent_activate(r, r->activation, i, step, 0, r->units);
            if (!td__recurrent_skips(r, i, step)) {
                memcpy(r->current + i * r->units, td__gate_row(r, r->gates, r->units, i, step),
                       (size_t)r->units * sizeof(float));
            }
            td__recurrent_keep(r, i, step);
        }
    }
}

static void simple_rnn_backward_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const simple_rnn_work *w = context;
    const td__recurrent *r = w->r;
    td__recurrent_gradients *d = w->d;
    for (int64_t step = r->time - 1; step >= 0; step--) {
        td__recurrent_gradients_step(r, w->g, step, begin, end, d);
        for (int64_t i = begin; i < end; i++) {
            if (td__recurrent_skips(r, i, step)) {
                td__recurrent_gradients_skip(r, w->initial, i, step, d);
                continue;
            }
            memcpy(d->row + i * r->units, d->state + i * r->units,
                   (size_t)r->units * sizeof(float));
            td__recurrent_derive(r, r->activation, i, step, 0, r->units, d->row + i * r->units);
            td__recurrent_gradients_keep(r, w->initial, i, step, d);
        }
        td__recurrent_back(r, begin, end, d->row, r->width, w->packed, false, d->state);
        td__recurrent_gradients_resume(r, step, begin, end, d);
    }
}

static td_status simple_rnn_backward(td_tape *tape, td__node *node) {
    const td__recurrent *r = node->saved;
    td__recurrent_gradients d;
    if (td__recurrent_gradients_begin(tape, r, 0, &d)) {
        return TD_MEMORY;
    }
    td__recurrent_panels packed;
    td_status status = td__recurrent_pack(tape, node->inputs[TD__RNN_RECURRENT].tensor, 0, true,
                                          r->units, r->width, &packed);
    if (!status) {
        simple_rnn_work work = {.r = r,
                                .packed = packed.data,
                                .g = td__output_gradient(tape, node),
                                .initial = node->inputs[TD__RNN_STATE].tensor,
                                .d = &d};
        td__parallel(r->batch, 1, td__recurrent_worth(r), simple_rnn_backward_part, &work);
        td__recurrent_unpack(tape, &packed);
        status = td__recurrent_gradients_all(tape, node, r, &d);
    }
    td__buffer_drop(tape, d.memory);
    return status;
}

static const td__op simple_rnn_op = {.name = "simple_rnn", .backward = simple_rnn_backward};

td_tensor *td_simple_rnn(td_tape *tape, td_tensor *x, td_tensor *kernel,
                         td_tensor *recurrent_kernel, td_tensor *bias,
                         const td_recurrent_options *options) {
    td_tensor *inputs[TD__RNN_INPUTS] = {x, kernel, recurrent_kernel, bias};
    td_recurrent_options given;
    options = td__options(&given, sizeof given, options);
    inputs[TD__RNN_STATE] = options->initial_state;
    td__recurrent *r = td__recurrent_begin(tape, "simple_rnn", 1, inputs, options, sizeof *r);
    if (!r || !td__recurrent_check_bias(tape, "simple_rnn", kernel, bias) ||
        td__recurrent_input(tape, r, inputs, bias ? td__floats(bias) : NULL)) {
        return NULL;
    }
    td__recurrent_panels packed;
    if (td__recurrent_pack(tape, recurrent_kernel, 0, false, r->width, r->units, &packed)) {
        return NULL;
    }
    simple_rnn_work work = {.r = r, .packed = packed.data};
    td__parallel(r->batch, 1, td__recurrent_worth(r), simple_rnn_forward_part, &work);
    td__recurrent_unpack(tape, &packed);
    return td__record(tape, &simple_rnn_op, r->output, TD__RNN_INPUTS, inputs, r);
}
