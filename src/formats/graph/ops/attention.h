/* Attention, for operators that make queries, keys and values their own way. */
#ifndef TAPEDECK_GRAPH_OPS_ATTENTION_H
#define TAPEDECK_GRAPH_OPS_ATTENTION_H

#include "graph/ops/common.h"

#include <math.h>

typedef struct attention {
    td_tensor *q, *k, *v; /* (batch, heads, steps, size); keys and values may have fewer heads */
    td_tensor *mask;      /* added to the scores, or NULL */
    float scale;          /* 0: 1 / sqrt(size) */
    int64_t batch, steps, keys;
    int64_t before; /* keys from before the first query */
} attention;

static inline float td__graph_attention_scale(const attention *a) {
    return a->scale != 0 ? a->scale : 1 / sqrtf((float)a->q->shape.dims[3]);
}

/* (batch, steps, heads * size) as (batch, heads, steps, size), and back; NULL on failure. */
td_tensor *td__graph_split_heads(td__graph_call *call, td_tensor *x, int64_t heads);
td_tensor *td__graph_join_heads(td__graph_call *call, td_tensor *x);
/* What was kept of the steps before (NULL: nothing), and these. */
td_tensor *td__graph_after(td__graph_call *call, td_tensor *past, td_tensor *x);
/* Keys and values that several heads share, once for each. */
td_tensor *td__graph_repeat_heads(td__graph_call *call, td_tensor *x, int64_t heads);
/* Sizes from the tensors; false when they do not fit. */
bool td__graph_measure(td__graph_call *call, attention *a);
/* Rotary positions: input 0 turned by the cosines and sines of those inputs, at the positions of
 * that input. Halves turn with each other, or neighbours (attribute interleaved). Sets output 0. */
bool td__graph_rotate(td__graph_call *call, size_t cosines, size_t sines, size_t positions,
                      int64_t heads);

#endif
