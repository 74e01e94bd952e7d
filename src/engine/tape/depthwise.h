/* Depthwise convolutions, one filter to a channel: a lane is a channel, and the image is read where it
 * is. The functions are those of conv.h. */
#ifndef TAPEDECK_TAPE_DEPTHWISE_H
#define TAPEDECK_TAPE_DEPTHWISE_H

#include "tape/conv.h"

bool td__depthwise_fits(const td__conv *conv);
void td__depthwise_forward(const td__conv *conv, const float *x, const float *kernel,
                           const float *bias, float *y, int flags);

/* Whether the way back to the input is such a convolution too: at stride 1. */
bool td__depthwise_fits_back(const td__conv *conv);
/* TD_MEMORY (and the tape's error) when there is none to turn the kernel. */
td_status td__depthwise_to_input(td_tape *tape, const td__conv *conv, const float *dz,
                                 const float *kernel, const float *bias, float *dx, int flags);

#endif
