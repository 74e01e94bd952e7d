/* 3x3 convolutions of stride 1 with 36 multiplications for 16 results instead of 144 (Winograd's
 * F(4x4, 3x3)), or with 16 for four where images are small: y = A^T [ (G k G^T) * (B^T x B) ] A for each
 * tile, where * is a product of 36 or 16 matrices.
 *
 * The error is up to 2e-6 of the largest result with tiles of 4x4 and 5e-7 with tiles of 2x2, as with sums
 * written out: a test bounds both. TAPEDECK_WINOGRAD=off in the environment does without. Results have the
 * same bits for every number of threads.
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
