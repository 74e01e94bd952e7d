/* Moving and choosing elements: what gathering, scattering, padding and masking are made of. Any
 * type; gradients flow in float32. */
#ifndef TAPEDECK_TAPE_PICK_H
#define TAPEDECK_TAPE_PICK_H

#include "tape/op.h"

/* y[k] = x[from[k]], or 0 where from[k] is -1. from (one for each element of shape) is memory of the
 * tape; the caller has checked that its numbers are elements of x. */
td_tensor *td__pick(td_tape *tape, td_tensor *x, td_shape shape, const int64_t *from);

typedef enum td__scattering {
    TD__SCATTER_SET, /* of several updates for one place the last counts */
    TD__SCATTER_ADD,
    TD__SCATTER_MULTIPLY, /* the gradients of these are not known */
    TD__SCATTER_LARGEST,
    TD__SCATTER_SMALLEST,
} td__scattering;

/* y = x, with y[to[k]] set to updates[k], or combined with it. */
td_tensor *td__scatter(td_tape *tape, td_tensor *x, td_tensor *updates, const int64_t *to,
                       td__scattering placing);

/* Moving elements: y[i, j, …] = x[a[i] + b[j] + …], each axis of y with its own table of offsets
 * into x, -1 for elements that are not there. */
typedef struct td__move_map {
    td_shape shape; /* of the result */
    int64_t *offsets[TD_MAX_RANK];
} td__move_map;

/* Tables for a result of that shape, values not set, in the tape's memory. When the result has no
 * elements, neither have they. op is in front of the tape's error. */
bool td__move_map_init(td_tape *tape, const char *op, td_shape shape, td__move_map *map);
/* x of any type; fill points to one element of it, NULL: 0. Gradients flow in float32. */
td_tensor *td__move(td_tape *tape, td_tensor *x, const td__move_map *map, const void *fill);
/* y[k] = condition[k] ? a[k] : b[k], with broadcasting; condition is int64, a and b of one type. op
 * is in front of the tape's error. */
td_tensor *td__select(td_tape *tape, const char *op, td_tensor *condition, td_tensor *a,
                      td_tensor *b);

/* Of a volume (batch, depth, height, width, channels), for each of `depth` results the planes
 * result * stride + k * dilation - before, k < count; those outside are zeros. */
typedef struct td__planes {
    int64_t depth, count, stride, dilation, before;
    int64_t groups; /* of channels: the planes of a group stand beside each other */
} td__planes;

/* (batch * depth of the result, height, width, groups * count * channels of a group) */
td_tensor *td__planes_beside(td_tape *tape, td_tensor *x, const td__planes *how);
/* How far elements are apart along each axis. */
void td__strides(const td_shape *shape, int64_t strides[TD_MAX_RANK]);

#endif
