/* attention: y = p v, p = softmax(scale q k^T + mask), for each head (all axes but the last two)
 *
 * dv = p^T g; dp = g v^T; ds = p (dp - sum dp p), the gradient of the mask too; dq = scale ds k;
 * dk = scale ds^T q
 *
 * Heads are shared out to the threads; each keeps one head's scores, keys and values in its cache.
 */
#include "tape/gemm.h"
#include "tape/parallel.h"

#include <math.h>
#include <string.h>

typedef struct attention_saved {
    int64_t heads, t, s, d, e; /* q (heads, t, d), k (heads, s, d), v (heads, s, e) */
    float scale;
    bool causal;
    int32_t rank;                                         /* of the scores, (…, t, s) */
    int64_t dims[TD_MAX_RANK], mask_strides[TD_MAX_RANK]; /* 0 where the mask broadcasts */
    float *probabilities;                                 /* (heads, t, s) */
} attention_saved;

typedef struct attention_work {
    const attention_saved *saved;
    const float *q, *k, *v, *mask, *g;
    float *y, *dq, *dk, *dv;
    bool add_q, add_k, add_v;
    float *scores; /* dp, then scale ds: (t, s) for each thread, or for each head */
    bool scores_of_heads;
    float *packing; /* packing_size floats for each thread */
    int64_t packing_size;
} attention_work;

/* Where the mask of a head begins. */
static int64_t mask_offset(const attention_saved *a, int64_t head) {
    int64_t offset = 0;
    for (int32_t i = a->rank - 3; i >= 0; i--) {
        offset += head % a->dims[i] * a->mask_strides[i];
        head /= a->dims[i];
    }
    return offset;
}

static void forward_part(void *context, int part, int64_t begin, int64_t end) {
    const attention_work *w = context;
    const attention_saved *a = w->saved;
    float *packing = w->packing + part * w->packing_size;
    for (int64_t head = begin; head < end; head++) {
        float *p = w->scores + (w->scores_of_heads ? head : part) * a->t * a->s;
        td__gemm_serial(&(td__gemm_arguments){.m = a->t,
                                              .n = a->s,
                                              .k = a->d,
                                              .a = w->q + head * a->t * a->d,
                                              .lda = a->d,
                                              .b = w->k + head * a->s * a->d,
                                              .ldb = a->d,
                                              .transpose_b = true,
                                              .c = p,
                                              .ldc = a->s},
                        packing);
        td__kernels()->attention_softmax(a->t, a->s, a->scale,
                                         w->mask ? w->mask + mask_offset(a, head) : NULL,
                                         a->mask_strides + a->rank - 2, a->causal, p);
        td__gemm_serial(&(td__gemm_arguments){.m = a->t,
                                              .n = a->e,
                                              .k = a->s,
                                              .a = p,
                                              .lda = a->s,
                                              .b = w->v + head * a->s * a->e,
                                              .ldb = a->e,
                                              .c = w->y + head * a->t * a->e,
                                              .ldc = a->e},
                        packing);
    }
}

static void backward_values(const attention_work *w, int64_t head, float *packing) {
    const attention_saved *a = w->saved;
    td__gemm_serial(&(td__gemm_arguments){.m = a->s,
                                          .n = a->e,
                                          .k = a->t,
                                          .a = a->probabilities + head * a->t * a->s,
                                          .lda = a->s,
                                          .transpose_a = true,
                                          .b = w->g + head * a->t * a->e,
                                          .ldb = a->e,
                                          .c = w->dv + head * a->s * a->e,
                                          .ldc = a->e,
                                          .flags = w->add_v ? TD__TILE_ADD : 0},
                    packing);
}

/* ds = scale p (g v^T - …) */
static void backward_scores(const attention_work *w, int64_t head, float *ds, float *packing) {
    const attention_saved *a = w->saved;
    td__gemm_serial(&(td__gemm_arguments){.m = a->t,
                                          .n = a->s,
                                          .k = a->e,
                                          .a = w->g + head * a->t * a->e,
                                          .lda = a->e,
                                          .b = w->v + head * a->s * a->e,
                                          .ldb = a->e,
                                          .transpose_b = true,
                                          .c = ds,
                                          .ldc = a->s},
                    packing);
    td__kernels()->attention_softmax_backward(a->t, a->s, a->scale,
                                              a->probabilities + head * a->t * a->s, ds);
}

static void backward_queries(const attention_work *w, int64_t head, const float *ds,
                             float *packing) {
    const attention_saved *a = w->saved;
    td__gemm_serial(&(td__gemm_arguments){.m = a->t,
                                          .n = a->d,
                                          .k = a->s,
                                          .a = ds,
                                          .lda = a->s,
                                          .b = w->k + head * a->s * a->d,
                                          .ldb = a->d,
                                          .c = w->dq + head * a->t * a->d,
                                          .ldc = a->d,
                                          .flags = w->add_q ? TD__TILE_ADD : 0},
                    packing);
}

static void backward_keys(const attention_work *w, int64_t head, const float *ds, float *packing) {
    const attention_saved *a = w->saved;
    td__gemm_serial(&(td__gemm_arguments){.m = a->s,
                                          .n = a->d,
                                          .k = a->t,
                                          .a = ds,
                                          .lda = a->s,
                                          .transpose_a = true,
                                          .b = w->q + head * a->t * a->d,
                                          .ldb = a->d,
                                          .c = w->dk + head * a->s * a->d,
                                          .ldc = a->d,
                                          .flags = w->add_k ? TD__TILE_ADD : 0},
                    packing);
}

static void backward_part(void *context, int part, int64_t begin, int64_t end) {
    const attention_work *w = context;
    const attention_saved *a = w->saved;
    float *packing = w->packing + part * w->packing_size;
    for (int64_t head = begin; head < end; head++) {
        float *ds = w->scores + (w->scores_of_heads ? head : part) * a->t * a->s;
        if (w->dq || w->dk || w->scores_of_heads) {
            backward_scores(w, head, ds, packing);
        }
        if (w->dq) {
            backward_queries(w, head, ds, packing);
        }
        if (w->dk) {
            backward_keys(w, head, ds, packing);
        }
        if (w->dv) {
            backward_values(w, head, packing);
        }
    }
}

/* Runs body over all heads with memory for packing, and for scores unless there is some. */
static td_status run(td_tape *tape, attention_work *w, td__parallel_body *body) {
    const attention_saved *a = w->saved;
    size_t widest = td__panels_bytes(a->s, a->d > a->e ? a->d : a->e);
    size_t values = td__panels_bytes(a->d > a->e ? a->d : a->e, a->t > a->s ? a->t : a->s);
    w->packing_size = (int64_t)((widest > values ? widest : values) / sizeof(float));
    int64_t scores = w->scores ? 0 : a->t * a->s;
    td__buffer *memory =
        td__temporary(tape, (size_t)((w->packing_size + scores) * td_threads()) * sizeof(float));
    if (!memory) {
        return TD_MEMORY;
    }
    w->packing = memory->data;
    w->scores = w->scores ? w->scores : memory->data + w->packing_size * td_threads();
    int64_t work = a->t * a->s * (a->d + a->e);
    td__parallel(a->heads, 1, 200000 / (work + 1) + 1, body, w);
    td__buffer_drop(tape, memory);
    return TD_OK;
}

/* The mask's gradient: the scores' gradient (without the scale), summed where the
 * mask broadcasts. */
static td_status gradient_of_mask(td_tape *tape, td__node *node, const attention_saved *a,
                                  const float *ds) {
    bool add;
    float *dmask = td__gradient(tape, node, 3, &add);
    if (!dmask) {
        return TD_MEMORY;
    }
    if (!add) {
        memset(dmask, 0, (size_t)node->inputs[3].tensor->count * sizeof(float));
    }
    const td__kernels_table *kernels = td__kernels();
    const int64_t *strides = a->mask_strides + a->rank - 2;
    for (int64_t row = 0; row < a->heads * a->t; row++, ds += a->s) {
        float *to = dmask + mask_offset(a, row / a->t) + row % a->t * strides[0];
        if (strides[1]) {
            kernels->axpy(a->s, 1.0f / a->scale, ds, to);
        } else {
            *to += kernels->sum(a->s, ds) / a->scale;
        }
    }
    return TD_OK;
}

static td_status attention_backward(td_tape *tape, td__node *node) {
    const attention_saved *a = node->saved;
    attention_work work = {.saved = a,
                           .q = td__floats(node->inputs[0].tensor),
                           .k = td__floats(node->inputs[1].tensor),
                           .v = td__floats(node->inputs[2].tensor),
                           .g = td__output_gradient(tape, node),
                           .scores_of_heads = td__wants(tape, node, 3)};
    /* One tensor may be several of the inputs; the first contribution, in this
     * order, overwrites. */
    float **to[] = {&work.dq, &work.dk, &work.dv};
    bool *add[] = {&work.add_q, &work.add_k, &work.add_v};
    for (int32_t i = 0; i < 3; i++) {
        if (td__wants(tape, node, i)) {
            *to[i] = td__gradient(tape, node, i, add[i]);
            if (!*to[i]) {
                return TD_MEMORY;
            }
        }
    }
    if (!work.scores_of_heads) {
        return run(tape, &work, backward_part);
    }
    td__buffer *ds = td__temporary(tape, (size_t)(a->heads * a->t * a->s) * sizeof(float));
    if (!ds) {
        return TD_MEMORY;
    }
    work.scores = ds->data;
    td_status status = run(tape, &work, backward_part);
    status = status ? status : gradient_of_mask(tape, node, a, ds->data);
    td__buffer_drop(tape, ds);
    return status;
}

static const td__op attention_op = {.name = "attention", .backward = attention_backward};

static bool fit_inputs(td_tape *tape, const td_tensor *q, const td_tensor *k, const td_tensor *v) {
    int32_t rank = q->shape.rank;
    const int64_t *qs = q->shape.dims, *ks = k->shape.dims, *vs = v->shape.dims;
    bool fits = rank >= 2 && k->shape.rank == rank && v->shape.rank == rank &&
                qs[rank - 1] == ks[rank - 1] && ks[rank - 2] == vs[rank - 2];
    for (int32_t i = 0; fits && i < rank - 2; i++) {
        fits = qs[i] == ks[i] && qs[i] == vs[i];
    }
    if (!fits) {
        char a[TD_SHAPE_TEXT_SIZE], b[TD_SHAPE_TEXT_SIZE], c[TD_SHAPE_TEXT_SIZE];
        td__fail(tape, TD_BAD_SHAPE,
                 "attention: q %s, k %s and v %s do not fit: they must be (..., t, d), (..., s, d) "
                 "and (..., s, e)",
                 td_shape_text(&q->shape, a), td_shape_text(&k->shape, b),
                 td_shape_text(&v->shape, c));
    }
    return fits;
}

static bool fit_mask(td_tape *tape, const td_tensor *mask, attention_saved *a) {
    const td_shape *shape = &mask->shape;
    int64_t stride = 1;
    bool fits = shape->rank <= a->rank;
    for (int32_t i = 1; fits && i <= a->rank; i++) {
        int64_t dim = i <= shape->rank ? shape->dims[shape->rank - i] : 1;
        fits = dim == 1 || dim == a->dims[a->rank - i];
        a->mask_strides[a->rank - i] = dim == 1 ? 0 : stride;
        stride *= dim;
    }
    if (!fits) {
        char b[TD_SHAPE_TEXT_SIZE], c[TD_SHAPE_TEXT_SIZE];
        td_shape scores = {.rank = a->rank};
        memcpy(scores.dims, a->dims, sizeof scores.dims);
        td__fail(tape, TD_BAD_SHAPE, "attention: mask %s does not fit the scores %s",
                 td_shape_text(shape, b), td_shape_text(&scores, c));
    }
    return fits;
}

static attention_saved *begin(td_tape *tape, const td_tensor *q, const td_tensor *k,
                              const td_tensor *v, const td_attention_options *options) {
    attention_saved *a = td__scratch(tape, sizeof *a);
    if (!a) {
        return NULL;
    }
    int32_t rank = q->shape.rank;
    *a = (attention_saved){.heads = 1,
                           .t = q->shape.dims[rank - 2],
                           .s = k->shape.dims[rank - 2],
                           .d = q->shape.dims[rank - 1],
                           .e = v->shape.dims[rank - 1],
                           .rank = rank};
    for (int32_t i = 0; i < rank; i++) {
        a->dims[i] = i == rank - 1 ? a->s : q->shape.dims[i];
        a->heads *= i < rank - 2 ? a->dims[i] : 1;
    }
    a->scale =
        options && options->scale != 0 ? options->scale : 1.0f / sqrtf((float)(a->d + !a->d));
    a->causal = options && options->causal;
    if (options && options->mask && !fit_mask(tape, options->mask, a)) {
        return NULL;
    }
    return a;
}

td_tensor *td_attention(td_tape *tape, td_tensor *q, td_tensor *k, td_tensor *v,
                        const td_attention_options *options) {
    td_tensor *mask = options ? options->mask : NULL;
    if (!td__check_float(tape, "attention", "q", q) ||
        !td__check_float(tape, "attention", "k", k) ||
        !td__check_float(tape, "attention", "v", v) ||
        (mask && !td__check_float(tape, "attention", "mask", mask)) || !fit_inputs(tape, q, k, v)) {
        return NULL;
    }
    attention_saved *saved = begin(tape, q, k, v, options);
    if (!saved) {
        return NULL;
    }
    td_shape shape = q->shape;
    shape.dims[shape.rank - 1] = saved->e;
    td_tensor *y = td__output(tape, TD_FLOAT32, &shape);
    if (!y) {
        return NULL;
    }
    if (td__is_recording(tape)) {
        td_shape scores = {.rank = saved->rank};
        memcpy(scores.dims, saved->dims, sizeof scores.dims);
        td_tensor *p = td__output(tape, TD_FLOAT32, &scores);
        if (!p) {
            return NULL;
        }
        saved->probabilities = td__floats(p);
    }
    attention_work work = {.saved = saved,
                           .q = td__floats(q),
                           .k = td__floats(k),
                           .v = td__floats(v),
                           .mask = mask ? td__floats(mask) : NULL,
                           .y = td__floats(y),
                           .scores = saved->probabilities,
                           .scores_of_heads = saved->probabilities != NULL};
    if (run(tape, &work, forward_part)) {
        return NULL;
    }
    return td__record(tape, &attention_op, y, 4, (td_tensor *[]){q, k, v, mask}, saved);
}
