/* Moving elements anywhere: what gathering and scattering are made of. Any type; gradients flow in
 * float32. */
#ifndef TAPEDECK_TAPE_PICK_H
#define TAPEDECK_TAPE_PICK_H

#include "tape/op.h"

/* y[k] = x[from[k]], or 0 where from[k] is -1. from (one for each element of shape) is memory of the
 * tape; the caller has checked that its numbers are elements of x. */
td_tensor *td__pick(td_tape *tape, td_tensor *x, td_shape shape, const int64_t *from);

typedef enum td__scattering {
    TD__SCATTER_SET, /* of several updates for one place the last counts */
    TD__SCATTER_ADD,
    TD__SCATTER_MULTIPLY, /* these have no gradient */
    TD__SCATTER_LARGEST,
    TD__SCATTER_SMALLEST,
} td__scattering;

/* y = x, with y[to[k]] set to updates[k], or combined with it. */
td_tensor *td__scatter(td_tape *tape, td_tensor *x, td_tensor *updates, const int64_t *to,
                       td__scattering placing);

#endif
