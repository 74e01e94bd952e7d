/* What rules of diagnosis may take for granted of an optimizer, so that they name none. */
#ifndef TAPEDECK_NN_OPTIMIZER_ROLE_H
#define TAPEDECK_NN_OPTIMIZER_ROLE_H

#include "tapedeck/optimizers.h"

typedef enum td__optimizer_role {
    TD__OTHER_OPTIMIZER,
    TD__ONE_RATE, /* every parameter moves at the same rate, which suits one problem and not the next */
    TD__MOMENTS,   /* Adam and its kin: fits the rate to each parameter, whatever the problem */
    TD__SHRINKING, /* its steps only ever get smaller */
} td__optimizer_role;

td__optimizer_role td__optimizer_role_of(const td_optimizer *optimizer);

/* ---- What the optimizer keeps of a parameter, by its place among them --------------------------- */

/* Its first (order 1) or second moment; NULL: this optimizer has none. */
td_tensor *td__optimizer_moment(const td_optimizer *optimizer, size_t parameter, int order);
/* -1 where the first moment points the way of the update, against the gradient; otherwise 1. */
double td__optimizer_moment_sign(const td_optimizer *optimizer);
bool td__optimizer_has_step_size(const td_optimizer *optimizer);
/* What the last step multiplied the first moment (Adam and its kin) or the gradient (others) by, for each
 * element. */
void td__optimizer_step_size(const td_optimizer *optimizer, size_t parameter, float *to);

#endif
