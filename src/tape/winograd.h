/* 3x3 convolutions of stride 1 with 16 multiplications for four results instead of 36 (Winograd's
 * F(2x2, 3x3)): y = A^T [ (G k G^T) * (B^T x B) ] A for each tile, where * is a product of 16 matrices.
 *
 * The matrices hold 0, 1, -1 and 1/2 only, so that the rounding error is about that of the sums written
 * out: a test bounds it. TAPEDECK_WINOGRAD=off in the environment does without. Results have the same
 * bits for every number of threads.
 */
#ifndef TAPEDECK_TAPE_WINOGRAD_H
#define TAPEDECK_TAPE_WINOGRAD_H

#include "tape/conv.h"

/* Whether it is faster for this convolution; to_kernel: for its kernel's gradient. The functions are
 * those of conv.h. */
bool td__winograd_fits(const td__conv *conv, bool to_kernel);
td_status td__winograd_forward(td_tape *tape, const td__conv *conv, const float *x,
                               const float *kernel, const float *bias, float *y, int flags);
td_status td__winograd_to_input(td_tape *tape, const td__conv *conv, const float *dz,
                                const float *kernel, const float *bias, float *dx, int flags);
td_status td__winograd_to_kernel(td_tape *tape, const td__conv *conv, const float *x,
                                 const float *dz, bool add, float *dw);

#endif
