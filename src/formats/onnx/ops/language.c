/* Operators that opsets 23 and on have for language models, and normalisations beside them. */
#include "onnx/host.h"
#include "onnx/ops/common.h"

#include <string.h>

static bool all_float(td__onnx_call *call) {
    for (size_t i = 0; i < td__onnx_input_count(call); i++) {
        if (td__onnx_input(call, i) && !td__onnx_is_float(call, i)) {
            return td__onnx_fail(call, TD_UNSUPPORTED, "only of type float");
        }
    }
    return true;
}

static bool rms_normalization(td__onnx_call *call) {
    td_tensor *x = all_float(call) ? td__onnx_plain(call, 0) : NULL;
    td_tensor *scale = td__onnx_plain(call, 1);
    int32_t axis;
    if (!x || !scale ||
        !td__onnx_axis(call, td__onnx_int(call->node, "axis", -1), x->shape.rank, &axis)) {
        return false;
    }
    float epsilon = td__onnx_float(call->node, "epsilon", 1e-5f);
    td_tensor *y = td__onnx_rms(call->tape, x, axis, scale, epsilon);
    return td__onnx_output(call, 0, td__onnx_input(call, 0)->type, y);
}

/* x / the sum of |x|, or the root of that of x^2, along an axis; 0 where that is 0 */
static bool lp_normalization(td__onnx_call *call) {
    td_tape *tape = call->tape;
    td_tensor *x = all_float(call) ? td__onnx_plain(call, 0) : NULL;
    int64_t p = td__onnx_int(call->node, "p", 2);
    int32_t axis;
    if (!x || (p != 1 && p != 2) ||
        !td__onnx_axis(call, td__onnx_int(call->node, "axis", -1), x->shape.rank, &axis)) {
        return x ? td__onnx_fail(call, TD_RANGE, "p is %lld, 1 or 2 can be", (long long)p) : false;
    }
    const td_reduce_options *over = TD__REDUCE(.keep = true, .count = 1, .axes = {axis});
    td_tensor *sum = td_sum(tape, p == 1 ? td_absolute(tape, x) : td_square(tape, x), over);
    td_tensor *some = td__onnx_is_some(call, sum), *one = td__onnx_scalar(tape, 1);
    td_tensor *norm = some && one ? td__select(tape, call->node->op_type, some, sum, one) : NULL;
    norm =
        p == 2 ? td_sqrt(tape, norm) : norm; /* of 1 where there is nothing: its slope is finite */
    return td__onnx_output(call, 0, td__onnx_input(call, 0)->type, td_divide(tape, x, norm));
}

/* Over the pixels and channels of each group of channels of each example; a scale for each channel, of
 * opset 18 for each group. */
static bool group_normalization(td__onnx_call *call) {
    td_tape *tape = call->tape;
    td_tensor *x = all_float(call) ? td__onnx_plain(call, 0) : NULL;
    td_tensor *scale = td__onnx_plain(call, 1), *bias = td__onnx_plain(call, 2);
    int64_t groups = td__onnx_int(call->node, "num_groups", 0);
    if (!x || !scale || !bias) {
        return false;
    }
    int64_t channels = x->shape.rank >= 2 ? x->shape.dims[1] : 0;
    int64_t factors = call->opset < 21 ? groups : channels;
    if (groups < 1 || channels < 1 || channels % groups || scale->count != factors ||
        bias->count != factors || x->count == 0) {
        return td__onnx_fail(call, TD_BAD_SHAPE, "%lld groups of %lld channels with %lld factors",
                             (long long)groups, (long long)channels, (long long)scale->count);
    }
    int64_t rows = x->shape.dims[0] * groups, width = x->count / rows;
    td_tensor *flat = td_reshape(tape, x, TD_SHAPE(rows, width));
    const td_reduce_options *over = TD__REDUCE(.keep = true, .count = 1, .axes = {1});
    td_tensor *centred = td_subtract(tape, flat, td_mean(tape, flat, over));
    td_tensor *variance = td_mean(tape, td_square(tape, centred), over);
    float epsilon = td__onnx_float(call->node, "epsilon", 1e-5f);
    td_tensor *y = td_divide(tape, centred, td_sqrt(tape, td_affine(tape, variance, 1, epsilon)));
    td_shape parts = TD_SHAPE(x->shape.dims[0], factors, x->count / x->shape.dims[0] / factors);
    y = td_multiply(tape, td_reshape(tape, y, parts),
                    td_reshape(tape, scale, TD_SHAPE(1, factors, 1)));
    y = td_add(tape, y, td_reshape(tape, bias, TD_SHAPE(1, factors, 1)));
    return td__onnx_output(call, 0, td__onnx_input(call, 0)->type,
                           y ? td_reshape(tape, y, x->shape) : NULL);
}

/* x sigmoid(alpha x) */
static td_tensor *swish_of(td__onnx_call *call, td_tensor *x) {
    td_tape *tape = call->tape;
    float alpha = td__onnx_float(call->node, "alpha", 1);
    return td_multiply(tape, x, td_sigmoid(tape, td_affine(tape, x, alpha, 0)));
}

static bool swish(td__onnx_call *call) {
    bool last;
    td_tensor *x = all_float(call) ? td__onnx_either(call, 0, &last) : NULL;
    return x &&
           td__onnx_output_either(call, 0, td__onnx_input(call, 0)->type, swish_of(call, x), last);
}

static bool swi_glu(td__onnx_call *call) {
    td_tensor *a = all_float(call) ? td__onnx_plain(call, 0) : NULL, *b = td__onnx_plain(call, 1);
    if (!a || !b || !td_shape_equal(&a->shape, &b->shape)) {
        return a && b ? td__onnx_fail(call, TD_BAD_SHAPE, "its inputs have different shapes")
                      : false;
    }
    return td__onnx_output(call, 0, td__onnx_input(call, 0)->type,
                           td_multiply(call->tape, swish_of(call, a), b));
}

/* A cache (batch, …, places, …) with new steps written to places of its own in each example, around
 * the end where it is circular. */
static bool tensor_scatter(td__onnx_call *call) {
    td_tensor *x[2];
    int32_t axis;
    if (!td__onnx_plains(call, 2, true, x) ||
        !td__onnx_axis(call, td__onnx_int(call->node, "axis", -2), x[0]->shape.rank, &axis)) {
        return false;
    }
    const td_tensor *at = td__onnx_plain(call, 2);
    bool circular = !strcmp(td__onnx_text(call->node, "mode", "linear"), "circular");
    td_shape wanted = x[0]->shape;
    int64_t places = wanted.dims[axis], steps = x[1]->shape.dims[axis], batch = wanted.dims[0];
    wanted.dims[axis] = steps;
    if (axis == 0 || !td_shape_equal(&wanted, &x[1]->shape) || steps > places ||
        (at && (at->dtype != TD_INT64 || at->count != batch))) {
        return td__onnx_fail(call, TD_BAD_SHAPE, "what is written does not fit the cache");
    }
    int64_t inner = td__elements_from(&wanted, axis + 1);
    int64_t outer = td__elements_between(&wanted, 0, axis);
    /* A row of the cache is one of its own or one of the new ones, which lie behind it. */
    td_tensor *parts[2] = {td__onnx_view(call->tape, x[0], TD_SHAPE(outer * places, inner)),
                           td__onnx_view(call->tape, x[1], TD_SHAPE(outer * steps, inner))};
    td_tensor *all = parts[0] && parts[1] ? td__onnx_join(call, 2, parts, 0) : NULL;
    td__move_map map;
    if (!all || !td__move_map_init(call->tape, call->node->op_type, TD_SHAPE(outer * places, inner),
                                   &map)) {
        return false;
    }
    for (int64_t i = 0; map.offsets[0] && i < outer * places; i++) {
        map.offsets[0][i] = i * inner;
    }
    for (int64_t i = 0; map.offsets[1] && i < inner; i++) {
        map.offsets[1][i] = i;
    }
    for (int64_t i = 0; map.offsets[0] && i < outer * steps; i++) {
        int64_t line = i / steps, place = i % steps;
        int64_t first = at && batch ? ((const int64_t *)at->data)[line / (outer / batch)] : 0;
        bool fits = first >= 0 && (circular ? first < places : first <= places - steps);
        if (!fits) {
            return td__onnx_fail(call, TD_RANGE, "place %lld of a cache of %lld", (long long)first,
                                 (long long)places);
        }
        place = (first + place) % places;
        map.offsets[0][line * places + place] = (outer * places + i) * inner;
    }
    td_tensor *y = td__move(call->tape, all, &map, NULL);
    return td__onnx_output(call, 0, td__onnx_input(call, 0)->type,
                           y ? td__onnx_view(call->tape, y, x[0]->shape) : NULL);
}

enum { MOST_TAPS = 4096 };

/* x (n, c, t), kernel (c, 1, k), bias (c), past (n, c, k - 1): each channel by its own kernel, over what
 * came before; puts out (n, c, t) and the last k - 1 steps. */
static bool causal_conv_with_state(td__onnx_call *call) {
    td_tape *tape = call->tape;
    td_tensor *x = all_float(call) ? td__onnx_plain(call, 0) : NULL;
    td_tensor *kernel = td__onnx_plain(call, 1), *bias = td__onnx_plain(call, 2);
    td_tensor *past = td__onnx_plain(call, 3), *y = NULL;
    const char *activation = td__onnx_text(call->node, "activation", "none");
    if (!x || !kernel) {
        return false;
    }
    const int64_t *d = x->shape.dims, *k = kernel->shape.dims;
    if (x->shape.rank != 3 || kernel->shape.rank != 3 || k[0] != d[1] || k[1] != 1 || k[2] < 1 ||
        k[2] > MOST_TAPS || (bias && bias->count != d[1]) ||
        (past && !td_shape_equal(&past->shape, &TD_SHAPE(d[0], d[1], k[2] - 1)))) {
        return td__onnx_fail(call, TD_BAD_SHAPE, "its inputs do not fit each other");
    }
    past = past ? past : td__onnx_filled(tape, TD_SHAPE(d[0], d[1], k[2] - 1), 0);
    td_tensor *all = past ? td_concatenate(tape, 2, (td_tensor *[]){past, x}, 2) : NULL;
    kernel = td_reshape(tape, kernel, TD_SHAPE(d[1], k[2]));
    for (int64_t i = 0; all && i < k[2]; i++) {
        td_tensor *tap = td_slice(tape, kernel, (int64_t[]){0, i}, (int64_t[]){-1, 1});
        td_tensor *at = td_slice(tape, all, (int64_t[]){0, 0, i}, (int64_t[]){-1, -1, d[2]});
        td_tensor *part = td_multiply(tape, at, tap);
        y = y ? td_add(tape, y, part) : part;
        if (!y) {
            return false;
        }
    }
    y = y && bias ? td_add(tape, y, td_reshape(tape, bias, TD_SHAPE(d[1], 1))) : y;
    y = y && strcmp(activation, "none") != 0 ? td_activate(tape, y, TD_SWISH, 0) : y;
    td__onnx_type type = td__onnx_input(call, 0)->type;
    td_tensor *present =
        y ? td_slice(tape, all, (int64_t[]){0, 0, d[2]}, (int64_t[]){-1, -1, k[2] - 1}) : NULL;
    return td__onnx_output(call, 0, type, y) && td__onnx_output(call, 1, type, present);
}

const td__onnx_operator td__onnx_language[] = {
    {"CausalConvWithState", causal_conv_with_state, 2, 4, 2, 27, 0, td__onnx_infer_same},
    {"GroupNormalization", group_normalization, 3, 3, 1, 18, 0, td__onnx_infer_same},
    {"LpNormalization", lp_normalization, 1, 1, 1, 1, 0, td__onnx_infer_same},
    {"RMSNormalization", rms_normalization, 2, 2, 1, 23, 0, td__onnx_infer_same},
    {"SwiGLU", swi_glu, 2, 2, 1, 28, 0, NULL},
    {"Swish", swish, 1, 1, 1, 24, 0, td__onnx_infer_same},
    {"TensorScatter", tensor_scatter, 2, 3, 1, 24, 0, td__onnx_infer_same},
    {0},
};
