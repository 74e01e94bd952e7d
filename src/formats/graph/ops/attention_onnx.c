/* ONNX's own Attention (opset 23 on): masks, caches that are longer than what is in them, windows, a cap of
 * the scores, and the scores as an output.
 *
 * What a query must not see has a bias of -infinity. A query that sees nothing puts out zeros: softmax is
 * given finite numbers, and the rows are cleared behind it.
 */
#include "graph/host.h"
#include "graph/ops/attention.h"

#include <float.h>

enum { Q, K, V, MASK, PAST_KEY, PAST_VALUE, LENGTHS };
enum { SCORES_RAW, SCORES_CAPPED, SCORES_MASKED, SCORES_SOFTMAX };

/* Which keys a query sees by its place. */
typedef struct sight {
    bool causal;
    int64_t left, right;      /* of a window; -1: no end */
    const td_tensor *lengths; /* of what is in the cache, for each example; NULL: all */
} sight;

/* Booleans say what is seen, floats are added; keys that a mask does not reach are hidden. */
static td_tensor *given_mask(td__graph_call *call, const attention *a) {
    td_tensor *m = td__graph_plain(call, MASK);
    if (m && m->dtype == TD_INT64) {
        td_tensor *added = td__output(call->tape, TD_FLOAT32, &m->shape);
        for (int64_t i = 0; added && i < m->count; i++) {
            td__floats(added)[i] = ((const int64_t *)m->data)[i] ? 0 : -INFINITY;
        }
        m = added;
    }
    if (m && (m->dtype != TD_FLOAT32 || m->shape.rank < 1)) {
        (void)td__graph_fail(call, TD_DTYPE, "its mask must be float or bool, with axes");
        return NULL;
    }
    int64_t last = m ? m->shape.dims[m->shape.rank - 1] : 0;
    if (m && last < a->keys && (last != 1 || call->opset >= 24)) {
        int64_t none[TD_MAX_RANK] = {0}, more[TD_MAX_RANK] = {0};
        more[m->shape.rank - 1] = a->keys - last;
        m = td_pad(call->tape, m, none, more, -INFINITY);
    }
    return m;
}

/* (batch, 1, steps, keys): 0 or -infinity. */
static td_tensor *sight_mask(td__graph_call *call, const attention *a, const sight *s) {
    td_tensor *mask =
        td__graph_filled(call->tape, TD_SHAPE(a->batch, 1, a->steps, a->keys), -INFINITY);
    for (int64_t b = 0; mask && b < a->batch; b++) {
        int64_t length = s->lengths ? ((const int64_t *)s->lengths->data)[b] : a->keys;
        if (length < 0 || length > a->keys) {
            (void)td__graph_fail(call, TD_RANGE, "%lld of %lld keys", (long long)length,
                                 (long long)a->keys);
            return NULL;
        }
        int64_t before = s->lengths ? length - a->steps : a->before;
        for (int64_t i = 0; i < a->steps; i++) {
            float *row = td__floats(mask) + (b * a->steps + i) * a->keys;
            int64_t at = i + before;
            int64_t from = s->left >= 0 && s->left < at ? at - s->left : 0, to = length;
            to = s->causal && at + 1 < to ? at + 1 : to;
            to = s->right >= 0 && s->right < to && at + 1 < to - s->right ? at + s->right + 1 : to;
            for (int64_t t = from; t < to; t++) {
                row[t] = 0;
            }
        }
    }
    return mask;
}

/* 0 for queries that see nothing, shaped as the mask with one key. */
static td_tensor *seeing(td__graph_call *call, const td_tensor *mask) {
    td_shape shape = mask->shape;
    int64_t width = shape.dims[shape.rank - 1];
    shape.dims[shape.rank - 1] = 1;
    td_tensor *kept = td__graph_filled(call->tape, shape, 0);
    bool all = true;
    for (int64_t row = 0; kept && row < kept->count; row++) {
        for (int64_t t = 0; t < width; t++) {
            td__floats(kept)[row] =
                td__floats(mask)[row * width + t] > -INFINITY ? 1 : td__floats(kept)[row];
        }
        all = all && td__floats(kept)[row] > 0;
    }
    return all ? NULL : kept;
}

static bool output_scores(td__graph_call *call, td__graph_type type, td_tensor *scores,
                          int64_t mode, int64_t wanted) {
    return mode != wanted || !td__graph_wants(call, 3) || td__graph_output(call, 3, type, scores);
}

/* softmax(cap(scale q k^T) + mask) v (batch, heads, steps, size); the scores on the way. */
static td_tensor *attend_openly(td__graph_call *call, const attention *a, td_tensor *k,
                                td_tensor *v, td_tensor *kept, td__graph_type type) {
    td_tape *tape = call->tape;
    int64_t mode = td__graph_int(call->node, "qk_matmul_output_mode", SCORES_RAW);
    float cap = td__graph_float(call->node, "softcap", 0);
    td_matmul_options turned = {.size = sizeof turned, .transpose_b = true};
    td_tensor *scores = td_matmul(tape, a->q, k, &turned);
    scores = td_affine(tape, scores, td__graph_attention_scale(a), 0);
    if (!scores || !output_scores(call, type, scores, mode, SCORES_RAW)) {
        return NULL;
    }
    if (cap > 0) {
        scores = td_affine(tape, td_tanh(tape, td_affine(tape, scores, 1 / cap, 0)), cap, 0);
    }
    if (!scores || !output_scores(call, type, scores, mode, SCORES_CAPPED)) {
        return NULL;
    }
    td_tensor *masked = a->mask ? td_add(tape, scores, a->mask) : scores;
    if (!masked || !output_scores(call, type, masked, mode, SCORES_MASKED)) {
        return NULL;
    }
    td_tensor *shares = td_softmax(tape, td_clip(tape, masked, -FLT_MAX, FLT_MAX), -1);
    shares = kept ? td_multiply(tape, shares, kept) : shares;
    if (!shares || !output_scores(call, type, shares, mode, SCORES_SOFTMAX)) {
        return NULL;
    }
    return td_matmul(tape, shares, v, NULL);
}

static td_tensor *attend(td__graph_call *call, const attention *a, td__graph_type type) {
    td_tape *tape = call->tape;
    td_tensor *k = td__graph_repeat_heads(call, a->k, a->q->shape.dims[1]);
    td_tensor *v = td__graph_repeat_heads(call, a->v, a->q->shape.dims[1]);
    td_tensor *kept = a->mask ? seeing(call, a->mask) : NULL;
    if (!k || !v || td_tape_status(tape, NULL)) {
        return NULL;
    }
    if (td__graph_wants(call, 3) || td__graph_float(call->node, "softcap", 0) > 0) {
        return attend_openly(call, a, k, v, kept, type);
    }
    td_attention_options options = {.size = sizeof options,
                                    .scale = TD_SET(td__graph_attention_scale(a)),
                                    .mask = a->mask ? td_clip(tape, a->mask, -FLT_MAX / 4, FLT_MAX)
                                                    : NULL};
    td_tensor *y = td_attention(tape, a->q, k, v, &options);
    return y && kept ? td_multiply(tape, y, kept) : y;
}

/* Queries, keys and values, with heads. */
static bool read_parts(td__graph_call *call, bool flat, attention *a) {
    td_tensor *parts[3];
    for (size_t i = 0; i < 3; i++) {
        if (!td__graph_is_float(call, i)) {
            return td__graph_fail(call, TD_UNSUPPORTED, "only of type float");
        }
        parts[i] = td__graph_plain(call, i);
        int64_t heads = td__graph_int(call->node, i ? "kv_num_heads" : "q_num_heads", 0);
        parts[i] = flat ? td__graph_split_heads(call, parts[i], heads) : parts[i];
    }
    td_tensor *past = td__graph_plain(call, PAST_KEY);
    a->q = parts[Q];
    a->k = td__graph_after(call, past, parts[K]);
    a->v = td__graph_after(call, td__graph_plain(call, PAST_VALUE), parts[V]);
    if (!td__graph_measure(call, a)) {
        return false;
    }
    a->before = past ? past->shape.dims[2] : 0;
    return true;
}

static bool read_masks(td__graph_call *call, attention *a) {
    const td__graph_node *node = call->node;
    sight s = {.causal = td__graph_int(node, "is_causal", 0) != 0,
               .left = td__graph_int(node, "left_window_size", -1),
               .right = td__graph_int(node, "right_window_size", -1),
               .lengths = td__graph_plain(call, LENGTHS)};
    if (s.lengths && (s.lengths->dtype != TD_INT64 || s.lengths->count != a->batch)) {
        return td__graph_fail(call, TD_BAD_SHAPE, "its lengths do not fit its batch");
    }
    bool limited = s.causal || s.left >= 0 || s.right >= 0 || s.lengths;
    td_tensor *given = given_mask(call, a), *own = limited ? sight_mask(call, a, &s) : NULL;
    if ((td__graph_input(call, MASK) && !given) || (limited && !own)) {
        return false;
    }
    a->mask = own && given ? td_add(call->tape, own, given) : own ? own : given;
    return own || given ? a->mask != NULL : true;
}

static bool attention_operator(td__graph_call *call) {
    bool flat = td__graph_shape(call, Q).rank == 3;
    td__graph_type type = td__graph_input(call, Q)->type;
    attention a = {.scale = td__graph_float(call->node, "scale", 0)};
    if (!read_parts(call, flat, &a) || !read_masks(call, &a)) {
        return false;
    }
    td_tensor *y = attend(call, &a, type);
    y = y && flat ? td__graph_join_heads(call, y) : y;
    bool good = y && td__graph_output(call, 0, type, y);
    good = good && (!td__graph_wants(call, 1) ||
                    td__graph_output(call, 1, td__graph_input(call, K)->type, a.k));
    return good && (!td__graph_wants(call, 2) ||
                    td__graph_output(call, 2, td__graph_input(call, V)->type, a.v));
}

const td__graph_operator td__graph_attentions[] = {
    {"Attention", attention_operator, 3, 7, 4, 23, 0, NULL},
    {0},
};
