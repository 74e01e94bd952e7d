/* Elements of any type, and broadcasting. */
#include "graph/host.h"

#include <math.h>

double td__graph_real(const td_tensor *x, int64_t i) {
    return x->dtype == TD_FLOAT32   ? (double)((const float *)x->data)[i]
           : x->dtype == TD_FLOAT64 ? ((const double *)x->data)[i]
                                    : (double)((const int64_t *)x->data)[i];
}

static int64_t truncated(double value) {
    return value >= 0x1p63    ? INT64_MAX
           : value <= -0x1p63 ? INT64_MIN
           : isnan(value)     ? 0
                              : (int64_t)value;
}

int64_t td__graph_integer(const td_tensor *x, int64_t i) {
    return x->dtype == TD_INT64 ? ((const int64_t *)x->data)[i] : truncated(td__graph_real(x, i));
}

void td__graph_put_real(td_tensor *y, int64_t i, double value) {
    if (y->dtype == TD_FLOAT32) {
        ((float *)y->data)[i] = (float)value;
    } else if (y->dtype == TD_FLOAT64) {
        ((double *)y->data)[i] = value;
    } else {
        ((int64_t *)y->data)[i] = truncated(value);
    }
}

void td__graph_put_integer(td_tensor *y, int64_t i, int64_t value) {
    if (y->dtype == TD_INT64) {
        ((int64_t *)y->data)[i] = value;
    } else {
        td__graph_put_real(y, i, (double)value);
    }
}

bool td__graph_is_integer(const td_tensor *x) {
    return x->dtype == TD_INT64;
}

bool td__graph_plains(td__graph_call *call, size_t count, bool same, td_tensor **inputs) {
    for (size_t i = 0; i < count; i++) {
        const td__graph_value *value = td__graph_input(call, i);
        if (!value) {
            return td__graph_fail(call, TD_INVALID, "input %zu is left out", i);
        }
        if (same && value->type != td__graph_input(call, 0)->type) {
            return td__graph_fail(call, TD_DTYPE, "input %zu is %s, input 0 is %s", i,
                                  td__graph_type_name(value->type),
                                  td__graph_type_name(td__graph_input(call, 0)->type));
        }
        inputs[i] = td__graph_plain(call, i);
        if (!inputs[i]) {
            return false;
        }
    }
    return true;
}

td_tensor *td__graph_new(td__graph_call *call, td__graph_type type, td_shape shape) {
    return td__output(call->tape, td__graph_storage(type), &shape);
}
