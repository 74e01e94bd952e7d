/* Operators in types other than float, computed at once on whole tensors. */
#ifndef TAPEDECK_ONNX_HOST_H
#define TAPEDECK_ONNX_HOST_H

#include "onnx/operator.h"

/* The element-wise operator that call->node names (Add, Abs, Max, Clip, …) on integers or doubles,
 * with broadcasting. Fails for what it does not know. */
bool td__onnx_host_arithmetic(td__onnx_call *call);
/* The same for the Reduce operators, over the marked axes. */
bool td__onnx_host_reduce(td__onnx_call *call, const bool reduced[TD_MAX_RANK], bool keep);

#endif
