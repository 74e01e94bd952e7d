/* Quantised operators of onnxruntime (com.microsoft). Element-wise ones and pools compute in float,
 * products in integers, as it does. */
#include "graph/host.h"
#include "graph/ops/quantized.h"
#include "operators/packed_attention.h"

#include <math.h>
#include <string.h>

enum { NONE = 250 }; /* an input that no node has */

/* --- element by element ------------------------------------------------------------------- */

typedef td_tensor *combine(td_tape *tape, td_tensor *a, td_tensor *b);

/* (a, scale, zero, b, scale, zero, scale, zero) */
static bool combined(td__graph_call *call, combine *function) {
    td_tensor *a = td__graph_dequantized(call, 0, 1, 2, 0);
    td_tensor *b = td__graph_dequantized(call, 3, 4, 5, 0);
    return a && b && td__graph_output_quantized(call, function(call->tape, a, b), 6, 7);
}

static bool qlinear_add(td__graph_call *call) {
    return combined(call, td_add);
}

static bool qlinear_multiply(td__graph_call *call) {
    return combined(call, td_multiply);
}

/* ONNX's operator of that name, in float between (x, scale, zero) and (scale, zero). */
static bool between(td__graph_call *call, const char *name) {
    td__graph_value *x = td__graph_input(call, 0), *made = td__graph_made(call, 0), own = *x;
    td_tensor *real = td__graph_dequantized(call, 0, 1, 2, 0);
    if (!real || td__graph_int(call->node, "channels_last", 0)) {
        return real ? td__graph_fail(call, TD_UNSUPPORTED, "with the channels last") : false;
    }
    *x = (td__graph_value){.type = TD__GRAPH_FLOAT, .plain = real};
    /* Its other inputs are the scales. */
    td__graph_node alone = *call->node;
    alone.input_count = 1;
    td__graph_call inner = {
        .run = call->run, .tape = call->tape, .node = &alone, .opset = call->opset};
    bool good = td__graph_find_operator("", name, call->opset)->function(&inner);
    *x = own;
    return good &&
           (!made || td__graph_output_quantized(call, td__graph_value_plain(call, made), 3, 4));
}

static bool qlinear_global_average_pool(td__graph_call *call) {
    return between(call, "GlobalAveragePool");
}

static bool qlinear_average_pool(td__graph_call *call) {
    return between(call, "AveragePool");
}

static bool qlinear_leaky_relu(td__graph_call *call) {
    return between(call, "LeakyRelu");
}

static bool qlinear_sigmoid(td__graph_call *call) {
    return between(call, "Sigmoid");
}

static bool qlinear_softmax(td__graph_call *call) {
    return between(call, "Softmax");
}

/* (scale, zero, then of each part: x, scale, zero) */
static bool qlinear_concat(td__graph_call *call) {
    size_t count = call->node->input_count < 5 ? 0 : (call->node->input_count - 2) / 3;
    td_tensor **parts = count ? td__scratch(call->tape, count * sizeof *parts) : NULL;
    int32_t axis;
    for (size_t i = 0; parts && i < count; i++) {
        parts[i] = td__graph_dequantized(call, 2 + 3 * i, 3 + 3 * i, 4 + 3 * i, 0);
        if (!parts[i]) {
            return false;
        }
    }
    if (!parts ||
        !td__graph_axis(call, td__graph_int(call->node, "axis", 0), parts[0]->shape.rank, &axis)) {
        return td__graph_fail(call, TD_FORMAT, "it has no parts");
    }
    return td__graph_output_quantized(call, td_concatenate(call->tape, count, parts, axis), 0, 1);
}

/* --- products ----------------------------------------------------------------------------- */

/* sums scale + bias in float; the scale is `one` times an input's, which is one or one a column. */
static td_tensor *scaled(td__graph_call *call, const td_tensor *sums, double one, size_t scale,
                         size_t bias_input) {
    const td_tensor *s = td__graph_plain(call, scale), *bias = td__graph_plain(call, bias_input);
    int64_t n = sums ? sums->shape.dims[sums->shape.rank - 1] : 0;
    if (!sums || !s || (s->count != 1 && s->count != n) || (bias && bias->count != n)) {
        return NULL;
    }
    td_tensor *y = td__output(call->tape, TD_FLOAT32, &sums->shape);
    for (int64_t i = 0; y && i < y->count; i++) {
        double factor = one * td__graph_real(s, s->count == 1 ? 0 : i % n);
        double more = bias ? td__graph_real(bias, i % n) : 0;
        td__floats(y)[i] = (float)((double)((const int64_t *)sums->data)[i] * factor + more);
    }
    return y;
}

static double scalar_of(td__graph_call *call, size_t input) {
    const td_tensor *x = td__graph_plain(call, input);
    return x && x->count == 1 ? td__graph_real(x, 0) : NAN;
}

/* (a, b, scale of a, scale of b, zero of a, zero of b, bias) */
static bool matmul_integer_to_float(td__graph_call *call) {
    td_tensor *a = td__graph_centred(call, 0, 4, -2), *b = td__graph_centred(call, 1, 5, -1);
    td_tensor *sums = a && b ? td__graph_integer_product(call, a, b) : NULL;
    double scale = scalar_of(call, 2);
    if (isnan(scale)) {
        return td__graph_fail(call, TD_UNSUPPORTED, "several scales of its first matrix");
    }
    return td__graph_output(call, 0, TD__GRAPH_FLOAT, scaled(call, sums, scale, 3, 6));
}

/* (a in float, b, scale of b, zero of b, bias) */
static bool dynamic_quantize_matmul(td__graph_call *call) {
    td_tensor *x = td__graph_plain(call, 0), *b = td__graph_centred(call, 1, 3, -1);
    float scale = 0;
    int64_t zero;
    td_tensor *a = x && b ? td__graph_quantize_range(call, x, &scale, &zero) : NULL;
    td_tensor *sums = a ? td__graph_integer_product(call, a, b) : NULL;
    return td__graph_output(call, 0, TD__GRAPH_FLOAT, scaled(call, sums, (double)scale, 2, 4));
}

static td_tensor *turned(td__graph_call *call, td_tensor *x, const char *attribute) {
    if (!x || x->shape.rank != 2 || !td__graph_int(call->node, attribute, 0)) {
        return x;
    }
    int64_t m = x->shape.dims[0], n = x->shape.dims[1];
    td_tensor *y = td__output(call->tape, TD_INT64, &TD_SHAPE(n, m));
    for (int64_t i = 0; y && i < x->count; i++) {
        ((int64_t *)y->data)[i % n * m + i / n] = ((const int64_t *)x->data)[i];
    }
    return y;
}

/* (a, scale, zero, b, scale, zero, c, scale, zero): alpha a b + c, where c has the scale of a b */
static bool quantized_gemm(td__graph_call *call) {
    bool transposed = td__graph_int(call->node, "transB", 0) != 0;
    td_tensor *a = turned(call, td__graph_centred(call, 0, 2, -2), "transA");
    td_tensor *b = turned(call, td__graph_centred(call, 3, 5, transposed ? 0 : -1), "transB");
    td_tensor *sums = a && b ? td__graph_integer_product(call, a, b) : NULL;
    const td_tensor *c = td__graph_plain(call, 6);
    double scale = scalar_of(call, 1) * (double)td__graph_float(call->node, "alpha", 1);
    int64_t n = sums ? sums->shape.dims[1] : 0;
    if (!sums || isnan(scale) || (c && c->count != n && c->count != sums->count)) {
        return td__graph_fail(call, TD_BAD_SHAPE, "its matrices do not fit");
    }
    for (int64_t i = 0; c && i < sums->count; i++) {
        ((int64_t *)sums->data)[i] += td__graph_integer(c, c->count == n ? i % n : i);
    }
    td_tensor *y = scaled(call, sums, scale, 4, NONE);
    return td__graph_input(call, 7) ? td__graph_output_quantized(call, y, 7, 8)
                                    : td__graph_output(call, 0, TD__GRAPH_FLOAT, y);
}

/* (input, weights, bias, scale, scale, mask, zero, zero, past) */
static bool quantized_attention(td__graph_call *call) {
    td_tensor *x = td__graph_centred(call, 0, 6, -2), *w = td__graph_centred(call, 1, 7, -1);
    td_tensor *sums = x && w ? td__graph_integer_product(call, x, w) : NULL;
    td_tensor *qkv = scaled(call, sums, scalar_of(call, 3), 4, 2);
    return qkv && td__packed_attention(call, qkv, 5, 8, NONE);
}

/* --- LSTM --------------------------------------------------------------------------------- */

enum { X, W, R, BIAS, LENGTHS, STATE, CELL, PEEPHOLES, W_SCALE, W_ZERO, R_SCALE, R_ZERO };

/* One direction. Gates are i, o, f, c; weights (in, 4 units) in 8 bits. */
typedef struct lstm {
    int64_t steps, batch, in, units, directions, direction;
    bool backwards;
    double w_scale, r_scale;
    td_tensor *w, *r; /* of this direction, minus their zero points */
} lstm;

/* Matrix number direction of three axes, minus its zero point. */
static td_tensor *weights_of(td__graph_call *call, const lstm *l, size_t input, size_t zero,
                             int64_t rows) {
    const td_tensor *x = td__graph_plain(call, input), *z = td__graph_plain(call, zero);
    if (!x || x->dtype != TD_INT64 || x->shape.rank != 3 || x->shape.dims[0] != l->directions ||
        x->shape.dims[1] != rows || x->shape.dims[2] != 4 * l->units ||
        (z && z->count != 1 && z->count != l->directions)) {
        (void)td__graph_fail(call, TD_UNSUPPORTED,
                             "weights of another shape, or with a zero point for each unit");
        return NULL;
    }
    int64_t size = rows * 4 * l->units;
    int64_t point = z ? td__graph_integer(z, z->count == 1 ? 0 : l->direction) : 0;
    td_tensor *y = td__output(call->tape, TD_INT64, &TD_SHAPE(rows, 4 * l->units));
    for (int64_t i = 0; y && i < size; i++) {
        ((int64_t *)y->data)[i] = td__graph_integer(x, l->direction * size + i) - point;
    }
    return y;
}

/* (rows, k) times weights in 8 bits, of which the first factor is brought into 8 bits for this. */
static td_tensor *rounded_product(td__graph_call *call, td_tensor *x, const td_tensor *weights,
                                  double scale) {
    float own;
    int64_t zero;
    td_tensor *a = x ? td__graph_quantize_range(call, x, &own, &zero) : NULL;
    td_tensor *sums = a ? td__graph_integer_product(call, a, weights) : NULL;
    td_tensor *y = sums ? td__output(call->tape, TD_FLOAT32, &sums->shape) : NULL;
    for (int64_t i = 0; y && i < y->count; i++) {
        td__floats(y)[i] = (float)((double)((const int64_t *)sums->data)[i] * (double)own * scale);
    }
    return y;
}

static float sigmoid(float x) {
    return 1 / (1 + expf(-x));
}

/* One step of one direction: gates (batch, 4 units) hold x W + bias; h and c are replaced. */
static void lstm_step(const lstm *l, const float *x, const float *h_part, const float *bias,
                      float *h, float *c) {
    int64_t n = l->units;
    for (int64_t b = 0; b < l->batch; b++) {
        for (int64_t u = 0; u < n; u++) {
            float gate[4];
            for (int64_t g = 0; g < 4; g++) {
                int64_t at = b * 4 * n + g * n + u, own = g * n + u;
                gate[g] = x[at] + h_part[at] + (bias ? bias[own] + bias[4 * n + own] : 0);
            }
            float *cell = c + b * n + u;
            *cell = sigmoid(gate[2]) * *cell + sigmoid(gate[0]) * tanhf(gate[3]);
            h[b * n + u] = sigmoid(gate[1]) * tanhf(*cell);
        }
    }
}

/* The first values of h or c: an input's, or 0. */
static td_tensor *first_state(td__graph_call *call, const lstm *l, size_t input) {
    const td_tensor *given = td__graph_plain(call, input);
    int64_t size = l->batch * l->units;
    td_tensor *y = td__graph_filled(call->tape, TD_SHAPE(l->batch, l->units), 0);
    if (y && given && given->dtype == TD_FLOAT32 && given->count == l->directions * size) {
        memcpy(y->data, td__floats(given) + l->direction * size, (size_t)size * sizeof(float));
    }
    return y;
}

/* y (steps, directions, batch, units), the last h and c (directions, batch, units). */
static bool run_direction(td__graph_call *call, const lstm *l, td_tensor *x, td_tensor *const *y) {
    td_tensor *h = first_state(call, l, STATE), *c = first_state(call, l, CELL);
    td_tensor *flat = td_reshape(call->tape, x, TD_SHAPE(l->steps * l->batch, l->in));
    td_tensor *from_x = rounded_product(call, flat, l->w, l->w_scale);
    const td_tensor *bias = td__graph_plain(call, BIAS);
    if (!h || !c || !from_x || (bias && bias->count != l->directions * 8 * l->units)) {
        return td__graph_fail(call, TD_BAD_SHAPE, "its bias or states do not fit");
    }
    const float *own_bias = bias ? td__floats(bias) + l->direction * 8 * l->units : NULL;
    int64_t size = l->batch * l->units;
    for (int64_t i = 0; i < l->steps; i++) {
        int64_t t = l->backwards ? l->steps - 1 - i : i;
        td_tensor *from_h = rounded_product(call, h, l->r, l->r_scale);
        if (!from_h) {
            return false;
        }
        lstm_step(l, td__floats(from_x) + t * 4 * size, td__floats(from_h), own_bias, td__floats(h),
                  td__floats(c));
        memcpy(td__floats(y[0]) + (t * l->directions + l->direction) * size, h->data,
               (size_t)size * sizeof(float));
    }
    memcpy(td__floats(y[1]) + l->direction * size, h->data, (size_t)size * sizeof(float));
    memcpy(td__floats(y[2]) + l->direction * size, c->data, (size_t)size * sizeof(float));
    return true;
}

/* Of several scales of a matrix, only one for each direction. */
static double scale_of(td__graph_call *call, size_t input, const lstm *l) {
    const td_tensor *s = td__graph_plain(call, input);
    return s && s->count == 1               ? td__graph_real(s, 0)
           : s && s->count == l->directions ? td__graph_real(s, l->direction)
                                            : NAN;
}

static bool dynamic_quantize_lstm(td__graph_call *call) {
    const char *direction = td__graph_text(call->node, "direction", "forward");
    const td__graph_attribute *other = td__graph_attribute_of(call->node, "activations");
    td_tensor *x = td__graph_plain(call, X);
    lstm l = {.units = td__graph_int(call->node, "hidden_size", 0)};
    l.directions = strcmp(direction, "bidirectional") == 0 ? 2 : 1;
    if (!x || x->shape.rank != 3 || x->dtype != TD_FLOAT32 || l.units < 1 || l.units > 1 << 20 ||
        other || td__graph_input(call, LENGTHS) || td__graph_input(call, PEEPHOLES)) {
        return td__graph_fail(call, TD_UNSUPPORTED, "with lengths, peepholes or other activations");
    }
    l.steps = x->shape.dims[0];
    l.batch = x->shape.dims[1];
    l.in = x->shape.dims[2];
    td_shape last = TD_SHAPE(l.directions, l.batch, l.units);
    td_shape all = TD_SHAPE(l.steps, l.directions, l.batch, l.units);
    td_tensor *y[3];
    for (size_t i = 0; i < 3; i++) {
        y[i] = td__output(call->tape, TD_FLOAT32, i ? &last : &all);
        if (!y[i]) {
            return false;
        }
    }
    for (l.direction = 0; l.direction < l.directions; l.direction++) {
        l.backwards = l.direction == 1 || strcmp(direction, "reverse") == 0;
        l.w_scale = scale_of(call, W_SCALE, &l);
        l.r_scale = scale_of(call, R_SCALE, &l);
        l.w = weights_of(call, &l, W, W_ZERO, l.in);
        l.r = l.w ? weights_of(call, &l, R, R_ZERO, l.units) : NULL;
        if (!l.r || isnan(l.w_scale) || isnan(l.r_scale)) {
            return td__graph_fail(call, TD_UNSUPPORTED, "a scale for each unit");
        }
        if (!run_direction(call, &l, x, y)) {
            return false;
        }
    }
    bool good = true;
    for (size_t i = 0; good && i < 3; i++) {
        good = !td__graph_wants(call, i) || td__graph_output(call, i, TD__GRAPH_FLOAT, y[i]);
    }
    return good;
}

const td__graph_operator td__graph_ms_quantized[] = {
    {"DynamicQuantizeLSTM", dynamic_quantize_lstm, 3, 12, 3, 0, 0, NULL},
    {"DynamicQuantizeMatMul", dynamic_quantize_matmul, 3, 5, 1, 0, 0, td__graph_infer_float_matmul},
    {"MatMulIntegerToFloat", matmul_integer_to_float, 4, 7, 1, 0, 0, td__graph_infer_float_matmul},
    {"QAttention", quantized_attention, 5, 9, 2, 0, 0, NULL},
    {"QGemm", quantized_gemm, 6, 9, 1, 0, 0, NULL},
    {"QLinearAdd", qlinear_add, 0, 8, 1, 0, 0, NULL},
    {"QLinearAveragePool", qlinear_average_pool, 4, 5, 1, 0, 0, NULL},
    {"QLinearConcat", qlinear_concat, 3, 255, 1, 0, 0, NULL},
    {"QLinearGlobalAveragePool", qlinear_global_average_pool, 4, 5, 1, 0, 0, NULL},
    {"QLinearLeakyRelu", qlinear_leaky_relu, 4, 5, 1, 0, 0, NULL},
    {"QLinearMul", qlinear_multiply, 0, 8, 1, 0, 0, NULL},
    {"QLinearSigmoid", qlinear_sigmoid, 4, 5, 1, 0, 0, NULL},
    {"QLinearSoftmax", qlinear_softmax, 5, 5, 1, 0, 0, NULL},
    {0},
};
