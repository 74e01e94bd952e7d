/* Normalisations by the root of a mean, by groups or by a norm, and Swish. */
#include "graph/ops/common.h"

static bool all_float(td__graph_call *call) {
    for (size_t i = 0; i < td__graph_input_count(call); i++) {
        if (td__graph_input(call, i) && !td__graph_is_float(call, i)) {
            return td__graph_fail(call, TD_UNSUPPORTED, "only of type float");
        }
    }
    return true;
}

static bool rms_normalization(td__graph_call *call) {
    td_tensor *x = all_float(call) ? td__graph_plain(call, 0) : NULL;
    td_tensor *scale = td__graph_plain(call, 1);
    int32_t axis;
    if (!x || !scale ||
        !td__graph_axis(call, td__graph_int(call->node, "axis", -1), x->shape.rank, &axis)) {
        return false;
    }
    float epsilon = td__graph_float(call->node, "epsilon", 1e-5f);
    td_tensor *y = td__graph_rms(call->tape, x, axis, scale, epsilon);
    return td__graph_output(call, 0, td__graph_input(call, 0)->type, y);
}

/* x / the sum of |x|, or the root of that of x^2, along an axis; 0 where that is 0 */
static bool lp_normalization(td__graph_call *call) {
    td_tape *tape = call->tape;
    td_tensor *x = all_float(call) ? td__graph_plain(call, 0) : NULL;
    int64_t p = td__graph_int(call->node, "p", 2);
    int32_t axis;
    if (!x || (p != 1 && p != 2) ||
        !td__graph_axis(call, td__graph_int(call->node, "axis", -1), x->shape.rank, &axis)) {
        return x ? td__graph_fail(call, TD_RANGE, "p is %lld, 1 or 2 can be", (long long)p) : false;
    }
    const td_reduce_options *over = TD__REDUCE(.keep = true, .count = 1, .axes = {axis});
    td_tensor *sum = td_sum(tape, p == 1 ? td_absolute(tape, x) : td_square(tape, x), over);
    td_tensor *some = td__graph_is_some(call, sum), *one = td__graph_scalar(tape, 1);
    td_tensor *norm = some && one ? td__select(tape, call->node->op_type, some, sum, one) : NULL;
    norm =
        p == 2 ? td_sqrt(tape, norm) : norm; /* of 1 where there is nothing: its slope is finite */
    return td__graph_output(call, 0, td__graph_input(call, 0)->type, td_divide(tape, x, norm));
}

/* Over the pixels and channels of each group of channels of each example; a scale for each channel, of
 * opset 18 for each group. */
static bool group_normalization(td__graph_call *call) {
    td_tape *tape = call->tape;
    td_tensor *x = all_float(call) ? td__graph_plain(call, 0) : NULL;
    td_tensor *scale = td__graph_plain(call, 1), *bias = td__graph_plain(call, 2);
    int64_t groups = td__graph_int(call->node, "num_groups", 0);
    if (!x || !scale || !bias) {
        return false;
    }
    int64_t channels = x->shape.rank >= 2 ? x->shape.dims[1] : 0;
    int64_t factors = call->opset < 21 ? groups : channels;
    if (groups < 1 || channels < 1 || channels % groups || scale->count != factors ||
        bias->count != factors || x->count == 0) {
        return td__graph_fail(call, TD_BAD_SHAPE, "%lld groups of %lld channels with %lld factors",
                              (long long)groups, (long long)channels, (long long)scale->count);
    }
    int64_t rows = x->shape.dims[0] * groups, width = x->count / rows;
    td_tensor *flat = td_reshape(tape, x, TD_SHAPE(rows, width));
    const td_reduce_options *over = TD__REDUCE(.keep = true, .count = 1, .axes = {1});
    td_tensor *centred = td_subtract(tape, flat, td_mean(tape, flat, over));
    td_tensor *variance = td_mean(tape, td_square(tape, centred), over);
    float epsilon = td__graph_float(call->node, "epsilon", 1e-5f);
    td_tensor *y = td_divide(tape, centred, td_sqrt(tape, td_affine(tape, variance, 1, epsilon)));
    td_shape parts = TD_SHAPE(x->shape.dims[0], factors, x->count / x->shape.dims[0] / factors);
    y = td_multiply(tape, td_reshape(tape, y, parts),
                    td_reshape(tape, scale, TD_SHAPE(1, factors, 1)));
    y = td_add(tape, y, td_reshape(tape, bias, TD_SHAPE(1, factors, 1)));
    return td__graph_output(call, 0, td__graph_input(call, 0)->type,
                            y ? td_reshape(tape, y, x->shape) : NULL);
}

/* x sigmoid(alpha x) */
static td_tensor *swish_of(td__graph_call *call, td_tensor *x) {
    td_tape *tape = call->tape;
    float alpha = td__graph_float(call->node, "alpha", 1);
    return td_multiply(tape, x, td_sigmoid(tape, td_affine(tape, x, alpha, 0)));
}

static bool swish(td__graph_call *call) {
    bool last;
    td_tensor *x = all_float(call) ? td__graph_either(call, 0, &last) : NULL;
    return x && td__graph_output_either(call, 0, td__graph_input(call, 0)->type, swish_of(call, x),
                                        last);
}

const td__graph_operator td__graph_normalization_forms[] = {
    {"GroupNormalization", group_normalization, 3, 3, 1, 18, 0, td__graph_infer_same},
    {"LpNormalization", lp_normalization, 1, 1, 1, 1, 0, td__graph_infer_same},
    {"RMSNormalization", rms_normalization, 2, 2, 1, 23, 0, td__graph_infer_same},
    {"Swish", swish, 1, 1, 1, 24, 0, td__graph_infer_same},
    {0},
};
