/* Tensors made from numbers: ranges, one-hot rows, unit matrices, windows. */
#include "graph/host.h"
#include "graph/ops/common.h"

#include <math.h>

/* Input i, one number. */
static bool one_number(td__graph_call *call, size_t i, const td_tensor **x) {
    *x = td__graph_plain(call, i);
    return *x && ((*x)->count == 1 ||
                  td__graph_fail(call, TD_BAD_SHAPE, "input %zu must be one number", i));
}

/* start, start + delta, … before limit */
static bool range(td__graph_call *call) {
    const td_tensor *start, *limit, *delta;
    if (!one_number(call, 0, &start) || !one_number(call, 1, &limit) ||
        !one_number(call, 2, &delta)) {
        return false;
    }
    double first = td__graph_real(start, 0), step = td__graph_real(delta, 0);
    double steps = ceil((td__graph_real(limit, 0) - first) / step);
    if (!(step != 0) || !(steps < 0x1p40)) {
        return td__graph_fail(call, TD_RANGE, "%g to %g in steps of %g", first,
                              td__graph_real(limit, 0), step);
    }
    td__graph_type type = td__graph_input(call, 0)->type;
    td_tensor *y = td__graph_new(call, type, TD_SHAPE(steps > 0 ? (int64_t)steps : 0));
    uint64_t begin = (uint64_t)td__graph_integer(start, 0);
    uint64_t by = (uint64_t)td__graph_integer(delta, 0);
    for (int64_t i = 0; y && i < y->count; i++) {
        if (td__graph_is_integer(y)) {
            td__graph_put_integer(y, i, (int64_t)(begin + (uint64_t)i * by));
        } else {
            td__graph_put_real(y, i, first + (double)i * step);
        }
    }
    return td__graph_output(call, 0, type, y);
}

/* values[1] where the new axis has the index, values[0] elsewhere and for indices out of range. */
static bool one_hot(td__graph_call *call) {
    td_tensor *indices = td__graph_plain(call, 0), *values = td__graph_plain(call, 2);
    const td_tensor *depth;
    int32_t axis;
    if (!indices || !values || !one_number(call, 1, &depth) ||
        !td__graph_axis(call, td__graph_int(call->node, "axis", -1), indices->shape.rank + 1,
                        &axis)) {
        return false;
    }
    td_shape shape = {.rank = indices->shape.rank + 1};
    int64_t size = td__graph_integer(depth, 0);
    if (values->count != 2 || size < 0 || shape.rank > TD_MAX_RANK) {
        return td__graph_fail(call, TD_BAD_SHAPE, "two values and a depth are needed");
    }
    for (int32_t i = 0; i < shape.rank; i++) {
        shape.dims[i] = i == axis ? size : indices->shape.dims[i < axis ? i : i - 1];
    }
    int64_t inner = td__elements_from(&shape, axis + 1);
    td__graph_type type = td__graph_input(call, 2)->type;
    td_tensor *y = td__graph_new(call, type, shape);
    for (int64_t i = 0; y && i < y->count; i++) {
        int64_t place = i / inner % size;
        int64_t index = td__graph_integer(indices, i / inner / size * inner + i % inner);
        bool hot = index == place || (index < 0 && index + size == place);
        if (td__graph_is_integer(values)) {
            td__graph_put_integer(y, i, td__graph_integer(values, hot));
        } else {
            td__graph_put_real(y, i, td__graph_real(values, hot));
        }
    }
    return td__graph_output(call, 0, type, y);
}

static td__graph_type type_attribute(td__graph_call *call, const char *name,
                                     td__graph_type fallback) {
    int64_t type = td__graph_int(call->node, name, fallback);
    return type >= 0 && type <= INT32_MAX ? (td__graph_type)type : TD__GRAPH_UNDEFINED;
}

static bool can_make(td__graph_call *call, td__graph_type type) {
    return td__graph_is_stored(type) ||
           td__graph_fail(call, TD_UNSUPPORTED, "of type %s", td__graph_type_name(type));
}

static bool eye_like(td__graph_call *call) {
    td_shape shape = td__graph_shape(call, 0);
    td__graph_type type = type_attribute(call, "dtype", td__graph_input(call, 0)->type);
    int64_t k = td__graph_int(call->node, "k", 0);
    if (!can_make(call, type) || shape.rank != 2) {
        return td__graph_fail(call, TD_BAD_SHAPE, "its input is no matrix");
    }
    td_tensor *y = td__graph_new(call, type, shape);
    for (int64_t i = 0; y && i < y->count; i++) {
        td__graph_put_integer(y, i, i % shape.dims[1] - i / shape.dims[1] == k);
    }
    return td__graph_output(call, 0, type, y);
}

/* --- windows ------------------------------------------------------------------------------ */

/* a + b cos(2 pi i / n) + c cos(4 pi i / n) */
static bool window(td__graph_call *call, double a, double b, double c) {
    const td_tensor *size;
    td__graph_type type = type_attribute(call, "output_datatype", TD__GRAPH_FLOAT);
    if (!one_number(call, 0, &size) || !can_make(call, type)) {
        return false;
    }
    int64_t count = td__graph_integer(size, 0);
    if (count < 0) {
        return td__graph_fail(call, TD_RANGE, "of %lld elements", (long long)count);
    }
    bool periodic = td__graph_int(call->node, "periodic", 1);
    double n = (double)(periodic ? count : count - 1);
    td_tensor *y = td__graph_new(call, type, TD_SHAPE(count));
    for (int64_t i = 0; y && i < count; i++) {
        double angle = n > 0 ? 2 * M_PI * (double)i / n : 0;
        td__graph_put_real(y, i, a + b * cos(angle) + c * cos(2 * angle));
    }
    return td__graph_output(call, 0, type, y);
}

static bool hann_window(td__graph_call *call) {
    return window(call, 0.5, -0.5, 0);
}

static bool hamming_window(td__graph_call *call) {
    return window(call, 25.0 / 46, -21.0 / 46, 0);
}

static bool blackman_window(td__graph_call *call) {
    return window(call, 0.42, -0.5, 0.08);
}

/* --- a mel filter bank -------------------------------------------------------------------- */

static double mel(double hertz) {
    return 2595 * log10(1 + hertz / 700);
}

static double hertz(double mels) {
    return 700 * (pow(10, mels / 2595) - 1);
}

/* Triangles over the bins of a spectrum (bins, mels), whose edges are equally far apart in mel. */
static bool mel_weight_matrix(td__graph_call *call) {
    const td_tensor *numbers[5];
    td__graph_type type = type_attribute(call, "output_datatype", TD__GRAPH_FLOAT);
    for (size_t i = 0; i < 5; i++) {
        if (!one_number(call, i, &numbers[i])) {
            return false;
        }
    }
    int64_t mels = td__graph_integer(numbers[0], 0), length = td__graph_integer(numbers[1], 0);
    int64_t rate = td__graph_integer(numbers[2], 0), bins = length / 2 + 1;
    double low = mel(td__graph_real(numbers[3], 0)), high = mel(td__graph_real(numbers[4], 0));
    if (!can_make(call, type) || mels < 1 || length < 1 || rate < 1 || length > 1 << 24 ||
        mels > 1 << 24) {
        return td__graph_fail(call, TD_RANGE, "%lld bands of %lld samples", (long long)mels,
                              (long long)length);
    }
    td_tensor *y = td__graph_new(call, type, TD_SHAPE(bins, mels));
    double step = (high - low) / (double)(mels + 2); /* as ONNX has it */
    for (int64_t m = 0; y && m < mels; m++) {
        double edges[3];
        for (int k = 0; k < 3; k++) {
            double at = hertz(low + (double)(m + k) * step);
            edges[k] = floor((double)(length + 1) * at / (double)rate);
        }
        for (int64_t bin = 0; bin < bins; bin++) {
            double f = (double)bin, rise = edges[1] - edges[0], fall = edges[2] - edges[1];
            bool rises = f >= edges[0] && (rise > 0 ? f <= edges[1] : f == edges[1]);
            double value = rises ? rise > 0 ? (f - edges[0]) / rise : 1
                           : fall > 0 && f > edges[1] && f < edges[2] ? (edges[2] - f) / fall
                                                                      : 0;
            td__graph_put_real(y, bin * mels + m, value);
        }
    }
    return td__graph_output(call, 0, type, y);
}

const td__graph_operator td__graph_generators[] = {
    {"BlackmanWindow", blackman_window, 1, 1, 1, 17, 0, NULL},
    {"EyeLike", eye_like, 1, 1, 1, 9, 0, NULL},
    {"HammingWindow", hamming_window, 1, 1, 1, 17, 0, NULL},
    {"HannWindow", hann_window, 1, 1, 1, 17, 0, NULL},
    {"MelWeightMatrix", mel_weight_matrix, 5, 5, 1, 17, 0, NULL},
    {"OneHot", one_hot, 3, 3, 1, 9, 0, td__graph_infer_one_hot},
    {"Range", range, 3, 3, 1, 11, 0, td__graph_infer_range},
    {0},
};
