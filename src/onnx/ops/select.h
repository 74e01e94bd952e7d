/* Choosing between elements. */
#ifndef TAPEDECK_ONNX_OPS_SELECT_H
#define TAPEDECK_ONNX_OPS_SELECT_H

#include "onnx/ops/common.h"

/* y[k] = condition[k] ? a[k] : b[k], with broadcasting. */
td_tensor *td__onnx_select(td__onnx_call *call, td_tensor *condition, td_tensor *a, td_tensor *b);

#endif
