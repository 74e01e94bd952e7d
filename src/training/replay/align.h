/* Which layers of two models are the same ones, in their order: some may have been renamed, inserted or
 * removed. */
#ifndef TAPEDECK_REPLAY_ALIGN_H
#define TAPEDECK_REPLAY_ALIGN_H

#include "tapedeck/network.h"

/* b_of_a[i] (room for all layers of a): the layer of b that layer i of a is, or -1. False when memory is
 * exhausted. */
bool td__layers_align(const td_model *a, const td_model *b, int32_t *b_of_a);

#endif
