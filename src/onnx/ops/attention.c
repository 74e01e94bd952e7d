/* Attention: ONNX's own and onnxruntime's, which differ in how queries, keys and values come in and in
 * what their masks mean. Inside they are (batch, heads, steps, size). */
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

static td_tensor *join_heads(td__onnx_call *call, td_tensor *x) {
    td_tensor *y = td_transpose(call->tape, x, (int32_t[]){0, 2, 1, 3});
    if (!y) {
        return NULL;
    }
    const int64_t *d = y->shape.dims;
    return td_reshape(call->tape, y, TD_SHAPE(d[0], d[1], d[2] * d[3]));
}

/* What was kept of the steps before, and these. */
static td_tensor *after(td__onnx_call *call, td_tensor *past, td_tensor *x) {
    return past && x ? td_concatenate(call->tape, 2, (td_tensor *[]){past, x}, 2) : x;
}

/* Keys and values that several heads share, once for each. */
static td_tensor *repeat_heads(td__onnx_call *call, td_tensor *x, int64_t heads) {
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

/* softmax(cap(scale q k^T) + mask) v as (batch, steps, heads * size) */
static td_tensor *attend(td__onnx_call *call, const attention *a) {
    td_tape *tape = call->tape;
    td_tensor *k = repeat_heads(call, a->k, a->q->shape.dims[1]);
    td_tensor *v = repeat_heads(call, a->v, a->q->shape.dims[1]);
    if (!k || !v) {
        return NULL;
    }
    float scale = a->scale != 0 ? a->scale : 1 / sqrtf((float)a->q->shape.dims[3]);
    td_tensor *y;
    if (a->cap > 0) {
        td_matmul_options turned = {.size = sizeof turned, .transpose_b = true};
        td_tensor *scores = td_matmul(tape, a->q, k, &turned);
        scores = td_tanh(tape, td_affine(tape, scores, scale / a->cap, 0));
        scores = td_affine(tape, scores, a->cap, 0);
        scores = a->mask ? td_add(tape, scores, a->mask) : scores;
        y = td_matmul(tape, td_softmax(tape, scores, -1), v, NULL);
    } else {
        td_attention_options options = {.size = sizeof options, .scale = scale, .mask = a->mask};
        y = td_attention(tape, a->q, k, v, &options);
    }
    return y ? join_heads(call, y) : NULL;
}

/* Sizes from the tensors; false when they do not fit. */
static bool measure(td__onnx_call *call, attention *a) {
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
    if (!measure(call, a)) {
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

/* --- ONNX's own --------------------------------------------------------------------------- */

/* Booleans say what is seen, floats are added; axes that are missing come first. */
static td_tensor *given_mask(td__onnx_call *call, const attention *a, size_t input) {
    td_tensor *m = td__onnx_plain(call, input);
    if (!m) {
        return NULL;
    }
    if (m->dtype == TD_INT64) {
        td_tensor *added = td__output(call->tape, TD_FLOAT32, &m->shape);
        for (int64_t i = 0; added && i < m->count; i++) {
            td__floats(added)[i] = ((const int64_t *)m->data)[i] ? 0 : -FLT_MAX;
        }
        m = added;
    }
    int64_t last = m && m->shape.rank ? m->shape.dims[m->shape.rank - 1] : 0;
    if (m && last != 1 && last < a->keys) { /* what it does not reach is hidden */
        int64_t none[TD_MAX_RANK] = {0}, more[TD_MAX_RANK] = {0};
        more[m->shape.rank - 1] = a->keys - last;
        m = td_pad(call->tape, m, none, more, -FLT_MAX);
    }
    return m;
}

/* Of a cache that is longer than what is in it: keys from here on are padding. */
static bool mask_padding(td__onnx_call *call, const attention *a, size_t input, bool causal,
                         td_tensor *mask) {
    const td_tensor *lengths = td__onnx_plain(call, input);
    if (!lengths || lengths->dtype != TD_INT64 || lengths->count != a->batch) {
        return td__onnx_fail(call, TD_BAD_SHAPE, "its lengths do not fit its batch");
    }
    for (int64_t b = 0; b < a->batch; b++) {
        int64_t length = ((const int64_t *)lengths->data)[b];
        for (int64_t i = 0; i < a->steps; i++) {
            float *row = td__floats(mask) + (b * a->steps + i) * a->keys;
            for (int64_t t = 0; t < a->keys; t++) {
                bool seen = t < length && (!causal || t <= i + length - a->steps);
                row[t] = seen ? row[t] : -FLT_MAX;
            }
        }
    }
    return true;
}

/* Queries that see nothing put out nothing. */
static td_tensor *quieten(td__onnx_call *call, const attention *a, td_tensor *y) {
    const td_tensor *m = a->mask;
    int32_t rank = m ? m->shape.rank : 0;
    if (!y || rank < 2 || m->shape.dims[rank - 1] != a->keys ||
        m->shape.dims[rank - 2] != a->steps || (rank == 4 && m->shape.dims[1] != 1) || rank == 3) {
        return y; /* one mask for all queries, or one for each head: then there is none */
    }
    td_tensor *kept = td__onnx_filled(call->tape, TD_SHAPE(a->batch, a->steps, 1), 1);
    bool any = false;
    int64_t batches = rank == 4 ? m->shape.dims[0] : 1;
    for (int64_t row = 0; kept && row < a->batch * a->steps; row++) {
        int64_t from = batches == 1 ? row % a->steps : row;
        bool seen = false;
        for (int64_t t = 0; t < a->keys; t++) {
            seen = seen || td__floats(m)[from * a->keys + t] > -FLT_MAX / 2;
        }
        td__floats(kept)[row] = seen;
        any = any || !seen;
    }
    return any ? td_multiply(call->tape, y, kept) : y;
}

enum { Q, K, V, MASK, PAST_KEY, PAST_VALUE, LENGTHS };

static bool onnx_attention(td__onnx_call *call) {
    bool causal = td__onnx_int(call->node, "is_causal", 0) != 0;
    bool flat = td__onnx_shape(call, Q).rank == 3;
    attention a = {.scale = td__onnx_float(call->node, "scale", 0),
                   .cap = td__onnx_float(call->node, "softcap", 0)};
    td_tensor *parts[3];
    for (size_t i = 0; i < 3; i++) {
        if (!td__onnx_is_float(call, i)) {
            return td__onnx_fail(call, TD_UNSUPPORTED, "only of type float");
        }
        parts[i] = td__onnx_plain(call, i);
        int64_t heads = td__onnx_int(call->node, i ? "kv_num_heads" : "q_num_heads", 0);
        parts[i] = flat ? td__onnx_split_heads(call, parts[i], heads) : parts[i];
    }
    a.q = parts[0];
    a.k = after(call, td__onnx_plain(call, PAST_KEY), parts[1]);
    a.v = after(call, td__onnx_plain(call, PAST_VALUE), parts[2]);
    if (!measure(call, &a) || td__onnx_wants(call, 3) ||
        td__onnx_int(call->node, "left_window_size", -1) >= 0 ||
        td__onnx_int(call->node, "right_window_size", -1) >= 0) {
        return td__onnx_fail(call, TD_UNSUPPORTED, "scores as an output, or windows");
    }
    a.before = parts[1] ? a.keys - parts[1]->shape.dims[2] : 0;
    td_tensor *given = given_mask(call, &a, MASK);
    bool padded = td__onnx_input(call, LENGTHS) != NULL;
    td_tensor *own = causal || padded ? mask_of(call, &a) : NULL;
    if ((td__onnx_input(call, MASK) && !given) || ((causal || padded) && !own)) {
        return false;
    }
    if (padded && !mask_padding(call, &a, LENGTHS, causal, own)) {
        return false;
    }
    if (causal && !padded) {
        mask_later(&a, own);
    }
    a.mask = own && given ? td_add(call->tape, own, given) : own ? own : given;
    td__onnx_type type = td__onnx_input(call, Q)->type;
    td_tensor *y = quieten(call, &a, attend(call, &a));
    int64_t heads = a.q->shape.dims[1];
    y = y && !flat ? td__onnx_split_heads(call, y, heads) : y;
    bool good = y && td__onnx_output(call, 0, type, y);
    good = good && (!td__onnx_wants(call, 1) ||
                    td__onnx_output(call, 1, td__onnx_input(call, K)->type, a.k));
    return good && (!td__onnx_wants(call, 2) ||
                    td__onnx_output(call, 2, td__onnx_input(call, V)->type, a.v));
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
    a.k = after(call, kept_part(call, past, 0), a.k);
    a.v = after(call, kept_part(call, past, 1), a.v);
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
    a.k = after(call, td__onnx_plain(call, 6), ms_part(call, 1, bias, &begin, heads));
    a.v = after(call, td__onnx_plain(call, 7), ms_part(call, 2, bias, &begin, heads));
    bool causal = td__onnx_int(call->node, "unidirectional", 0) != 0;
    return a.q && a.k && a.v && td__onnx_attend(call, &a, 4, 5, causal, 1);
}

const td__onnx_operator td__onnx_attentions[] = {
    {"Attention", onnx_attention, 3, 7, 4, 23, 0},
    {"RotaryEmbedding", rotary_embedding, 3, 4, 1, 23, 0},
    {0},
};

const td__onnx_operator td__onnx_ms_attentions[] = {
    {"Attention", ms_attention, 2, 7, 2, 0, 0},
    {"MultiHeadAttention", ms_multi_head_attention, 1, 8, 3, 0, 0},
    {"RotaryEmbedding", ms_rotary_embedding, 4, 4, 1, 0, 0},
    {0},
};
