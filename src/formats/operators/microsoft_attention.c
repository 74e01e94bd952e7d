/* Attention as onnxruntime has it (com.microsoft), which differs from ONNX's own (attention_onnx.c) in how
 * queries, keys and values come in and in what masks mean. Inside, queries, keys and values are
 * (batch, heads, steps, size). */
#include "graph/host.h"
#include "operators/packed_attention.h"

#include <float.h>
#include <string.h>

/* --- masks -------------------------------------------------------------------------------- */

static td_tensor *mask_of(td__graph_call *call, const attention *a) {
    td_shape shape = TD_SHAPE(a->batch, 1, a->steps, a->keys);
    return td__graph_filled(call->tape, shape, 0);
}

/* Query i, of which there are `before` more, sees keys up to its own place. */
static void mask_later(const attention *a, td_tensor *mask) {
    for (int64_t b = 0; b < a->batch; b++) {
        for (int64_t i = 0; i < a->steps; i++) {
            float *row = td__floats(mask) + (b * a->steps + i) * a->keys;
            for (int64_t t = i + a->before + 1; t < a->keys; t++) {
                row[t] = -FLT_MAX;
            }
        }
    }
}

/* Keys that an input of onnxruntime's operators hides: how many of each example there are (and where
 * they begin), or a 0 for each, of the batch or of each step. */
static bool mask_keys(td__graph_call *call, const attention *a, size_t input, float hidden,
                      td_tensor *mask) {
    const td_tensor *m = td__graph_plain(call, input);
    if (!m || m->dtype != TD_INT64) {
        return td__graph_fail(call, TD_DTYPE, "its mask must be integers");
    }
    const int64_t *values = m->data, *d = m->shape.dims;
    bool ends = m->shape.rank == 1 && d[0] == a->batch;
    bool both = m->shape.rank == 1 && d[0] == 2 * a->batch;
    bool keys = m->shape.rank == 2 && d[0] == a->batch && d[1] == a->keys;
    bool all = m->shape.rank == 3 && d[0] == a->batch && d[1] == a->steps && d[2] == a->keys;
    if (!ends && !both && !keys && !all) {
        char text[TD_SHAPE_TEXT_SIZE];
        return td__graph_fail(call, TD_UNSUPPORTED, "a mask of shape %s",
                              td_shape_text(&m->shape, text));
    }
    int64_t at = 0;
    for (int64_t b = 0; b < a->batch; b++) {
        for (int64_t i = 0; i < a->steps; i++) {
            for (int64_t t = 0; t < a->keys; t++, at++) {
                bool seen = ends   ? t < values[b]
                            : both ? t < values[b] && t >= values[a->batch + b]
                            : keys ? values[b * a->keys + t] != 0
                                   : values[at] != 0;
                td__floats(mask)[at] = seen ? td__floats(mask)[at] : hidden;
            }
        }
    }
    return true;
}

/* --- the product -------------------------------------------------------------------------- */

/* softmax(scale q k^T + mask) v as (batch, steps, heads * size) */
static td_tensor *attend(td__graph_call *call, const attention *a) {
    td_tensor *k = td__graph_repeat_heads(call, a->k, a->q->shape.dims[1]);
    td_tensor *v = td__graph_repeat_heads(call, a->v, a->q->shape.dims[1]);
    if (!k || !v) {
        return NULL;
    }
    td_attention_options options = {
        .size = sizeof options, .scale = TD_SET(td__graph_attention_scale(a)), .mask = a->mask};
    td_tensor *y = td_attention(call->tape, a->q, k, v, &options);
    return y ? td__graph_join_heads(call, y) : NULL;
}

/* With onnxruntime's masks; sets output 0 and, unless present is 0, keys and values as outputs
 * present and present + 1. */
static bool attend_masked(td__graph_call *call, attention *a, size_t mask_input, size_t bias_input,
                          bool causal, size_t present) {
    if (!td__graph_measure(call, a)) {
        return false;
    }
    td_tape *tape = call->tape;
    bool masked = td__graph_input(call, mask_input) != NULL;
    td_tensor *bias = td__graph_plain(call, bias_input);
    td_tensor *mask = masked || causal ? mask_of(call, a) : NULL;
    if ((masked || causal) && !mask) {
        return false;
    }
    if (masked && !mask_keys(call, a, mask_input,
                             td__graph_float(call->node, "mask_filter_value", -10000), mask)) {
        return false;
    }
    if (causal) {
        mask_later(a, mask);
    }
    a->mask = mask && bias ? td_add(tape, mask, bias) : mask ? mask : bias;
    td_tensor *y = attend(call, a);
    bool good = y && td__graph_output(call, 0, TD__GRAPH_FLOAT, y);
    if (good && present && td__graph_wants(call, present)) {
        good = td__graph_output(call, present, TD__GRAPH_FLOAT, a->k);
    }
    if (good && present && td__graph_wants(call, present + 1)) {
        good = td__graph_output(call, present + 1, TD__GRAPH_FLOAT, a->v);
    }
    return good;
}

/* onnxruntime's has the positions second. */
static bool ms_rotary_embedding(td__graph_call *call) {
    return td__graph_rotate(call, 2, 3, 1, td__graph_int(call->node, "num_heads", 0));
}

/* --- the operators ------------------------------------------------------------------------ */

static td_tensor *columns(td__graph_call *call, td_tensor *x, int64_t begin, int64_t count) {
    return x ? td__graph_cut(call, x, x->shape.rank - 1, begin, 1, count) : NULL;
}

/* One of the two (keys, values) that are kept together. */
static td_tensor *kept_part(td__graph_call *call, td_tensor *past, int64_t which) {
    td_tensor *part =
        past && past->shape.rank == 5 ? td__graph_cut(call, past, 0, which, 1, 1) : NULL;
    if (!part) {
        return NULL;
    }
    const int64_t *d = part->shape.dims;
    return td_reshape(call->tape, part, TD_SHAPE(d[1], d[2], d[3], d[4]));
}

bool td__packed_attention(td__graph_call *call, td_tensor *qkv, size_t mask, size_t past_input,
                          size_t bias) {
    const int64_t *sizes;
    int64_t heads = td__graph_int(call->node, "num_heads", 0);
    bool given = td__graph_ints(call->node, "qkv_hidden_sizes", &sizes) == 3;
    if (!qkv || qkv->shape.rank != 3 || heads < 1) {
        return td__graph_fail(call, TD_BAD_SHAPE, "its input must be (batch, steps, size)");
    }
    int64_t width = qkv->shape.dims[2], first = given ? sizes[0] : width / 3;
    int64_t second = given ? sizes[1] : width / 3, third = width - first - second;
    if (first < 0 || second < 0 || third < 0 || first > width || second > width) {
        return td__graph_fail(call, TD_RANGE, "its sizes do not make up %lld", (long long)width);
    }
    td_tensor *past = td__graph_plain(call, past_input);
    attention a = {.scale = td__graph_float(call->node, "scale", 0)};
    a.q = td__graph_split_heads(call, columns(call, qkv, 0, first), heads);
    a.k = td__graph_split_heads(call, columns(call, qkv, first, second), heads);
    a.v = td__graph_split_heads(call, columns(call, qkv, first + second, third), heads);
    a.k = td__graph_after(call, kept_part(call, past, 0), a.k);
    a.v = td__graph_after(call, kept_part(call, past, 1), a.v);
    bool causal = td__graph_int(call->node, "unidirectional", 0) != 0;
    if (!a.q || !a.k || !a.v || !attend_masked(call, &a, mask, bias, causal, 0)) {
        return false;
    }
    if (!td__graph_wants(call, 1)) {
        return true;
    }
    td_shape one = {.rank = 5, .dims = {1}};
    memcpy(one.dims + 1, a.k->shape.dims, 4 * sizeof *one.dims);
    td_tensor *both[2] = {td_reshape(call->tape, a.k, one), td_reshape(call->tape, a.v, one)};
    return both[0] && both[1] &&
           td__graph_output(call, 1, TD__GRAPH_FLOAT, td_concatenate(call->tape, 2, both, 0));
}

/* (input, weights, bias, mask, past, bias of the scores) */
static bool ms_attention(td__graph_call *call) {
    td_tensor *x = td__graph_plain(call, 0), *w = td__graph_plain(call, 1);
    if (!x || !w || x->dtype != TD_FLOAT32 || w->dtype != TD_FLOAT32) {
        return td__graph_fail(call, TD_DTYPE, "only of type float");
    }
    td_tensor *qkv = td_dense(call->tape, x, w, td__graph_plain(call, 2), TD_LINEAR);
    return qkv && td__packed_attention(call, qkv, 3, 4, 5);
}

/* Queries, keys or values with their share of the bias; those that have heads already have had it. */
static td_tensor *ms_part(td__graph_call *call, size_t i, td_tensor *bias, int64_t *begin,
                          int64_t heads) {
    td_tensor *x = td__graph_plain(call, i);
    if (!x || x->shape.rank == 4) {
        return x;
    }
    int64_t width = x->shape.rank == 3 ? x->shape.dims[2] : 0;
    if (bias && bias->shape.rank == 1 && *begin + width <= bias->count) {
        x = td_add(call->tape, x, td__graph_cut(call, bias, 0, *begin, 1, width));
        *begin += width;
    }
    return td__graph_split_heads(call, x, heads);
}

/* (query, key, value, bias, mask of keys, bias of the scores, past key, past value) */
static bool ms_multi_head_attention(td__graph_call *call) {
    int64_t heads = td__graph_int(call->node, "num_heads", 0), begin = 0;
    if (!td__graph_input(call, 1) || !td__graph_input(call, 2)) {
        return td__graph_fail(call, TD_UNSUPPORTED, "keys and values packed with the queries");
    }
    attention a = {.scale = td__graph_float(call->node, "scale", 0)};
    td_tensor *bias = td__graph_plain(call, 3);
    a.q = ms_part(call, 0, bias, &begin, heads);
    a.k = td__graph_after(call, td__graph_plain(call, 6), ms_part(call, 1, bias, &begin, heads));
    a.v = td__graph_after(call, td__graph_plain(call, 7), ms_part(call, 2, bias, &begin, heads));
    bool causal = td__graph_int(call->node, "unidirectional", 0) != 0;
    return a.q && a.k && a.v && attend_masked(call, &a, 4, 5, causal, 1);
}

const td__graph_operator td__graph_ms_attentions[] = {
    {"Attention", ms_attention, 2, 7, 2, 0, 0, NULL},
    {"MultiHeadAttention", ms_multi_head_attention, 1, 8, 3, 0, 0, NULL},
    {"RotaryEmbedding", ms_rotary_embedding, 4, 4, 1, 0, 0, td__graph_infer_same},
    {0},
};
