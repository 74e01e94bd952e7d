/* Tiles of matrix products: TILE_ROWS rows by one or two vectors of columns, kept in registers over
 * the whole inner dimension. Each row's operand is a broadcast scalar, so that rows can come from
 * anywhere: rows of a matrix, columns of one, or the patches of an image.
 *
 * Sums run in order of k for each element; only their grouping over calls depends on the caller.
 */
#include "tape/kernels/vector.h"

#include <string.h>

enum { ROW_PANELS = 4 };

/* As many columns as a register has lanes; those from `columns` on are zero. */
static void pack_lanes(int64_t columns, int64_t k, const float *b, int64_t ldb, float *to) {
    int64_t i = 0;
    for (; i + TD__LANES <= k; i += TD__LANES, to += TD__LANES * 2 * TD__LANES) {
        td__vec square[TD__LANES];
#pragma GCC unroll 16
        for (int j = 0; j < TD__LANES; j++) {
            square[j] = j < columns ? td__load(b + j * ldb + i) : (td__vec){0};
        }
        td__transpose(square);
#pragma GCC unroll 16
        for (int j = 0; j < TD__LANES; j++) {
            *(td__vec *)(to + j * 2 * TD__LANES) = square[j];
        }
    }
    for (; i < k; i++, to += 2 * TD__LANES) {
        for (int64_t j = 0; j < TD__LANES; j++) {
            to[j] = j < columns ? b[j * ldb + i] : 0.0f;
        }
    }
}

static void pack_transposed(int64_t columns, int64_t k, const float *b, int64_t ldb, float *panel) {
    pack_lanes(columns, k, b, ldb, panel);
    pack_lanes(columns - TD__LANES, k, b + TD__LANES * ldb, ldb, panel + TD__LANES);
}

static void pack_rows(int64_t columns, int64_t k, const float *b, int64_t ldb, int64_t panel_stride,
                      float *panels) {
    const int64_t width = 2 * TD__LANES;
    int64_t whole = columns / width, rest = columns % width;
    for (int64_t i = 0; i < k; i++, b += ldb, panels += width) {
        float *to = panels;
        for (int64_t p = 0; p < whole; p++, to += panel_stride) {
            td__vec first = td__load(b + p * width), second = td__load(b + p * width + TD__LANES);
            *(td__vec *)to = first;
            *(td__vec *)(to + TD__LANES) = second;
        }
        if (rest) {
            *(td__vec *)to = *(td__vec *)(to + TD__LANES) = (td__vec){0};
            memcpy(to, b + whole * width, (size_t)rest * sizeof *b);
        }
    }
}

/* Whole tiles side by side, a row of all of them after the other: each line of a is read once. */
static void pack_whole_left(int tiles, int64_t k, const float *a, int64_t lda, float *to) {
    const int64_t rows = TD__TILE_ROWS, tile = rows * k;
    for (; k > 1 && rows <= TD__LANES; k--, a += lda, to += rows) {
        for (int t = 0; t < tiles; t++) { /* the lanes too many are written over by the next row */
            *(td__vec *)(to + t * tile) = td__load(a + t * rows);
        }
    }
    for (; k > 0; k--, a += lda, to += rows) {
        for (int t = 0; t < tiles; t++) {
            memcpy(to + t * tile, a + t * rows, TD__TILE_ROWS * sizeof *a);
        }
    }
}

static void pack_left(int tiles, int rows, int64_t k, const float *a, int64_t lda, float *to) {
    if (rows == TD__TILE_ROWS) {
        pack_whole_left(tiles, k, a, lda, to);
        return;
    }
    for (int t = 0; t < tiles; t++) {
        for (int64_t i = 0; i < k; i++) {
            for (int r = 0; r < rows; r++) {
                *to++ = a[i * lda + t * rows + r];
            }
        }
    }
}

/* Writes one row of a tile. */
TD__INLINE void store(const int vectors, const td__vec *sum, int columns, float *c, int flags) {
    td__vec value[2];
    float padded[2 * TD__LANES];
    bool whole = columns == vectors * TD__LANES;
    if (flags & TD__TILE_ADD) {
        if (!whole) {
            memset(padded, 0, sizeof padded);
            memcpy(padded, c, (size_t)columns * sizeof *c);
        }
        const float *from = whole ? c : padded;
        for (int v = 0; v < vectors; v++) {
            value[v] = sum[v] + td__load(from + v * TD__LANES);
        }
    } else {
        for (int v = 0; v < vectors; v++) {
            value[v] = sum[v];
        }
    }
    for (int v = 0; flags & TD__TILE_ENDS && v < vectors; v++) {
        value[v] = td__tile_end(value[v], flags);
    }
    if (whole) {
        for (int v = 0; v < vectors; v++) {
            *(td__vec *)(c + v * TD__LANES) = value[v];
        }
    } else {
        for (int v = 0; v < vectors; v++) {
            *(td__vec *)(padded + v * TD__LANES) = value[v];
        }
        memcpy(c, padded, (size_t)columns * sizeof *c);
    }
}

TD__INLINE void dot(const int row_count, const int vectors, int columns, int64_t segments,
                    int64_t segment, const int64_t *offsets, const float *const *rows,
                    const float *b, int64_t ldb, const float *bias, float *c, int64_t ldc,
                    int flags) {
    td__vec sum[TD__TILE_ROWS][2];
    const float *a[TD__TILE_ROWS];
#pragma GCC unroll 16
    for (int r = 0; r < row_count; r++) {
        a[r] = rows[r];
        for (int v = 0; v < vectors; v++) {
            sum[r][v] = bias ? td__load(bias + v * TD__LANES) : (td__vec){0};
        }
    }
    for (int64_t s = 0; s < segments; s++) {
        int64_t offset = offsets[s];
        for (int64_t k = 0; k < segment; k++) {
            td__vec b0 = td__load(b), b1 = vectors > 1 ? td__load(b + TD__LANES) : b0;
            b += ldb;
#pragma GCC unroll 16
            for (int r = 0; r < row_count; r++) {
                float scalar = a[r][offset + k];
                sum[r][0] += b0 * scalar;
                if (vectors > 1) {
                    sum[r][1] += b1 * scalar;
                }
            }
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < row_count; r++) {
        store(vectors, sum[r], columns, c + r * ldc, flags);
    }
}

/* One row past several panels: as many sums as hide how long one takes, in the order of dot. */
TD__INLINE void row_of_panels(const int panels, int64_t k, const float *a, const float *b,
                              int64_t panel_stride, int64_t ldb, const float *bias, int columns,
                              float *c, int flags) {
    td__vec sum[ROW_PANELS][2];
#pragma GCC unroll 4
    for (int p = 0; p < panels; p++) {
        for (int v = 0; v < 2; v++) {
            sum[p][v] = bias ? td__load(bias + (2 * p + v) * TD__LANES) : (td__vec){0};
        }
    }
    for (int64_t i = 0; i < k; i++, b += ldb) {
        float scalar = a[i];
#pragma GCC unroll 4
        for (int p = 0; p < panels; p++) {
            sum[p][0] += td__load(b + p * panel_stride) * scalar;
            sum[p][1] += td__load(b + p * panel_stride + TD__LANES) * scalar;
        }
    }
#pragma GCC unroll 4
    for (int p = 0; p < panels; p++, columns -= 2 * TD__LANES) {
        store(2, sum[p], columns < 2 * TD__LANES ? columns : 2 * TD__LANES, c + p * 2 * TD__LANES,
              flags);
    }
}

TD__INLINE void outer(const int row_count, const int vectors, int columns, int64_t segments,
                      int64_t segment, int64_t stride, const float *const *starts, int64_t offset,
                      const float *b, int64_t ldb, float *c, int64_t ldc, int flags) {
    td__vec sum[TD__TILE_ROWS][2];
#pragma GCC unroll 16
    for (int r = 0; r < row_count; r++) {
        sum[r][0] = sum[r][1] = (td__vec){0};
    }
    for (int64_t s = 0; s < segments; s++) {
        const float *a = starts[s] + offset;
        for (int64_t k = 0; k < segment; k++) {
            td__vec b0 = td__load(b), b1 = vectors > 1 ? td__load(b + TD__LANES) : b0;
            b += ldb;
#pragma GCC unroll 16
            for (int r = 0; r < row_count; r++) {
                float scalar = a[r];
                sum[r][0] += b0 * scalar;
                if (vectors > 1) {
                    sum[r][1] += b1 * scalar;
                }
            }
            a += stride;
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < row_count; r++) {
        store(vectors, sum[r], columns, c + r * ldc, flags);
    }
}

/* One function for each number of rows and vectors, so that the loops above unroll; with the arguments of
 * the functions that choose among them, which then only jump. */
#define DOT_ARGUMENTS                                                                              \
    int row_count, int columns, int64_t segments, int64_t segment, const int64_t *offsets,         \
        const float *const *rows, const float *b, int64_t ldb, const float *bias, float *c,        \
        int64_t ldc, int flags
#define OUTER_ARGUMENTS                                                                            \
    int row_count, int columns, int64_t segments, int64_t segment, int64_t stride,                 \
        const float *const *starts, int64_t offset, const float *b, int64_t ldb, float *c,         \
        int64_t ldc, int flags
typedef void dot_tile(DOT_ARGUMENTS);
typedef void outer_tile(OUTER_ARGUMENTS);

#define DEFINE_TILE(rows_, vectors_)                                                               \
    static void dot_##rows_##_##vectors_(DOT_ARGUMENTS) {                                          \
        (void)row_count;                                                                           \
        dot(rows_, vectors_, columns, segments, segment, offsets, rows, b, ldb, bias, c, ldc,      \
            flags);                                                                                \
    }                                                                                              \
    static void outer_##rows_##_##vectors_(OUTER_ARGUMENTS) {                                      \
        (void)row_count;                                                                           \
        outer(rows_, vectors_, columns, segments, segment, stride, starts, offset, b, ldb, c, ldc, \
              flags);                                                                              \
    }
#define DEFINE_TILES(rows_) DEFINE_TILE(rows_, 1) DEFINE_TILE(rows_, 2)
#define DOT_PAIR(rows_)                                                                            \
    { dot_##rows_##_1, dot_##rows_##_2 }
#define OUTER_PAIR(rows_)                                                                          \
    { outer_##rows_##_1, outer_##rows_##_2 }

#if TD__TILE_ROWS == 14
#define EACH(X, S)                                                                                 \
    X(1)                                                                                           \
    S X(2) S X(3) S X(4) S X(5) S X(6) S X(7) S X(8) S X(9) S X(10) S X(11) S X(12) S X(13) S X(14)
#elif TD__TILE_ROWS == 8
#define EACH(X, S) X(1) S X(2) S X(3) S X(4) S X(5) S X(6) S X(7) S X(8)
#elif TD__TILE_ROWS == 6
#define EACH(X, S) X(1) S X(2) S X(3) S X(4) S X(5) S X(6)
#else
#define EACH(X, S) X(1) S X(2) S X(3) S X(4)
#endif
#define COMMA ,
#define NOTHING
EACH(DEFINE_TILES, NOTHING)

static dot_tile *const dot_tiles[TD__TILE_ROWS][2] = {EACH(DOT_PAIR, COMMA)};
static outer_tile *const outer_tiles[TD__TILE_ROWS][2] = {EACH(OUTER_PAIR, COMMA)};

static void tile_dot(DOT_ARGUMENTS) {
    dot_tiles[row_count - 1][columns > TD__LANES](row_count, columns, segments, segment, offsets,
                                                  rows, b, ldb, bias, c, ldc, flags);
}

static void row_dot(int64_t columns, int64_t k, const float *a, const float *b,
                    int64_t panel_stride, int64_t ldb, const float *bias, float *c, int flags) {
    const int64_t step = ROW_PANELS * 2 * TD__LANES;
    for (; columns > step - TD__LANES; columns -= step, b += ROW_PANELS * panel_stride, c += step) {
        row_of_panels(ROW_PANELS, k, a, b, panel_stride, ldb, bias,
                      (int)(columns < step ? columns : step), c, flags);
        bias = bias ? bias + step : NULL;
    }
    for (; columns > 0; columns -= 2 * TD__LANES, b += panel_stride, c += 2 * TD__LANES) {
        static const int64_t no_offset = 0;
        int some = (int)(columns < 2 * TD__LANES ? columns : 2 * TD__LANES);
        tile_dot(1, some, 1, k, &no_offset, &a, b, ldb, bias, c, some, flags);
        bias = bias ? bias + 2 * TD__LANES : NULL;
    }
}

static void tile_outer(OUTER_ARGUMENTS) {
    outer_tiles[row_count - 1][columns > TD__LANES](row_count, columns, segments, segment, stride,
                                                    starts, offset, b, ldb, c, ldc, flags);
}

void TD__VARIANT(td__fill_gemm)(td__kernels_table *table) {
    table->tile_rows = TD__TILE_ROWS;
    table->panel_width = 2 * TD__LANES;
    table->vector_width = TD__LANES;
    table->pack_transposed = pack_transposed;
    table->pack_rows = pack_rows;
    table->pack_left = pack_left;
    table->tile_dot = tile_dot;
    table->row_dot = row_dot;
    table->tile_outer = tile_outer;
}
