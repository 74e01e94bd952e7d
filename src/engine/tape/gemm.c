/* Blocks of the operands, small enough to stay in a cache, then tiles of them.
 *
 * The left operand is read where it is: rows through tile_dot, or columns (transpose_a) through
 * tile_outer; columns whose elements are far apart are packed, a few tiles of them at a time. The right one is packed into panels, or read where it is when few rows pass it and its
 * own rows are whole vectors; it may be a network's largest kernel and is never there twice.
 * From the outside in: columns, the inner dimension, rows, panels, tiles.
 * Sums of sums over blocks of the inner dimension also lose fewer digits than one long one.
 *
 * Threads share a grid of rows by panels, each packs for itself: nobody waits for anybody, and an
 * element is the same sum whoever computes it.
 */
#include "tape/gemm.h"

#include "tape/parallel.h"
#include "tape/prepared.h"

#include <assert.h>
#include <string.h>

enum {
    PANEL = 8192, /* floats of a panel, 32 KiB: a block of the inner dimension is so long at most */
    LONGEST_BLOCK = 512,
    LONGEST_LEFT = 256, /* the same where a has columns: a tile of them is to stay near, too */
    /* Elements of a column of a that are this many floats apart share few places of a cache: columns are
     * packed if they pass as many panels. */
    FAR_COLUMNS = 64,
    WORTH_PANELS = 4,
    ROW_TILES = 4,       /* tiles of rows that pass a block's panels together */
    ROOM = 1 << 17,      /* floats of the panels that are packed at a time: half a MiB */
    FEW_TILES = 16,      /* of rows, are worth a thread of their own */
    FEW_ROWS = 224,      /* past b: with fewer, packing costs more than it saves */
    FAR_ROWS = 1024,     /* floats from row to row of b: so far, they share few places of a cache */
    LINE = 16,           /* floats of a cache line */
    ROWS_OF_READING = 4, /* with fewer, reading b takes as long as multiplying this many */
    SPREAD_FLOATS = 1 << 16, /* of b, which are worth a thread that is awake */
    MAXIMUM_TILE_ROWS = 16
};

static int64_t min(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Of the inner dimension. Wherever b is read and however many rows there are, an element is the same sum
 * of sums. */
static int64_t longest_block(const td__gemm_arguments *g) {
    int64_t max = PANEL / td__kernels()->panel_width;
    return min(g->k, min(max, g->transpose_a ? LONGEST_LEFT : LONGEST_BLOCK));
}

/* That are packed at a time. */
static int64_t max_panels(const td__gemm_arguments *g) {
    return ROOM / (longest_block(g) * td__kernels()->panel_width);
}

int64_t td__panel_count(int64_t n) {
    int width = td__kernels()->panel_width;
    return (n + width - 1) / width;
}

size_t td__panels_bytes(int64_t n, int64_t k) {
    return (size_t)(td__panel_count(n) * td__kernels()->panel_width * k) * sizeof(float);
}

void td__pack_panels(const float *b, int64_t ldb, bool transpose, int64_t n, int64_t k,
                     int64_t first, int64_t last, int64_t panel_stride, float *packed) {
    int64_t width = td__kernels()->panel_width;
    if (!transpose) {
        int64_t end = n < last * width ? n : last * width;
        td__kernels()->pack_rows(end - first * width, k, b + first * width, ldb, panel_stride,
                                 packed + first * panel_stride);
        return;
    }
    for (int64_t p = first; p < last; p++) {
        int64_t column = p * width;
        int64_t columns = n - column < width ? n - column : width;
        td__kernels()->pack_transposed(columns, k, b + column * ldb, ldb,
                                       packed + p * panel_stride);
    }
}

typedef struct product {
    const td__gemm_arguments *arguments;
    const td__kernels_table *kernels;
    const float *bias; /* filled up to whole panels, or NULL */
    int64_t panel_count;
    int row_parts, panel_parts; /* the grid */
    td__panels b;               /* where it is read as it is, or as it was kept */
    float *rooms;               /* otherwise to pack it in, one for each cell of the grid */
    int64_t room;
    float *left_rooms; /* to pack columns of a in, likewise; NULL: they are read where they are */
    int64_t left_room;
    bool fetches; /* a may be far away: rows are asked for before they pass */
} product;

/* Rows and panels of a product. */
typedef struct cell {
    int64_t first_row, last_row, first_panel, last_panel;
    float *left; /* room for columns of a, or NULL */
} cell;

static const int64_t no_offset = 0;

/* How tiles of k in [done, done + block) end. */
static int tile_flags(const td__gemm_arguments *g, int64_t done, int64_t block) {
    bool last = done + block == g->k;
    return (done ? TD__TILE_ADD : g->flags & TD__TILE_ADD) | (last ? g->flags & TD__TILE_ENDS : 0);
}

/* One tile over rows [row, row + rows), `columns` columns from `column`, and k in [done, done + block).
 * packed: these rows, block times one behind the other, or NULL. */
static void tile(const product *x, int64_t row, int rows, const float *packed, int64_t column,
                 int columns, int64_t done, int64_t block, const float *b, int64_t ldb) {
    const td__gemm_arguments *g = x->arguments;
    float *c = g->c + row * g->ldc + column;
    int flags = tile_flags(g, done, block);
    if (g->transpose_a) {
        const float *start = packed ? packed : g->a + done * g->lda + row;
        x->kernels->tile_outer(rows, columns, 1, block, packed ? rows : g->lda, &start, 0, b, ldb,
                               c, g->ldc, flags);
        return;
    }
    const float *starts[MAXIMUM_TILE_ROWS];
    for (int r = 0; r < rows; r++) {
        starts[r] = g->a + (row + r) * g->lda + done;
    }
    const float *bias = x->bias && !done ? x->bias + column : NULL;
    x->kernels->tile_dot(rows, columns, 1, block, &no_offset, starts, b, ldb, bias, c, g->ldc,
                         flags);
}

/* A row alone past all panels of a part. */
static void single_row(const product *x, const cell *part, int64_t done, int64_t block,
                       td__panels b) {
    const td__gemm_arguments *g = x->arguments;
    int64_t width = x->kernels->panel_width, row = part->first_row;
    int64_t first = part->first_panel * width, last = part->last_panel * width;
    x->kernels->row_dot((last < g->n ? last : g->n) - first, block, g->a + row * g->lda + done,
                        b.data, b.stride, b.row, x->bias && !done ? x->bias + first : NULL,
                        g->c + row * g->ldc + first, tile_flags(g, done, block));
}

/* Asks for rows of floats that will be read soon. */
static void fetch(const float *from, int64_t stride, int64_t rows, int64_t floats) {
    for (int64_t i = 0; i < rows; i++, from += stride) {
        for (int64_t j = 0; j < floats; j += LINE) {
            __builtin_prefetch(from + j, 0, 2);
        }
    }
}

/* While panel `number` of `panels` is read: which portion of the rows of a that pass next is asked for, in
 * rows of a block (transpose_a) or lines of it. */
typedef struct portion {
    int64_t first, last;
} portion;

static portion portion_of(const product *x, int64_t block, int64_t number, int64_t panels) {
    if (!x->fetches) {
        return (portion){0, 0};
    }
    int64_t count = x->arguments->transpose_a ? block : (block + LINE - 1) / LINE;
    return (portion){count * number / panels, count * (number + 1) / panels};
}

static void fetch_rows(const td__gemm_arguments *g, int64_t row, int rows, int64_t done,
                       portion some) {
    if (g->transpose_a) {
        fetch(g->a + (done + some.first) * g->lda + row, g->lda, some.last - some.first, rows);
    } else {
        fetch(g->a + row * g->lda + done + some.first * LINE, g->lda, rows,
              (some.last - some.first) * LINE);
    }
}

/* Of the rows that are left: two tiles of like size beat a full one and a thin one. */
static int rows_of_tile(int64_t left, int max) {
    return (int)(left >= 2 * max ? max : left > max ? (left + 1) / 2 : left);
}

/* Columns [first, last) of a, tile by tile, each tile's k after k. */
static void pack_left(const product *x, int64_t first, int64_t last, int64_t done, int64_t block,
                      float *to) {
    const td__gemm_arguments *g = x->arguments;
    int max = x->kernels->tile_rows;
    for (int64_t row = first; row < last;) {
        int rows = rows_of_tile(last - row, max), tiles = 0;
        int64_t next = row;
        do { /* tiles of the same size, as they will pass */
            tiles++;
            next += rows;
        } while (next < last && rows_of_tile(last - next, max) == rows);
        x->kernels->pack_left(tiles, rows, block, g->a + done * g->lda + row, g->lda, to);
        to += (next - row) * block;
        row = next;
    }
}

/* What follows the product, on rows whose sums are complete and still near. */
static void finish_rows(const td__gemm_arguments *g, const cell *part, int64_t width, int64_t first,
                        int64_t last) {
    int64_t column = part->first_panel * width, end = min(part->last_panel * width, g->n);
    float *c = g->c + first * g->ldc + column;
    if (end - column == g->ldc) {
        td__finish_run(&g->finish, (last - first) * g->ldc, c);
        return;
    }
    for (int64_t row = first; row < last; row++, c += g->ldc) {
        td__finish_run(&g->finish, end - column, c);
    }
}

/* k in [done, done + block), whose panels from the cell's first on are b: a few tiles of rows pass all
 * of them, so that a is read once and each panel while it is near. */
static void multiply_block(const product *x, const cell *part, int64_t done, int64_t block,
                           td__panels b) {
    int64_t width = x->kernels->panel_width, n = x->arguments->n;
    int max = x->kernels->tile_rows;
    bool finishes = done + block == x->arguments->k && x->arguments->finish.activation != TD_LINEAR;
    if (part->last_row - part->first_row == 1 && !x->arguments->transpose_a) {
        single_row(x, part, done, block, b);
        if (finishes) {
            finish_rows(x->arguments, part, width, part->first_row, part->last_row);
        }
        return;
    }
    for (int64_t first = part->first_row, last; first < part->last_row; first = last) {
        last =
            part->last_row - first < 2 * ROW_TILES * max ? part->last_row : first + ROW_TILES * max;
        const float *panel = b.data;
        if (part->left) {
            pack_left(x, first, last, done, block, part->left);
        }
        for (int64_t p = part->first_panel; p < part->last_panel; p++, panel += b.stride) {
            int columns = (int)(n - p * width < width ? n - p * width : width);
            portion ahead =
                portion_of(x, block, p - part->first_panel, part->last_panel - part->first_panel);
            for (int64_t row = first; row < last;) {
                int rows = rows_of_tile(last - row, max);
                int64_t next = row + last - first;
                if (x->fetches && next + rows <= part->last_row) {
                    fetch_rows(x->arguments, next, rows, done, ahead);
                }
                const float *packed = part->left ? part->left + (row - first) * block : NULL;
                tile(x, row, rows, packed, p * width, columns, done, block, panel, b.row);
                row += rows;
            }
        }
        if (finishes) {
            finish_rows(x->arguments, part, width, first, last);
        }
    }
}

/* With all panels of b at hand. */
static void multiply(const product *x, const cell *part, td__panels b) {
    const td__gemm_arguments *g = x->arguments;
    int64_t max = longest_block(g), block;
    for (int64_t done = 0; done < g->k; done += block) {
        block = g->k - done < max ? g->k - done : max;
        td__panels rows = {b.data + part->first_panel * b.stride + done * b.row, b.stride, b.row};
        multiply_block(x, part, done, block, rows);
    }
}

/* Packs a block of b, multiplies with it, and goes on to the next. */
static void pack_and_multiply(const product *x, const cell *part, float *room) {
    const td__gemm_arguments *g = x->arguments;
    int64_t width = x->kernels->panel_width, max = longest_block(g), block;
    cell some = *part;
    for (; some.first_panel < part->last_panel; some.first_panel = some.last_panel) {
        int64_t count = part->last_panel - some.first_panel, column = some.first_panel * width;
        count = min(count, max_panels(g));
        some.last_panel = some.first_panel + count;
        for (int64_t done = 0; done < g->k; done += block) {
            block = g->k - done < max ? g->k - done : max;
            const float *b =
                g->transpose_b ? g->b + column * g->ldb + done : g->b + done * g->ldb + column;
            td__pack_panels(b, g->ldb, g->transpose_b, g->n - column, block, 0, count,
                            block * width, room);
            multiply_block(x, &some, done, block, (td__panels){room, block * width, width});
        }
    }
}

/* Cells [begin, end) of the grid. */
static void multiply_part(void *context, int part, int64_t begin, int64_t end) {
    const product *x = context;
    const td__gemm_arguments *g = x->arguments;
    int64_t unit = x->kernels->tile_rows, tiles = (g->m + unit - 1) / unit;
    for (int64_t i = begin; i < end; i++) {
        int64_t row = i / x->panel_parts, column = i % x->panel_parts;
        cell share = {.first_row = tiles * row / x->row_parts * unit,
                      .last_row = tiles * (row + 1) / x->row_parts * unit,
                      .first_panel = x->panel_count * column / x->panel_parts,
                      .last_panel = x->panel_count * (column + 1) / x->panel_parts,
                      .left = x->left_rooms ? x->left_rooms + part * x->left_room : NULL};
        share.last_row = share.last_row < g->m ? share.last_row : g->m;
        if (x->rooms) {
            pack_and_multiply(x, &share, x->rooms + part * x->room);
        } else {
            multiply(x, &share, x->b);
        }
    }
}

/* As many cells as threads are worth it: tall ones, since each packs its panels; then by panels; and
 * by rows as far as there are tiles. */
static void set_grid(product *x) {
    const td__gemm_arguments *g = x->arguments;
    int64_t unit = x->kernels->tile_rows, tiles = (g->m + unit - 1) / unit;
    int64_t rows = g->m > ROWS_OF_READING ? g->m : ROWS_OF_READING;
    int64_t threads = min(td_threads(), rows * g->n * g->k / TD__PRODUCT_GRAIN);
    threads = threads > 1 ? threads : 1;
    int64_t tall = min(threads, tiles / FEW_TILES);
    x->panel_parts = (int)min(x->panel_count, tall > 1 ? threads / tall : threads);
    x->row_parts = (int)min(tiles, threads / x->panel_parts);
}

/* An empty inner dimension: the sum of nothing. */
static void fill_empty(const td__gemm_arguments *g) {
    for (int64_t i = 0; i < g->m; i++) {
        for (int64_t j = 0; j < g->n; j++) {
            float *c = &g->c[i * g->ldc + j];
            float value = (g->bias ? g->bias[j] : 0.0f) + (g->flags & TD__TILE_ADD ? *c : 0.0f);
            value = g->flags & TD__TILE_ENDS && value < 0 ? 0.0f : value;
            *c = g->flags & TD__TILE_RELU6 && value > 6 ? 6.0f : value;
        }
        td__finish_run(&g->finish, g->n, g->c + i * g->ldc);
    }
}

/* Whether b is read where it is: no tile may read past a row's end. */
static bool reads_in_place(const product *x) {
    const td__gemm_arguments *g = x->arguments;
    int64_t unit = x->kernels->tile_rows;
    return !g->transpose_b && g->n % x->kernels->vector_width == 0 &&
           (g->m <= unit || (g->m <= FEW_ROWS && g->ldb < FAR_ROWS));
}

/* Whether columns of a are packed. */
static bool packs_left(const product *x) {
    const td__gemm_arguments *g = x->arguments;
    return g->transpose_a && g->lda >= FAR_COLUMNS && x->panel_count >= WORTH_PANELS;
}

static void keep_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const product *x = context;
    const td__gemm_arguments *g = x->arguments;
    td__pack_panels(g->b, g->ldb, g->transpose_b, g->n, g->k, begin, end, x->b.stride, x->rooms);
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
        packing.b.stride = g->k * x->kernels->panel_width;
        packing.rooms = kept->data;
        td__parallel(x->panel_count, 1, (1 << 18) / packing.b.stride + 1, keep_part, &packing);
        kept->made = true;
    }
    return kept ? kept->data : NULL;
}

td_status td__gemm(td_tape *tape, const td__gemm_arguments *g) {
    if (g->m == 0 || g->n == 0) {
        return TD_OK;
    }
    if (g->k == 0) {
        fill_empty(g);
        return TD_OK;
    }
    product x = {.arguments = g,
                 .kernels = td__kernels(),
                 .panel_count = td__panel_count(g->n),
                 .fetches = true};
    set_grid(&x);
    int cells = x.row_parts * x.panel_parts;
    int64_t width = x.kernels->panel_width;
    const float *kept = kept_panels(tape, &x);
    bool packs = !kept && !reads_in_place(&x);
    x.b = kept ? (td__panels){kept, g->k * width, width} : (td__panels){g->b, width, g->ldb};
    int64_t block = longest_block(g);
    x.room = packs ? block * min(x.panel_count, max_panels(g)) * width : 0;
    x.left_room = packs_left(&x) ? block * min(g->m, 2 * ROW_TILES * x.kernels->tile_rows) : 0;
    int64_t bias = g->bias ? x.panel_count * width : 0, rooms = cells * (x.room + x.left_room);
    td__buffer *memory = td__temporary(tape, (size_t)(rooms + bias) * sizeof(float));
    if (!memory) {
        return TD_MEMORY;
    }
    x.rooms = packs ? memory->data : NULL;
    x.left_rooms = x.left_room ? memory->data + cells * x.room : NULL;
    if (g->bias) {
        float *padded = memory->data + rooms;
        memset(padded + bias - width, 0, (size_t)width * sizeof(float));
        memcpy(padded, g->bias, (size_t)g->n * sizeof(float));
        x.bias = padded;
    }
    td__parallel(cells, 1, 1, multiply_part, &x);
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
    product x = {.arguments = g, .kernels = td__kernels()};
    if (g->k == 0) {
        fill_empty(g);
    } else {
        multiply(&x, &(cell){.last_row = g->m, .last_panel = td__panel_count(g->n)}, panels);
    }
}

typedef struct spread {
    const product *product;
    td__panels panels;
} spread;

static void spread_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const spread *s = context;
    multiply(s->product,
             &(cell){.last_row = s->product->arguments->m, .first_panel = begin, .last_panel = end},
             s->panels);
}

void td__gemm_spread(const td__gemm_arguments *g, const float *packed) {
    const td__kernels_table *kernels = td__kernels();
    int64_t panel = g->k * kernels->panel_width;
    product x = {.arguments = g, .kernels = kernels};
    spread s = {&x, {.data = packed, .stride = panel, .row = kernels->panel_width}};
    assert(!g->bias);
    td__parallel(td__panel_count(g->n), 1, SPREAD_FLOATS / (panel + 1) + 1, spread_part, &s);
}

void td__gemm_serial(const td__gemm_arguments *g, float *packing) {
    td__gemm_panels(g, td__panels_of(g->b, g->ldb, g->transpose_b, g->n, g->k, packing));
}
