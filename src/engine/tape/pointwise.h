/* 1x1 convolutions of stride 1: each is one matrix product over all pixels. The functions are those of
 * conv.h. */
#ifndef TAPEDECK_TAPE_POINTWISE_H
#define TAPEDECK_TAPE_POINTWISE_H

#include "tape/conv.h"

bool td__pointwise_fits(const td__conv *conv);
td_status td__pointwise_forward(td_tape *tape, const td__conv *conv, const float *x,
                                const float *kernel, const float *bias, float *y, int flags);
td_status td__pointwise_to_input(td_tape *tape, const td__conv *conv, const float *dz,
                                 const float *kernel, const float *bias, float *dx, int flags);
td_status td__pointwise_to_kernel(td_tape *tape, const td__conv *conv, const float *x,
                                  const float *dz, bool add, float *dw);

#endif
