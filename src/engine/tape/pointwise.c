/* 1x1 convolutions of stride 1: each is one matrix product over all pixels. */
#include "tape/conv.h"

#include "tape/gemm.h"

/* The gradient of a small kernel is summed up by rows of the image instead, each thread its own. */
static bool pointwise_fits(const td__conv *c, td__conv_way way) {
    const int64_t size[] = {c->height, c->width};
    bool alone = c->groups == 1;
    for (int axis = 0; axis < 2; axis++) {
        alone = alone && c->kernel[axis] == 1 && c->stride[axis] == 1 && c->before[axis] == 0 &&
                c->out[axis] == size[axis];
    }
    int64_t tile = td__kernels()->tile_rows, tiles = (c->channels + tile - 1) / tile;
    bool split = way == TD__CONV_TO_KERNEL && td_threads() > 1 && tiles < 4 * td_threads();
    return alone && !split;
}

static int64_t pixels(const td__conv *c) {
    return c->batch * c->height * c->width;
}

/* y = x W + b */
static td_status pointwise_forward(td_tape *tape, const td__conv *c, const float *x,
                                   const float *kernel, const float *bias, float *y, int flags) {
    return td__gemm(tape, &(td__gemm_arguments){.m = pixels(c),
                                                .n = c->filters,
                                                .k = c->channels,
                                                .a = x,
                                                .lda = c->channels,
                                                .b = kernel,
                                                .ldb = c->filters,
                                                .b_is_weight = c->kernel_is_weight,
                                                .bias = bias,
                                                .c = y,
                                                .ldc = c->filters,
                                                .flags = flags,
                                                .finish = c->finish});
}

/* dx = dz W^T + b */
static td_status pointwise_to_input(td_tape *tape, const td__conv *c, const float *dz,
                                    const float *kernel, const float *bias, float *dx, int flags) {
    return td__gemm(tape, &(td__gemm_arguments){.m = pixels(c),
                                                .n = c->channels,
                                                .k = c->filters,
                                                .a = dz,
                                                .lda = c->filters,
                                                .b = kernel,
                                                .ldb = c->filters,
                                                .transpose_b = true,
                                                .b_is_weight = c->kernel_is_weight,
                                                .bias = bias,
                                                .c = dx,
                                                .ldc = c->channels,
                                                .flags = flags});
}

/* dW (=|+=) x^T dz */
static td_status pointwise_to_kernel(td_tape *tape, const td__conv *c, const float *x,
                                     const float *dz, bool add, float *dw) {
    return td__gemm(tape, &(td__gemm_arguments){.m = c->channels,
                                                .n = c->filters,
                                                .k = pixels(c),
                                                .a = x,
                                                .lda = c->channels,
                                                .transpose_a = true,
                                                .b = dz,
                                                .ldb = c->filters,
                                                .c = dw,
                                                .ldc = c->filters,
                                                .flags = add ? TD__TILE_ADD : 0});
}

const td__conv_strategy td__pointwise = {.fits = pointwise_fits,
                                         .forward = pointwise_forward,
                                         .to_input = pointwise_to_input,
                                         .to_kernel = pointwise_to_kernel};
