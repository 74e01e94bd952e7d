/* Convolutions that are products; see pointwise.h. */
#include "tape/pointwise.h"

#include "tape/gemm.h"

bool td__pointwise_fits(const td__conv *c) {
    const int64_t size[] = {c->height, c->width};
    bool fits = c->groups == 1;
    for (int axis = 0; axis < 2; axis++) {
        fits = fits && c->kernel[axis] == 1 && c->stride[axis] == 1 && c->before[axis] == 0 &&
               c->out[axis] == size[axis];
    }
    return fits;
}

static int64_t pixels(const td__conv *c) {
    return c->batch * c->height * c->width;
}

/* y = x W + b */
td_status td__pointwise_forward(td_tape *tape, const td__conv *c, const float *x,
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
td_status td__pointwise_to_input(td_tape *tape, const td__conv *c, const float *dz,
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
td_status td__pointwise_to_kernel(td_tape *tape, const td__conv *c, const float *x, const float *dz,
                                  bool add, float *dw) {
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
