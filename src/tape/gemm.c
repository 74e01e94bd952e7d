/* Packs the right operand into panels, and lets threads share the panels, or the rows where panels are
 * few. A panel that one thread alone needs is packed when its turn comes: the right operand, which
 * may be a network's largest kernel, is never there twice.
 *
 * The left operand is read where it is: rows through tile_dot, or columns (transpose_a) through
 * tile_outer. The inner dimension is cut into blocks: the panel of one stays in the cache, and
 * sums of sums lose fewer digits than one long one. Of a left operand of a few rows the right one is
 * read where it is, too, where its rows are whole vectors: it is only read once.
 */
#include "tape/gemm.h"

#include "tape/parallel.h"
#include "tape/prepared.h"

#include <assert.h>
#include <string.h>

enum {
    BLOCK_K = 256, /* rows of a panel: 256 x 32 floats are 32 KiB */
    MAXIMUM_TILE_ROWS = 16
};

int64_t td__panel_count(int64_t n) {
    int width = td__kernels()->panel_width;
    return (n + width - 1) / width;
}

size_t td__panels_bytes(int64_t n, int64_t k) {
    return (size_t)(td__panel_count(n) * td__kernels()->panel_width * k) * sizeof(float);
}

static void pack_rows(const float *b, int64_t ldb, int64_t columns, int64_t width, int64_t k,
                      float *packed) {
    for (int64_t i = 0; i < k; i++, b += ldb, packed += width) {
        memcpy(packed, b, (size_t)columns * sizeof *b);
        for (int64_t j = columns; j < width; j++) {
            packed[j] = 0;
        }
    }
}

/* Columns of the panel are rows of b. Four at a time, so that whole cache lines are used. */
static void pack_transposed(const float *b, int64_t ldb, int64_t columns, int64_t width, int64_t k,
                            float *packed) {
    int64_t j = 0;
    for (; j + 4 <= columns; j += 4) {
        const float *b0 = b + j * ldb, *b1 = b0 + ldb, *b2 = b1 + ldb, *b3 = b2 + ldb;
        float *to = packed + j;
        for (int64_t i = 0; i < k; i++, to += width) {
            to[0] = b0[i];
            to[1] = b1[i];
            to[2] = b2[i];
            to[3] = b3[i];
        }
    }
    for (; j < width; j++) {
        for (int64_t i = 0; i < k; i++) {
            packed[i * width + j] = j < columns ? b[j * ldb + i] : 0.0f;
        }
    }
}

void td__pack_panels(const float *b, int64_t ldb, bool transpose, int64_t n, int64_t k,
                     int64_t first, int64_t last, int64_t panel_stride, float *packed) {
    int64_t width = td__kernels()->panel_width;
    for (int64_t p = first; p < last; p++) {
        int64_t column = p * width;
        int64_t columns = n - column < width ? n - column : width;
        float *panel = packed + p * panel_stride;
        if (transpose) {
            pack_transposed(b + column * ldb, ldb, columns, width, k, panel);
        } else {
            pack_rows(b + column, ldb, columns, width, k, panel);
        }
    }
}

typedef struct product {
    const td__gemm_arguments *arguments;
    const td__kernels_table *kernels;
    float *packed; /* to be filled: where threads share panels one for each of them, else all of b;
                    * NULL: b is panels already */
    const float *panels;
    int64_t panel_stride, ldb; /* floats between panels, and between rows of a panel */
    float *padded_bias;        /* bias filled up to whole panels, or NULL */
    int64_t panel_count;
    bool split_panels; /* threads share panels, otherwise rows */
} product;

static const int64_t no_offset = 0;

/* One tile over rows [row, row + rows) and panel p. */
static void tile(const product *x, int64_t row, int rows, int64_t p, const float *panel) {
    const td__gemm_arguments *g = x->arguments;
    int64_t width = x->kernels->panel_width, column = p * width;
    int columns = (int)(g->n - column < width ? g->n - column : width);
    float *c = g->c + row * g->ldc + column;
    int64_t done = 0;
    do {
        int64_t block = g->k - done < BLOCK_K ? g->k - done : BLOCK_K;
        bool last = done + block == g->k;
        int flags =
            (done ? TD__TILE_ADD : g->flags & TD__TILE_ADD) | (last ? g->flags & TD__TILE_RELU : 0);
        if (g->transpose_a) {
            const float *start = g->a + done * g->lda + row;
            x->kernels->tile_outer(rows, columns, 1, block, g->lda, &start, 0,
                                   panel + done * x->ldb, x->ldb, c, g->ldc, flags);
        } else {
            const float *starts[MAXIMUM_TILE_ROWS];
            for (int r = 0; r < rows; r++) {
                starts[r] = g->a + (row + r) * g->lda + done;
            }
            const float *bias = x->padded_bias && !done ? x->padded_bias + column : NULL;
            x->kernels->tile_dot(rows, columns, 1, block, &no_offset, starts, panel + done * x->ldb,
                                 x->ldb, bias, c, g->ldc, flags);
        }
        done += block;
    } while (done < g->k);
}

static void tiles(const product *x, int64_t first_row, int64_t last_row, int64_t p,
                  const float *panel) {
    int most = x->kernels->tile_rows;
    for (int64_t row = first_row; row < last_row;) {
        int64_t left = last_row - row;
        /* Two tiles of like size beat a full one and a thin one. */
        int rows = (int)(left >= 2 * most ? most : left > most ? (left + 1) / 2 : left);
        tile(x, row, rows, p, panel);
        row += rows;
    }
}

/* Panels outside, rows inside: a panel stays in the cache while all rows pass it. */
static void all_tiles(const product *x, int64_t first_row, int64_t last_row) {
    for (int64_t p = 0; p < x->panel_count; p++) {
        tiles(x, first_row, last_row, p, x->panels + p * x->panel_stride);
    }
}

/* A thread's panels, each packed where the one before it was: it is done with. */
static void multiply_panels(const product *x, float *packed, int64_t begin, int64_t end) {
    const td__gemm_arguments *g = x->arguments;
    for (int64_t p = begin; p < end; p++) {
        if (packed) {
            td__pack_panels(g->b, g->ldb, g->transpose_b, g->n, g->k, p, p + 1, 0, packed);
        }
        tiles(x, 0, g->m, p, packed ? packed : x->panels + p * x->panel_stride);
    }
}

static void pack_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    product *x = context;
    const td__gemm_arguments *g = x->arguments;
    td__pack_panels(g->b, g->ldb, g->transpose_b, g->n, g->k, begin, end,
                    g->k * x->kernels->panel_width, x->packed);
}

static void pack_all(product *x) {
    int64_t floats = x->arguments->k * x->kernels->panel_width;
    td__parallel(x->panel_count, 1, (1 << 18) / floats + 1, pack_part, x);
}

/* Panels of a model's weights that the tape keeps; NULL: it does not. */
static const float *kept_panels(td_tape *tape, const product *x) {
    const td__gemm_arguments *g = x->arguments;
    td__prepared *kept =
        g->b_is_weight && g->m < TD__PREPARED_ROWS
            ? td__prepare(tape, g->b, g->transpose_b ? TD__PREPARED_TURNED : TD__PREPARED_PANELS,
                          td__panels_bytes(g->n, g->k))
            : NULL;
    if (kept && !kept->made) {
        product packing = *x;
        packing.packed = kept->data;
        pack_all(&packing);
        kept->made = true;
    }
    return kept ? kept->data : NULL;
}

static void multiply_part(void *context, int part, int64_t begin, int64_t end) {
    product *x = context;
    if (x->split_panels) {
        float *packed = x->packed ? x->packed + part * x->panel_stride : NULL;
        multiply_panels(x, packed, begin, end);
    } else {
        all_tiles(x, begin, end);
    }
}

/* An empty inner dimension: the sum of nothing. */
static void fill_empty(const td__gemm_arguments *g) {
    for (int64_t i = 0; i < g->m; i++) {
        for (int64_t j = 0; j < g->n; j++) {
            float *c = &g->c[i * g->ldc + j];
            float value = (g->bias ? g->bias[j] : 0.0f) + (g->flags & TD__TILE_ADD ? *c : 0.0f);
            *c = g->flags & TD__TILE_RELU && value < 0 ? 0.0f : value;
        }
    }
}

td_status td__gemm(td_tape *tape, const td__gemm_arguments *g) {
    if (g->m == 0 || g->n == 0) {
        return TD_OK;
    }
    if (g->k == 0) {
        fill_empty(g);
        return TD_OK;
    }
    product x = {.arguments = g, .kernels = td__kernels(), .panel_count = td__panel_count(g->n)};
    const float *kept = kept_panels(tape, &x);
    bool as_it_is = !kept && !g->transpose_b && g->n % x.kernels->vector_width == 0 &&
                    g->m <= x.kernels->tile_rows;
    x.split_panels = x.panel_count >= 2 * td_threads();
    int64_t width = x.kernels->panel_width;
    int64_t packed = kept || as_it_is ? 0 : x.split_panels ? td_threads() : x.panel_count;
    size_t panels = (size_t)(packed * width * g->k) * sizeof(float);
    size_t bias = g->bias ? td__panels_bytes(g->n, 1) : 0;
    td__buffer *memory = td__temporary(tape, panels + bias);
    if (!memory) {
        return TD_MEMORY;
    }
    x.packed = kept || as_it_is ? NULL : memory->data;
    x.panels = kept ? kept : as_it_is ? g->b : x.packed;
    x.ldb = as_it_is ? g->ldb : width;
    x.panel_stride = as_it_is ? width : g->k * width;
    if (g->bias) {
        x.padded_bias = memory->data + panels / sizeof(float);
        memset(x.padded_bias, 0, bias);
        memcpy(x.padded_bias, g->bias, (size_t)g->n * sizeof(float));
    }
    int64_t count = x.split_panels ? x.panel_count : g->m;
    int64_t work = g->m * g->n * g->k / count; /* per panel, or per row */
    int64_t minimum = TD__PRODUCT_GRAIN / (work ? work : 1) + 1;
    if (!x.split_panels && x.packed) {
        pack_all(&x);
    }
    td__parallel(count, x.split_panels ? 1 : x.kernels->tile_rows, minimum, multiply_part, &x);
    td__buffer_drop(tape, memory);
    return TD_OK;
}

void td__pack(const float *b, int64_t ldb, bool transpose, int64_t n, int64_t k, float *packed) {
    td__pack_panels(b, ldb, transpose, n, k, 0, td__panel_count(n), k * td__kernels()->panel_width,
                    packed);
}

td__panels td__panels_of(const float *b, int64_t ldb, bool transpose, int64_t n, int64_t k,
                         float *packing) {
    const td__kernels_table *kernels = td__kernels();
    /* Rows of whole vectors are panels already: no tile reads past their end. */
    if (!transpose && n % kernels->vector_width == 0) {
        return (td__panels){.data = b, .stride = kernels->panel_width, .row = ldb};
    }
    td__pack(b, ldb, transpose, n, k, packing);
    return (td__panels){
        .data = packing, .stride = k * kernels->panel_width, .row = kernels->panel_width};
}

void td__gemm_panels(const td__gemm_arguments *g, td__panels panels) {
    assert(!g->bias);
    product x = {.arguments = g,
                 .kernels = td__kernels(),
                 .panels = panels.data,
                 .panel_stride = panels.stride,
                 .ldb = panels.row,
                 .panel_count = td__panel_count(g->n)};
    if (g->k == 0) {
        fill_empty(g);
    } else {
        all_tiles(&x, 0, g->m);
    }
}

void td__gemm_packed(const td__gemm_arguments *g, const float *packed) {
    int64_t width = td__kernels()->panel_width;
    td__gemm_panels(g, (td__panels){.data = packed, .stride = g->k * width, .row = width});
}

void td__gemm_serial(const td__gemm_arguments *g, float *packing) {
    td__gemm_panels(g, td__panels_of(g->b, g->ldb, g->transpose_b, g->n, g->k, packing));
}
