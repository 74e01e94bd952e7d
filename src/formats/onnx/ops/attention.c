/* Attention as onnxruntime has it, which differs from ONNX's own (attention_onnx.c) in how queries, keys
 * and values come in and in what masks mean; and rotary positions. Inside, queries, keys and values are
 * (batch, heads, steps, size). */
#include "onnx/ops/attention.h"

#include "onnx/host.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* --- parts -------------------------------------------------------------------------------- */

td_tensor *td__onnx_split_heads(td__onnx_call *call, td_tensor *x, int64_t heads) {
    if (!x || x->shape.rank != 3 || heads < 1 || x->shape.dims[2] % heads) {
        (void)td__onnx_fail(call, TD_BAD_SHAPE, "%lld heads do not share its input out evenly",
                            (long long)heads);
        return NULL;
    }
    const int64_t *d = x->shape.dims;
    td_tensor *parts = td_reshape(call->tape, x, TD_SHAPE(d[0], d[1], heads, d[2] / heads));
    return td_transpose(call->tape, parts, (int32_t[]){0, 2, 1, 3});
}

td_tensor *td__onnx_join_heads(td__onnx_call *call, td_tensor *x) {
    td_tensor *y = td_transpose(call->tape, x, (int32_t[]){0, 2, 1, 3});
    if (!y) {
        return NULL;
    }
    const int64_t *d = y->shape.dims;
    return td_reshape(call->tape, y, TD_SHAPE(d[0], d[1], d[2] * d[3]));
}

td_tensor *td__onnx_after(td__onnx_call *call, td_tensor *past, td_tensor *x) {
    return past && x ? td_concatenate(call->tape, 2, (td_tensor *[]){past, x}, 2) : x;
}

td_tensor *td__onnx_repeat_heads(td__onnx_call *call, td_tensor *x, int64_t heads) {
    int64_t own = x->shape.dims[1], times = own ? heads / own : 0;
    if (heads == own) {
        return x;
    }
    if (!own || heads % own || times > 4096) {
        (void)td__onnx_fail(call, TD_BAD_SHAPE, "%lld heads do not share %lld evenly",
                            (long long)heads, (long long)own);
        return NULL;
    }
    const int64_t *d = x->shape.dims;
    td_tensor **copies = td__scratch(call->tape, (size_t)times * sizeof(td_tensor *));
    td_tensor *one = td_reshape(call->tape, x, TD_SHAPE(d[0], own, 1, d[2], d[3]));
    for (int64_t i = 0; copies && i < times; i++) {
        copies[i] = one;
    }
    td_tensor *all = copies && one ? td_concatenate(call->tape, (size_t)times, copies, 2) : NULL;
    return td_reshape(call->tape, all, TD_SHAPE(d[0], heads, d[2], d[3]));
}

/* --- masks -------------------------------------------------------------------------------- */

static td_tensor *mask_of(td__onnx_call *call, const attention *a) {
    td_shape shape = TD_SHAPE(a->batch, 1, a->steps, a->keys);
    return td__onnx_filled(call->tape, shape, 0);
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
static bool mask_keys(td__onnx_call *call, const attention *a, size_t input, float hidden,
                      td_tensor *mask) {
    const td_tensor *m = td__onnx_plain(call, input);
    if (!m || m->dtype != TD_INT64) {
        return td__onnx_fail(call, TD_DTYPE, "its mask must be integers");
    }
    const int64_t *values = m->data, *d = m->shape.dims;
    bool ends = m->shape.rank == 1 && d[0] == a->batch;
    bool both = m->shape.rank == 1 && d[0] == 2 * a->batch;
    bool keys = m->shape.rank == 2 && d[0] == a->batch && d[1] == a->keys;
    bool all = m->shape.rank == 3 && d[0] == a->batch && d[1] == a->steps && d[2] == a->keys;
    if (!ends && !both && !keys && !all) {
        char text[TD_SHAPE_TEXT_SIZE];
        return td__onnx_fail(call, TD_UNSUPPORTED, "a mask of shape %s",
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
static td_tensor *attend(td__onnx_call *call, const attention *a) {
    td_tensor *k = td__onnx_repeat_heads(call, a->k, a->q->shape.dims[1]);
    td_tensor *v = td__onnx_repeat_heads(call, a->v, a->q->shape.dims[1]);
    if (!k || !v) {
        return NULL;
    }
    td_attention_options options = {
        .size = sizeof options, .scale = td__onnx_attention_scale(a), .mask = a->mask};
    td_tensor *y = td_attention(call->tape, a->q, k, v, &options);
    return y ? td__onnx_join_heads(call, y) : NULL;
}

bool td__onnx_measure(td__onnx_call *call, attention *a) {
    if (!a->q || !a->k || !a->v || a->q->shape.rank != 4 || a->k->shape.rank != 4 ||
        a->v->shape.rank != 4) {
        return td__onnx_fail(call, TD_BAD_SHAPE,
                             "its queries, keys and values do not fit together");
    }
    a->batch = a->q->shape.dims[0];
    a->steps = a->q->shape.dims[2];
    a->keys = a->k->shape.dims[2];
    a->before = a->keys - a->steps;
    return true;
}

bool td__onnx_attend(td__onnx_call *call, attention *a, size_t mask_input, size_t bias_input,
                     bool causal, size_t present) {
    if (!td__onnx_measure(call, a)) {
        return false;
    }
    td_tape *tape = call->tape;
    bool masked = td__onnx_input(call, mask_input) != NULL;
    td_tensor *bias = td__onnx_plain(call, bias_input);
    td_tensor *mask = masked || causal ? mask_of(call, a) : NULL;
    if ((masked || causal) && !mask) {
        return false;
    }
    if (masked && !mask_keys(call, a, mask_input,
                             td__onnx_float(call->node, "mask_filter_value", -10000), mask)) {
        return false;
    }
    if (causal) {
        mask_later(a, mask);
    }
    a->mask = mask && bias ? td_add(tape, mask, bias) : mask ? mask : bias;
    td_tensor *y = attend(call, a);
    bool good = y && td__onnx_output(call, 0, TD__ONNX_FLOAT, y);
    if (good && present && td__onnx_wants(call, present)) {
        good = td__onnx_output(call, present, TD__ONNX_FLOAT, a->k);
    }
    if (good && present && td__onnx_wants(call, present + 1)) {
        good = td__onnx_output(call, present + 1, TD__ONNX_FLOAT, a->v);
    }
    return good;
}

/* --- rotary positions --------------------------------------------------------------------- */

/* What turns with what: halves, or neighbours. */
static bool rotate(td__onnx_call *call, size_t cosines, size_t sines, size_t positions,
                   int64_t heads) {
    td_tensor *x = td__onnx_plain(call, 0), *cosine = td__onnx_plain(call, cosines);
    td_tensor *sine = td__onnx_plain(call, sines);
    const td_tensor *at = td__onnx_plain(call, positions);
    bool neighbours = td__onnx_int(call->node, "interleaved", 0) != 0;
    if (!x || !cosine || !sine || x->dtype != TD_FLOAT32 || cosine->dtype != TD_FLOAT32 ||
        (x->shape.rank != 3 && x->shape.rank != 4)) {
        return td__onnx_fail(call, TD_BAD_SHAPE, "its input must be (batch, steps, size) in float");
    }
    td_shape shape = x->shape;
    bool flat = shape.rank == 3;
    if (flat && (heads < 1 || shape.dims[2] % heads)) {
        heads = heads < 1 && cosine->shape.dims[cosine->shape.rank - 1] > 0
                    ? shape.dims[2] / (2 * cosine->shape.dims[cosine->shape.rank - 1])
                    : heads;
    }
    int64_t batch = shape.dims[0], steps = flat ? shape.dims[1] : shape.dims[2];
    heads = flat ? heads : shape.dims[1];
    int64_t size = heads > 0 ? (flat ? shape.dims[2] / heads : shape.dims[3]) : 0;
    int64_t turned = td__onnx_int(call->node, "rotary_embedding_dim", 0);
    turned = turned > 0 ? turned : size;
    int64_t half = turned / 2, rows = cosine->count / (half > 0 ? half : 1);
    bool fits = half > 0 && turned <= size && cosine->count == rows * half &&
                sine->count == cosine->count && (at || rows == batch * steps) &&
                (!flat || heads * size == shape.dims[2]);
    if (!fits ||
        (at && (at->dtype != TD_INT64 || (at->count != batch * steps && at->count != 1)))) {
        return td__onnx_fail(call, TD_BAD_SHAPE, "its cosines do not fit its input");
    }
    /* y = x c + partner(x) s, with factors as large as x: gradients flow as through any product. */
    td_tensor *c = td__output(call->tape, TD_FLOAT32, &shape);
    td_tensor *s = td__output(call->tape, TD_FLOAT32, &shape);
    td__move_map map;
    if (!c || !s ||
        !td__move_map_init(call->tape, call->node->op_type,
                           TD_SHAPE(x->count / (size ? size : 1), size), &map)) {
        return false;
    }
    for (int64_t i = 0; map.offsets[0] && i < map.shape.dims[0]; i++) {
        map.offsets[0][i] = i * size;
        int64_t b = flat ? i / heads / steps : i / steps / heads;
        int64_t t = flat ? i / heads % steps : i % steps;
        int64_t row = !at              ? b * steps + t
                      : at->count == 1 ? ((const int64_t *)at->data)[0] + t
                                       : ((const int64_t *)at->data)[b * steps + t];
        if (row < 0 || row >= rows) {
            return td__onnx_fail(call, TD_RANGE, "position %lld of %lld", (long long)row,
                                 (long long)rows);
        }
        for (int64_t k = 0; k < size; k++) {
            int64_t angle = neighbours ? k / 2 : k % half;
            bool first = neighbours ? k % 2 == 0 : k < half;
            bool turns = k < turned;
            td__floats(c)[i * size + k] = turns ? td__floats(cosine)[row * half + angle] : 1;
            float by = turns ? td__floats(sine)[row * half + angle] : 0;
            td__floats(s)[i * size + k] = first ? -by : by;
        }
    }
    for (int64_t k = 0; map.offsets[1] && k < size; k++) {
        int64_t other = neighbours ? k ^ 1 : k < half ? k + half : k - half;
        map.offsets[1][k] = k < turned ? other : k;
    }
    td_tensor *partner = td__move(call->tape, x, &map, NULL);
    partner = td_reshape(call->tape, partner, shape);
    td_tensor *y =
        td_add(call->tape, td_multiply(call->tape, x, c), td_multiply(call->tape, partner, s));
    return td__onnx_output(call, 0, td__onnx_input(call, 0)->type, y);
}

static bool rotary_embedding(td__onnx_call *call) {
    return rotate(call, 1, 2, 3, td__onnx_int(call->node, "num_heads", 0));
}

/* onnxruntime's has the positions second. */
static bool ms_rotary_embedding(td__onnx_call *call) {
    return rotate(call, 2, 3, 1, td__onnx_int(call->node, "num_heads", 0));
}

/* --- onnxruntime's ------------------------------------------------------------------------ */

static td_tensor *columns(td__onnx_call *call, td_tensor *x, int64_t begin, int64_t count) {
    return x ? td__onnx_cut(call, x, x->shape.rank - 1, begin, 1, count) : NULL;
}

/* One of the two (keys, values) that are kept together. */
static td_tensor *kept_part(td__onnx_call *call, td_tensor *past, int64_t which) {
    td_tensor *part =
        past && past->shape.rank == 5 ? td__onnx_cut(call, past, 0, which, 1, 1) : NULL;
    if (!part) {
        return NULL;
    }
    const int64_t *d = part->shape.dims;
    return td_reshape(call->tape, part, TD_SHAPE(d[1], d[2], d[3], d[4]));
}

bool td__onnx_packed_attention(td__onnx_call *call, td_tensor *qkv, size_t mask, size_t past_input,
                               size_t bias) {
    const int64_t *sizes;
    int64_t heads = td__onnx_int(call->node, "num_heads", 0);
    bool given = td__onnx_ints(call->node, "qkv_hidden_sizes", &sizes) == 3;
    if (!qkv || qkv->shape.rank != 3 || heads < 1) {
        return td__onnx_fail(call, TD_BAD_SHAPE, "its input must be (batch, steps, size)");
    }
    int64_t width = qkv->shape.dims[2], first = given ? sizes[0] : width / 3;
    int64_t second = given ? sizes[1] : width / 3, third = width - first - second;
    if (first < 0 || second < 0 || third < 0 || first > width || second > width) {
        return td__onnx_fail(call, TD_RANGE, "its sizes do not make up %lld", (long long)width);
    }
    td_tensor *past = td__onnx_plain(call, past_input);
    attention a = {.scale = td__onnx_float(call->node, "scale", 0)};
    a.q = td__onnx_split_heads(call, columns(call, qkv, 0, first), heads);
    a.k = td__onnx_split_heads(call, columns(call, qkv, first, second), heads);
    a.v = td__onnx_split_heads(call, columns(call, qkv, first + second, third), heads);
    a.k = td__onnx_after(call, kept_part(call, past, 0), a.k);
    a.v = td__onnx_after(call, kept_part(call, past, 1), a.v);
    bool causal = td__onnx_int(call->node, "unidirectional", 0) != 0;
    if (!a.q || !a.k || !a.v || !td__onnx_attend(call, &a, mask, bias, causal, 0)) {
        return false;
    }
    if (!td__onnx_wants(call, 1)) {
        return true;
    }
    td_shape one = {.rank = 5, .dims = {1}};
    memcpy(one.dims + 1, a.k->shape.dims, 4 * sizeof *one.dims);
    td_tensor *both[2] = {td_reshape(call->tape, a.k, one), td_reshape(call->tape, a.v, one)};
    return both[0] && both[1] &&
           td__onnx_output(call, 1, TD__ONNX_FLOAT, td_concatenate(call->tape, 2, both, 0));
}

/* (input, weights, bias, mask, past, bias of the scores) */
static bool ms_attention(td__onnx_call *call) {
    td_tensor *x = td__onnx_plain(call, 0), *w = td__onnx_plain(call, 1);
    if (!x || !w || x->dtype != TD_FLOAT32 || w->dtype != TD_FLOAT32) {
        return td__onnx_fail(call, TD_DTYPE, "only of type float");
    }
    td_tensor *qkv = td_dense(call->tape, x, w, td__onnx_plain(call, 2), TD_LINEAR);
    return qkv && td__onnx_packed_attention(call, qkv, 3, 4, 5);
}

/* Queries, keys or values with their share of the bias; those that have heads already have had it. */
static td_tensor *ms_part(td__onnx_call *call, size_t i, td_tensor *bias, int64_t *begin,
                          int64_t heads) {
    td_tensor *x = td__onnx_plain(call, i);
    if (!x || x->shape.rank == 4) {
        return x;
    }
    int64_t width = x->shape.rank == 3 ? x->shape.dims[2] : 0;
    if (bias && bias->shape.rank == 1 && *begin + width <= bias->count) {
        x = td_add(call->tape, x, td__onnx_cut(call, bias, 0, *begin, 1, width));
        *begin += width;
    }
    return td__onnx_split_heads(call, x, heads);
}

/* (query, key, value, bias, mask of keys, bias of the scores, past key, past value) */
static bool ms_multi_head_attention(td__onnx_call *call) {
    int64_t heads = td__onnx_int(call->node, "num_heads", 0), begin = 0;
    if (!td__onnx_input(call, 1) || !td__onnx_input(call, 2)) {
        return td__onnx_fail(call, TD_UNSUPPORTED, "keys and values packed with the queries");
    }
    attention a = {.scale = td__onnx_float(call->node, "scale", 0)};
    td_tensor *bias = td__onnx_plain(call, 3);
    a.q = ms_part(call, 0, bias, &begin, heads);
    a.k = td__onnx_after(call, td__onnx_plain(call, 6), ms_part(call, 1, bias, &begin, heads));
    a.v = td__onnx_after(call, td__onnx_plain(call, 7), ms_part(call, 2, bias, &begin, heads));
    bool causal = td__onnx_int(call->node, "unidirectional", 0) != 0;
    return a.q && a.k && a.v && td__onnx_attend(call, &a, 4, 5, causal, 1);
}

const td__onnx_operator td__onnx_rotations[] = {
    {"RotaryEmbedding", rotary_embedding, 3, 4, 1, 23, 0, td__onnx_infer_same},
    {0},
};

const td__onnx_operator td__onnx_ms_attentions[] = {
    {"Attention", ms_attention, 2, 7, 2, 0, 0, NULL},
    {"MultiHeadAttention", ms_multi_head_attention, 1, 8, 3, 0, 0, NULL},
    {"RotaryEmbedding", ms_rotary_embedding, 4, 4, 1, 0, 0, td__onnx_infer_same},
    {0},
};
