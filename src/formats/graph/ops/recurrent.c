/* RNN, GRU, LSTM: forward, backward, and both.
 *
 * The tape's recurrent layers do what networks are made of; peepholes, clipping, sequences of
 * different lengths, uncommon activations and the last cell go step by step.
 */
#include "graph/ops/recurrent.h"

#include <string.h>

/* Inputs. */
enum { X, W, R, B, LENGTHS, STATE, CELL, PEEPHOLES };

/* Gate number i of Keras's is gate order[i] of ONNX's. */
static const int8_t gate_order[][4] = {
    [TD__GRAPH_RNN] = {0}, [TD__GRAPH_GRU] = {0, 1, 2}, [TD__GRAPH_LSTM] = {0, 2, 3, 1}};

typedef struct recurrent {
    td__graph_direction d;
    int64_t directions;
    bool batch_first;
} recurrent;

/* --- weights ------------------------------------------------------------------------------ */

/* (directions, gates * units, in) of one direction as (in, gates * units). */
static td_tensor *kernel_of(td__graph_call *call, const recurrent *r, size_t input,
                            int64_t direction) {
    td__graph_value *value = td__graph_input(call, input);
    if (value->gates) {
        return value->gates;
    }
    td_tensor *w = td__graph_plain(call, input);
    int64_t n = r->d.units, gates = r->d.gates;
    if (!w || w->dtype != TD_FLOAT32 || w->shape.rank != 3 || w->shape.dims[0] != r->directions ||
        w->shape.dims[1] != gates * n) {
        (void)td__graph_fail(call, TD_BAD_SHAPE, "input %zu does not fit %lld units", input,
                             (long long)n);
        return NULL;
    }
    int64_t in = w->shape.dims[2];
    td__move_map map;
    if (!td__move_map_init(call->tape, call->node->op_type, TD_SHAPE(in, gates, n), &map)) {
        return NULL;
    }
    for (int64_t i = 0; map.offsets[0] && i < in; i++) {
        map.offsets[0][i] = i;
    }
    for (int64_t g = 0; map.offsets[1] && g < gates; g++) {
        map.offsets[1][g] = (direction * gates + gate_order[r->d.cell][g]) * n * in;
    }
    for (int64_t u = 0; map.offsets[2] && u < n; u++) {
        map.offsets[2][u] = u * in;
    }
    return td_reshape(call->tape, td__move(call->tape, w, &map, NULL), TD_SHAPE(in, gates * n));
}

/* (directions, 2 * gates * units): of the input's and of the state's product. */
static td_tensor *bias_of(td__graph_call *call, const recurrent *r, int64_t direction) {
    const td__graph_value *value = td__graph_input(call, B);
    if (value->gates) {
        return value->gates;
    }
    td_tensor *b = td__graph_plain(call, B);
    int64_t n = r->d.units, gates = r->d.gates;
    if (!b || b->dtype != TD_FLOAT32 || b->count != r->directions * 2 * gates * n) {
        (void)td__graph_fail(call, TD_BAD_SHAPE, "its biases do not fit %lld units", (long long)n);
        return NULL;
    }
    td__move_map map;
    if (!td__move_map_init(call->tape, call->node->op_type, TD_SHAPE(2, gates, n), &map)) {
        return NULL;
    }
    for (int64_t k = 0; map.offsets[0] && k < 2; k++) {
        map.offsets[0][k] = (direction * 2 + k) * gates * n;
    }
    for (int64_t g = 0; map.offsets[1] && g < gates; g++) {
        map.offsets[1][g] = gate_order[r->d.cell][g] * n;
    }
    for (int64_t u = 0; map.offsets[2] && u < n; u++) {
        map.offsets[2][u] = u;
    }
    td_tensor *both =
        td_reshape(call->tape, td__move(call->tape, b, &map, NULL), TD_SHAPE(2, gates * n));
    if (r->d.reset_after) {
        return both;
    }
    return td_sum(call->tape, both, TD__REDUCE(.count = 1, .axes = {0}));
}

/* Part number `direction` of a value (directions, …, width), or (batch, directions, width), as
 * (batch, width); one state for all examples serves a batch of any size. */
static bool state_of(td__graph_call *call, const recurrent *r, size_t input, int64_t direction,
                     td_tensor **state) {
    td_tensor *all = td__graph_plain(call, input);
    *state = NULL;
    if (!td__graph_input(call, input)) {
        return true;
    }
    int32_t axis = r->batch_first ? 1 : 0;
    if (!all || all->dtype != TD_FLOAT32 || all->shape.rank != 3 ||
        all->shape.dims[axis] != r->directions || all->shape.dims[2] != r->d.units) {
        return all ? td__graph_fail(call, TD_BAD_SHAPE, "its initial state does not fit") : false;
    }
    int64_t begin[3] = {0}, size[3] = {-1, -1, -1}, given = all->shape.dims[1 - axis];
    begin[axis] = direction;
    size[axis] = 1;
    td_tensor *part = td_slice(call->tape, all, begin, size);
    part = td_reshape(call->tape, part, TD_SHAPE(given, r->d.units));
    if (given == 1 && r->d.batch != 1) {
        part = td_add(call->tape, part,
                      td__graph_filled(call->tape, TD_SHAPE(r->d.batch, r->d.units), 0));
    }
    *state = part;
    return part;
}

static bool peepholes_of(td__graph_call *call, recurrent *r, int64_t direction) {
    td_tensor *p = td__graph_plain(call, PEEPHOLES);
    r->d.peepholes = NULL;
    if (r->d.cell != TD__GRAPH_LSTM || !p) {
        return true;
    }
    int64_t width = 3 * r->d.units, begin[] = {direction, 0}, size[] = {1, -1};
    if (p->shape.rank != 2 || p->shape.dims[1] != width || p->shape.dims[0] != r->directions) {
        return td__graph_fail(call, TD_BAD_SHAPE, "its peepholes do not fit");
    }
    p = td_slice(call->tape, p, begin, size);
    r->d.peepholes = td_reshape(call->tape, p, TD_SHAPE(width));
    return r->d.peepholes;
}

/* --- attributes --------------------------------------------------------------------------- */

/* The numbers of activations: lists that have an element for each activation that takes one. */
static void read_numbers(const td__graph_call *call, recurrent *r, const td__graph_attribute *given,
                         size_t from, size_t count) {
    static const struct {
        const char *name;
        bool beta;
        float alpha_fallback, beta_fallback;
    } takers[] = {{"Affine", true, 1, 0},
                  {"Elu", false, 1, 0},
                  {"HardSigmoid", true, 0.2f, 0.5f},
                  {"LeakyRelu", false, 0.01f, 0}};
    const td__graph_attribute *lists[2] = {td__graph_attribute_of(call->node, "activation_alpha"),
                                           td__graph_attribute_of(call->node, "activation_beta")};
    size_t used[2] = {0};
    for (size_t i = 0; i < from + count; i++) {
        const char *name = given ? given->texts[i] : "";
        for (size_t k = 0; k < sizeof takers / sizeof *takers; k++) {
            float numbers[2] = {takers[k].alpha_fallback, takers[k].beta_fallback};
            if (strcmp(takers[k].name, name) != 0) {
                continue;
            }
            for (size_t n = 0; n < (takers[k].beta ? 2u : 1u); n++) {
                bool listed = lists[n] && lists[n]->kind == TD__GRAPH_ATTRIBUTE_FLOATS &&
                              used[n] < lists[n]->count;
                numbers[n] = listed ? lists[n]->numbers[used[n]] : numbers[n];
                used[n]++;
            }
            if (i >= from) {
                r->d.alphas[i - from] = numbers[0];
                r->d.betas[i - from] = numbers[1];
            }
        }
    }
}

/* Three for an lstm, two for a gru, one for an rnn, of each direction. */
static bool read_activations(td__graph_call *call, recurrent *r, int64_t direction) {
    static const char *const default_activations[][TD__GRAPH_MAX_ACTIVATIONS] = {
        [TD__GRAPH_RNN] = {"Tanh"},
        [TD__GRAPH_GRU] = {"Sigmoid", "Tanh"},
        [TD__GRAPH_LSTM] = {"Sigmoid", "Tanh", "Tanh"}};
    const td__graph_attribute *given = td__graph_attribute_of(call->node, "activations");
    size_t count = r->d.cell == TD__GRAPH_LSTM ? 3 : r->d.cell == TD__GRAPH_GRU ? 2 : 1;
    size_t from = (size_t)direction * count;
    bool has = given && given->kind == TD__GRAPH_ATTRIBUTE_TEXTS && given->count > 0;
    if (has && given->count < from + count) {
        return td__graph_fail(call, TD_INVALID, "it has too few activations");
    }
    for (size_t i = 0; i < count; i++) {
        r->d.activations[i] = has ? given->texts[from + i] : default_activations[r->d.cell][i];
    }
    read_numbers(call, r, has ? given : NULL, from, count);
    return true;
}

static bool read_lengths(td__graph_call *call, recurrent *r) {
    td_tensor *lengths = td__graph_plain(call, LENGTHS);
    bool full = true;
    if (!lengths) {
        return true;
    }
    if (lengths->dtype != TD_INT64 || lengths->count != r->d.batch) {
        return td__graph_fail(call, TD_BAD_SHAPE, "its lengths do not fit the batch");
    }
    const int64_t *values = lengths->data;
    for (int64_t i = 0; i < r->d.batch; i++) {
        full = full && values[i] >= r->d.time;
    }
    r->d.lengths = full ? NULL : values;
    return true;
}

static bool read_attributes(td__graph_call *call, td__graph_cell cell, recurrent *r) {
    const char *direction = td__graph_text(call->node, "direction", "forward");
    bool both = strcmp(direction, "bidirectional") == 0;
    const td__graph_value *w = td__graph_input(call, R);
    if (!td__graph_is_float(call, X) || !td__graph_is_float(call, W) ||
        !td__graph_is_float(call, R)) {
        return td__graph_fail(call, TD_UNSUPPORTED, "only of type float");
    }
    if (both && (td__graph_input(call, W)->gates || w->gates)) {
        return td__graph_fail(call, TD_BAD_SHAPE, "weights of one direction for two");
    }
    *r = (recurrent){.directions = both ? 2 : 1,
                     .batch_first = td__graph_int(call->node, "layout", 0) != 0};
    r->d.cell = cell;
    r->d.gates = cell == TD__GRAPH_LSTM ? 4 : cell == TD__GRAPH_GRU ? 3 : 1;
    r->d.reverse = strcmp(direction, "reverse") == 0;
    r->d.reset_after =
        cell == TD__GRAPH_GRU && td__graph_int(call->node, "linear_before_reset", 0) != 0;
    r->d.input_forget = td__graph_int(call->node, "input_forget", 0) != 0;
    r->d.clip = td__graph_float(call->node, "clip", 0);
    td_tensor *x = td__graph_plain(call, X);
    td_tensor *state_weights = w->gates ? w->gates : td__graph_plain(call, R);
    if (!x || !state_weights) {
        return false;
    }
    int32_t rank = state_weights->shape.rank;
    if (x->shape.rank != 3 || rank != (w->gates ? 2 : 3)) {
        return td__graph_fail(call, TD_BAD_SHAPE, "its input must be sequences");
    }
    r->d.units = state_weights->shape.dims[w->gates ? 0 : 2];
    r->d.x = r->batch_first ? x : td_transpose(call->tape, x, (int32_t[]){1, 0, 2});
    if (!r->d.x) {
        return false;
    }
    r->d.batch = r->d.x->shape.dims[0];
    r->d.time = r->d.x->shape.dims[1];
    return read_lengths(call, r);
}

static bool read_direction(td__graph_call *call, recurrent *r, int64_t direction) {
    td__graph_direction *d = &r->d;
    d->reverse = d->reverse || direction == 1;
    d->kernel = kernel_of(call, r, W, direction);
    d->recurrent = kernel_of(call, r, R, direction);
    d->bias = td__graph_input(call, B) ? bias_of(call, r, direction) : NULL;
    if (!d->kernel || !d->recurrent || (td__graph_input(call, B) && !d->bias)) {
        return false;
    }
    return read_activations(call, r, direction) && peepholes_of(call, r, direction) &&
           state_of(call, r, STATE, direction, &d->state) &&
           (d->cell != TD__GRAPH_LSTM || state_of(call, r, CELL, direction, &d->cell_state));
}

/* --- running ------------------------------------------------------------------------------ */

/* Whether the tape's own layer computes the same. */
static bool is_common(const td__graph_call *call, const td__graph_direction *d) {
    static const char *const common[] = {"Sigmoid", "Tanh", "Tanh"};
    bool same = !d->lengths && !d->peepholes && d->clip <= 0 && !d->input_forget && d->time > 0 &&
                !(d->cell == TD__GRAPH_LSTM && td__graph_wants(call, 2));
    size_t count = d->cell == TD__GRAPH_LSTM ? 3 : d->cell == TD__GRAPH_GRU ? 2 : 0;
    for (size_t i = 0; i < count; i++) {
        same = same && strcmp(d->activations[i], common[i]) == 0;
    }
    return same && (d->cell != TD__GRAPH_RNN || strcmp(d->activations[0], "Tanh") == 0 ||
                    strcmp(d->activations[0], "Relu") == 0);
}

/* (batch, time, units) with the time the other way round. */
static td_tensor *turn(td__graph_call *call, td_tensor *x) {
    td__move_map map;
    int64_t strides[TD_MAX_RANK];
    if (!td__move_map_init(call->tape, call->node->op_type, x->shape, &map)) {
        return NULL;
    }
    td__strides(&x->shape, strides);
    for (int32_t axis = 0; axis < 3; axis++) {
        for (int64_t i = 0; map.offsets[axis] && i < x->shape.dims[axis]; i++) {
            map.offsets[axis][i] = (axis == 1 ? x->shape.dims[1] - 1 - i : i) * strides[axis];
        }
    }
    return td__move(call->tape, x, &map, NULL);
}

static bool run_common(td__graph_call *call, const td__graph_direction *d,
                       td__graph_sequence *result) {
    td_tape *tape = call->tape;
    td_recurrent_options options = {.size = sizeof options,
                                    .return_sequences = true,
                                    .go_backwards = d->reverse,
                                    .initial_state = d->state,
                                    .initial_cell = d->cell_state};
    td_tensor *y;
    if (d->cell == TD__GRAPH_LSTM) {
        y = td_lstm(tape, d->x, d->kernel, d->recurrent, d->bias, &options);
    } else if (d->cell == TD__GRAPH_GRU) {
        y = td_gru(tape, d->x, d->kernel, d->recurrent, d->bias, d->reset_after, &options);
    } else {
        options.activation = TD_SET(*d->activations[0] == 'R' ? TD_RELU : TD_TANH);
        y = td_simple_rnn(tape, d->x, d->kernel, d->recurrent, d->bias, &options);
    }
    if (!y) {
        return false;
    }
    int64_t begin[] = {0, d->time - 1, 0}, size[] = {-1, 1, -1}; /* the last step made */
    result->state = td__graph_wants(call, 1) ? td_reshape(tape, td_slice(tape, y, begin, size),
                                                          TD_SHAPE(d->batch, d->units))
                                             : NULL;
    result->all = d->reverse && td__graph_wants(call, 0) ? turn(call, y) : y;
    return result->all;
}

/* The directions' results side by side: sequences (time, directions, batch, units), or with the
 * batch first (batch, time, directions, units); states (directions, batch, units). */
static bool output_sequences(td__graph_call *call, const recurrent *r,
                             const td__graph_sequence *results) {
    td_tensor *parts[2];
    for (int64_t i = 0; i < r->directions; i++) {
        td_tensor *all = results[i].all;
        td_shape shape = TD_SHAPE(r->d.batch, r->d.time, 1, r->d.units);
        if (!r->batch_first) {
            all = td_transpose(call->tape, all, (int32_t[]){1, 0, 2});
            shape = TD_SHAPE(r->d.time, 1, r->d.batch, r->d.units);
        }
        parts[i] = td_reshape(call->tape, all, shape);
    }
    td_tensor *y = r->directions == 1
                       ? parts[0]
                       : td_concatenate(call->tape, 2, parts, r->batch_first ? 2 : 1);
    return td__graph_output(call, 0, td__graph_input(call, X)->type, y);
}

static bool output_states(td__graph_call *call, const recurrent *r, size_t output,
                          td_tensor *const states[2]) {
    td_tensor *parts[2];
    td_shape shape =
        r->batch_first ? TD_SHAPE(r->d.batch, 1, r->d.units) : TD_SHAPE(1, r->d.batch, r->d.units);
    for (int64_t i = 0; i < r->directions; i++) {
        parts[i] = td_reshape(call->tape, states[i], shape);
    }
    td_tensor *y = r->directions == 1
                       ? parts[0]
                       : td_concatenate(call->tape, 2, parts, r->batch_first ? 1 : 0);
    return td__graph_output(call, output, td__graph_input(call, X)->type, y);
}

static bool run_recurrent(td__graph_call *call, td__graph_cell cell) {
    recurrent r;
    td__graph_sequence results[2] = {{0}};
    if (!read_attributes(call, cell, &r)) {
        return false;
    }
    for (int64_t i = 0; i < r.directions; i++) {
        if (!read_direction(call, &r, i) ||
            !(is_common(call, &r.d) ? run_common : td__graph_run_steps)(call, &r.d, &results[i])) {
            return false;
        }
    }
    td_tensor *states[] = {results[0].state, results[1].state};
    td_tensor *cells[] = {results[0].cell, results[1].cell};
    return (!td__graph_wants(call, 0) || output_sequences(call, &r, results)) &&
           (!td__graph_wants(call, 1) || output_states(call, &r, 1, states)) &&
           (!td__graph_wants(call, 2) || output_states(call, &r, 2, cells));
}

static bool rnn(td__graph_call *call) {
    return run_recurrent(call, TD__GRAPH_RNN);
}
static bool gru(td__graph_call *call) {
    return run_recurrent(call, TD__GRAPH_GRU);
}
static bool lstm(td__graph_call *call) {
    return run_recurrent(call, TD__GRAPH_LSTM);
}

const td__graph_operator td__graph_recurrent[] = {
    {"GRU", gru, 3, 6, 2, 0, 0, td__graph_infer_recurrent},
    {"LSTM", lstm, 3, 8, 3, 0, 0, td__graph_infer_recurrent},
    {"RNN", rnn, 3, 6, 2, 0, 0, td__graph_infer_recurrent},
    {0},
};
