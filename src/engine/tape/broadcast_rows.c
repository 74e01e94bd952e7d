/* Rows of what several operands give together. */
#include "tape/broadcast.h"

/* Takes an operand's axes, aligned at the end, into the result's shape. */
static bool join_shape(td_shape *shape, const td_shape *operand) {
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

bool td__broadcast_rows_init(td_tape *tape, const char *op, size_t count,
                             td_tensor *const *operands, td__broadcast_rows *rows) {
    *rows = (td__broadcast_rows){.row = -1};
    for (size_t i = 0; i < count; i++) {
        int32_t rank = operands[i] ? operands[i]->shape.rank : 0;
        rows->shape.rank = rank > rows->shape.rank ? rank : rows->shape.rank;
    }
    for (int32_t i = 0; i < rows->shape.rank; i++) {
        rows->shape.dims[i] = 1;
    }
    for (size_t i = 0; i < count; i++) {
        if (operands[i] && !join_shape(&rows->shape, &operands[i]->shape)) {
            char a[TD_SHAPE_TEXT_SIZE], b[TD_SHAPE_TEXT_SIZE];
            return td__fail(tape, TD_BAD_SHAPE, "%s: shapes %s and %s cannot be broadcast together",
                            op, td_shape_text(&operands[0]->shape, a),
                            td_shape_text(&operands[i]->shape, b));
        }
    }
    td_error error = {0};
    int64_t elements;
    if (td_shape_check(&rows->shape, TD_FLOAT64, &elements, &error)) {
        return td__fail(tape, error.status, "%s: %s", op, error.text);
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

bool td__broadcast_next_row(td__broadcast_rows *rows) {
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
        for (size_t i = 0; i < TD__BROADCAST_OPERANDS; i++) {
            rows->at[i] += steps * rows->strides[i][axis];
        }
        if (!wraps) {
            break;
        }
        rows->index[axis] = 0;
    }
    return true;
}
