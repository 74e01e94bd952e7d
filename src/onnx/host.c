#include "onnx/host.h"

bool td__onnx_host_arithmetic(td__onnx_call *call) {
    return td__onnx_fail(call, TD_UNSUPPORTED, "only of type float");
}

bool td__onnx_host_reduce(td__onnx_call *call, const bool reduced[TD_MAX_RANK], bool keep) {
    (void)reduced, (void)keep;
    return td__onnx_fail(call, TD_UNSUPPORTED, "only of type float");
}
