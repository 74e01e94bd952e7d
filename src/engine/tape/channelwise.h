/* Convolutions in many small groups, of which the depthwise one is the smallest.
 *
 * A tile of gemm.h would leave most of a register empty there. So lanes are channels of the result, and
 * a group's input channels become layers: layer d holds, under each result channel, the d-th input
 * channel of its group. Then every channel stands alone, and a tap is a row, a column and a layer. A few
 * rows at a time are laid out like that, with their border, in a strip that stays in the cache.
 *
 * Sums have the same order, and results the same bits, for every number of threads.
 */
#ifndef TAPEDECK_TAPE_CHANNELWISE_H
#define TAPEDECK_TAPE_CHANNELWISE_H

#include "tape/conv.h"

/* Whether it is for this convolution. The functions are those of conv.h, for convolutions that are not
 * empty. */
bool td__channelwise_fits(const td__conv *conv);
td_status td__channelwise_forward(td_tape *tape, const td__conv *conv, const float *x,
                                  const float *kernel, const float *bias, float *y, int flags);
td_status td__channelwise_to_input(td_tape *tape, const td__conv *conv, const float *dz,
                                   const float *kernel, const float *bias, float *dx, int flags);
td_status td__channelwise_to_kernel(td_tape *tape, const td__conv *conv, const float *x,
                                    const float *dz, bool add, float *dw);

#endif
