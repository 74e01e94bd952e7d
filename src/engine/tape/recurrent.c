/* Checks, products and bookkeeping of recurrent layers. */
#include "tape/recurrent.h"

#include "tape/linear.h"
#include "tape/prepared.h"

#include <string.h>

static bool check_activation(td_tape *tape, const char *op, td_activation activation) {
    if ((unsigned)activation < TD_ACTIVATION_COUNT &&
        (td__kernels()->activate[activation] || activation == TD_SOFTMAX)) {
        return true;
    }
    const char *name = td_activation_name(activation);
    td__fail(tape, TD_INVALID, "%s: activation %s is not one of single elements, nor softmax", op,
             name ? name : "(unknown)");
    return false;
}

static bool check_shapes(td_tape *tape, const char *op, int64_t gates, td_tensor *const inputs[]) {
    static const char *const roles[TD__RNN_INPUTS] = {"input", "kernel",        "recurrent kernel",
                                                      "bias",  "initial state", "initial cell"};
    for (int i = 0; i < TD__RNN_INPUTS; i++) {
        if ((i <= TD__RNN_RECURRENT || inputs[i]) &&
            !td__check_float(tape, op, roles[i], inputs[i])) {
            return false;
        }
    }
    char a[TD_SHAPE_TEXT_SIZE], b[TD_SHAPE_TEXT_SIZE];
    const td_shape *x = &inputs[TD__RNN_X]->shape, *kernel = &inputs[TD__RNN_KERNEL]->shape;
    const td_shape *recurrent = &inputs[TD__RNN_RECURRENT]->shape;
    if (x->rank != 3 || x->dims[1] < 1) {
        td__fail(tape, TD_BAD_SHAPE,
                 "%s: input %s must be (batch, time, features) with a time step", op,
                 td_shape_text(x, a));
        return false;
    }
    if (kernel->rank != 2 || kernel->dims[0] != x->dims[2] || kernel->dims[1] % gates) {
        td__fail(tape, TD_BAD_SHAPE,
                 "%s: kernel %s does not fit input %s: it must be (%lld, %lld * units)", op,
                 td_shape_text(kernel, a), td_shape_text(x, b), (long long)x->dims[2],
                 (long long)gates);
        return false;
    }
    int64_t units = kernel->dims[1] / gates;
    if (recurrent->rank != 2 || recurrent->dims[0] != units ||
        recurrent->dims[1] != kernel->dims[1]) {
        td__fail(tape, TD_BAD_SHAPE,
                 "%s: recurrent kernel %s does not fit kernel %s: it must be (%lld, %lld)", op,
                 td_shape_text(recurrent, a), td_shape_text(kernel, b), (long long)units,
                 (long long)kernel->dims[1]);
        return false;
    }
    for (int i = TD__RNN_STATE; i <= TD__RNN_CELL; i++) {
        const td_shape *state = inputs[i] ? &inputs[i]->shape : NULL;
        if (state &&
            (state->rank != 2 || state->dims[0] != x->dims[0] || state->dims[1] != units)) {
            td__fail(tape, TD_BAD_SHAPE, "%s: %s %s does not fit input %s: it must be (%lld, %lld)",
                     op, roles[i], td_shape_text(state, a), td_shape_text(x, b),
                     (long long)x->dims[0], (long long)units);
            return false;
        }
    }
    return true;
}

bool td__recurrent_check_bias(td_tape *tape, const char *op, const td_tensor *kernel,
                              const td_tensor *bias) {
    char a[TD_SHAPE_TEXT_SIZE], b[TD_SHAPE_TEXT_SIZE];
    if (!bias || (bias->shape.rank == 1 && bias->shape.dims[0] == kernel->shape.dims[1])) {
        return true;
    }
    td__fail(tape, TD_BAD_SHAPE, "%s: bias %s does not fit kernel %s: it must be (%lld,)", op,
             td_shape_text(&bias->shape, a), td_shape_text(&kernel->shape, b),
             (long long)kernel->shape.dims[1]);
    return false;
}

static float *rows_of(td_tape *tape, const td__recurrent *r, int64_t width) {
    td_tensor *rows = td__output(tape, TD_FLOAT32, &TD_SHAPE(r->batch, r->time, width));
    return rows ? td__floats(rows) : NULL;
}

/* The memory of a recurrence. With return_sequences the states are the output; otherwise the
 * current state is. */
static bool allocate(td_tape *tape, td__recurrent *r) {
    td_shape sequence = TD_SHAPE(r->batch, r->time, r->units), last = TD_SHAPE(r->batch, r->units);
    r->output = td__output(tape, TD_FLOAT32, r->sequences ? &sequence : &last);
    r->gates = r->output ? rows_of(tape, r, r->width) : NULL;
    float *zeros = r->gates ? td__scratch(tape, (size_t)r->units * sizeof(float)) : NULL;
    if (!zeros) {
        return false;
    }
    memset(zeros, 0, (size_t)r->units * sizeof(float));
    r->zeros = zeros;
    bool from_input = !td__activation_uses_output(r->activation) ||
                      !td__activation_uses_output(r->gate_activation);
    if (td__is_recording(tape) && from_input && !(r->before = rows_of(tape, r, r->width))) {
        return false;
    }
    if (r->sequences) {
        td_tensor *current = td__output(tape, TD_FLOAT32, &last);
        r->states = td__floats(r->output);
        r->current = current ? td__floats(current) : NULL;
        return r->current;
    }
    r->current = td__floats(r->output);
    r->states = td__is_recording(tape) ? rows_of(tape, r, r->units) : NULL;
    return r->states || !td__is_recording(tape);
}

/* Mask and scale, checked. */
static bool take_masks(td_tape *tape, const char *op, td__recurrent *r,
                       const td_recurrent_options *options) {
    char text[TD_SHAPE_TEXT_SIZE];
    td_tensor *given[] = {options->mask, options->state_scale};
    static const char *const roles[] = {"mask", "state scale"};
    const td_shape wanted[] = {TD_SHAPE(r->batch, r->time), TD_SHAPE(r->batch, r->units)};
    const float **places[] = {&r->mask, &r->scale};
    for (int i = 0; i < 2; i++) {
        if (given[i] && !td__check_float(tape, op, roles[i], given[i])) {
            return false;
        }
        if (given[i] && !td_shape_equal(&given[i]->shape, &wanted[i])) {
            td__fail(tape, TD_BAD_SHAPE, "%s: %s %s must be (%lld, %lld)", op, roles[i],
                     td_shape_text(&given[i]->shape, text), (long long)wanted[i].dims[0],
                     (long long)wanted[i].dims[1]);
            return false;
        }
        *places[i] = given[i] ? td__floats(given[i]) : NULL;
    }
    if (r->scale) {
        r->scaled = td__scratch(tape, (size_t)(r->batch * r->units) * sizeof(float));
    }
    return r->scaled || !r->scale;
}

/* TD_ACTIVATION_COUNT, which is none, for a number that is no activation. */
static td_activation activation_or(td_number number, td_activation by_default) {
    bool valid = number.value >= 0 && number.value < TD_ACTIVATION_COUNT;
    return !number.set ? by_default : valid ? (td_activation)number.value : TD_ACTIVATION_COUNT;
}

td__recurrent *td__recurrent_begin(td_tape *tape, const char *op, int64_t gates,
                                   td_tensor *const inputs[TD__RNN_INPUTS],
                                   const td_recurrent_options *options, size_t saved_size) {
    if (!check_shapes(tape, op, gates, inputs)) {
        return NULL;
    }
    td__recurrent *r = td__scratch(tape, saved_size);
    if (!r) {
        return NULL;
    }
    memset(r, 0, saved_size);
    const int64_t *x = inputs[TD__RNN_X]->shape.dims;
    r->batch = x[0];
    r->time = x[1];
    r->in = x[2];
    r->width = inputs[TD__RNN_KERNEL]->shape.dims[1];
    r->units = r->width / gates;
    r->sequences = options->return_sequences;
    r->backwards = options->go_backwards;
    r->activation = activation_or(options->activation, TD_TANH);
    r->gate_activation = activation_or(options->recurrent_activation, TD_SIGMOID);
    return check_activation(tape, op, r->activation) &&
                   check_activation(tape, op, r->gate_activation) &&
                   take_masks(tape, op, r, options) && allocate(tape, r)
               ? r
               : NULL;
}

td_status td__recurrent_input(td_tape *tape, td__recurrent *r,
                              td_tensor *const inputs[TD__RNN_INPUTS], const float *bias) {
    const td_tensor *initial = inputs[TD__RNN_STATE];
    for (int64_t example = 0; example < r->batch; example++) {
        memcpy(r->current + example * r->units, td__state_row(r, NULL, initial, example, -1),
               (size_t)r->units * sizeof(float));
    }
    return td__gemm(tape, &(td__gemm_arguments){.m = r->batch * r->time,
                                                .n = r->width,
                                                .k = r->in,
                                                .a = td__floats(inputs[TD__RNN_X]),
                                                .lda = r->in,
                                                .b = td__floats(inputs[TD__RNN_KERNEL]),
                                                .ldb = r->width,
                                                .b_is_weight = inputs[TD__RNN_KERNEL]->weight,
                                                .bias = bias,
                                                .c = r->gates,
                                                .ldc = r->width});
}

void td__recurrent_product(const td__recurrent *r, int64_t step, int64_t begin, int64_t end,
                           const float *a, const float *packed, int64_t columns, float *gates,
                           int64_t column) {
    td__gemm_spread(
        &(td__gemm_arguments){.m = end - begin,
                              .n = columns,
                              .k = r->units,
                              .a = a + begin * r->units,
                              .lda = r->units,
                              .c = td__gate_row(r, gates, r->width, begin, step) + column,
                              .ldc = r->time * r->width,
                              .flags = TD__TILE_ADD},
        packed);
}

void td__recurrent_back(const td__recurrent *r, int64_t begin, int64_t end, const float *rows,
                        int64_t width, const float *packed, bool add, float *states) {
    float *to = states + begin * r->units, *product = r->scale ? r->scaled + begin * r->units : to;
    td__gemm_spread(&(td__gemm_arguments){.m = end - begin,
                                          .n = r->units,
                                          .k = width,
                                          .a = rows + begin * width,
                                          .lda = width,
                                          .c = product,
                                          .ldc = r->units,
                                          .flags = add && !r->scale ? TD__TILE_ADD : 0},
                    packed);
    if (r->scale) {
        const float *scale = r->scale + begin * r->units;
        int64_t count = (end - begin) * r->units;
        if (add) {
            td__kernels()->multiply_add(count, product, scale, to);
        } else {
            td__kernels()->multiply(count, product, scale, to);
        }
    }
}

td_status td__recurrent_pack(td_tape *tape, const td_tensor *kernel, int64_t column, bool transpose,
                             int64_t n, int64_t k, td__recurrent_panels *out) {
    const float *from = td__floats(kernel) + column;
    size_t bytes = td__panels_bytes(n, k);
    td__prepared *kept =
        kernel->weight && !transpose ? td__prepare(tape, from, TD__PREPARED_PANELS, bytes) : NULL;
    *out = (td__recurrent_panels){.data = kept ? kept->data : NULL};
    if (kept && kept->made) {
        return TD_OK;
    }
    if (!kept) {
        out->memory = td__temporary(tape, bytes);
        if (!out->memory) {
            return TD_MEMORY;
        }
        out->data = out->memory->data;
    }
    float *to = kept ? kept->data : out->memory->data;
    td__pack(from, kernel->shape.dims[1], transpose, n, k, to);
    if (kept) {
        kept->made = true;
    }
    return TD_OK;
}

void td__recurrent_unpack(td_tape *tape, const td__recurrent_panels *panels) {
    if (panels->memory) {
        td__buffer_drop(tape, panels->memory);
    }
}

const float *td__recurrent_read(const td__recurrent *r, int64_t begin, int64_t end) {
    int64_t first = begin * r->units, count = (end - begin) * r->units;
    if (!r->scale) {
        return r->current;
    }
    td__kernels()->multiply(count, r->current + first, r->scale + first, r->scaled + first);
    return r->scaled;
}

void td__recurrent_apply(td_activation activation, int64_t n, const float *x, float *y) {
    if (activation == TD_SOFTMAX) {
        td__kernels()->softmax(1, n, x, y);
    } else {
        td__kernels()->activate[activation](n, td__activation_alpha(activation, TD_DEFAULT), x, y);
    }
}

void td__recurrent_apply_backward(td_activation activation, int64_t n, const float *values,
                                  const float *g, bool add, float *dx) {
    if (activation == TD_SOFTMAX) {
        td__kernels()->softmax_backward(1, n, values, g, add, dx);
    } else {
        td__kernels()->activate_backward[activation](
            n, td__activation_alpha(activation, TD_DEFAULT), values, g, add, dx);
    }
}

/* How many columns an activation takes at once: softmax those of one gate. */
static int64_t columns_at_once(const td__recurrent *r, td_activation activation, int64_t count) {
    return activation == TD_SOFTMAX ? r->units : count;
}

void td__recurrent_activate(const td__recurrent *r, td_activation activation, int64_t example,
                            int64_t step, int64_t first, int64_t count) {
    float *row = td__gate_row(r, r->gates, r->width, example, step) + first;
    if (r->before) {
        memcpy(td__gate_row(r, r->before, r->width, example, step) + first, row,
               (size_t)count * sizeof *row);
    }
    for (int64_t n = columns_at_once(r, activation, count), at = 0; at < count; at += n) {
        td__recurrent_apply(activation, n, row + at, row + at);
    }
}

void td__recurrent_derive(const td__recurrent *r, td_activation activation, int64_t example,
                          int64_t step, int64_t first, int64_t count, float *row) {
    float *from = td__activation_uses_output(activation) ? r->gates : r->before;
    const float *values = td__gate_row(r, from, r->width, example, step) + first;
    float *d = row + first;
    for (int64_t n = columns_at_once(r, activation, count), at = 0; at < count; at += n) {
        td__recurrent_apply_backward(activation, n, values + at, d + at, false, d + at);
    }
}

void td__recurrent_keep(const td__recurrent *r, int64_t example, int64_t step) {
    if (r->states) {
        memcpy(r->states + (example * r->time + step) * r->units, r->current + example * r->units,
               (size_t)r->units * sizeof(float));
    }
}

int64_t td__recurrent_worth(const td__recurrent *r) {
    return 100000 / (r->time * r->units * r->width + 1) + 1;
}

/* --- backward ------------------------------------------------------------------------------- */

td_status td__recurrent_gradients_begin(td_tape *tape, const td__recurrent *r, int64_t extra,
                                        td__recurrent_gradients *d) {
    int64_t gates = r->batch * r->time * r->width, previous = r->batch * r->time * r->units;
    int64_t row = r->batch * r->width, state = r->batch * r->units;
    int64_t held = r->mask ? state : 0;
    d->memory = td__temporary(tape, (size_t)(gates + previous + row + state + held + extra) *
                                        sizeof(float));
    if (!d->memory) {
        return TD_MEMORY;
    }
    d->gates = d->memory->data;
    d->previous = d->gates + gates;
    d->row = d->previous + previous;
    d->state = d->row + row;
    d->held = d->state + state;
    d->extra = d->held + held;
    memset(d->state, 0, (size_t)state * sizeof(float));
    return TD_OK;
}

void td__recurrent_gradients_step(const td__recurrent *r, const float *g, int64_t step,
                                  int64_t begin, int64_t end, td__recurrent_gradients *d) {
    if (!r->sequences && step < r->time - 1) {
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        float *state = d->state + i * r->units;
        const float *row = g + (r->sequences ? i * r->time + step : i) * r->units;
        td__kernels()->add(r->units, state, row, state);
    }
}

void td__recurrent_gradients_keep(const td__recurrent *r, const td_tensor *initial, int64_t example,
                                  int64_t step, td__recurrent_gradients *d) {
    memcpy(td__gate_row(r, d->gates, r->width, example, step), d->row + example * r->width,
           (size_t)r->width * sizeof(float));
    float *previous = td__gate_row(r, d->previous, r->units, example, step);
    memcpy(previous, td__state_row(r, r->states, initial, example, step - 1),
           (size_t)r->units * sizeof(float));
    if (r->scale) {
        td__kernels()->multiply(r->units, previous, r->scale + example * r->units, previous);
    }
}

void td__recurrent_gradients_skip(const td__recurrent *r, const td_tensor *initial, int64_t example,
                                  int64_t step, td__recurrent_gradients *d) {
    memcpy(d->held + example * r->units, d->state + example * r->units,
           (size_t)r->units * sizeof(float));
    memset(d->row + example * r->width, 0, (size_t)r->width * sizeof(float));
    td__recurrent_gradients_keep(r, initial, example, step, d);
}

void td__recurrent_gradients_resume(const td__recurrent *r, int64_t step, int64_t begin,
                                    int64_t end, td__recurrent_gradients *d) {
    for (int64_t i = begin; r->mask && i < end; i++) {
        if (td__recurrent_skips(r, i, step)) {
            memcpy(d->state + i * r->units, d->held + i * r->units,
                   (size_t)r->units * sizeof(float));
        }
    }
}

td_status td__recurrent_gradient_kernel(td_tape *tape, const td__recurrent *r, const float *left,
                                        const float *right, int64_t ld, int64_t columns, bool add,
                                        float *dr, int64_t column) {
    return td__gemm(tape, &(td__gemm_arguments){.m = r->units,
                                                .n = columns,
                                                .k = r->batch * r->time,
                                                .a = left,
                                                .lda = r->units,
                                                .transpose_a = true,
                                                .b = right,
                                                .ldb = ld,
                                                .c = dr + column,
                                                .ldc = r->width,
                                                .flags = add ? TD__TILE_ADD : 0});
}

td_status td__recurrent_gradient_state(td_tape *tape, td__node *node, const td__recurrent *r,
                                       int32_t input, const float *gradient) {
    bool add;
    if (!td__wants(tape, node, input)) {
        return TD_OK;
    }
    float *to = td__gradient(tape, node, input, &add);
    if (!to) {
        return TD_MEMORY;
    }
    if (add) {
        td__kernels()->add(r->batch * r->units, to, gradient, to);
    } else {
        memcpy(to, gradient, (size_t)(r->batch * r->units) * sizeof *to);
    }
    return TD_OK;
}

td_status td__recurrent_gradients_input(td_tape *tape, td__node *node, const td__recurrent *r,
                                        const td__recurrent_gradients *d) {
    const td_tensor *x = node->inputs[TD__RNN_X].tensor;
    const td_tensor *kernel = node->inputs[TD__RNN_KERNEL].tensor;
    td__gemm_arguments dx = {.m = r->batch * r->time,
                             .n = r->in,
                             .k = r->width,
                             .a = d->gates,
                             .lda = r->width,
                             .b = td__floats(kernel),
                             .ldb = r->width,
                             .transpose_b = true,
                             .ldc = r->in};
    td__gemm_arguments dw = {.m = r->in,
                             .n = r->width,
                             .k = r->batch * r->time,
                             .a = td__floats(x),
                             .lda = r->in,
                             .transpose_a = true,
                             .b = d->gates,
                             .ldb = r->width,
                             .ldc = r->width};
    td__gemm_arguments *products[] = {&dx, &dw};
    for (int32_t i = TD__RNN_X; i <= TD__RNN_KERNEL; i++) {
        if (td__wants(tape, node, i)) {
            bool add;
            products[i]->c = td__gradient(tape, node, i, &add);
            products[i]->flags = add ? TD__TILE_ADD : 0;
            if (!products[i]->c || td__gemm(tape, products[i])) {
                return TD_MEMORY;
            }
        }
    }
    return td__recurrent_gradient_state(tape, node, r, TD__RNN_STATE, d->state);
}

td_status td__recurrent_gradients_all(td_tape *tape, td__node *node, const td__recurrent *r,
                                      const td__recurrent_gradients *d) {
    bool add;
    if (td__recurrent_gradients_input(tape, node, r, d)) {
        return TD_MEMORY;
    }
    if (td__wants(tape, node, TD__RNN_RECURRENT)) {
        float *dr = td__gradient(tape, node, TD__RNN_RECURRENT, &add);
        if (!dr || td__recurrent_gradient_kernel(tape, r, d->previous, d->gates, r->width, r->width,
                                                 add, dr, 0)) {
            return TD_MEMORY;
        }
    }
    if (td__wants(tape, node, TD__RNN_BIAS)) {
        float *db = td__gradient(tape, node, TD__RNN_BIAS, &add);
        return db ? td__sum_rows_all(tape, r->batch * r->time, r->width, d->gates, add, db)
                  : TD_MEMORY;
    }
    return TD_OK;
}
