/* Operators of onnxruntime (com.microsoft) that its optimiser makes of several of ONNX's: products with
 * an activation, normalisation with what is added before it, Gelu in its forms. */
#include "graph/host.h"
#include "graph/ops/common.h"

#include <math.h>
#include <string.h>

/* --- products with an activation ---------------------------------------------------------- */

static float listed(td__graph_call *call, const char *name, size_t i, float fallback) {
    const td__graph_attribute *found = td__graph_attribute_of(call->node, name);
    return found && found->kind == TD__GRAPH_ATTRIBUTE_FLOATS && i < found->count
               ? found->numbers[i]
               : fallback;
}

static td_tensor *activated(td__graph_call *call, td_tensor *x) {
    const char *name = td__graph_text(call->node, "activation", "");
    float alpha =
        listed(call, "activation_params", 0, td__graph_float(call->node, "activation_alpha", 0));
    float beta =
        listed(call, "activation_params", 1, td__graph_float(call->node, "activation_beta", 0));
    if (!*name) {
        return x;
    }
    if (!strcmp(name, "Relu")) {
        return td_relu(call->tape, x);
    }
    if (!strcmp(name, "Sigmoid")) {
        return td_sigmoid(call->tape, x);
    }
    if (!strcmp(name, "Tanh")) {
        return td_tanh(call->tape, x);
    }
    if (!strcmp(name, "LeakyRelu")) {
        return td_activate(call->tape, x, TD_LEAKY_RELU, TD_SET(alpha));
    }
    if (!strcmp(name, "Clip")) {
        return td_clip(call->tape, x, alpha, beta);
    }
    if (!strcmp(name, "HardSigmoid")) {
        return td_clip(call->tape, td_affine(call->tape, x, alpha, beta), 0, 1);
    }
    (void)td__graph_fail(call, TD_UNSUPPORTED, "with activation '%.60s'", name);
    return NULL;
}

/* ONNX's operator of that name, and then what the node adds. */
static bool with_activation(td__graph_call *call, const char *name, size_t sum) {
    td__graph_value *made = td__graph_made(call, 0);
    if (!td__graph_find_operator("", name, call->opset)->function(call) || !made) {
        return !made && td_tape_status(call->tape, NULL) == TD_OK;
    }
    bool last = !made->plain;
    td_tensor *y = last ? made->channels_last : made->plain;
    if (td__graph_input(call, sum)) {
        last = false;
        y = td_add(call->tape, td__graph_value_plain(call, made), td__graph_plain(call, sum));
    }
    return td__graph_output_either(call, 0, made->type, y ? activated(call, y) : NULL, last);
}

static bool fused_conv(td__graph_call *call) {
    return with_activation(call, "Conv", 3);
}

static bool fused_gemm(td__graph_call *call) {
    return with_activation(call, "Gemm", 3);
}

/* alpha A' B' */
static bool fused_matmul(td__graph_call *call) {
    td_tensor *a = td__graph_plain(call, 0), *b = td__graph_plain(call, 1);
    td_matmul_options options = {.size = sizeof options,
                                 .transpose_a = td__graph_int(call->node, "transA", 0) != 0,
                                 .transpose_b = td__graph_int(call->node, "transB", 0) != 0};
    float alpha = td__graph_float(call->node, "alpha", 1);
    if (td__graph_int(call->node, "transBatchA", 0) ||
        td__graph_int(call->node, "transBatchB", 0) || !a || !b || a->shape.rank < 2 ||
        b->shape.rank < 2) {
        return td__graph_fail(call, TD_UNSUPPORTED, "of vectors, or with batches transposed");
    }
    td_tensor *y = td_matmul(call->tape, a, b, &options);
    return td__graph_output(call, 0, td__graph_input(call, 0)->type,
                            y && alpha != 1 ? td_affine(call->tape, y, alpha, 0) : y);
}

/* --- Gelu --------------------------------------------------------------------------------- */

static bool gelu_of(td__graph_call *call, td_activation form) {
    td_tensor *x = td__graph_plain(call, 0), *bias = td__graph_plain(call, 1);
    x = x && bias ? td_add(call->tape, x, bias) : x;
    return td__graph_output(call, 0, td__graph_input(call, 0)->type,
                            x ? td_activate(call->tape, x, form, TD_DEFAULT) : NULL);
}

static bool gelu(td__graph_call *call) {
    return gelu_of(call, TD_GELU);
}

static bool fast_gelu(td__graph_call *call) {
    return gelu_of(call, TD_GELU_TANH);
}

/* x sigmoid(alpha x) */
static bool quick_gelu(td__graph_call *call) {
    td_tensor *x = td__graph_plain(call, 0);
    float alpha = td__graph_float(call->node, "alpha", 1.702f);
    td_tensor *gate = x ? td_sigmoid(call->tape, td_affine(call->tape, x, alpha, 0)) : NULL;
    return td__graph_output(call, 0, td__graph_input(call, 0)->type,
                            td_multiply(call->tape, x, gate));
}

/* --- normalisation ------------------------------------------------------------------------ */

static bool simplified_layer_normalization(td__graph_call *call) {
    td_tensor *x = td__graph_plain(call, 0), *gamma = td__graph_plain(call, 1);
    int64_t axis = td__graph_int(call->node, "axis", -1);
    if (!x || !gamma || x->shape.rank < 1 || (axis != -1 && axis != x->shape.rank - 1)) {
        return td__graph_fail(call, TD_UNSUPPORTED, "over another axis than the last");
    }
    return td__graph_output(call, 0, td__graph_input(call, 0)->type,
                            td__graph_rms(call->tape, x, x->shape.rank - 1, gamma,
                                          td__graph_float(call->node, "epsilon", 1e-5f)));
}

/* What comes around a block and through it, added and normalised; the sum is the last output. */
static bool skip_normalization(td__graph_call *call, bool simplified) {
    td_tensor *sum = td__graph_plain(call, 0), *skip = td__graph_plain(call, 1);
    td_tensor *gamma = td__graph_plain(call, 2),
              *beta = simplified ? NULL : td__graph_plain(call, 3);
    td_tensor *bias = td__graph_plain(call, simplified ? 3 : 4);
    float epsilon = td__graph_float(call->node, "epsilon", 1e-12f);
    if (!sum || !skip || !gamma) {
        return false;
    }
    sum = td_add(call->tape, sum, skip);
    sum = bias ? td_add(call->tape, sum, bias) : sum;
    td_tensor *y = !sum ? NULL
                   : simplified
                       ? td__graph_rms(call->tape, sum, sum->shape.rank - 1, gamma, epsilon)
                       : td_layer_normalization(call->tape, sum, gamma, beta, epsilon);
    td__graph_type type = td__graph_input(call, 0)->type;
    if (td__graph_wants(call, 1) || td__graph_wants(call, 2)) {
        return td__graph_fail(call, TD_UNSUPPORTED, "mean and deviation as outputs");
    }
    return td__graph_output(call, 0, type, y) &&
           (!td__graph_wants(call, 3) || td__graph_output(call, 3, type, sum));
}

static bool skip_layer_normalization(td__graph_call *call) {
    return skip_normalization(call, false);
}

static bool skip_simplified_layer_normalization(td__graph_call *call) {
    return skip_normalization(call, true);
}

/* The place of each step, (1, steps). */
static td_tensor *places(td__graph_call *call, int64_t steps) {
    td_tensor *y = td__output(call->tape, TD_INT64, &TD_SHAPE(1, steps));
    for (int64_t i = 0; y && i < steps; i++) {
        ((int64_t *)y->data)[i] = i;
    }
    return y;
}

/* How many ids of each example count: the first ones. */
static bool output_lengths(td__graph_call *call, const td_tensor *ids, const td_tensor *mask) {
    td_tensor *y = td__output(call->tape, TD_INT64, &TD_SHAPE(ids->shape.dims[0]));
    int64_t steps = ids->shape.dims[1];
    for (int64_t b = 0; y && b < y->count; b++) {
        int64_t *count = (int64_t *)y->data + b;
        *count = 0;
        for (int64_t t = 0; mask && t < steps; t++) {
            *count += td__graph_integer(mask, b * steps + t) != 0;
        }
    }
    return td__graph_output(call, 1, TD__GRAPH_INT32, y);
}

/* (ids, segments, words, places, kinds of segments, gamma, beta, mask, where the ids are) */
static bool embed_layer_normalization(td__graph_call *call) {
    td_tape *tape = call->tape;
    td_tensor *ids = td__graph_plain(call, 0), *segments = td__graph_plain(call, 1);
    td_tensor *words = td__graph_plain(call, 2), *spots = td__graph_plain(call, 3);
    td_tensor *kinds = td__graph_plain(call, 4), *mask = td__graph_plain(call, 7);
    td_tensor *at = td__graph_plain(call, 8);
    if (!ids || !words || !spots || ids->shape.rank != 2 || ids->dtype != TD_INT64 ||
        (mask && mask->count != ids->count)) {
        return td__graph_fail(call, TD_BAD_SHAPE, "its ids must be (batch, steps)");
    }
    at = at ? at : places(call, ids->shape.dims[1]);
    td_tensor *sum = td_add(tape, td_embedding(tape, words, ids), td_embedding(tape, spots, at));
    sum = segments && kinds ? td_add(tape, sum, td_embedding(tape, kinds, segments)) : sum;
    td_tensor *y =
        td_layer_normalization(tape, sum, td__graph_plain(call, 5), td__graph_plain(call, 6),
                               td__graph_float(call->node, "epsilon", 1e-12f));
    td__graph_type type = td__graph_input(call, 2)->type;
    return td__graph_output(call, 0, type, y) &&
           (!td__graph_wants(call, 1) || output_lengths(call, ids, mask)) &&
           (!td__graph_wants(call, 2) || td__graph_output(call, 2, type, sum));
}

const td__graph_operator td__graph_microsoft[] = {
    {"BiasGelu", gelu, 2, 2, 1, 0, 0, td__graph_infer_broadcast},
    {"EmbedLayerNormalization", embed_layer_normalization, 7, 9, 3, 0, 0, NULL},
    {"FastGelu", fast_gelu, 1, 2, 1, 0, 0, td__graph_infer_same},
    {"FusedConv", fused_conv, 2, 4, 1, 0, 0, td__graph_infer_conv},
    {"FusedGemm", fused_gemm, 2, 3, 1, 0, 0, td__graph_infer_gemm},
    {"FusedMatMul", fused_matmul, 2, 2, 1, 0, 0, NULL},
    {"Gelu", gelu, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"QuickGelu", quick_gelu, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"SkipLayerNormalization", skip_layer_normalization, 3, 5, 4, 0, 0, td__graph_infer_same},
    {"SkipSimplifiedLayerNormalization", skip_simplified_layer_normalization, 3, 4, 4, 0, 0,
     td__graph_infer_same},
    {"TransposeMatMul", fused_matmul, 2, 2, 1, 0, 0, NULL},
    {0},
};

/* onnxruntime writes this one without its domain. */
const td__graph_operator td__graph_simplified[] = {
    {"SimplifiedLayerNormalization", simplified_layer_normalization, 2, 2, 3, 0, 0,
     td__graph_infer_same},
    {0},
};
