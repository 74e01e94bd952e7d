/* Numbers in 8 bits: q = round(x / scale) + zero, x = (q - zero) scale. Products of them are cut
 * to 32 bits, as the output's type is. */
#include "graph/ops/quantized.h"

#include "graph/host.h"
#include "tape/broadcast.h"

#include <math.h>

/* A scale or zero point: one number, one for each place along an axis, or one for each block of places,
 * with as many as the input has along the other axes. */
typedef struct per_axis {
    const td_tensor *x; /* NULL: none given */
    int64_t inner, size;
    int64_t block, blocks; /* places in a block, blocks along the axis; 0: no blocks */
} per_axis;

static bool read_per_axis(td__graph_call *call, size_t input, const td_shape *shape, int64_t axis,
                          int64_t block, per_axis *out) {
    const td_tensor *x = td__graph_plain(call, input);
    *out = (per_axis){.x = x, .inner = 1, .size = 1};
    if (!x) {
        return !td__graph_input(call, input);
    }
    if (x->count == 1) {
        return true;
    }
    int32_t resolved;
    if (block < 0 || !td__graph_axis(call, axis, shape->rank, &resolved)) {
        return block >= 0 ? false : td__graph_fail(call, TD_RANGE, "a negative block_size");
    }
    out->inner = td__elements_from(shape, resolved + 1);
    out->size = shape->dims[resolved];
    if (!block) {
        return x->count == out->size ||
               td__graph_fail(call, TD_BAD_SHAPE,
                              "%lld scales or zero points for an axis of size %lld",
                              (long long)x->count, (long long)out->size);
    }
    td_shape wanted = *shape;
    out->block = block;
    out->blocks = wanted.dims[resolved] = out->size / block + (out->size % block != 0);
    char has[TD_SHAPE_TEXT_SIZE], needs[TD_SHAPE_TEXT_SIZE];
    return td_shape_equal(&x->shape, &wanted) ||
           td__graph_fail(call, TD_BAD_SHAPE, "scales or zero points %s of blocks that are %s",
                          td_shape_text(&x->shape, has), td_shape_text(&wanted, needs));
}

static int64_t place_for(const per_axis *values, int64_t i) {
    int64_t place = i / values->inner % values->size;
    return values->block
               ? (i / values->inner / values->size * values->blocks + place / values->block) *
                         values->inner +
                     i % values->inner
               : place;
}

static double real_for(const per_axis *values, int64_t i) {
    return td__graph_real(values->x, place_for(values, i));
}

static int64_t zero_for(const per_axis *values, int64_t i) {
    return values->x ? td__graph_integer(values->x, place_for(values, i)) : 0;
}

int64_t td__graph_saturate(td__graph_type type, double value) {
    static const struct {
        td__graph_type type;
        double min, max;
    } ranges[] = {{TD__GRAPH_INT8, -128, 127},      {TD__GRAPH_UINT8, 0, 255},
                  {TD__GRAPH_INT16, -32768, 32767}, {TD__GRAPH_UINT16, 0, 65535},
                  {TD__GRAPH_INT4, -8, 7},          {TD__GRAPH_UINT4, 0, 15},
                  {TD__GRAPH_INT2, -2, 1},          {TD__GRAPH_UINT2, 0, 3}};
    double min = INT32_MIN, max = INT32_MAX;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        min = ranges[i].type == type ? ranges[i].min : min;
        max = ranges[i].type == type ? ranges[i].max : max;
    }
    value = rint(value);
    return isnan(value) ? 0 : (int64_t)fmin(fmax(value, min), max);
}

/* Sets output 0 to x in a type of few bits. */
static bool output_quantized(td__graph_call *call, const td_tensor *x, td__graph_type type,
                             const per_axis *scale, const per_axis *zero) {
    bool saturate = td__graph_int(call->node, "saturate", 1) != 0, small = td__graph_is_small(type);
    td_tensor *y = td__graph_new(call, type, x->shape);
    for (int64_t i = 0; y && i < y->count; i++) {
        /* In float, as the reference does: a tie may only be one in that. */
        float ratio = (float)td__graph_real(x, i) / (float)real_for(scale, i);
        if (small) {
            ratio += zero->x ? (float)real_for(zero, i) : 0;
            td__graph_put_real(y, i, td__graph_small_round(type, ratio, saturate, 'u'));
        } else {
            td__graph_put_integer(
                y, i, td__graph_saturate(type, (double)rintf(ratio) + (double)zero_for(zero, i)));
        }
    }
    return td__graph_output(call, 0, type, y);
}

static bool quantize(td__graph_call *call) {
    td_tensor *x = td__graph_plain(call, 0);
    per_axis scale, zero;
    const td__graph_node *node = call->node;
    int64_t axis = td__graph_int(node, "axis", 1), block = td__graph_int(node, "block_size", 0);
    int64_t type = td__graph_int(node, "output_dtype", TD__GRAPH_UNDEFINED);
    if (!x || !read_per_axis(call, 1, &x->shape, axis, block, &scale) ||
        !read_per_axis(call, 2, &x->shape, axis, block, &zero)) {
        return false;
    }
    type = zero.x ? td__graph_input(call, 2)->type : type ? type : TD__GRAPH_UINT8;
    if (type < 0 || type > INT32_MAX || !td__graph_is_stored((td__graph_type)type)) {
        return td__graph_fail(call, TD_UNSUPPORTED, "to type %lld", (long long)type);
    }
    if (!output_quantized(call, x, (td__graph_type)type, &scale, &zero)) {
        return false;
    }
    td__graph_value *made = td__graph_made(call, 0);
    if (made && x->dtype == TD_FLOAT32) {
        made->real = x;
    }
    return true;
}

/* What was quantised and comes back: rounding has no slope, so gradients pass straight through it. */
static td_status straight_backward(td_tape *tape, td__node *node) {
    bool add;
    const float *g = td__output_gradient(tape, node);
    float *dx = td__gradient(tape, node, 0, &add);
    for (int64_t i = 0; dx && i < node->output->count; i++) {
        dx[i] = add ? dx[i] + g[i] : g[i];
    }
    return dx ? TD_OK : TD_MEMORY;
}

static const td__op straight_op = {.name = "quantize", .backward = straight_backward};

static td_tensor *dequantized(td__graph_call *call, size_t input, size_t scale_input,
                              size_t zero_input, int64_t axis, int64_t block, td__graph_type type) {
    td_tensor *x = td__graph_plain(call, input);
    per_axis scale, zero;
    if (!x || !read_per_axis(call, scale_input, &x->shape, axis, block, &scale) ||
        !read_per_axis(call, zero_input, &x->shape, axis, block, &zero) || !scale.x) {
        return NULL;
    }
    td_tensor *y = td__graph_new(call, type, x->shape);
    for (int64_t i = 0; y && i < y->count; i++) {
        double value = td__graph_real(x, i) - (zero.x ? real_for(&zero, i) : 0);
        td__graph_put_real(y, i, value * real_for(&scale, i));
    }
    return y;
}

td_tensor *td__graph_dequantized(td__graph_call *call, size_t input, size_t scale_input,
                                 size_t zero_input, int64_t axis) {
    return dequantized(call, input, scale_input, zero_input, axis, 0,
                       td__graph_input(call, scale_input)->type);
}

static bool dequantize(td__graph_call *call) {
    const td__graph_node *node = call->node;
    int64_t axis = td__graph_int(node, "axis", 1), block = td__graph_int(node, "block_size", 0);
    int64_t type = td__graph_int(node, "output_dtype", td__graph_input(call, 1)->type);
    if (type != TD__GRAPH_FLOAT && type != TD__GRAPH_FLOAT16 && type != TD__GRAPH_BFLOAT16 &&
        type != TD__GRAPH_DOUBLE) {
        return td__graph_fail(call, TD_UNSUPPORTED, "to type %lld", (long long)type);
    }
    td_tensor *y = dequantized(call, 0, 1, 2, axis, block, (td__graph_type)type);
    td_tensor *real = td__graph_input(call, 0)->real;
    if (y && real && y->dtype == TD_FLOAT32 && td_shape_equal(&y->shape, &real->shape)) {
        y = td__record(call->tape, &straight_op, y, 1, &real, NULL);
    }
    return td__graph_output(call, 0, (td__graph_type)type, y);
}

bool td__graph_output_quantized(td__graph_call *call, const td_tensor *x, size_t scale_input,
                                size_t zero_input) {
    per_axis scale, zero;
    if (!x || !read_per_axis(call, scale_input, &x->shape, 0, 0, &scale) ||
        !read_per_axis(call, zero_input, &x->shape, 0, 0, &zero) || !scale.x) {
        return false;
    }
    td__graph_type type = zero.x ? td__graph_input(call, zero_input)->type : TD__GRAPH_UINT8;
    return output_quantized(call, x, type, &scale, &zero);
}

td_tensor *td__graph_quantize_range(td__graph_call *call, const td_tensor *x, float *scale,
                                    int64_t *zero) {
    float min = 0, max = 0;
    for (int64_t i = 0; i < x->count; i++) {
        min = fminf(min, (float)td__graph_real(x, i));
        max = fmaxf(max, (float)td__graph_real(x, i));
    }
    *scale = (max - min) / 255;
    *zero = td__graph_saturate(TD__GRAPH_UINT8, *scale > 0 ? (double)(-min / *scale) : 0);
    td_tensor *y = td__graph_new(call, TD__GRAPH_INT64, x->shape);
    for (int64_t i = 0; y && i < y->count; i++) {
        float ratio = *scale > 0 ? (float)td__graph_real(x, i) / *scale : 0;
        int64_t q = td__graph_saturate(TD__GRAPH_UINT8, (double)rintf(ratio) + (double)*zero);
        td__graph_put_integer(y, i, q - *zero);
    }
    return y;
}

static bool dynamic_quantize(td__graph_call *call) {
    td_tensor *x = td__graph_plain(call, 0);
    float scale;
    int64_t point;
    td_tensor *y = x ? td__graph_quantize_range(call, x, &scale, &point) : NULL;
    td_tensor *zero = y ? td__graph_new(call, TD__GRAPH_UINT8, (td_shape){0}) : NULL;
    if (!zero) {
        return false;
    }
    td__graph_put_integer(zero, 0, point);
    for (int64_t i = 0; i < y->count; i++) {
        ((int64_t *)y->data)[i] += point;
    }
    return td__graph_output(call, 0, TD__GRAPH_UINT8, y) &&
           td__graph_output(call, 1, TD__GRAPH_FLOAT, td__graph_scalar(call->tape, scale)) &&
           td__graph_output(call, 2, TD__GRAPH_UINT8, zero);
}

/* --- products ----------------------------------------------------------------------------- */

td_tensor *td__graph_centred(td__graph_call *call, size_t input, size_t zero_input, int64_t axis) {
    td_tensor *x = td__graph_plain(call, input);
    per_axis zero;
    if (!x || !read_per_axis(call, zero_input, &x->shape, axis, 0, &zero)) {
        return NULL;
    }
    td__graph_type type = td__graph_input(call, input)->type;
    if ((type != TD__GRAPH_INT8 && type != TD__GRAPH_UINT8) ||
        (zero.x && td__graph_input(call, zero_input)->type != type)) {
        (void)td__graph_fail(call, TD_DTYPE, "input %zu or its zero point is not in 8 bits", input);
        return NULL;
    }
    td_tensor *y = td__graph_new(call, TD__GRAPH_INT64, x->shape);
    for (int64_t i = 0; y && i < y->count; i++) {
        td__graph_put_integer(y, i, td__graph_integer(x, i) - zero_for(&zero, i));
    }
    return y;
}

/* Of 8 bits, minus a zero point. */
static void narrow_down(const td_tensor *x, int32_t *to) {
    for (int64_t i = 0; i < x->count; i++) {
        to[i] = (int32_t)((const int64_t *)x->data)[i];
    }
}

/* Row by row, so that what is added to lies together; sum has room for n. */
static void multiply(const int32_t *a, const int32_t *b, int64_t m, int64_t k, int64_t n,
                     int32_t *sum, int64_t *out) {
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            sum[j] = 0;
        }
        for (int64_t l = 0; l < k; l++) {
            uint32_t factor = (uint32_t)a[i * k + l];
            for (int64_t j = 0; j < n; j++) {
                sum[j] = (int32_t)((uint32_t)sum[j] + factor * (uint32_t)b[l * n + j]);
            }
        }
        for (int64_t j = 0; j < n; j++) {
            out[i * n + j] = sum[j];
        }
    }
}

td_tensor *td__graph_integer_product(td__graph_call *call, const td_tensor *a, const td_tensor *b) {
    int32_t p = a->shape.rank, q = b->shape.rank;
    if (p < 2 || q < 2 || a->shape.dims[p - 1] != b->shape.dims[q - 2]) {
        (void)td__graph_fail(call, TD_BAD_SHAPE, "its matrices do not fit");
        return NULL;
    }
    int64_t m = a->shape.dims[p - 2], k = a->shape.dims[p - 1], n = b->shape.dims[q - 1];
    /* What stands before the matrices broadcasts like elements do. */
    td_tensor outer_a = {.dtype = TD_INT64, .shape = a->shape, .count = 1};
    td_tensor outer_b = {.dtype = TD_INT64, .shape = b->shape, .count = 1};
    outer_a.shape.rank -= 2;
    outer_b.shape.rank -= 2;
    td__broadcast_rows rows;
    if (!td__broadcast_rows_init(call->tape, call->node->op_type, 2,
                                 (td_tensor *[]){&outer_a, &outer_b}, &rows)) {
        return NULL;
    }
    td_shape shape = rows.shape;
    shape.dims[shape.rank++] = m;
    shape.dims[shape.rank++] = n;
    td_tensor *y = td__graph_new(call, TD__GRAPH_INT64, shape);
    int32_t *narrow =
        td__scratch(call->tape, (size_t)(a->count + b->count + n + 1) * sizeof *narrow);
    if (!y || !narrow) {
        return NULL;
    }
    int32_t *left = narrow, *right = left + a->count, *sum = right + b->count;
    narrow_down(a, left);
    narrow_down(b, right);
    while (y->count && td__broadcast_next_row(&rows)) {
        for (int64_t w = 0; w < rows.width; w++) {
            multiply(left + (rows.at[0] + w * rows.step[0]) * m * k,
                     right + (rows.at[1] + w * rows.step[1]) * k * n, m, k, n, sum,
                     (int64_t *)y->data + (rows.y + w) * m * n);
        }
    }
    return y;
}

static bool matmul_integer(td__graph_call *call) {
    td_tensor *a = td__graph_centred(call, 0, 2, -2);
    td_tensor *b = a ? td__graph_centred(call, 1, 3, -1) : NULL;
    return td__graph_output(call, 0, TD__GRAPH_INT32,
                            b ? td__graph_integer_product(call, a, b) : NULL);
}

/* y = round(x scale) + zero, where x holds sums of products; scale is one for each place along an
 * axis of x. */
static bool requantize(td__graph_call *call, const td_tensor *x, size_t scale_a, size_t scale_b,
                       int64_t axis, size_t scale_y, size_t zero_y) {
    per_axis a, b, out, zero;
    if (!x || !read_per_axis(call, scale_a, &x->shape, -2, 0, &a) ||
        !read_per_axis(call, scale_b, &x->shape, axis, 0, &b) ||
        !read_per_axis(call, scale_y, &x->shape, axis, 0, &out) ||
        !read_per_axis(call, zero_y, &x->shape, axis, 0, &zero)) {
        return false;
    }
    td__graph_type type = td__graph_input(call, zero_y)->type;
    td_tensor *y = td__graph_new(call, type, x->shape);
    for (int64_t i = 0; y && i < y->count; i++) {
        double value = td__graph_real(x, i) * real_for(&a, i) * real_for(&b, i) / real_for(&out, i);
        td__graph_put_integer(y, i,
                              td__graph_saturate(type, rint(value) + (double)zero_for(&zero, i)));
    }
    return td__graph_output(call, 0, type, y);
}

static bool qlinear_matmul(td__graph_call *call) {
    td_tensor *a = td__graph_centred(call, 0, 2, -2);
    td_tensor *b = a ? td__graph_centred(call, 3, 5, -1) : NULL;
    return b && requantize(call, td__graph_integer_product(call, a, b), 1, 4, -1, 6, 7);
}

/* --- convolution -------------------------------------------------------------------------- */

enum { MAX_AXES = TD_MAX_RANK - 2 };

/* Along each axis of the image. */
typedef struct conv_plan {
    int32_t axes;
    int64_t groups;
    int64_t stride[MAX_AXES], dilation[MAX_AXES], before[MAX_AXES], after[MAX_AXES];
} conv_plan;

static bool plan_conv(td__graph_call *call, const td_tensor *x, const td_tensor *w, conv_plan *plan,
                      td_shape *shape) {
    *plan = (conv_plan){.axes = x->shape.rank - 2, .groups = td__graph_int(call->node, "group", 1)};
    const int64_t *xd = x->shape.dims, *wd = w->shape.dims;
    if (*td__graph_text(call->node, "auto_pad", "NOTSET") != 'N') {
        return td__graph_fail(call, TD_UNSUPPORTED, "automatic padding");
    }
    if (x->shape.rank < 3 || w->shape.rank != x->shape.rank || plan->groups < 1 ||
        plan->groups > xd[1] || wd[0] % plan->groups || wd[1] > xd[1] ||
        wd[1] * plan->groups != xd[1]) {
        return td__graph_fail(call, TD_BAD_SHAPE, "its kernel does not fit its input");
    }
    *shape = (td_shape){.rank = x->shape.rank, .dims = {xd[0], wd[0]}};
    for (size_t i = 0; i < (size_t)plan->axes; i++) {
        plan->stride[i] = td__graph_listed(call->node, "strides", i, 1);
        plan->dilation[i] = td__graph_listed(call->node, "dilations", i, 1);
        plan->before[i] = td__graph_listed(call->node, "pads", i, 0);
        plan->after[i] = td__graph_listed(call->node, "pads", i + (size_t)plan->axes, 0);
        int64_t max = INT32_MAX, size = xd[i + 2], taps = wd[i + 2];
        if (plan->stride[i] < 1 || plan->dilation[i] < 1 || plan->before[i] < 0 ||
            plan->after[i] < 0 || plan->stride[i] > max || plan->dilation[i] > max ||
            plan->before[i] > max || plan->after[i] > max || size > max || taps > max || taps < 1) {
            return td__graph_fail(call, TD_RANGE, "strides, dilations or pads");
        }
        int64_t span = size + plan->before[i] + plan->after[i] - (taps - 1) * plan->dilation[i] - 1;
        shape->dims[i + 2] = span < 0 ? 0 : span / plan->stride[i] + 1;
    }
    return true;
}

/* The sum for output element index (n, f, …). */
static uint64_t convolve_at(const conv_plan *plan, const td_tensor *x, const td_tensor *w,
                            const int64_t *index) {
    int64_t channels = w->shape.dims[1], taps = w->count / w->shape.dims[0];
    int64_t group = index[1] / (w->shape.dims[0] / plan->groups);
    uint64_t sum = 0;
    for (int64_t tap = 0; tap < taps; tap++) {
        int64_t rest = tap, at = 0, stride = 1;
        bool inside = true;
        for (int32_t i = plan->axes - 1; i >= 0; i--) {
            int64_t k = rest % w->shape.dims[i + 2], size = x->shape.dims[i + 2];
            int64_t place =
                index[i + 2] * plan->stride[i] + k * plan->dilation[i] - plan->before[i];
            inside = inside && place >= 0 && place < size;
            rest /= w->shape.dims[i + 2];
            at += inside ? place * stride : 0;
            stride *= size;
        }
        if (inside) {
            at += (index[0] * x->shape.dims[1] + group * channels + rest) * stride;
            sum += (uint64_t)((const int64_t *)x->data)[at] *
                   (uint64_t)((const int64_t *)w->data)[index[1] * taps + tap];
        }
    }
    return sum;
}

static td_tensor *convolve(td__graph_call *call, const td_tensor *x, const td_tensor *w,
                           const td_tensor *bias) {
    conv_plan plan;
    td_shape shape;
    if (!plan_conv(call, x, w, &plan, &shape)) {
        return NULL;
    }
    if (bias && bias->count != shape.dims[1]) {
        (void)td__graph_fail(call, TD_BAD_SHAPE, "its bias does not fit its kernel");
        return NULL;
    }
    td_tensor *y = td__graph_new(call, TD__GRAPH_INT64, shape);
    int64_t index[TD_MAX_RANK] = {0};
    for (int64_t i = 0; y && i < y->count; i++) {
        uint64_t sum = convolve_at(&plan, x, w, index);
        sum += bias ? (uint64_t)td__graph_integer(bias, index[1]) : 0;
        td__graph_put_integer(y, i, (int64_t)sum);
        for (int32_t k = shape.rank - 1; k >= 0 && ++index[k] == shape.dims[k]; k--) {
            index[k] = 0;
        }
    }
    return y;
}

static bool conv_integer(td__graph_call *call) {
    td_tensor *x = td__graph_centred(call, 0, 2, 1);
    td_tensor *w = x ? td__graph_centred(call, 1, 3, 0) : NULL;
    return td__graph_output(call, 0, TD__GRAPH_INT32, w ? convolve(call, x, w, NULL) : NULL);
}

static bool qlinear_conv(td__graph_call *call) {
    td_tensor *x = td__graph_centred(call, 0, 2, 1);
    td_tensor *w = x ? td__graph_centred(call, 3, 5, 0) : NULL;
    return w && requantize(call, convolve(call, x, w, td__graph_plain(call, 8)), 1, 4, 1, 6, 7);
}

const td__graph_operator td__graph_quantized[] = {
    {"ConvInteger", conv_integer, 2, 4, 1, 10, 0, td__graph_infer_conv},
    {"DequantizeLinear", dequantize, 2, 3, 1, 10, 0, td__graph_infer_dequantized},
    {"DynamicQuantizeLinear", dynamic_quantize, 1, 1, 3, 11, 0, td__graph_infer_dynamic_quantized},
    {"MatMulInteger", matmul_integer, 2, 4, 1, 10, 0, td__graph_infer_matmul},
    {"QLinearConv", qlinear_conv, 8, 9, 1, 10, 0, td__graph_infer_qlinear_conv},
    {"QLinearMatMul", qlinear_matmul, 8, 8, 1, 10, 0, td__graph_infer_qlinear_matmul},
    {"QuantizeLinear", quantize, 2, 3, 1, 10, 0, td__graph_infer_quantized},
    {0},
};
