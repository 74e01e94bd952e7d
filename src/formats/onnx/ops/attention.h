/* Attention, for operators that make queries, keys and values their own way. */
#ifndef TAPEDECK_ONNX_OPS_ATTENTION_H
#define TAPEDECK_ONNX_OPS_ATTENTION_H

#include "onnx/ops/common.h"

#include <math.h>

typedef struct attention {
    td_tensor *q, *k, *v; /* (batch, heads, steps, size); keys and values may have fewer heads */
    td_tensor *mask;      /* added to the scores, or NULL */
    float scale;          /* 0: 1 / sqrt(size) */
    int64_t batch, steps, keys;
    int64_t before; /* keys from before the first query */
} attention;

static inline float td__onnx_attention_scale(const attention *a) {
    return a->scale != 0 ? a->scale : 1 / sqrtf((float)a->q->shape.dims[3]);
}

/* (batch, steps, heads * size) as (batch, heads, steps, size), and back; NULL on failure. */
td_tensor *td__onnx_split_heads(td__onnx_call *call, td_tensor *x, int64_t heads);
td_tensor *td__onnx_join_heads(td__onnx_call *call, td_tensor *x);
/* What was kept of the steps before (NULL: nothing), and these. */
td_tensor *td__onnx_after(td__onnx_call *call, td_tensor *past, td_tensor *x);
/* Keys and values that several heads share, once for each. */
td_tensor *td__onnx_repeat_heads(td__onnx_call *call, td_tensor *x, int64_t heads);
/* Sizes from the tensors; false when they do not fit. */
bool td__onnx_measure(td__onnx_call *call, attention *a);
/* With onnxruntime's masks; sets output 0 and, unless present is 0, keys and values as outputs
 * present and present + 1. */
bool td__onnx_attend(td__onnx_call *call, attention *a, size_t mask_input, size_t bias_input,
                     bool causal, size_t present);
/* The same of (batch, steps, queries keys values), of which output 1 are keys and values. */
bool td__onnx_packed_attention(td__onnx_call *call, td_tensor *qkv, size_t mask, size_t past,
                               size_t bias);

#endif
