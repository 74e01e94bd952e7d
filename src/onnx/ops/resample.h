/* Weighted sums of elements along one axis: interpolation. */
#ifndef TAPEDECK_ONNX_OPS_RESAMPLE_H
#define TAPEDECK_ONNX_OPS_RESAMPLE_H

#include "onnx/operator.h"

/* For each of count results, width elements and their weights; memory of the tape. */
typedef struct td__onnx_taps {
    int64_t count, width;
    int64_t *places;
    float *weights;
} td__onnx_taps;

/* Gradients flow. The places are elements of x along that axis. */
td_tensor *td__onnx_resample(td_tape *tape, td_tensor *x, int32_t axis, const td__onnx_taps *taps);

#endif
