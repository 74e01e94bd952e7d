/* Weighted sums of elements along one axis: interpolation. */
#ifndef TAPEDECK_TAPE_RESAMPLE_H
#define TAPEDECK_TAPE_RESAMPLE_H

#include "tape/op.h"

/* For each of count results, width elements and their weights; memory of the tape. */
typedef struct td__resampling {
    int64_t count, width;
    int64_t *places;
    float *weights;
} td__resampling;

/* Gradients flow. The places are elements of x along that axis. */
td_tensor *td__resample(td_tape *tape, td_tensor *x, int32_t axis, const td__resampling *taps);

#endif
