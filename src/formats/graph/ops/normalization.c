/* Normalisations and dropout: what acts differently while a model is trained. */
#include "graph/ops/common.h"

/* Whether it has all inputs of type float. */
static bool all_float(td__graph_call *call, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (td__graph_input(call, i) && !td__graph_is_float(call, i)) {
            return td__graph_fail(call, TD_UNSUPPORTED, "only of type float");
        }
    }
    return true;
}

/* (x - mean) / sqrt(variance + epsilon), both over the given axes */
static td_tensor *standardize(td_tape *tape, td_tensor *x, const td_reduce_options *over,
                              float epsilon, td_tensor **mean, td_tensor **deviation) {
    *mean = td_mean(tape, x, over);
    td_tensor *centred = td_subtract(tape, x, *mean);
    td_tensor *variance = td_mean(tape, td_square(tape, centred), over);
    *deviation = td_sqrt(tape, td_affine(tape, variance, 1, epsilon));
    return td_divide(tape, centred, *deviation);
}

/* By the statistics of the batch, which move the averages that are put out. */
static bool normalize_batch(td__graph_call *call, const td_batch_normalization_options *options,
                            bool last) {
    td_tape *tape = call->tape;
    td__graph_type type = td__graph_input(call, 0)->type;
    td_tensor *x = last ? td__graph_channels_last(call, 0) : td__graph_plain(call, 0);
    td_tensor *gamma = td__graph_plain(call, 1), *beta = td__graph_plain(call, 2), *mean,
              *deviation;
    if (!x || !gamma || !beta) {
        return false;
    }
    td_reduce_options over = {.size = sizeof over};
    for (int32_t i = 0; i < x->shape.rank - 1; i++) {
        over.axes[over.count++] = i;
    }
    float epsilon = (float)options->epsilon.value, momentum = (float)options->momentum.value;
    td_tensor *y = standardize(tape, x, &over, epsilon, &mean, &deviation);
    y = td_add(tape, td_multiply(tape, y, gamma), beta);
    if (!y || !td__graph_output_either(call, 0, type, y, last)) {
        return false;
    }
    td_tensor *moved[2] = {mean, td_affine(tape, td_square(tape, deviation), 1, -epsilon)};
    bool good = true;
    for (size_t i = 0; good && i < 2; i++) {
        td_tensor *before = td__graph_plain(call, 3 + i);
        td_tensor *after = td_add(tape, td_affine(tape, before, momentum, 0),
                                  td_affine(tape, moved[i], 1 - momentum, 0));
        good = after && td__graph_output(call, 1 + i, td__graph_input(call, 3 + i)->type, after);
    }
    return good;
}

/* A model's moving averages are tensors on the heap, which training may move; elsewhere, and in a
 * frozen layer, the statistics given are used. */
static bool batch_normalization(td__graph_call *call) {
    td_tape *tape = call->tape;
    td__graph_type type = td__graph_input(call, 0)->type;
    td_batch_normalization_options options = {
        .size = sizeof options,
        .momentum = TD_SET(td__graph_float(call->node, "momentum", 0.9f)),
        .epsilon = TD_SET(td__graph_float(call->node, "epsilon", 1e-5f))};
    bool last = td__graph_shape(call, 0).rank > 2, model = td__graph_is_model(call);
    bool asked = td__graph_int(call->node, "training_mode", 0) != 0;
    if (!all_float(call, 5)) {
        return false;
    }
    if (asked && !model && call->opset >= 14) {
        return normalize_batch(call, &options, last);
    }
    if (td__graph_wants(call, 1) || (asked && !model)) {
        return td__graph_fail(call, TD_UNSUPPORTED, "statistics of the batch as an output");
    }
    td_tensor *x = last ? td__graph_channels_last(call, 0) : td__graph_plain(call, 0);
    td_tensor *gamma = td__graph_plain(call, 1), *beta = td__graph_plain(call, 2);
    td_tensor *mean = td__graph_plain(call, 3), *variance = td__graph_plain(call, 4);
    if (!x || !gamma || !beta || !mean || !variance) {
        return false;
    }
    bool training = td_tape_is_training(tape);
    td_tape_set_training(tape, training && model && !mean->recording && !variance->recording);
    td_tensor *y = td_batch_normalization(tape, x, gamma, beta, mean, variance, &options);
    td_tape_set_training(tape, training);
    return td__graph_output_either(call, 0, type, y, last);
}

/* Over the batch and the pixels of each channel, unless other axes are given. */
static bool mean_variance_normalization(td__graph_call *call) {
    static const int64_t usual[] = {0, 2, 3};
    td_tape *tape = call->tape;
    const int64_t *axes;
    size_t count = td__graph_ints(call->node, "axes", &axes);
    td_reduce_options over = {.size = sizeof over, .keep = true};
    td_tensor *x = all_float(call, 1) ? td__graph_plain(call, 0) : NULL;
    axes = count ? axes : usual;
    count = count ? count : sizeof usual / sizeof *usual;
    for (size_t i = 0; x && i < count; i++) {
        if (i >= TD_MAX_RANK ||
            !td__graph_axis(call, axes[i], x->shape.rank, &over.axes[over.count++])) {
            return td__graph_fail(call, TD_RANGE, "too many axes");
        }
    }
    td_tensor *centred = td_subtract(tape, x, td_mean(tape, x, &over));
    td_tensor *deviation = td_sqrt(tape, td_mean(tape, td_square(tape, centred), &over));
    td_tensor *y = td_divide(tape, centred, td_affine(tape, deviation, 1, 1e-9f));
    return td__graph_output(call, 0, td__graph_input(call, 0)->type, y);
}

/* Over the pixels of each channel of each example. */
static bool instance_normalization(td__graph_call *call) {
    td_tape *tape = call->tape;
    td_tensor *x = td__graph_channels_last(call, 0), *mean, *deviation;
    td_tensor *scale = td__graph_plain(call, 1), *bias = td__graph_plain(call, 2);
    if (!x || !scale || !bias || !all_float(call, 3)) {
        return false;
    }
    td_reduce_options pixels = {.size = sizeof pixels, .keep = true};
    for (int32_t i = 1; i < x->shape.rank - 1; i++) {
        pixels.axes[pixels.count++] = i;
    }
    td_tensor *y = standardize(tape, x, &pixels, td__graph_float(call->node, "epsilon", 1e-5f),
                               &mean, &deviation);
    y = td_add(tape, td_multiply(tape, y, scale), bias);
    return td__graph_output_last(call, 0, td__graph_input(call, 0)->type, y);
}

/* Over the axes from the given one on, which are taken for one. */
static bool layer_normalization(td__graph_call *call) {
    td_tape *tape = call->tape;
    td__graph_type type = td__graph_input(call, 0)->type;
    td_tensor *x = td__graph_plain(call, 0), *scale = td__graph_plain(call, 1);
    td_tensor *bias = td__graph_plain(call, 2);
    float epsilon = td__graph_float(call->node, "epsilon", 1e-5f);
    int32_t axis;
    if (!x || !scale || !all_float(call, 3) ||
        !td__graph_axis(call, td__graph_int(call->node, "axis", -1), x->shape.rank, &axis)) {
        return false;
    }
    td_shape kept = x->shape;
    int64_t rows = td__elements_between(&x->shape, 0, axis);
    int64_t width = td__elements_from(&x->shape, axis);
    for (int32_t i = 0; i < x->shape.rank; i++) {
        kept.dims[i] = i < axis ? x->shape.dims[i] : 1;
    }
    if (scale->count != width || (bias && bias->count != width)) {
        return td__graph_fail(call, TD_UNSUPPORTED, "a scale of another shape than the input's");
    }
    td_tensor *flat = td_reshape(tape, x, TD_SHAPE(rows, width));
    scale = td_reshape(tape, scale, TD_SHAPE(width));
    bias = bias ? td_reshape(tape, bias, TD_SHAPE(width)) : NULL;
    td_tensor *y = td_layer_normalization(tape, flat, scale, bias, epsilon);
    if (!y || !td__graph_output(call, 0, type, td_reshape(tape, y, x->shape))) {
        return false;
    }
    if (!td__graph_wants(call, 1) && !td__graph_wants(call, 2)) {
        return true;
    }
    td_tensor *mean, *deviation, *one = td__graph_scalar(tape, 1);
    (void)standardize(tape, flat, TD__REDUCE(.count = 1, .axes = {1}, .keep = true), epsilon, &mean,
                      &deviation);
    td_tensor *inverse = td_divide(tape, one, deviation);
    return inverse && td__graph_output(call, 1, type, td_reshape(tape, mean, kept)) &&
           td__graph_output(call, 2, type, td_reshape(tape, inverse, kept));
}

/* x / (bias + alpha / size * the sum of squares over `size` channels around it)^beta */
static bool local_response_normalization(td__graph_call *call) {
    td_tape *tape = call->tape;
    td_tensor *x = td__graph_channels_last(call, 0);
    int64_t size = td__graph_int(call->node, "size", 0);
    float alpha = td__graph_float(call->node, "alpha", 1e-4f);
    if (!x || size < 1 || size > 4096) {
        return x ? td__graph_fail(call, TD_RANGE, "over %lld channels", (long long)size) : false;
    }
    int32_t last = x->shape.rank - 1;
    int64_t before[TD_MAX_RANK] = {0}, after[TD_MAX_RANK] = {0}, part[TD_MAX_RANK];
    for (int32_t i = 0; i <= last; i++) {
        part[i] = x->shape.dims[i];
    }
    before[last] = (size - 1) / 2;
    after[last] = size - 1 - before[last];
    td_tensor *squares = td_pad(tape, td_square(tape, x), before, after, 0), *sum = NULL;
    for (int64_t i = 0; i < size && squares; i++) {
        int64_t begin[TD_MAX_RANK] = {0};
        begin[last] = i;
        td_tensor *each = td_slice(tape, squares, begin, part);
        sum = sum ? td_add(tape, sum, each) : each;
    }
    td_tensor *base =
        td_affine(tape, sum, alpha / (float)size, td__graph_float(call->node, "bias", 1));
    td_tensor *beta = td__graph_scalar(tape, td__graph_float(call->node, "beta", 0.75f));
    td_tensor *y = td_divide(tape, x, td_power(tape, base, beta));
    return td__graph_output_last(call, 0, td__graph_input(call, 0)->type, y);
}

/* --- dropout ------------------------------------------------------------------------------ */

/* 1 for every element: nothing was dropped. */
static bool full_mask(td__graph_call *call) {
    td_shape shape = td__graph_shape(call, 0);
    if (call->opset < 10) {
        return td__graph_output(call, 1, td__graph_input(call, 0)->type,
                                td__graph_filled(call->tape, shape, 1));
    }
    td_tensor *mask = td__output(call->tape, TD_INT64, &shape);
    for (int64_t i = 0; mask && i < mask->count; i++) {
        ((int64_t *)mask->data)[i] = 1;
    }
    return td__graph_output(call, 1, TD__GRAPH_BOOL, mask);
}

/* As the operator's own input asks, outside of a model; the mask says what was kept. */
static bool drop_elements(td__graph_call *call, float ratio) {
    td_tape *tape = call->tape;
    td_shape shape = td__graph_shape(call, 0);
    bool training = td_tape_is_training(tape);
    td_tape_set_training(tape, true);
    td_tensor *kept = td_dropout(tape, td__graph_filled(tape, shape, 1), ratio);
    td_tape_set_training(tape, training);
    td_tensor *mask = kept ? td__output(tape, TD_INT64, &shape) : NULL;
    for (int64_t i = 0; mask && i < mask->count; i++) {
        ((int64_t *)mask->data)[i] = td__floats(kept)[i] != 0;
    }
    return mask &&
           td__graph_output(call, 0, td__graph_input(call, 0)->type,
                            td_multiply(tape, td__graph_plain(call, 0), kept)) &&
           (!td__graph_wants(call, 1) || td__graph_output(call, 1, TD__GRAPH_BOOL, mask));
}

/* Whether the tape trains decides in a model; elsewhere the operator's own input does. */
static bool dropout(td__graph_call *call) {
    float ratio = td__graph_float(call->node, "ratio", 0.5f);
    const td_tensor *given = td__graph_input(call, 1) ? td__graph_as_float(call, 1) : NULL;
    const td_tensor *mode = td__graph_plain(call, 2);
    bool model = td__graph_is_model(call);
    ratio = given && given->count == 1 ? td_tensor_scalar(given) : ratio;
    bool asked = mode && mode->dtype == TD_INT64 && mode->count == 1 && *(int64_t *)mode->data;
    if (asked && !model && ratio > 0 && td__graph_is_float(call, 0)) {
        return drop_elements(call, ratio);
    }
    if (td__graph_wants(call, 1) && !full_mask(call)) {
        return false;
    }
    if (!td_tape_is_training(call->tape) || !td__graph_is_float(call, 0)) {
        return td__graph_pass(call, 0, 0);
    }
    bool last;
    td_tensor *x = td__graph_either(call, 0, &last);
    return td__graph_output_either(call, 0, td__graph_input(call, 0)->type,
                                   td_dropout(call->tape, x, ratio), last);
}

const td__graph_operator td__graph_normalizations[] = {
    {"BatchNormalization", batch_normalization, 5, 5, 5, 0, 0, td__graph_infer_same},
    {"Dropout", dropout, 1, 3, 2, 0, 0, td__graph_infer_dropout},
    {"InstanceNormalization", instance_normalization, 3, 3, 1, 0, 0, td__graph_infer_images},
    {"LRN", local_response_normalization, 1, 1, 1, 0, 0, td__graph_infer_images},
    {"LayerNormalization", layer_normalization, 2, 3, 3, 0, 0, td__graph_infer_same},
    {"MeanVarianceNormalization", mean_variance_normalization, 1, 1, 1, 9, 0, td__graph_infer_same},
    {0},
};
