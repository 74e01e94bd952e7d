/* Compute kernels, in one variant per instruction set, chosen when first used.
 *
 * The sources in kernels/ are plain C (with GCC's vector types), compiled once for any machine, to
 * the same bits on all of them, and again for sets of instructions (base/cpu.h): AVX2+FMA and AVX-512
 * on x86-64, NEON with fused multiply-adds on arm64. TAPEDECK_CPU chooses another than the best; tests
 * use it. Kernels are single-threaded; operations split work with td__parallel (parallel.h).
 */
#ifndef TAPEDECK_TAPE_KERNELS_H
#define TAPEDECK_TAPE_KERNELS_H

#include "base/cpu.h"
#include "tapedeck/ops.h"

#include <stdatomic.h>

/* How a tile of a matrix product ends. */
enum {
    TD__TILE_ADD = 1,                              /* add to what is in c; otherwise overwrite */
    TD__TILE_RELU = 2,                             /* c = max(c, 0) */
    TD__TILE_RELU6 = 4,                            /* c = min(max(c, 0), 6) */
    TD__TILE_ENDS = TD__TILE_RELU | TD__TILE_RELU6 /* what the last of several sums does */
};

/* How a pooling window lies over an image with channels last, cut to what is inside it. */
typedef struct td__window {
    int64_t rows, columns; /* taps inside the image */
    int64_t row_stride;    /* floats between rows of the image */
    int64_t step;          /* floats between the windows of neighbouring pixels */
    int64_t first_tap;     /* number of the first tap inside, row by row over the whole window */
    int64_t tap_row;       /* taps in a row of the whole window */
} td__window;

/* Taps of a convolution whose channels stand alone. Images and weights have whole vectors of
 * channels (width), results and gradients just the channels. */
typedef struct td__taps {
    int64_t channels, width;
    int64_t count;
    const int64_t *offsets; /* of each tap from the pixel's place in the image */
    int64_t step, g_step;   /* floats from pixel to pixel, of the image and of a gradient */
} td__taps;

/* The window of a depthwise convolution, cut to what is inside the image; weights have the image's
 * channels. */
typedef struct td__depth_window {
    int64_t rows, columns;             /* taps inside the image */
    int64_t row_stride, column_stride; /* floats between the pixels of neighbouring taps */
    int64_t step;                      /* floats between the windows of neighbouring results */
    int64_t weight_row;                /* floats between rows of weights */
} td__depth_window;

/* Rows of an operand: element (r, i) is data[r * row + i * step]; step 0 repeats one value along
 * a row, row 0 repeats one row. */
typedef struct td__operand {
    const float *data;
    int64_t row, step;
} td__operand;

/* Rows of attention scores, `row` floats apart, n of each in use. */
typedef struct td__scores {
    int64_t rows, n, row;
    int64_t first; /* number of the first row, for the mask and what it sees */
    float scale;
    bool causal;             /* row r sees columns <= r */
    const float *mask;       /* of row 0; may be NULL */
    int64_t mask_strides[2]; /* 0 where it broadcasts */
    float *entropies;        /* of the rows' softmax, in nats; NULL: not wanted */
    float *raw;              /* where they are: the scores; probabilities go elsewhere */
} td__scores;

typedef enum td__binary {
    TD__ADD,
    TD__SUBTRACT,
    TD__MULTIPLY,
    TD__DIVIDE,
    TD__MAXIMUM,
    TD__MINIMUM,
    TD__POWER,
    TD__PRELU, /* a where it is positive, else a b */
    TD__EQUAL, /* 1 or 0; has no derivative */
    TD__BINARY_COUNT
} td__binary;

typedef enum td__unary {
    TD__AFFINE, /* p x + q */
    TD__EXP,
    TD__LOG,
    TD__SQRT,
    TD__SQUARE,
    TD__ABSOLUTE,
    TD__CLIP, /* to [p, q] */
    TD__ERF,
    TD__UNARY_COUNT
} td__unary;

typedef enum td__axis_reduction {
    TD__REDUCE_SUM,
    TD__REDUCE_MAX,
    TD__REDUCE_MIN,
    TD__REDUCTION_COUNT
} td__axis_reduction;

/* Up to KL, a row's value is a sum over its elements. */
typedef enum td__loss_kind {
    TD__LOSS_SQUARED,
    TD__LOSS_ABSOLUTE,
    TD__LOSS_HUBER,         /* parameter: delta */
    TD__LOSS_BINARY,        /* parameter of cross-entropies: label smoothing */
    TD__LOSS_BINARY_LOGITS, /* …LOGITS: predictions are logits, not probabilities */
    TD__LOSS_KL,
    TD__LOSS_PERCENT,
    TD__LOSS_LOGARITHMIC,
    TD__LOSS_LOG_COSH,
    TD__LOSS_POISSON,
    TD__LOSS_HINGE, /* parameter: 1 when truths are 0 and 1 instead of -1 and 1 */
    TD__LOSS_SQUARED_HINGE,
    TD__LOSS_FOCAL, /* parameter: gamma; weight: alpha of class 1, or 0: not weighed */
    TD__LOSS_FOCAL_LOGITS,
    TD__LOSS_ELEMENTS_END, /* those before it are sums over elements */
    TD__LOSS_CATEGORICAL_HINGE = TD__LOSS_ELEMENTS_END,
    TD__LOSS_COSINE,
    TD__LOSS_CLASSES_FOCAL, /* parameter: gamma; weight: alpha */
    TD__LOSS_CLASSES_FOCAL_LOGITS,
    TD__LOSS_CLASSES,
    TD__LOSS_CLASSES_LOGITS,
    TD__LOSS_SPARSE,
    TD__LOSS_SPARSE_LOGITS,
    TD__LOSS_KIND_COUNT
} td__loss_kind;

/* Rows of a loss: p and t are (rows, n). */
typedef struct td__loss_rows {
    int64_t rows, n;
    const float *p, *t;
    const int64_t *classes; /* (rows,), the sparse kinds' truth */
    float parameter, weight;
    float *values; /* (rows,) */
    /* (rows,) each, for the class kinds over logits, from forward to backward: m = max p and
     * ln sum e^(p - m) */
    float *maxima, *log_totals;
    const float *scale; /* factor of row r: scale[r * scale_step] */
    int64_t scale_step;
    bool add;
    float *d; /* (rows, n) (=|+=) scale * derivative */
} td__loss_rows;

/* A moving average: keep * before + gain * now. keep is often so near to 1 that float32 has lost most
 * digits of 1 - keep: it is the sum of two numbers, near + rest. */
typedef struct td__average {
    float near, rest, gain;
} td__average;

/* What nadam's step needs besides the rate: its moments, shares of the moment and of the gradient in
 * the step, and what corrects v. */
typedef struct td__nadam {
    td__average first, second;
    float epsilon, of_moment, of_gradient, of_square;
} td__nadam;

/* Elements of one block of random_mask and add_noise. */
#define TD__MASK_BLOCK 256

/* Tiles of 3x3 convolutions, with side x side results and (side + 2)^2 values each: see winograd.c. Values of
 * v, m and u are `stride` floats apart, rows of images `row`. */
typedef struct td__winograd_kernels {
    int side;
    /* (side + 2)^2 pixels to v */
    void (*input)(int64_t channels, const float *x, int64_t row, float *v, int64_t stride);
    /* m to rows x columns results, with a bias that may be NULL and flags TD__TILE_… */
    void (*output)(int64_t channels, const float *m, int64_t stride, const float *bias, int rows,
                   int columns, float *y, int64_t row, int flags);
    /* rows x columns gradients to u */
    void (*gradient)(int64_t channels, const float *g, int64_t row, int rows, int columns, float *u,
                     int64_t stride);
    /* Kernels (3, 3, pairs of channel and filter) to u (values, pairs), turned by 180 degrees for the way
     * back; and their gradient dw (=|+=) from m (values, pairs). */
    void (*kernel)(int64_t pairs, const float *kernel, bool turned, float *u);
    void (*kernel_back)(int64_t pairs, const float *m, bool add, float *dw);
} td__winograd_kernels;

typedef struct td__kernels {
    /* Rows of n elements of two operands (which may repeat, but not both at once); rows of the
     * result, of g and of d are `row` apart. Side 0: the derivative in a, side 1: in b. The result
     * may be an operand with the same rows, d may be g. */
    void (*binary[TD__BINARY_COUNT])(int64_t rows, int64_t n, td__operand a, td__operand b,
                                     float *c, int64_t row);
    void (*binary_backward[TD__BINARY_COUNT][2])(int64_t rows, int64_t n, td__operand a,
                                                 td__operand b, const float *g, bool add, float *d,
                                                 int64_t row);
    /* y (=|+=) scale * x, with rows as above */
    void (*expand)(int64_t rows, int64_t n, td__operand x, float scale, bool add, float *y,
                   int64_t row);

    /* Over n elements; the result may be an operand. */
    void (*unary[TD__UNARY_COUNT])(int64_t n, float p, float q, const float *x, float *y);
    void (*unary_backward[TD__UNARY_COUNT])(int64_t n, float p, float q, const float *x,
                                            const float *y, const float *g, bool add, float *dx);
    void (*add)(int64_t n, const float *a, const float *b, float *c);
    void (*subtract)(int64_t n, const float *a, const float *b, float *c);
    void (*multiply)(int64_t n, const float *a, const float *b, float *c);
    /* y += a * x */
    void (*axpy)(int64_t n, float a, const float *x, float *y);
    /* y = a * x + b */
    void (*affine)(int64_t n, float a, const float *x, float b, float *y);

    /* y[o, i] = reduction over s of x[o, s, i]; max and min: size > 0, a NaN gives NaN */
    void (*reduce[TD__REDUCTION_COUNT])(int64_t outer, int64_t size, int64_t inner, const float *x,
                                        float *y);
    /* sums[:] (+)= sum over rows of x[r, :] */
    void (*sum_rows)(int64_t rows, int64_t n, const float *x, bool add, float *sums);
    float (*sum)(int64_t n, const float *x);
    float (*dot)(int64_t n, const float *a, const float *b);

    /* The mask of elements first … first + n of a random operation: 1 with the probability
     * 1 - threshold / 2^32; first is a multiple of TD__MASK_BLOCK. */
    void (*random_mask)(int64_t first, int64_t n, uint64_t key, uint32_t threshold, uint8_t *mask);
    /* y (=|+=) mask ? scale * x : 0 */
    void (*masked_scale)(int64_t n, float scale, const uint8_t *mask, const float *x, bool add,
                         float *y);
    /* y = x + stddev * numbers of mean 0 and variance 1, elements first … as of random_mask */
    void (*add_noise)(int64_t first, int64_t n, uint64_t key, float stddev, const float *x,
                      float *y);

    /* values and derivatives; the sparse kinds have none in the truth: NULL */
    void (*loss[TD__LOSS_KIND_COUNT])(const td__loss_rows *rows);
    void (*loss_in_prediction[TD__LOSS_KIND_COUNT])(const td__loss_rows *rows);
    void (*loss_in_truth[TD__LOSS_KIND_COUNT])(const td__loss_rows *rows);

    /* y = f(x); y may be x. dx (=|+=) g * f'(x), from x or from y = f(x), whichever
     * td__activation_uses_output says; dx may be g. Not for softmax and log_softmax: NULL. */
    void (*activate[TD_ACTIVATION_COUNT])(int64_t n, float alpha, const float *x, float *y);
    void (*activate_backward[TD_ACTIVATION_COUNT])(int64_t n, float alpha, const float *x_or_y,
                                                   const float *g, bool add, float *dx);
    /* Rows of width n. */
    void (*softmax)(int64_t rows, int64_t n, const float *x, float *y);
    /* - sum of p ln p over n probabilities, where p ln p of 0 and of what is denormal is 0. */
    float (*entropy)(int64_t n, const float *p);
    void (*softmax_backward)(int64_t rows, int64_t n, const float *y, const float *g, bool add,
                             float *dx);
    void (*log_softmax)(int64_t rows, int64_t n, const float *x, float *y);
    void (*log_softmax_backward)(int64_t rows, int64_t n, const float *y, const float *g, bool add,
                                 float *dx);

    /* y[j * ldy + i] = x[i * ldx + j] */
    void (*transpose)(int64_t rows, int64_t columns, const float *x, int64_t ldx, float *y,
                      int64_t ldy);

    /* Matrix-product tiles; see gemm.h for what uses them. A panel of b has panel_width columns,
     * row k at b + k * ldb. */
    int tile_rows;    /* most rows of a tile */
    int panel_width;  /* columns of a full panel, a multiple of vector_width */
    int vector_width; /* floats in a register: a panel of at most this many columns is cheaper */
    /* Packs a panel whose columns (at most panel_width, the others are zero) are rows of b, k long. */
    void (*pack_transposed)(int64_t columns, int64_t k, const float *b, int64_t ldb, float *panel);
    /* to[t, i, r] = a[i * lda + t * rows + r] for each tile t of rows */
    void (*pack_left)(int tiles, int rows, int64_t k, const float *a, int64_t lda, float *to);
    /* Packs k rows of b into as many panels as `columns` columns have; columns beyond are zero. */
    void (*pack_rows)(int64_t columns, int64_t k, const float *b, int64_t ldb, int64_t panel_stride,
                      float *panels);
    /* c[r, j] = bias[j] + sum over s, k of rows[r][offsets[s] + k] * b[s * segment + k, j] */
    void (*tile_dot)(int row_count, int columns, int64_t segments, int64_t segment,
                     const int64_t *offsets, const float *const *rows, const float *b, int64_t ldb,
                     const float *bias, float *c, int64_t ldc, int flags);
    /* The same of one row, a[k], past all panels that `columns` columns have, panel_stride floats apart. */
    void (*row_dot)(int64_t columns, int64_t k, const float *a, const float *b,
                    int64_t panel_stride, int64_t ldb, const float *bias, float *c, int flags);
    /* c[r, j] = sum over s, k of starts[s][offset + k * stride + r] * b[s * segment + k, j] */
    void (*tile_outer)(int row_count, int columns, int64_t segments, int64_t segment,
                       int64_t stride, const float *const *starts, int64_t offset, const float *b,
                       int64_t ldb, float *c, int64_t ldc, int flags);

    /* y[p, c] = bias[c] + sum over t of x[p * step + offsets[t] + c] * weights[t, c]; bias may be NULL,
     * flags TD__TILE_… */
    void (*taps)(int64_t pixels, const td__taps *taps, const float *x, const float *weights,
                 const float *bias, float *y, int64_t y_step, int flags);
    /* y[p, c] = bias[c] + sum over the window of x[p * step + …, c] * weights[…, c]; bias may be NULL, flags
     * TD__TILE_…; at least a vector of channels */
    void (*depthwise)(int64_t pixels, int64_t channels, const td__depth_window *window,
                      const float *x, const float *weights, const float *bias, float *y, int flags);
    /* dw[t, c] += sum over rows r and pixels p of x[r, p * step + offsets[t] + c] * g[r, p, c] */
    void (*taps_backward)(int64_t rows, int64_t pixels, const td__taps *taps, const float *x,
                          int64_t x_row, const float *g, int64_t g_row, float *dw);
    /* to[p, d, l] = from[p, index[l] + d] for d < in, l < width; pixels of `from` have `channels`,
     * width is whole vectors, index does not fall */
    void (*spread_channels)(int64_t pixels, int64_t channels, int64_t in, int64_t width,
                            const int32_t *index, const float *from, float *to);

    td__winograd_kernels winograd[2]; /* the larger side first */

    /* Pooling: `pixels` neighbouring windows, x (or dx) at the first tap of the first one. The
     * number of the largest tap goes to bytes or words, whichever is not NULL. */
    void (*max_pool)(int64_t pixels, int64_t channels, const td__window *window, const float *x,
                     float *y, uint8_t *bytes, int32_t *words);
    void (*max_pool_backward)(int64_t pixels, int64_t channels, const td__window *window,
                              const uint8_t *bytes, const int32_t *words, const float *g, bool add,
                              float *dx);
    /* y (=|+=) scale * sum of the window; dx at each tap (=|+=) scale * g */
    void (*sum_pool)(int64_t pixels, int64_t channels, const td__window *window, float scale,
                     const float *x, bool add, float *y);
    void (*spread)(int64_t pixels, int64_t channels, const td__window *window, float scale,
                   const float *g, bool add, float *dx);

    /* Layer normalisation of rows of width n; stats: (rows, 2), mean and 1 / standard deviation. */
    void (*layer_norm)(int64_t rows, int64_t n, float epsilon, const float *x, const float *gamma,
                       const float *beta, float *stats, float *y);
    void (*layer_norm_backward)(int64_t rows, int64_t n, const float *x, const float *stats,
                                const float *gamma, const float *g, bool add, float *dx);
    void (*layer_norm_sums)(int64_t rows, int64_t n, const float *x, const float *stats,
                            const float *g, float *dgamma, float *dbeta);
    /* Batch normalisation over rows of n channels: mean and sum of squared deviations; sums of g
     * and of g (x - mean). */
    void (*channel_moments)(int64_t rows, int64_t n, const float *x, float *mean, float *squares);
    void (*channel_sums)(int64_t rows, int64_t n, const float *x, const float *mean, const float *g,
                         float *sums, float *products);
    /* y = (x - mean) scale + offset; dx (=|+=) g scale + (x - mean) slope + offset. count elements
     * in rows of n, the last one perhaps not whole. */
    void (*channel_scale)(int64_t count, int64_t n, const float *x, const float *mean,
                          const float *scale, const float *offset, float *y);
    void (*channel_backward)(int64_t count, int64_t n, const float *x, const float *g,
                             const float *mean, const float *scale, const float *slope,
                             const float *offset, bool add, float *dx);

    /* Attention, in place over scores x (from raw to x where entropies are wanted): x = softmax(scale x + mask),
     * and what of each row does it again goes to stats: (rows, 2). */
    void (*attention_softmax)(const td__scores *scores, float *stats, float *x);
    /* The same from the stats, to the same bits. */
    void (*attention_again)(const td__scores *scores, const float *stats, float *x);
    /* d = scale p (d - sum d p); rows of p and d are equally far apart */
    void (*attention_softmax_backward)(const td__scores *scores, const float *p, float *d);

    /* Recurrent cells, one example: gates of width n side by side. y += a * b */
    void (*multiply_add)(int64_t n, const float *a, const float *b, float *y);
    void (*lstm_cell)(int64_t n, const float *gates, const float *previous, float *cell);
    void (*lstm_cell_backward)(int64_t n, const float *gates, const float *previous,
                               const float *shown, const float *dh, float *dc, float *dgates);
    void (*gru_state)(int64_t n, const float *gates, const float *previous, float *state);
    void (*gru_state_backward)(int64_t n, const float *gates, const float *previous, float *dh,
                               float *dgates);

    /* Optimizers: one parameter tensor of n elements, updated in place. NULL: velocity without
     * momentum, largest without amsgrad, mean when not centered. */
    void (*sgd)(int64_t n, float rate, const float *g, float *w);
    void (*sgd_momentum)(int64_t n, td__average moving, bool nesterov, const float *g,
                         float *velocity, float *w);
    void (*adam)(int64_t n, float rate, td__average first, td__average second, float epsilon,
                 float decay, const float *g, float *m, float *v, float *largest, float *w);
    void (*rmsprop)(int64_t n, float rate, td__average square, td__average moving, float epsilon,
                    const float *g, float *mean_square, float *velocity, float *mean, float *w);
    void (*adagrad)(int64_t n, float rate, float epsilon, const float *g, float *sum_square,
                    float *w);
    void (*adadelta)(int64_t n, float rate, td__average square, float epsilon, const float *g,
                     float *mean_square, float *mean_update, float *w);
    void (*adamax)(int64_t n, float rate, td__average first, td__average largest, float epsilon,
                   const float *g, float *m, float *u, float *w);
    void (*nadam)(int64_t n, float rate, const td__nadam *numbers, const float *g, float *m,
                  float *v, float *w);
    void (*lion)(int64_t n, float rate, td__average direction, td__average moment, const float *g,
                 float *m, float *w);
} td__kernels_table;

/* NULL until td__kernels_choose has filled the table; then acquiring it is enough to see all of that. */
extern _Atomic(const td__kernels_table *) td__kernels_chosen;
const td__kernels_table *td__kernels_choose(void);
/* From now on the variant for these instructions, which the machine has: a replay uses those of the recorded
 * run. Not while operations run. */
void td__kernels_use(td__cpu cpu);

/* The variant for this machine. */
static inline const td__kernels_table *td__kernels(void) {
    const td__kernels_table *chosen =
        atomic_load_explicit(&td__kernels_chosen, memory_order_acquire);
    return chosen ? chosen : td__kernels_choose();
}
/* Whether an activation's backward kernel wants the output (and so can run in place forward). */
bool td__activation_uses_output(td_activation activation);

#endif
