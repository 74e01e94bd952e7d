#include "graph/ops/common.h"

#include <string.h>

/* --- forms -------------------------------------------------------------------------------- */

td_tensor *td__graph_either(td__graph_call *call, size_t i, bool *last) {
    *last = td__graph_is_last(call, i);
    return *last ? td__graph_channels_last(call, i) : td__graph_plain(call, i);
}

bool td__graph_output_either(td__graph_call *call, size_t i, td__graph_type type, td_tensor *tensor,
                             bool last) {
    return last ? td__graph_output_last(call, i, type, tensor)
                : td__graph_output(call, i, type, tensor);
}

/* Input i with the channels last beside images of that rank: axes that it lacks are there with
 * size 1. */
static td_tensor *last_beside(td__graph_call *call, size_t i, int32_t rank) {
    td_shape own = td__graph_shape(call, i);
    if (own.rank == rank) {
        return td__graph_channels_last(call, i);
    }
    td_tensor *x = td__graph_plain(call, i);
    if (!x || x->count == 1) {
        return x ? td_reshape(call->tape, x, (td_shape){0}) : NULL;
    }
    td_shape full = {.rank = rank};
    int32_t order[TD_MAX_RANK];
    for (int32_t k = 0; k < rank; k++) {
        int32_t from = k - (rank - own.rank);
        full.dims[k] = from < 0 ? 1 : own.dims[from];
        order[td__graph_last_axis(k, rank)] = k;
    }
    return td_transpose(call->tape, td_reshape(call->tape, x, full), order);
}

bool td__graph_operands(td__graph_call *call, size_t count, td_tensor **operands, bool *last) {
    int32_t rank = 0;
    for (size_t i = 0; i < count; i++) {
        int32_t own = td__graph_shape(call, i).rank;
        rank = own > rank ? own : rank;
    }
    *last = false;
    for (size_t i = 0; i < count; i++) {
        *last = *last || (td__graph_is_last(call, i) && td__graph_shape(call, i).rank == rank);
    }
    for (size_t i = 0; i < count; i++) {
        if (!td__graph_is_float(call, i)) {
            return td__graph_fail(call, TD_DTYPE, "its inputs are of different types");
        }
        operands[i] = *last ? last_beside(call, i, rank) : td__graph_plain(call, i);
        if (!operands[i]) {
            return false;
        }
    }
    return true;
}

td_tensor *td__graph_as_float(td__graph_call *call, size_t i) {
    td_tensor *x = td__graph_plain(call, i);
    if (!x || x->dtype == TD_FLOAT32) {
        return x;
    }
    td_tensor *y = td__output(call->tape, TD_FLOAT32, &x->shape);
    for (int64_t k = 0; y && k < x->count; k++) {
        td__floats(y)[k] = x->dtype == TD_INT64 ? (float)((const int64_t *)x->data)[k]
                                                : (float)((const double *)x->data)[k];
    }
    return y;
}

/* --- axes --------------------------------------------------------------------------------- */

bool td__graph_axis(td__graph_call *call, int64_t axis, int32_t rank, int32_t *out) {
    *out = 0;
    if (axis < -rank || axis >= rank) {
        return td__graph_fail(call, TD_RANGE, "axis %lld of a value of rank %d", (long long)axis,
                              (int)rank);
    }
    *out = (int32_t)(axis < 0 ? axis + rank : axis);
    return true;
}

bool td__graph_axes(td__graph_call *call, size_t input, int32_t rank, bool marked[TD_MAX_RANK],
                    bool *given) {
    int64_t list[TD_MAX_RANK];
    const int64_t *axes;
    size_t count = td__graph_ints(call->node, "axes", &axes);
    memset(marked, 0, TD_MAX_RANK * sizeof *marked);
    *given = count > 0;
    if (count == 0) {
        axes = list;
        if (!td__graph_input_ints(call, input, list, TD_MAX_RANK, &count)) {
            return false;
        }
        *given = count > 0;
    }
    for (size_t i = 0; i < count; i++) {
        int32_t axis;
        if (!td__graph_axis(call, axes[i], rank, &axis)) {
            return false;
        }
        if (marked[axis]) {
            return td__graph_fail(call, TD_INVALID, "axis %d is listed twice", (int)axis);
        }
        marked[axis] = true;
    }
    return true;
}

/* --- tensors ------------------------------------------------------------------------------ */

td_tensor *td__graph_view(td_tape *tape, td_tensor *x, td_shape shape) {
    if (!x || x->dtype == TD_FLOAT32) {
        return x ? td_reshape(tape, x, shape) : NULL;
    }
    int64_t count;
    if (td_shape_check(&shape, x->dtype, &count, NULL) || count != x->count) {
        char a[TD_SHAPE_TEXT_SIZE], b[TD_SHAPE_TEXT_SIZE];
        return td__fail(tape, TD_BAD_SHAPE, "reshape: input %s does not fit shape %s",
                        td_shape_text(&x->shape, a), td_shape_text(&shape, b));
    }
    return td__output_over(tape, x->dtype, &shape, x->data);
}

td_tensor *td__graph_at_axis(td__graph_call *call, const td_tensor *a, td_tensor *b) {
    int64_t axis = td__graph_int(call->node, "axis", -1);
    if (call->opset >= 7 || axis < 0 || axis + b->shape.rank > a->shape.rank) {
        return b;
    }
    td_shape shape = b->shape;
    while (shape.rank < a->shape.rank - (int32_t)axis) {
        shape.dims[shape.rank++] = 1;
    }
    return td__graph_view(call->tape, b, shape);
}

td_tensor *td__graph_is_some(td__graph_call *call, const td_tensor *x) {
    td_tensor *some = x ? td__output(call->tape, TD_INT64, &x->shape) : NULL;
    for (int64_t i = 0; some && i < some->count; i++) {
        ((int64_t *)some->data)[i] = td__floats(x)[i] != 0;
    }
    return some;
}

td_tensor *td__graph_filled(td_tape *tape, td_shape shape, float value) {
    td_tensor *y = td__output(tape, TD_FLOAT32, &shape);
    for (int64_t i = 0; y && i < y->count; i++) {
        td__floats(y)[i] = value;
    }
    return y;
}

td_tensor *td__graph_scalar(td_tape *tape, float value) {
    return td__graph_filled(tape, (td_shape){0}, value);
}

td_tensor *td__graph_rms(td_tape *tape, td_tensor *x, int32_t axis, td_tensor *scale,
                         float epsilon) {
    td_reduce_options over = {.size = sizeof over, .keep = true};
    for (int32_t i = axis; i < x->shape.rank; i++) {
        over.axes[over.count++] = i;
    }
    td_tensor *mean = td_mean(tape, td_square(tape, x), &over);
    td_tensor *y = td_divide(tape, x, td_sqrt(tape, td_affine(tape, mean, 1, epsilon)));
    return td_multiply(tape, y, scale);
}
