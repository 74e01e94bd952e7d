/* LinearAttention: a state of keys by values for each head, which every step changes and reads. Step by
 * step, on the tape's operations. */
#include "graph/ops/common.h"

#include <math.h>
#include <string.h>

/* (batch, steps, heads × width) of everything; the state is (batch, heads, keys, values). */
typedef struct linear_attention {
    td_tensor *query, *key, *value, *decay, *beta;
    int64_t batch, steps, heads, group, keys, values;
    float scale;
} linear_attention;

/* Step t of x as (batch, heads, rows, columns). */
static td_tensor *at_step(td_tape *tape, td_tensor *x, int64_t t, td_shape shape) {
    td_tensor *own = td_slice(tape, x, (int64_t[]){0, t, 0}, (int64_t[]){-1, 1, -1});
    return own ? td_reshape(tape, own, shape) : NULL;
}

/* One number for each head or, where there are as many, for each key. */
static td_tensor *rate(td_tape *tape, const linear_attention *a, td_tensor *x, int64_t t) {
    int64_t width = x->shape.dims[2];
    return at_step(tape, x, t,
                   width == a->heads * a->keys ? TD_SHAPE(a->batch, a->heads, a->keys, 1)
                   : width == a->heads         ? TD_SHAPE(a->batch, a->heads, 1, 1)
                                               : TD_SHAPE(a->batch, 1, 1, 1));
}

/* S = decay S + k (v - (decay S)' k beta)'; y = scale q S */
static td_tensor *attend_step(td_tape *tape, const linear_attention *a, int64_t t,
                              td_tensor **state) {
    td_shape row = TD_SHAPE(a->batch, a->heads, 1, a->keys);
    td_tensor *k = at_step(tape, a->key, t, row), *s = *state;
    td_tensor *v = at_step(tape, a->value, t, TD_SHAPE(a->batch, a->heads, 1, a->values));
    td_tensor *q = at_step(tape, a->query, t, TD_SHAPE(a->batch, a->heads, a->group, a->keys));
    if (!k || !v || !q) {
        return NULL;
    }
    s = a->decay ? td_multiply(tape, s, td_exp(tape, rate(tape, a, a->decay, t))) : s;
    if (a->beta) {
        td_tensor *known = td_matmul(tape, k, s, NULL);
        v = td_multiply(tape, td_subtract(tape, v, known), rate(tape, a, a->beta, t));
    }
    td_tensor *column = td_reshape(tape, k, TD_SHAPE(a->batch, a->heads, a->keys, 1));
    *state = td_add(tape, s, td_multiply(tape, column, v));
    td_tensor *y = td_affine(tape, td_matmul(tape, q, *state, NULL), a->scale, 0);
    int64_t width = a->heads * a->group * a->values;
    return y ? td_reshape(tape, y, TD_SHAPE(a->batch, 1, width)) : NULL;
}

/* (batch, steps, one of two widths) */
static bool width_fits(const linear_attention *a, const td_tensor *x, int64_t width, int64_t or) {
    const int64_t *d = x->shape.dims;
    return x->shape.rank == 3 && d[0] == a->batch && d[1] == a->steps &&
           (d[2] == width || d[2] == or);
}

/* The inputs that the rule has a use for. */
static bool read_inputs(td__graph_call *call, linear_attention *a) {
    const char *rule = td__graph_text(call->node, "update_rule", "gated_delta");
    bool gated = strncmp(rule, "gated", 5) == 0, delta = strstr(rule, "delta");
    int64_t heads = td__graph_int(call->node, "q_num_heads", 0);
    for (size_t i = 0; i < td__graph_input_count(call); i++) {
        if (td__graph_input(call, i) && !td__graph_is_float(call, i)) {
            return td__graph_fail(call, TD_UNSUPPORTED, "only of type float");
        }
    }
    *a = (linear_attention){.query = td__graph_plain(call, 0),
                            .key = td__graph_plain(call, 1),
                            .value = td__graph_plain(call, 2),
                            .decay = gated ? td__graph_plain(call, 4) : NULL,
                            .beta = delta ? td__graph_plain(call, 5) : NULL,
                            .heads = td__graph_int(call->node, "kv_num_heads", 0),
                            .scale = td__graph_float(call->node, "scale", 0)};
    if (!a->query || !a->key || !a->value || (gated && !a->decay) || (delta && !a->beta)) {
        return td__graph_fail(call, TD_INVALID, "its rule '%.40s' lacks an input", rule);
    }
    const int64_t *q = a->query->shape.dims;
    bool good = a->query->shape.rank == 3 && a->key->shape.rank == 3 && a->value->shape.rank == 3 &&
                a->heads > 0 && heads > 0 && heads % a->heads == 0 && q[1] > 0 && q[2] >= heads &&
                q[2] % heads == 0 && a->value->shape.dims[2] % a->heads == 0;
    if (good) {
        a->batch = q[0];
        a->steps = q[1];
        a->group = heads / a->heads;
        a->keys = q[2] / heads;
        a->values = a->value->shape.dims[2] / a->heads;
        a->scale = a->scale != 0 ? a->scale : (float)(1 / sqrt((double)a->keys));
        int64_t width = a->key->shape.dims[2];
        good = width % a->heads == 0 && width / a->heads == a->keys &&
               width_fits(a, a->key, width, width) &&
               width_fits(a, a->value, a->value->shape.dims[2], 0) &&
               (!a->decay || width_fits(a, a->decay, width, a->heads)) &&
               (!a->beta || width_fits(a, a->beta, a->heads, 1));
    }
    return good || td__graph_fail(call, TD_BAD_SHAPE, "its inputs do not fit each other");
}

static bool linear_attention_operator(td__graph_call *call) {
    td_tape *tape = call->tape;
    linear_attention a;
    if (!read_inputs(call, &a)) {
        return false;
    }
    td_shape shape = TD_SHAPE(a.batch, a.heads, a.keys, a.values);
    td_tensor *state = td__graph_plain(call, 3);
    if (state && !td_shape_equal(&state->shape, &shape)) {
        return td__graph_fail(call, TD_BAD_SHAPE, "its state does not fit");
    }
    state = state ? state : td__graph_filled(tape, shape, 0);
    td_tensor **parts = td__scratch(tape, (size_t)a.steps * sizeof(td_tensor *));
    for (int64_t t = 0; t < a.steps; t++) {
        if (!parts || !state || !(parts[t] = attend_step(tape, &a, t, &state))) {
            return false;
        }
    }
    td__graph_type type = td__graph_input(call, 0)->type;
    return td__graph_output(call, 0, type, td_concatenate(tape, (size_t)a.steps, parts, 1)) &&
           td__graph_output(call, 1, type, state);
}

const td__graph_operator td__graph_linear_attentions[] = {
    {"LinearAttention", linear_attention_operator, 3, 6, 2, 27, 0, NULL},
    {0},
};
