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

#endif
