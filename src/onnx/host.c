/* Elements of any type, and broadcasting. */
#include "onnx/host.h"

#include <math.h>

double td__onnx_real(const td_tensor *x, int64_t i) {
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

int64_t td__onnx_integer(const td_tensor *x, int64_t i) {
    return x->dtype == TD_INT64 ? ((const int64_t *)x->data)[i] : truncated(td__onnx_real(x, i));
}

void td__onnx_put_real(td_tensor *y, int64_t i, double value) {
    if (y->dtype == TD_FLOAT32) {
        ((float *)y->data)[i] = (float)value;
    } else if (y->dtype == TD_FLOAT64) {
        ((double *)y->data)[i] = value;
    } else {
        ((int64_t *)y->data)[i] = truncated(value);
    }
}

void td__onnx_put_integer(td_tensor *y, int64_t i, int64_t value) {
    if (y->dtype == TD_INT64) {
        ((int64_t *)y->data)[i] = value;
    } else {
        td__onnx_put_real(y, i, (double)value);
    }
}

bool td__onnx_is_integer(const td_tensor *x) {
    return x->dtype == TD_INT64;
}

bool td__onnx_plains(td__onnx_call *call, size_t count, bool same, td_tensor **inputs) {
    for (size_t i = 0; i < count; i++) {
        const td__onnx_value *value = td__onnx_input(call, i);
        if (!value) {
            return td__onnx_fail(call, TD_INVALID, "input %zu is left out", i);
        }
        if (same && value->type != td__onnx_input(call, 0)->type) {
            return td__onnx_fail(call, TD_DTYPE, "input %zu is %s, input 0 is %s", i,
                                 td__onnx_type_name(value->type),
                                 td__onnx_type_name(td__onnx_input(call, 0)->type));
        }
        inputs[i] = td__onnx_plain(call, i);
        if (!inputs[i]) {
            return false;
        }
    }
    return true;
}

td_tensor *td__onnx_new(td__onnx_call *call, td__onnx_type type, td_shape shape) {
    return td__output(call->tape, td__onnx_storage(type), &shape);
}

/* --- broadcasting ------------------------------------------------------------------------- */

/* Takes an operand's axes, aligned at the end, into the result's shape. */
static bool join(td_shape *shape, const td_shape *operand) {
    int32_t shift = shape->rank - operand->rank;
    for (int32_t i = 0; i < operand->rank; i++) {
        int64_t dim = operand->dims[i], *joined = &shape->dims[i + shift];
        if (dim != 1 && *joined != 1 && dim != *joined) {
            return false;
        }
        *joined = *joined == 1 ? dim : *joined;
    }
    return true;
}

/* How far apart its elements are along the result's axes; 0 where it is repeated. */
static void set_strides(const td_shape *shape, const td_shape *operand,
                        int64_t strides[TD_MAX_RANK]) {
    int64_t stride = 1;
    for (int32_t i = shape->rank - 1; i >= 0; i--) {
        int32_t own = i - (shape->rank - operand->rank);
        int64_t dim = own < 0 ? 1 : operand->dims[own];
        strides[i] = dim == 1 ? 0 : stride;
        stride *= dim;
    }
}

bool td__onnx_rows_init(td__onnx_call *call, size_t count, td_tensor *const *operands,
                        td__onnx_rows *rows) {
    *rows = (td__onnx_rows){.row = -1};
    for (size_t i = 0; i < count; i++) {
        int32_t rank = operands[i] ? operands[i]->shape.rank : 0;
        rows->shape.rank = rank > rows->shape.rank ? rank : rows->shape.rank;
    }
    for (int32_t i = 0; i < rows->shape.rank; i++) {
        rows->shape.dims[i] = 1;
    }
    for (size_t i = 0; i < count; i++) {
        if (operands[i] && !join(&rows->shape, &operands[i]->shape)) {
            char a[TD_SHAPE_TEXT_SIZE], b[TD_SHAPE_TEXT_SIZE];
            return td__onnx_fail(
                call, TD_BAD_SHAPE, "shapes %s and %s cannot be broadcast together",
                td_shape_text(&operands[0]->shape, a), td_shape_text(&operands[i]->shape, b));
        }
    }
    td_error error = {0};
    int64_t elements;
    if (td_shape_check(&rows->shape, TD_FLOAT64, &elements, &error)) {
        return td__onnx_fail(call, error.status, "%s", error.text);
    }
    int32_t last = rows->shape.rank - 1;
    rows->width = last >= 0 ? rows->shape.dims[last] : 1;
    rows->count = elements ? elements / rows->width : 0;
    for (size_t i = 0; i < count; i++) {
        if (operands[i]) {
            set_strides(&rows->shape, &operands[i]->shape, rows->strides[i]);
            rows->step[i] = last >= 0 ? rows->strides[i][last] : 0;
        }
    }
    return true;
}

bool td__onnx_next_row(td__onnx_rows *rows) {
    if (++rows->row >= rows->count) {
        return false;
    }
    rows->y = rows->row * rows->width;
    if (rows->row == 0) {
        return true;
    }
    for (int32_t axis = rows->shape.rank - 2; axis >= 0; axis--) {
        bool wraps = ++rows->index[axis] == rows->shape.dims[axis];
        int64_t steps = wraps ? 1 - rows->shape.dims[axis] : 1;
        for (size_t i = 0; i < TD__ONNX_MOST_OPERANDS; i++) {
            rows->at[i] += steps * rows->strides[i][axis];
        }
        if (!wraps) {
            break;
        }
        rows->index[axis] = 0;
    }
    return true;
}
