/* What operators for attention share, and rotary positions. Queries, keys and values are
 * (batch, heads, steps, size). */
#include "graph/ops/attention.h"

#include <math.h>

/* --- parts -------------------------------------------------------------------------------- */

td_tensor *td__graph_split_heads(td__graph_call *call, td_tensor *x, int64_t heads) {
    if (!x || x->shape.rank != 3 || heads < 1 || x->shape.dims[2] % heads) {
        (void)td__graph_fail(call, TD_BAD_SHAPE, "%lld heads do not share its input out evenly",
                             (long long)heads);
        return NULL;
    }
    const int64_t *d = x->shape.dims;
    td_tensor *parts = td_reshape(call->tape, x, TD_SHAPE(d[0], d[1], heads, d[2] / heads));
    return td_transpose(call->tape, parts, (int32_t[]){0, 2, 1, 3});
}

td_tensor *td__graph_join_heads(td__graph_call *call, td_tensor *x) {
    td_tensor *y = td_transpose(call->tape, x, (int32_t[]){0, 2, 1, 3});
    if (!y) {
        return NULL;
    }
    const int64_t *d = y->shape.dims;
    return td_reshape(call->tape, y, TD_SHAPE(d[0], d[1], d[2] * d[3]));
}

td_tensor *td__graph_after(td__graph_call *call, td_tensor *past, td_tensor *x) {
    return past && x ? td_concatenate(call->tape, 2, (td_tensor *[]){past, x}, 2) : x;
}

td_tensor *td__graph_repeat_heads(td__graph_call *call, td_tensor *x, int64_t heads) {
    int64_t own = x->shape.dims[1], times = own ? heads / own : 0;
    if (heads == own) {
        return x;
    }
    if (!own || heads % own || times > 4096) {
        (void)td__graph_fail(call, TD_BAD_SHAPE, "%lld heads do not share %lld evenly",
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

bool td__graph_measure(td__graph_call *call, attention *a) {
    if (!a->q || !a->k || !a->v || a->q->shape.rank != 4 || a->k->shape.rank != 4 ||
        a->v->shape.rank != 4) {
        return td__graph_fail(call, TD_BAD_SHAPE,
                              "its queries, keys and values do not fit together");
    }
    a->batch = a->q->shape.dims[0];
    a->steps = a->q->shape.dims[2];
    a->keys = a->k->shape.dims[2];
    a->before = a->keys - a->steps;
    return true;
}

/* --- rotary positions --------------------------------------------------------------------- */

bool td__graph_rotate(td__graph_call *call, size_t cosines, size_t sines, size_t positions,
                      int64_t heads) {
    td_tensor *x = td__graph_plain(call, 0), *cosine = td__graph_plain(call, cosines);
    td_tensor *sine = td__graph_plain(call, sines);
    const td_tensor *at = td__graph_plain(call, positions);
    bool neighbours = td__graph_int(call->node, "interleaved", 0) != 0;
    if (!x || !cosine || !sine || x->dtype != TD_FLOAT32 || cosine->dtype != TD_FLOAT32 ||
        (x->shape.rank != 3 && x->shape.rank != 4)) {
        return td__graph_fail(call, TD_BAD_SHAPE,
                              "its input must be (batch, steps, size) in float");
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
    int64_t turned = td__graph_int(call->node, "rotary_embedding_dim", 0);
    turned = turned > 0 ? turned : size;
    int64_t half = turned / 2, rows = cosine->count / (half > 0 ? half : 1);
    bool fits = half > 0 && turned <= size && cosine->count == rows * half &&
                sine->count == cosine->count && (at || rows == batch * steps) &&
                (!flat || heads * size == shape.dims[2]);
    if (!fits ||
        (at && (at->dtype != TD_INT64 || (at->count != batch * steps && at->count != 1)))) {
        return td__graph_fail(call, TD_BAD_SHAPE, "its cosines do not fit its input");
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
            return td__graph_fail(call, TD_RANGE, "position %lld of %lld", (long long)row,
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
    return td__graph_output(call, 0, td__graph_input(call, 0)->type, y);
}

static bool rotary_embedding(td__graph_call *call) {
    return td__graph_rotate(call, 1, 2, 3, td__graph_int(call->node, "num_heads", 0));
}

const td__graph_operator td__graph_rotations[] = {
    {"RotaryEmbedding", rotary_embedding, 3, 4, 1, 23, 0, td__graph_infer_same},
    {0},
};
