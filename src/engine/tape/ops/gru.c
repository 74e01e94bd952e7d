/* gru: z = s(x Wz + bz + h' Rz), r = s(x Wr + br + h' Rr); h' the state before
 * reset after:  c = t(x Wc + bc + r q), q = h' Rc + b'c
 * reset before: c = t(x Wc + bc + (r h') Rc)
 * h = z h' + (1 - z) c; gates z, r, c (Keras's order); the second row of a (2, 3 units) bias is b'
 *
 * dz = dh (h' - c) s'; dc = dh (1 - z) t'; dh' = dh z + what the products pass back
 * reset after:  dr = dc q s'; dq = dc r
 * reset before: with e = dc Rc^T: dr = e h' s'; dh' += e r
 * The candidate's part of dR is p^T u over all steps, p = h', u = dq, or p = r h', u = dc.
 */
#include "base/options.h"
#include "tape/linear.h"
#include "tape/parallel.h"
#include "tape/recurrent.h"

#include <string.h>

typedef struct gru_saved {
    td__recurrent r; /* first */
    bool reset_after;
    float *inner; /* (batch, time, units), in the order of steps: q, or r h' */
} gru_saved;

typedef struct gru_work {
    const gru_saved *saved;
    const float *packed_gates;     /* Rz and Rr, or their transpose on the way back */
    const float *packed_candidate; /* Rc, the same */
    const float *inner_bias;       /* b'c, or NULL */
    const float *state;            /* (batch, units): h' as products read it */
    const float *g;
    const td_tensor *initial;
    td__recurrent_gradients *d;
    float *row_gates, *row_candidate; /* (batch, 2 units) and (batch, units): of the step */
    float *candidate;                 /* (batch, time, units), as d->previous: p or u */
} gru_work;

/* --- forward -------------------------------------------------------------------------------- */

static float *inner_row(const gru_saved *saved, int64_t i, int64_t step) {
    return saved->inner + (i * saved->r.time + step) * saved->r.units;
}

/* q = h' Rc + b'c for all examples, then its share of the candidate. */
static void reset_after_product(const gru_work *w, int64_t begin, int64_t end, int64_t step) {
    const td__recurrent *r = &w->saved->r;
    const td__kernels_table *kernels = td__kernels();
    int64_t n = r->units;
    td__gemm_spread(&(td__gemm_arguments){.m = end - begin,
                                          .n = n,
                                          .k = n,
                                          .a = w->state + begin * n,
                                          .lda = n,
                                          .c = inner_row(w->saved, begin, step),
                                          .ldc = r->time * n},
                    w->packed_candidate);
    for (int64_t i = begin; i < end; i++) {
        float *gates = td__gate_row(r, r->gates, r->width, i, step);
        float *q = inner_row(w->saved, i, step);
        if (w->inner_bias) {
            kernels->add(n, q, w->inner_bias, q);
        }
        kernels->multiply_add(n, gates + n, q, gates + 2 * n);
    }
}

/* The candidate's share (r h') Rc. */
static void reset_before_product(const gru_work *w, int64_t begin, int64_t end, int64_t step) {
    const td__recurrent *r = &w->saved->r;
    int64_t n = r->units;
    for (int64_t i = begin; i < end; i++) {
        const float *gates = td__gate_row(r, r->gates, r->width, i, step);
        float *product = w->row_candidate + i * n;
        td__kernels()->multiply(n, gates + n, w->state + i * n, product);
        memcpy(inner_row(w->saved, i, step), product, (size_t)n * sizeof *product);
    }
    td__recurrent_product(r, step, begin, end, w->row_candidate, w->packed_candidate, n, r->gates,
                          2 * n);
}

static void gru_forward_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const gru_work *w = context;
    const td__recurrent *r = &w->saved->r;
    int64_t n = r->units;
    for (int64_t step = 0; step < r->time; step++) {
        (void)td__recurrent_read(r, begin, end);
        td__recurrent_product(r, step, begin, end, w->state, w->packed_gates, 2 * n, r->gates, 0);
        for (int64_t i = begin; i < end; i++) {
            td__recurrent_activate(r, r->gate_activation, i, step, 0, 2 * n);
        }
        if (w->saved->reset_after) {
            reset_after_product(w, begin, end, step);
        } else {
            reset_before_product(w, begin, end, step);
        }
        for (int64_t i = begin; i < end; i++) {
            td__recurrent_activate(r, r->activation, i, step, 2 * n, n);
            float *state = r->current + i * n;
            if (!td__recurrent_skips(r, i, step)) {
                td__kernels()->gru_state(n, td__gate_row(r, r->gates, r->width, i, step), state,
                                         state);
            }
            td__recurrent_keep(r, i, step);
        }
    }
}

/* --- backward ------------------------------------------------------------------------------- */

/* From dh to dz and dc, activations included, in row; dh becomes dh z. */
static void derive_state(const gru_work *w, int64_t i, int64_t step) {
    const td__recurrent *r = &w->saved->r;
    int64_t n = r->units;
    float *row = w->d->row + i * r->width;
    if (td__recurrent_skips(r, i, step)) {
        memset(row, 0, (size_t)r->width * sizeof *row);
        return;
    }
    td__kernels()->gru_state_backward(n, td__gate_row(r, r->gates, r->width, i, step),
                                      td__state_row(r, r->states, w->initial, i, step - 1),
                                      w->d->state + i * n, row);
    td__recurrent_derive(r, r->activation, i, step, 2 * n, n, row);
}

/* dr in row, and dq for the product with Rc. */
static void reset_after_backward(const gru_work *w, int64_t i, int64_t step) {
    const td__recurrent *r = &w->saved->r;
    const td__kernels_table *kernels = td__kernels();
    int64_t n = r->units;
    const float *gates = td__gate_row(r, r->gates, r->width, i, step);
    float *row = w->d->row + i * r->width, *dq = w->row_candidate + i * n;
    kernels->multiply(n, row + 2 * n, inner_row(w->saved, i, step), row + n);
    kernels->multiply(n, row + 2 * n, gates + n, dq);
    memcpy(td__gate_row(r, w->candidate, n, i, step), dq, (size_t)n * sizeof *dq);
}

/* With e = dc Rc^T in row_candidate: dr in row, and dh' += e r. */
static void reset_before_backward(const gru_work *w, int64_t i, int64_t step) {
    const td__recurrent *r = &w->saved->r;
    const td__kernels_table *kernels = td__kernels();
    int64_t n = r->units;
    const float *gates = td__gate_row(r, r->gates, r->width, i, step);
    const float *e = w->row_candidate + i * n;
    float *row = w->d->row + i * r->width;
    kernels->multiply(n, e, td__state_row(r, r->states, w->initial, i, step - 1), row + n);
    kernels->multiply_add(n, e, gates + n, w->d->state + i * n);
    memcpy(td__gate_row(r, w->candidate, n, i, step), inner_row(w->saved, i, step),
           (size_t)n * sizeof *row);
}

/* e = dc Rc^T for all examples, and as the state was scaled. */
static void back_through_candidate(const gru_work *w, int64_t begin, int64_t end) {
    const td__recurrent *r = &w->saved->r;
    td__gemm_spread(&(td__gemm_arguments){.m = end - begin,
                                          .n = r->units,
                                          .k = r->units,
                                          .a = w->d->row + begin * r->width + 2 * r->units,
                                          .lda = r->width,
                                          .c = w->row_candidate + begin * r->units,
                                          .ldc = r->units},
                    w->packed_candidate);
    if (r->scale) {
        float *e = w->row_candidate + begin * r->units;
        td__kernels()->multiply((end - begin) * r->units, e, r->scale + begin * r->units, e);
    }
}

static void gru_backward_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const gru_work *w = context;
    const td__recurrent *r = &w->saved->r;
    td__recurrent_gradients *d = w->d;
    int64_t n = r->units;
    for (int64_t step = r->time - 1; step >= 0; step--) {
        td__recurrent_gradients_step(r, w->g, step, begin, end, d);
        for (int64_t i = begin; i < end; i++) {
            derive_state(w, i, step);
        }
        if (!w->saved->reset_after) {
            back_through_candidate(w, begin, end);
        }
        for (int64_t i = begin; i < end; i++) {
            float *row = d->row + i * r->width;
            if (w->saved->reset_after) {
                reset_after_backward(w, i, step);
            } else {
                reset_before_backward(w, i, step);
            }
            td__recurrent_derive(r, r->gate_activation, i, step, 0, 2 * n, row);
            memcpy(w->row_gates + i * 2 * n, row, (size_t)(2 * n) * sizeof *row);
            td__recurrent_gradients_keep(r, w->initial, i, step, d);
        }
        td__recurrent_back(r, begin, end, w->row_gates, 2 * n, w->packed_gates, true, d->state);
        if (w->saved->reset_after) {
            td__recurrent_back(r, begin, end, w->row_candidate, n, w->packed_candidate, true,
                               d->state);
        }
    }
}

static td_status gradient_of_recurrent(td_tape *tape, td__node *node, const gru_work *w) {
    const td__recurrent *r = &w->saved->r;
    int64_t n = r->units;
    bool add;
    float *dr = td__gradient(tape, node, TD__RNN_RECURRENT, &add);
    if (!dr || td__recurrent_gradient_kernel(tape, r, w->d->previous, w->d->gates, r->width, 2 * n,
                                             add, dr, 0)) {
        return TD_MEMORY;
    }
    return w->saved->reset_after
               ? td__recurrent_gradient_kernel(tape, r, w->d->previous, w->candidate, n, n, add, dr,
                                               2 * n)
               : td__recurrent_gradient_kernel(tape, r, w->candidate, w->d->gates + 2 * n, r->width,
                                               n, add, dr, 2 * n);
}

/* The second row of the bias gets what the first gets, but dq for dc. */
static td_status gradient_of_bias(td_tape *tape, td__node *node, const gru_work *w) {
    const td__recurrent *r = &w->saved->r;
    const td_tensor *bias = node->inputs[TD__RNN_BIAS].tensor;
    int64_t n = r->units, rows = r->batch * r->time;
    td__buffer *sums = td__temporary(tape, (size_t)(2 * r->width) * sizeof(float));
    if (!sums) {
        return TD_MEMORY;
    }
    float *first = sums->data, *second = first + r->width;
    bool add, both = bias->shape.rank == 2;
    td_status status = td__sum_rows_all(tape, rows, r->width, w->d->gates, false, first);
    if (!status && both) {
        memcpy(second, first, (size_t)(2 * n) * sizeof *second);
        status = td__sum_rows_all(tape, rows, n, w->candidate, false, second + 2 * n);
    }
    float *db = status ? NULL : td__gradient(tape, node, TD__RNN_BIAS, &add);
    if (db && add) {
        td__kernels()->add(bias->count, db, first, db);
    } else if (db) {
        memcpy(db, first, (size_t)bias->count * sizeof *db);
    }
    td__buffer_drop(tape, sums);
    return db ? TD_OK : TD_MEMORY;
}

static td_status finish_gru(td_tape *tape, td__node *node, const gru_work *w) {
    if (td__recurrent_gradients_input(tape, node, &w->saved->r, w->d)) {
        return TD_MEMORY;
    }
    if (td__wants(tape, node, TD__RNN_RECURRENT) && gradient_of_recurrent(tape, node, w)) {
        return TD_MEMORY;
    }
    return td__wants(tape, node, TD__RNN_BIAS) ? gradient_of_bias(tape, node, w) : TD_OK;
}

static td_status gru_backward(td_tape *tape, td__node *node) {
    const gru_saved *saved = node->saved;
    const td__recurrent *r = &saved->r;
    int64_t n = r->units, count = r->batch * n;
    td__recurrent_gradients d;
    if (td__recurrent_gradients_begin(tape, r, 3 * count + r->time * count, &d)) {
        return TD_MEMORY;
    }
    const td_tensor *kernel = node->inputs[TD__RNN_RECURRENT].tensor;
    td__recurrent_panels gates, candidate;
    td_status status = td__recurrent_pack(tape, kernel, 0, true, n, 2 * n, &gates);
    status = status ? status : td__recurrent_pack(tape, kernel, 2 * n, true, n, n, &candidate);
    if (!status) {
        gru_work work = {.saved = saved,
                         .packed_gates = gates.data,
                         .packed_candidate = candidate.data,
                         .g = td__output_gradient(tape, node),
                         .initial = node->inputs[TD__RNN_STATE].tensor,
                         .d = &d,
                         .row_gates = d.extra,
                         .row_candidate = d.extra + 2 * count,
                         .candidate = d.extra + 3 * count};
        td__parallel(r->batch, 1, td__recurrent_worth(r), gru_backward_part, &work);
        td__recurrent_unpack(tape, &gates);
        td__recurrent_unpack(tape, &candidate);
        status = finish_gru(tape, node, &work);
    }
    td__buffer_drop(tape, d.memory);
    return status;
}

static const td__op gru_op = {.name = "gru", .backward = gru_backward};

/* --- the operation -------------------------------------------------------------------------- */

static bool check_bias(td_tape *tape, const td_tensor *kernel, const td_tensor *bias) {
    char a[TD_SHAPE_TEXT_SIZE], b[TD_SHAPE_TEXT_SIZE];
    int64_t width = kernel->shape.dims[1];
    const td_shape *shape = bias ? &bias->shape : NULL;
    if (!bias || (shape->rank == 1 && shape->dims[0] == width) ||
        (shape->rank == 2 && shape->dims[0] == 2 && shape->dims[1] == width)) {
        return true;
    }
    td__fail(tape, TD_BAD_SHAPE,
             "gru: bias %s does not fit kernel %s: it must be (2, %lld) or (%lld,)",
             td_shape_text(shape, a), td_shape_text(&kernel->shape, b), (long long)width,
             (long long)width);
    return false;
}

/* The part of the biases that the input's product can add: all but b'c. */
static td_status input_product(td_tape *tape, td__recurrent *r, td_tensor *const inputs[]) {
    const td_tensor *bias = inputs[TD__RNN_BIAS];
    if (!bias || bias->shape.rank == 1) {
        return td__recurrent_input(tape, r, inputs, bias ? td__floats(bias) : NULL);
    }
    td__buffer *sum = td__temporary(tape, (size_t)r->width * sizeof(float));
    if (!sum) {
        return TD_MEMORY;
    }
    const float *first = td__floats(bias), *second = first + r->width;
    memcpy(sum->data, first, (size_t)r->width * sizeof(float));
    td__kernels()->add(2 * r->units, first, second, sum->data);
    td_status status = td__recurrent_input(tape, r, inputs, sum->data);
    td__buffer_drop(tape, sum);
    return status;
}

/* The recurrence, with its packed kernel and memory for one step. */
static td_status run_gru(td_tape *tape, const gru_saved *saved, td_tensor *const inputs[]) {
    const td__recurrent *r = &saved->r;
    const td_tensor *bias = inputs[TD__RNN_BIAS];
    const td_tensor *kernel = inputs[TD__RNN_RECURRENT];
    int64_t n = r->units;
    td__recurrent_panels gates, candidate;
    if (td__recurrent_pack(tape, kernel, 0, false, 2 * n, n, &gates) ||
        td__recurrent_pack(tape, kernel, 2 * n, false, n, n, &candidate)) {
        return TD_MEMORY;
    }
    td__buffer *row = td__temporary(tape, (size_t)(r->batch * n) * sizeof(float));
    if (!row) {
        return TD_MEMORY;
    }
    gru_work work = {.saved = saved,
                     .packed_gates = gates.data,
                     .packed_candidate = candidate.data,
                     .state = r->scale ? r->scaled : r->current,
                     .row_candidate = row->data};
    if (bias && bias->shape.rank == 2) {
        work.inner_bias = td__floats(bias) + r->width + 2 * n;
    }
    td__parallel(r->batch, 1, td__recurrent_worth(r), gru_forward_part, &work);
    td__buffer_drop(tape, row);
    td__recurrent_unpack(tape, &candidate);
    td__recurrent_unpack(tape, &gates);
    return TD_OK;
}

td_tensor *td_gru(td_tape *tape, td_tensor *x, td_tensor *kernel, td_tensor *recurrent_kernel,
                  td_tensor *bias, bool reset_after, const td_recurrent_options *options) {
    td_tensor *inputs[TD__RNN_INPUTS] = {x, kernel, recurrent_kernel, bias};
    td_recurrent_options given;
    options = td__options(&given, sizeof given, options);
    inputs[TD__RNN_STATE] = options->initial_state;
    gru_saved *saved =
        (gru_saved *)td__recurrent_begin(tape, "gru", 3, inputs, options, sizeof *saved);
    if (!saved || !check_bias(tape, kernel, bias)) {
        return NULL;
    }
    td__recurrent *r = &saved->r;
    saved->reset_after = bias ? bias->shape.rank == 2 : reset_after;
    td_tensor *inner = td__output(tape, TD_FLOAT32, &TD_SHAPE(r->batch, r->time, r->units));
    if (!inner || input_product(tape, r, inputs)) {
        return NULL;
    }
    saved->inner = td__floats(inner);
    if (run_gru(tape, saved, inputs)) {
        return NULL;
    }
    return td__record(tape, &gru_op, r->output, TD__RNN_INPUTS, inputs, saved);
}
