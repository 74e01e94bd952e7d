/* attention: y = p v, p = softmax(scale q k^T + mask), for each head (all axes but the last two)
 *
 * dv = p^T g; dp = g v^T; ds = p (dp - sum dp p), the gradient of the mask too; dq = scale ds k;
 * dk = scale ds^T q
 */
#include "tape/attention.h"
#include "base/options.h"
#include "tape/kernels.h"
#include "tape/tape.h"

#include <math.h>
#include <string.h>

/* The mask's gradient: the scores' gradient (without the scale), summed where the
 * mask broadcasts. */
static td_status gradient_of_mask(td_tape *tape, td__node *node, const td__attention *a,
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
        float *to = dmask + td__attention_mask_offset(a, row / a->t) + row % a->t * strides[0];
        if (strides[1]) {
            kernels->axpy(a->s, 1.0f / a->scale, ds, to);
        } else {
            *to += kernels->sum(a->s, ds) / a->scale;
        }
    }
    return TD_OK;
}

static td_status attention_backward(td_tape *tape, td__node *node) {
    const td__attention *a = node->saved;
    const td_tensor *mask = node->inputs[3].tensor;
    td__attention_work work = {.attention = a,
                               .q = td__floats(node->inputs[0].tensor),
                               .k = td__floats(node->inputs[1].tensor),
                               .v = td__floats(node->inputs[2].tensor),
                               .mask = mask ? td__floats(mask) : NULL,
                               .g = td__output_gradient(tape, node)};
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
    if (!td__wants(tape, node, 3)) {
        return td__attention_backward(tape, &work);
    }
    td__buffer *ds = td__temporary(tape, (size_t)(a->heads * a->t * a->s) * sizeof(float));
    if (!ds) {
        return TD_MEMORY;
    }
    work.ds = ds->data;
    td_status status = td__attention_backward(tape, &work);
    status = status ? status : gradient_of_mask(tape, node, a, ds->data);
    td__buffer_drop(tape, ds);
    return status;
}

static const td__op attention_op = {.name = "attention", .backward = attention_backward};

/* Axes of the steps and, beside them or before, of the heads. */
static bool fit_inputs(td_tape *tape, const td_tensor *q, const td_tensor *k, const td_tensor *v,
                       bool beside) {
    int32_t rank = q->shape.rank, steps = rank - 2 - beside;
    const int64_t *qs = q->shape.dims, *ks = k->shape.dims, *vs = v->shape.dims;
    bool fits = steps >= 0 && k->shape.rank == rank && v->shape.rank == rank &&
                qs[rank - 1] == ks[rank - 1] && ks[steps] == vs[steps];
    for (int32_t i = 0; fits && i < rank - 1; i++) {
        fits = i == steps || (qs[i] == ks[i] && qs[i] == vs[i]);
    }
    if (!fits) {
        char a[TD_SHAPE_TEXT_SIZE], b[TD_SHAPE_TEXT_SIZE], c[TD_SHAPE_TEXT_SIZE];
        const char *heads = beside ? ", heads" : "";
        td__fail(
            tape, TD_BAD_SHAPE,
            "attention: q %s, k %s and v %s do not fit: they must be (..., t%s, d), (..., s%s, "
            "d) and (..., s%s, e)",
            td_shape_text(&q->shape, a), td_shape_text(&k->shape, b), td_shape_text(&v->shape, c),
            heads, heads, heads);
    }
    return fits;
}

static bool fit_mask(td_tape *tape, const td_tensor *mask, td__attention *a) {
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

static td__attention *begin_attention(td_tape *tape, const td_tensor *q, const td_tensor *k,
                                      const td_tensor *v, const td_attention_options *options,
                                      bool beside) {
    td__attention *a = td__scratch(tape, sizeof *a);
    if (!a) {
        return NULL;
    }
    int32_t rank = q->shape.rank, steps = rank - 2 - beside;
    *a = (td__attention){.heads = 1,
                         .t = q->shape.dims[steps],
                         .s = k->shape.dims[steps],
                         .d = q->shape.dims[rank - 1],
                         .e = v->shape.dims[rank - 1],
                         .beside = beside ? q->shape.dims[rank - 2] : 1,
                         .rank = rank};
    memcpy(a->dims, q->shape.dims, sizeof a->dims); /* of the scores: heads before steps */
    if (beside) {
        a->dims[steps] = a->beside;
    }
    a->dims[rank - 2] = a->t;
    a->dims[rank - 1] = a->s;
    for (int32_t i = 0; i < rank - 2; i++) {
        a->heads *= a->dims[i];
    }
    a->scale =
        options->scale.set ? (float)options->scale.value : 1.0f / sqrtf((float)(a->d + !a->d));
    a->causal = options->causal;
    if (options->mask && !fit_mask(tape, options->mask, a)) {
        return NULL;
    }
    return a;
}

static td_tensor *attend(td_tape *tape, td_tensor *q, td_tensor *k, td_tensor *v,
                         const td_attention_options *options, bool beside) {
    td_attention_options given;
    options = td__options(&given, sizeof given, options);
    td_tensor *mask = options->mask;
    if (!td__check_float(tape, "attention", "q", q) ||
        !td__check_float(tape, "attention", "k", k) ||
        !td__check_float(tape, "attention", "v", v) ||
        (mask && !td__check_float(tape, "attention", "mask", mask)) ||
        !fit_inputs(tape, q, k, v, beside)) {
        return NULL;
    }
    td__attention *saved = begin_attention(tape, q, k, v, options, beside);
    if (!saved) {
        return NULL;
    }
    td_shape shape = q->shape;
    shape.dims[shape.rank - 1] = saved->e;
    td_tensor *y = td__output(tape, TD_FLOAT32, &shape);
    if (!y) {
        return NULL;
    }
    int64_t rows = saved->heads * saved->t, scores;
    if (__builtin_mul_overflow(rows, saved->s, &scores) || scores > INT64_MAX / 8) {
        return td__fail_memory(tape); /* only where q, k and v are empty */
    }
    bool keep = td__is_recording(tape) && td__attention_keeps(saved);
    saved->stats = td__scratch(tape, (size_t)(rows * 2) * sizeof(float));
    saved->probabilities = keep ? td__scratch(tape, (size_t)scores * sizeof(float)) : NULL;
    if (tape->keeps_entropy) {
        saved->entropies = td__scratch(tape, (size_t)rows * sizeof(float));
    }
    if (!saved->stats || (keep && !saved->probabilities) ||
        (tape->keeps_entropy && !saved->entropies)) {
        return NULL;
    }
    td__attention_work work = {.attention = saved,
                               .q = td__floats(q),
                               .k = td__floats(k),
                               .v = td__floats(v),
                               .mask = mask ? td__floats(mask) : NULL,
                               .y = td__floats(y)};
    if (td__attention_forward(tape, &work)) {
        return NULL;
    }
    return td__record(tape, &attention_op, y, 4, (td_tensor *[]){q, k, v, mask}, saved);
}

td_tensor *td_attention(td_tape *tape, td_tensor *q, td_tensor *k, td_tensor *v,
                        const td_attention_options *options) {
    return attend(tape, q, k, v, options, false);
}

td_tensor *td__attention_beside(td_tape *tape, td_tensor *q, td_tensor *k, td_tensor *v,
                                const td_attention_options *options) {
    return attend(tape, q, k, v, options, true);
}
