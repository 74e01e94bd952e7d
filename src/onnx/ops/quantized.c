/* Numbers in 8 bits: q = round(x / scale) + zero, x = (q - zero) scale. Products of them are exact
 * in 64 bits, and the output's type cuts them to 32. */
#include "onnx/host.h"
#include "onnx/ops/common.h"
#include "tape/broadcast.h"

#include <math.h>

/* A scale or zero point: one number, or one for each place along an axis. */
typedef struct per_axis {
    const td_tensor *x; /* NULL: none given */
    int64_t inner, size;
} per_axis;

static bool read_per_axis(td__onnx_call *call, size_t input, const td_shape *shape, int64_t axis,
                          per_axis *out) {
    const td_tensor *x = td__onnx_plain(call, input);
    *out = (per_axis){.x = x, .inner = 1, .size = 1};
    if (!x) {
        return !td__onnx_input(call, input);
    }
    if (x->count == 1) {
        return true;
    }
    int32_t resolved;
    if (!td__onnx_axis(call, axis, shape->rank, &resolved)) {
        return false;
    }
    for (int32_t i = resolved + 1; i < shape->rank; i++) {
        out->inner *= shape->dims[i];
    }
    out->size = shape->dims[resolved];
    return x->count == out->size ||
           td__onnx_fail(call, TD_BAD_SHAPE, "%lld scales or zero points for an axis of size %lld",
                         (long long)x->count, (long long)out->size);
}

static double real_for(const per_axis *values, int64_t i) {
    return td__onnx_real(values->x, i / values->inner % values->size);
}

static int64_t zero_for(const per_axis *values, int64_t i) {
    return values->x ? td__onnx_integer(values->x, i / values->inner % values->size) : 0;
}

/* Rounded to even, and kept within the type. */
static int64_t saturate(td__onnx_type type, double value) {
    double least = type == TD__ONNX_INT8 ? -128 : type == TD__ONNX_UINT8 ? 0 : INT32_MIN;
    double most = type == TD__ONNX_INT8 ? 127 : type == TD__ONNX_UINT8 ? 255 : INT32_MAX;
    value = rint(value);
    return isnan(value) ? 0 : (int64_t)fmin(fmax(value, least), most);
}

static bool quantize(td__onnx_call *call) {
    td_tensor *x = td__onnx_plain(call, 0);
    per_axis scale, zero;
    int64_t axis = td__onnx_int(call->node, "axis", 1);
    if (!x || !read_per_axis(call, 1, &x->shape, axis, &scale) ||
        !read_per_axis(call, 2, &x->shape, axis, &zero)) {
        return false;
    }
    td__onnx_type type = zero.x ? td__onnx_input(call, 2)->type : TD__ONNX_UINT8;
    td_tensor *y = td__onnx_new(call, type, x->shape);
    for (int64_t i = 0; y && i < y->count; i++) {
        /* In float, as the reference does: a tie may only be one in that. */
        float ratio = (float)td__onnx_real(x, i) / (float)real_for(&scale, i);
        td__onnx_put_integer(y, i,
                             saturate(type, (double)rintf(ratio) + (double)zero_for(&zero, i)));
    }
    return td__onnx_output(call, 0, type, y);
}

static bool dequantize(td__onnx_call *call) {
    td_tensor *x = td__onnx_plain(call, 0);
    per_axis scale, zero;
    int64_t axis = td__onnx_int(call->node, "axis", 1);
    if (!x || !read_per_axis(call, 1, &x->shape, axis, &scale) ||
        !read_per_axis(call, 2, &x->shape, axis, &zero)) {
        return false;
    }
    td__onnx_type type = td__onnx_input(call, 1)->type;
    td_tensor *y = td__onnx_new(call, type, x->shape);
    for (int64_t i = 0; y && i < y->count; i++) {
        double value = td__onnx_real(x, i) - (double)zero_for(&zero, i);
        td__onnx_put_real(y, i, value * real_for(&scale, i));
    }
    return td__onnx_output(call, 0, type, y);
}

/* The range of x, 0 included, onto 0 to 255. */
static bool dynamic_quantize(td__onnx_call *call) {
    td_tensor *x = td__onnx_plain(call, 0);
    float least = 0, most = 0;
    for (int64_t i = 0; x && i < x->count; i++) {
        least = fminf(least, (float)td__onnx_real(x, i));
        most = fmaxf(most, (float)td__onnx_real(x, i));
    }
    float scale = (most - least) / 255;
    td_tensor *y = x ? td__onnx_new(call, TD__ONNX_UINT8, x->shape) : NULL;
    td_tensor *zero = y ? td__onnx_new(call, TD__ONNX_UINT8, (td_shape){0}) : NULL;
    if (!zero) {
        return false;
    }
    int64_t point = saturate(TD__ONNX_UINT8, scale > 0 ? -least / scale : 0);
    td__onnx_put_integer(zero, 0, point);
    for (int64_t i = 0; i < y->count; i++) {
        float ratio = scale > 0 ? (float)td__onnx_real(x, i) / scale : 0;
        td__onnx_put_integer(y, i, saturate(TD__ONNX_UINT8, (double)rintf(ratio) + (double)point));
    }
    return td__onnx_output(call, 0, TD__ONNX_UINT8, y) &&
           td__onnx_output(call, 1, TD__ONNX_FLOAT, td__onnx_scalar(call->tape, scale)) &&
           td__onnx_output(call, 2, TD__ONNX_UINT8, zero);
}

/* --- products ----------------------------------------------------------------------------- */

/* x minus its zero point, one for all, for each row or (of the second factor) each column. */
static td_tensor *centred(td__onnx_call *call, size_t input, size_t zero_input, int64_t axis) {
    td_tensor *x = td__onnx_plain(call, input);
    per_axis zero;
    if (!x || !read_per_axis(call, zero_input, &x->shape, axis, &zero)) {
        return NULL;
    }
    td__onnx_type type = td__onnx_input(call, input)->type;
    if ((type != TD__ONNX_INT8 && type != TD__ONNX_UINT8) ||
        (zero.x && td__onnx_input(call, zero_input)->type != type)) {
        (void)td__onnx_fail(call, TD_DTYPE, "input %zu or its zero point is not in 8 bits", input);
        return NULL;
    }
    td_tensor *y = td__onnx_new(call, TD__ONNX_INT64, x->shape);
    for (int64_t i = 0; y && i < y->count; i++) {
        td__onnx_put_integer(y, i, td__onnx_integer(x, i) - zero_for(&zero, i));
    }
    return y;
}

/* (…, m, k) times (…, k, n), the leading axes broadcast */
static td_tensor *product(td__onnx_call *call, const td_tensor *a, const td_tensor *b) {
    int32_t p = a->shape.rank, q = b->shape.rank;
    if (p < 2 || q < 2 || a->shape.dims[p - 1] != b->shape.dims[q - 2]) {
        (void)td__onnx_fail(call, TD_BAD_SHAPE, "its matrices do not fit");
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
    td_tensor *y = td__onnx_new(call, TD__ONNX_INT64, shape);
    while (y && y->count && td__broadcast_next_row(&rows)) {
        for (int64_t w = 0; w < rows.width; w++) {
            const int64_t *x = (const int64_t *)a->data + (rows.at[0] + w * rows.step[0]) * m * k;
            const int64_t *z = (const int64_t *)b->data + (rows.at[1] + w * rows.step[1]) * k * n;
            int64_t *out = (int64_t *)y->data + (rows.y + w) * m * n;
            for (int64_t i = 0; i < m * n; i++) {
                uint64_t sum = 0;
                for (int64_t j = 0; j < k; j++) {
                    sum += (uint64_t)x[i / n * k + j] * (uint64_t)z[j * n + i % n];
                }
                out[i] = (int64_t)sum;
            }
        }
    }
    return y;
}

static bool matmul_integer(td__onnx_call *call) {
    td_tensor *a = centred(call, 0, 2, -2);
    td_tensor *b = a ? centred(call, 1, 3, -1) : NULL;
    return td__onnx_output(call, 0, TD__ONNX_INT32, b ? product(call, a, b) : NULL);
}

/* y = round(x scale) + zero, where x holds sums of products; scale is one for each place along an
 * axis of x. */
static bool requantize(td__onnx_call *call, const td_tensor *x, size_t scale_a, size_t scale_b,
                       int64_t axis, size_t scale_y, size_t zero_y) {
    per_axis a, b, out, zero;
    if (!x || !read_per_axis(call, scale_a, &x->shape, -2, &a) ||
        !read_per_axis(call, scale_b, &x->shape, axis, &b) ||
        !read_per_axis(call, scale_y, &x->shape, axis, &out) ||
        !read_per_axis(call, zero_y, &x->shape, axis, &zero)) {
        return false;
    }
    td__onnx_type type = td__onnx_input(call, zero_y)->type;
    td_tensor *y = td__onnx_new(call, type, x->shape);
    for (int64_t i = 0; y && i < y->count; i++) {
        double value = td__onnx_real(x, i) * real_for(&a, i) * real_for(&b, i) / real_for(&out, i);
        td__onnx_put_integer(y, i, saturate(type, rint(value) + (double)zero_for(&zero, i)));
    }
    return td__onnx_output(call, 0, type, y);
}

static bool qlinear_matmul(td__onnx_call *call) {
    td_tensor *a = centred(call, 0, 2, -2);
    td_tensor *b = a ? centred(call, 3, 5, -1) : NULL;
    return b && requantize(call, product(call, a, b), 1, 4, -1, 6, 7);
}

/* --- convolution -------------------------------------------------------------------------- */

enum { MOST_AXES = TD_MAX_RANK - 2 };

/* Along each axis of the image. */
typedef struct conv_plan {
    int32_t axes;
    int64_t groups;
    int64_t stride[MOST_AXES], dilation[MOST_AXES], before[MOST_AXES], after[MOST_AXES];
} conv_plan;

static int64_t listed(td__onnx_call *call, const char *name, size_t i, int64_t otherwise) {
    const int64_t *list;
    return i < td__onnx_ints(call->node, name, &list) ? list[i] : otherwise;
}

static bool plan_conv(td__onnx_call *call, const td_tensor *x, const td_tensor *w, conv_plan *plan,
                      td_shape *shape) {
    *plan = (conv_plan){.axes = x->shape.rank - 2, .groups = td__onnx_int(call->node, "group", 1)};
    const int64_t *xd = x->shape.dims, *wd = w->shape.dims;
    if (*td__onnx_text(call->node, "auto_pad", "NOTSET") != 'N') {
        return td__onnx_fail(call, TD_UNSUPPORTED, "automatic padding");
    }
    if (x->shape.rank < 3 || w->shape.rank != x->shape.rank || plan->groups < 1 ||
        plan->groups > xd[1] || wd[0] % plan->groups || wd[1] > xd[1] ||
        wd[1] * plan->groups != xd[1]) {
        return td__onnx_fail(call, TD_BAD_SHAPE, "its kernel does not fit its input");
    }
    *shape = (td_shape){.rank = x->shape.rank, .dims = {xd[0], wd[0]}};
    for (size_t i = 0; i < (size_t)plan->axes; i++) {
        plan->stride[i] = listed(call, "strides", i, 1);
        plan->dilation[i] = listed(call, "dilations", i, 1);
        plan->before[i] = listed(call, "pads", i, 0);
        plan->after[i] = listed(call, "pads", i + (size_t)plan->axes, 0);
        int64_t most = INT32_MAX, size = xd[i + 2], taps = wd[i + 2];
        if (plan->stride[i] < 1 || plan->dilation[i] < 1 || plan->before[i] < 0 ||
            plan->after[i] < 0 || plan->stride[i] > most || plan->dilation[i] > most ||
            plan->before[i] > most || plan->after[i] > most || size > most || taps > most ||
            taps < 1) {
            return td__onnx_fail(call, TD_RANGE, "strides, dilations or pads");
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

static td_tensor *convolve(td__onnx_call *call, const td_tensor *x, const td_tensor *w,
                           const td_tensor *bias) {
    conv_plan plan;
    td_shape shape;
    if (!plan_conv(call, x, w, &plan, &shape)) {
        return NULL;
    }
    if (bias && bias->count != shape.dims[1]) {
        (void)td__onnx_fail(call, TD_BAD_SHAPE, "its bias does not fit its kernel");
        return NULL;
    }
    td_tensor *y = td__onnx_new(call, TD__ONNX_INT64, shape);
    int64_t index[TD_MAX_RANK] = {0};
    for (int64_t i = 0; y && i < y->count; i++) {
        uint64_t sum = convolve_at(&plan, x, w, index);
        sum += bias ? (uint64_t)td__onnx_integer(bias, index[1]) : 0;
        td__onnx_put_integer(y, i, (int64_t)sum);
        for (int32_t k = shape.rank - 1; k >= 0 && ++index[k] == shape.dims[k]; k--) {
            index[k] = 0;
        }
    }
    return y;
}

static bool conv_integer(td__onnx_call *call) {
    td_tensor *x = centred(call, 0, 2, 1);
    td_tensor *w = x ? centred(call, 1, 3, 0) : NULL;
    return td__onnx_output(call, 0, TD__ONNX_INT32, w ? convolve(call, x, w, NULL) : NULL);
}

static bool qlinear_conv(td__onnx_call *call) {
    td_tensor *x = centred(call, 0, 2, 1);
    td_tensor *w = x ? centred(call, 3, 5, 0) : NULL;
    return w && requantize(call, convolve(call, x, w, td__onnx_plain(call, 8)), 1, 4, 1, 6, 7);
}

const td__onnx_operator td__onnx_quantized[] = {
    {"ConvInteger", conv_integer, 2, 4, 1, 10, 0},
    {"DequantizeLinear", dequantize, 2, 3, 1, 10, 0},
    {"DynamicQuantizeLinear", dynamic_quantize, 1, 1, 3, 11, 0},
    {"MatMulInteger", matmul_integer, 2, 4, 1, 10, 0},
    {"QLinearConv", qlinear_conv, 8, 9, 1, 10, 0},
    {"QLinearMatMul", qlinear_matmul, 8, 8, 1, 10, 0},
    {"QuantizeLinear", quantize, 2, 3, 1, 10, 0},
    {0},
};
