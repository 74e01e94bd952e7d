/* Compute kernels, in one variant per instruction set, chosen when first used.
 *
 * The sources in kernels/ are plain C (with GCC's vector types), compiled once for the baseline
 * and, on x86-64, again for AVX2+FMA and AVX-512. TAPEDECK_CPU=portable|avx2|avx512 in the
 * environment chooses a lesser one than the machine has; tests use it. Kernels are single-threaded;
 * operations split work with td__parallel (parallel.h).
 */
#ifndef TAPEDECK_TAPE_KERNELS_H
#define TAPEDECK_TAPE_KERNELS_H

#include "tapedeck/ops.h"

/* How a tile of a matrix product ends. */
enum {
    TD__TILE_ADD = 1, /* add to what is in c; otherwise overwrite */
    TD__TILE_RELU = 2 /* c = max(c, 0) */
};

typedef struct td__kernels {
    const char *name; /* "portable", "avx2", "avx512" */

    /* Element-wise over n elements; the result may be one of the operands. */
    void (*add)(int64_t n, const float *a, const float *b, float *c);
    void (*subtract)(int64_t n, const float *a, const float *b, float *c);
    void (*multiply)(int64_t n, const float *a, const float *b, float *c);
    void (*divide)(int64_t n, const float *a, const float *b, float *c);
    void (*maximum)(int64_t n, const float *a, const float *b, float *c);
    void (*minimum)(int64_t n, const float *a, const float *b, float *c);
    /* y += a * x */
    void (*axpy)(int64_t n, float a, const float *x, float *y);
    /* y = a * x + b */
    void (*affine)(int64_t n, float a, const float *x, float b, float *y);
    /* y[r, :] += bias, for rows of width n */
    void (*add_bias)(int64_t rows, int64_t n, const float *bias, float *y);
    /* sums[:] (+)= sum over rows of x[r, :] */
    void (*sum_rows)(int64_t rows, int64_t n, const float *x, bool add, float *sums);
    /* Sum in float32 lanes, added up in pairs. */
    float (*sum)(int64_t n, const float *x);
    float (*dot)(int64_t n, const float *a, const float *b);
    float (*max)(int64_t n, const float *x); /* n > 0; a NaN gives NaN */
    void (*exp)(int64_t n, const float *x, float *y);
    void (*log)(int64_t n, const float *x, float *y);

    /* y = f(x); y may be x. dx (=|+=) g * f'(x), from x or from y = f(x), whichever
     * td__activation_uses_output says; dx may be g. Not for softmax and log_softmax: NULL. */
    void (*activate[TD_ACTIVATION_COUNT])(int64_t n, float alpha, const float *x, float *y);
    void (*activate_backward[TD_ACTIVATION_COUNT])(int64_t n, float alpha, const float *x_or_y,
                                                   const float *g, bool add, float *dx);
    /* Rows of width n. */
    void (*softmax)(int64_t rows, int64_t n, const float *x, float *y);
    void (*softmax_backward)(int64_t rows, int64_t n, const float *y, const float *g, bool add,
                             float *dx);
    void (*log_softmax)(int64_t rows, int64_t n, const float *x, float *y);
    void (*log_softmax_backward)(int64_t rows, int64_t n, const float *y, const float *g, bool add,
                                 float *dx);

    /* Matrix-product tiles; see gemm.h for what uses them. A panel of b has panel_width columns,
     * row k at b + k * ldb. */
    int tile_rows;    /* most rows of a tile */
    int panel_width;  /* columns of a full panel, a multiple of vector_width */
    int vector_width; /* floats in a register: a panel of at most this many columns is cheaper */
    /* c[r, j] = bias[j] + sum over s, k of rows[r][offsets[s] + k] * b[s * segment + k, j] */
    void (*tile_dot)(int row_count, int columns, int64_t segments, int64_t segment,
                     const int64_t *offsets, const float *const *rows, const float *b, int64_t ldb,
                     const float *bias, float *c, int64_t ldc, int flags);
    /* c[r, j] = sum over s, k of starts[s][offset + k * stride + r] * b[s * segment + k, j] */
    void (*tile_outer)(int row_count, int columns, int64_t segments, int64_t segment,
                       int64_t stride, const float *const *starts, int64_t offset, const float *b,
                       int64_t ldb, float *c, int64_t ldc, int flags);

    /* Optimizers: one parameter tensor of n elements, updated in place. */
    void (*sgd)(int64_t n, float rate, const float *g, float *w);
    void (*sgd_momentum)(int64_t n, float rate, float momentum, bool nesterov, const float *g,
                         float *velocity, float *w);
    void (*adam)(int64_t n, float rate, float beta_1, float beta_2, float epsilon, float decay,
                 const float *g, float *m, float *v, float *w);
    void (*rmsprop)(int64_t n, float rate, float rho, float momentum, float epsilon, const float *g,
                    float *mean_square, float *velocity, float *w);
    void (*adagrad)(int64_t n, float rate, float epsilon, const float *g, float *sum_square,
                    float *w);
} td__kernels_table;

/* The variant for this machine. */
const td__kernels_table *td__kernels(void);
/* Whether an activation's backward kernel wants the output (and so can run in place forward). */
bool td__activation_uses_output(td_activation activation);

#endif
