/* Reducing axes, over all threads. */
#ifndef TAPEDECK_TAPE_REDUCE_H
#define TAPEDECK_TAPE_REDUCE_H

#include "tape/kernels.h"
#include "tape/op.h"

/* y (=|+=) reduction of x over the axes of shape marked in reduced; add is for sums only. Maximum
 * and minimum: not of nothing. TD_OK or TD_MEMORY. */
td_status td__reduce_axes(td_tape *tape, td__axis_reduction reduction, const td_shape *shape,
                          const bool reduced[TD_MAX_RANK], const float *x, bool add, float *y);

#endif
