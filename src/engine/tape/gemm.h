/* Matrix products c = op(a) op(b), row-major, over all threads. */
#ifndef TAPEDECK_TAPE_GEMM_H
#define TAPEDECK_TAPE_GEMM_H

#include "tape/kernels.h"
#include "tape/linear.h"

typedef struct td__gemm_arguments {
    int64_t m, n, k;
    const float *a; /* (m, k), or (k, m) with transpose_a */
    int64_t lda;
    bool transpose_a;
    const float *b; /* (k, n), or (n, k) with transpose_b */
    int64_t ldb;
    bool transpose_b;
    bool b_is_weight;  /* a model's: what is packed may be kept */
    const float *bias; /* (n,), added to each row, or NULL */
    float *c;          /* (m, n) */
    int64_t ldc;
    int flags; /* TD__TILE_… */
    td__finish finish;
} td__gemm_arguments;

/* TD_MEMORY (and the tape's error) when there is no memory to pack b. k = 0 gives
 * zeros (or bias). */
td_status td__gemm(td_tape *tape, const td__gemm_arguments *arguments);

/* The right operand cut into panels as the tiles want them: panel p holds columns
 * [p * panel_width, …) of all k rows, the last one filled up with zeros. */
int64_t td__panel_count(int64_t n);
size_t td__panels_bytes(int64_t n, int64_t k);
/* Packs panels [first, last) of b into packed (which has room for all), panel p at p * panel_stride
 * floats. */
void td__pack_panels(const float *b, int64_t ldb, bool transpose, int64_t n, int64_t k,
                     int64_t first, int64_t last, int64_t panel_stride, float *packed);

/* Products on the calling thread alone, without a bias, for use inside td__parallel. */

/* All panels, one behind the other: td__panels_bytes(n, k). */
void td__pack(const float *b, int64_t ldb, bool transpose, int64_t n, int64_t k, float *packed);
/* packing: td__panels_bytes(n, k) of memory, used when b has to be packed. */
void td__gemm_serial(const td__gemm_arguments *arguments, float *packing);

/* The same over all threads, each with some of the columns: for few rows and products one after another,
 * while the other threads are awake. Called inside td__parallel it runs on the calling thread alone. */
void td__gemm_spread(const td__gemm_arguments *arguments, const float *packed);

/* A right operand for several products, which may use fewer of its rows and columns. */
typedef struct td__panels {
    const float *data;
    int64_t stride, row; /* floats from panel to panel, and between rows of a panel */
} td__panels;

/* Where b is, if its rows are panels already; otherwise packed into packing. */
td__panels td__panels_of(const float *b, int64_t ldb, bool transpose, int64_t n, int64_t k,
                         float *packing);
void td__gemm_panels(const td__gemm_arguments *arguments, td__panels panels);

#endif
