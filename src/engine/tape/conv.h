/* The three products of a convolution, without unfolding the image.
 *
 * A convolution is a matrix product whose left rows are patches. A patch is a few contiguous runs
 * of a channels-last image (taps), so the tiles of gemm.h read it where it is: forward and backward
 * to the input through tile_dot, backward to the kernel through tile_outer. Borders are made by
 * copying the image into a padded one when there are any.
 */
#ifndef TAPEDECK_TAPE_CONV_H
#define TAPEDECK_TAPE_CONV_H

#include "tape/linear.h"
#include "tape/op.h"

/* input (batch, height, width, channels), kernel (kernel[0], kernel[1], channels / groups,
 * filters), output (batch, out[0], out[1], filters) */
typedef struct td__conv {
    int64_t batch, height, width, channels;
    int64_t kernel[2], filters, groups;
    int64_t stride[2], dilation[2];
    int64_t before[2]; /* padding above and on the left; what is needed after follows from out */
    int64_t out[2];
    bool kernel_is_weight; /* a model's: what is made of it may be kept */
    td__finish finish;     /* of the results, forward */
} td__conv;

/* Output size and padding along one axis as Keras has them; false when the kernel does not fit. */
bool td__conv_axis(int64_t size, int64_t kernel, int64_t stride, int64_t dilation,
                   td_padding padding, int64_t *out, int64_t *before);

typedef enum td__conv_way { TD__CONV_FORWARD, TD__CONV_TO_INPUT, TD__CONV_TO_KERNEL } td__conv_way;

/* A way to compute some convolutions faster than conv.c does all of them. The functions are those
 * below, for convolutions that are not empty. */
typedef struct td__conv_strategy {
    bool (*fits)(const td__conv *conv, td__conv_way way);
    td_status (*forward)(td_tape *tape, const td__conv *conv, const float *x, const float *kernel,
                         const float *bias, float *y, int flags);
    td_status (*to_input)(td_tape *tape, const td__conv *conv, const float *dz, const float *kernel,
                          const float *bias, float *dx, int flags);
    td_status (*to_kernel)(td_tape *tape, const td__conv *conv, const float *x, const float *dz,
                           bool add, float *dw);
} td__conv_strategy;
/* Each in the file of its name. */
extern const td__conv_strategy td__depthwise, td__channelwise, td__winograd, td__pointwise;

/* y = x * kernel + bias, flags TD__TILE_…; bias may be NULL */
td_status td__conv_forward(td_tape *tape, const td__conv *conv, const float *x, const float *kernel,
                           const float *bias, float *y, int flags);
/* dx = what dz at the output means at the input; bias (channels) may be NULL */
td_status td__conv_to_input(td_tape *tape, const td__conv *conv, const float *dz,
                            const float *kernel, const float *bias, float *dx, int flags);
/* dw (=|+=) what dz at the output means at the kernel */
td_status td__conv_to_kernel(td_tape *tape, const td__conv *conv, const float *x, const float *dz,
                             bool add, float *dw);

/* Input pixel i = phase + stride * t gets kernel tap k from output t + shift, where
 * stride * shift = phase + before - k * dilation, if that divides; false when it does not. So each
 * phase of the way back to the input is a convolution of stride 1 over the output, with the taps that
 * divide. */
bool td__conv_tap_shift(const td__conv *conv, int axis, int64_t phase, int64_t tap, int64_t *shift);

/* --- what conv2d and conv2d_transpose share (conv_op.c) --------------------------------------- */

typedef struct td__conv_saved {
    td__conv conv;
    bool transposed; /* the operation goes from the convolution's output to its input */
    td__linear *linear;
} td__conv_saved;

/* Element types and the activation; false (and the tape's error) when one does not fit. */
bool td__conv_check(td_tape *tape, const char *op, const td_tensor *x, const td_tensor *kernel,
                    const td_tensor *bias, td_activation activation);
/* A bias, if there is one, must be (count,). */
bool td__conv_check_bias(td_tape *tape, const char *op, const td_tensor *bias,
                         const td_tensor *kernel, int64_t count);
/* Strides, dilations and groups with their defaults; false (and the tape's error) when one is not
 * positive. options may be NULL. */
bool td__conv_settings(td_tape *tape, const char *op, const td_conv_options *options,
                       td__conv *conv);
/* Runs and records it. */
td_tensor *td__conv_run(td_tape *tape, const td__op *op, const td__conv *conv, bool transposed,
                        td_tensor *x, td_tensor *kernel, td_tensor *bias, td__ending ending);
td_status td__conv_backward(td_tape *tape, td__node *node);

#endif
