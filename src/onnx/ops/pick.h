/* Moving elements anywhere: what gathering, scattering and selecting are made of. Any type;
 * gradients flow in float32. */
#ifndef TAPEDECK_ONNX_OPS_PICK_H
#define TAPEDECK_ONNX_OPS_PICK_H

#include "onnx/operator.h"

/* y[k] = x[from[k]], or 0 where from[k] is -1. from (one for each element of shape) is memory of the
 * tape; the caller has checked that its numbers are elements of x. */
td_tensor *td__onnx_pick(td_tape *tape, td_tensor *x, td_shape shape, const int64_t *from);

typedef enum td__onnx_placing {
    TD__ONNX_SET, /* of several updates for one place the last counts */
    TD__ONNX_ADD,
    TD__ONNX_MULTIPLY, /* these have no gradient */
    TD__ONNX_LARGEST,
    TD__ONNX_SMALLEST,
} td__onnx_placing;

/* y = x, with y[to[k]] set to updates[k], or combined with it. */
td_tensor *td__onnx_place(td_tape *tape, td_tensor *x, td_tensor *updates, const int64_t *to,
                          td__onnx_placing placing);

/* y[k] = condition[k] ? a[k] : b[k], with broadcasting. */
td_tensor *td__onnx_select(td__onnx_call *call, td_tensor *condition, td_tensor *a, td_tensor *b);

#endif
