/* Convolution in transformed tiles; see winograd.h. */
#include "tape/winograd.h"

#include "tape/gemm.h"
#include "tape/parallel.h"
#include "tape/prepared.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    PLACES = 16, /* values of a transformed tile */
    /* Tiles of an image: below, transforming the kernel may cost more than it saves. Not of a batch: an
     * example's results do not depend on its company. */
    WORTH_TILES = 36,
    BLOCK_FLOATS = 131072,   /* of a block's transformed tiles: 512 KiB */
    LEAST_BLOCK = 56,        /* tiles, where there are many channels */
    MOST_SLICES = 8,         /* of a sum over all tiles, whatever the number of threads */
    SLICES_FLOATS = 1 << 22, /* all of them: 16 MiB */
    LEAST_SLICES = 4
};

static bool switched_off;

static void look_at_switch(void) {
    const char *wish = getenv("TAPEDECK_WINOGRAD");
    switched_off = wish && strcmp(wish, "off") == 0;
}

static int64_t tiles_along(int64_t size) {
    return (size + 1) / 2;
}

static int64_t slice_count(const td__conv *c) {
    int64_t fit = SLICES_FLOATS / (PLACES * c->channels * c->filters);
    return fit < MOST_SLICES ? fit : MOST_SLICES;
}

bool td__winograd_fits(const td__conv *c, bool to_kernel) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, look_at_switch);
    int lanes = td__kernels()->vector_width;
    bool shape = c->groups == 1 && c->channels % lanes == 0 && c->filters % lanes == 0;
    for (int axis = 0; axis < 2; axis++) {
        shape = shape && c->kernel[axis] == 3 && c->stride[axis] == 1 && c->dilation[axis] == 1 &&
                c->before[axis] <= 2;
    }
    return shape && !switched_off && c->channels > 0 && c->filters > 0 &&
           tiles_along(c->out[0]) * tiles_along(c->out[1]) >= WORTH_TILES &&
           (!to_kernel || slice_count(c) >= LEAST_SLICES);
}

/* One direction, from a source image (in channels) to results (out channels). */
typedef struct plan {
    const td__kernels_table *kernels;
    const float *source;
    int64_t height, width, in, out;
    int64_t before[2]; /* a tile's first pixel is at 2 * tile - before */
    int64_t rows, columns, tile_columns, tiles_of_image, tile_count;
    int64_t block;                 /* tiles transformed at a time */
    int64_t in_stride, out_stride; /* floats between the places of a block */
    td__panels panels[PLACES];     /* the transformed kernel */
    const float *bias;
    float *result;
    const float *gradient;
    int flags;
    td__finish finish;
    float *rooms; /* of each thread: a block of tiles, a block of results, a patch */
    int64_t room;
    float *slices; /* (slices, PLACES, in, out) */
    int64_t slice_count;
} plan;

/* A tile: its results at (row, column) of an image. */
typedef struct tile {
    int64_t image, row, column;
    int rows, columns; /* results inside */
} tile;

static void set_sizes(const td__conv *c, plan *p) {
    p->kernels = td__kernels();
    p->tile_columns = tiles_along(p->columns);
    p->tiles_of_image = tiles_along(p->rows) * p->tile_columns;
    p->tile_count = c->batch * p->tiles_of_image;
    int64_t unit = p->kernels->tile_rows, block = BLOCK_FLOATS / (PLACES * (p->in + p->out));
    block = block > LEAST_BLOCK ? block : LEAST_BLOCK;
    p->block = (block + unit - 1) / unit * unit;
    /* A vector more: places that are a multiple of 4 KiB apart would share a few cache lines. */
    p->in_stride = p->block * p->in + p->kernels->vector_width;
    p->out_stride = p->block * p->out + p->kernels->vector_width;
    p->room = PLACES * (p->in_stride + p->out_stride + p->in);
}

static tile tile_at(const plan *p, int64_t number) {
    int64_t within = number % p->tiles_of_image;
    tile t = {.image = number / p->tiles_of_image,
              .row = within / p->tile_columns * 2,
              .column = within % p->tile_columns * 2};
    t.rows = p->rows - t.row > 1 ? 2 : 1;
    t.columns = p->columns - t.column > 1 ? 2 : 1;
    return t;
}

/* The tile's 4x4 pixels with zeros where there is no image. */
static void copy_patch(const plan *p, const tile *t, float *patch) {
    size_t bytes = (size_t)p->in * sizeof(float);
    for (int64_t i = 0; i < PLACES; i++, patch += p->in) {
        int64_t y = t->row - p->before[0] + i / 4, x = t->column - p->before[1] + i % 4;
        if (y < 0 || y >= p->height || x < 0 || x >= p->width) {
            memset(patch, 0, bytes);
        } else {
            memcpy(patch, p->source + ((t->image * p->height + y) * p->width + x) * p->in, bytes);
        }
    }
}

/* Tiles [begin, begin + count) to v: (PLACES, count, in). */
static void transform_inputs(const plan *p, int64_t begin, int64_t count, float *v, float *patch) {
    for (int64_t i = 0; i < count; i++) {
        tile t = tile_at(p, begin + i);
        int64_t y = t.row - p->before[0], x = t.column - p->before[1];
        if (y >= 0 && y + 4 <= p->height && x >= 0 && x + 4 <= p->width) {
            p->kernels->winograd_input(
                p->in, p->source + ((t.image * p->height + y) * p->width + x) * p->in,
                p->width * p->in, v + i * p->in, p->in_stride);
        } else {
            copy_patch(p, &t, patch);
            p->kernels->winograd_input(p->in, patch, 4 * p->in, v + i * p->in, p->in_stride);
        }
    }
}

static int64_t result_at(const plan *p, const tile *t) {
    return ((t->image * p->rows + t->row) * p->columns + t->column) * p->out;
}

static void multiply_part(void *context, int part, int64_t begin, int64_t end) {
    const plan *p = context;
    float *v = p->rooms + part * p->room, *m = v + PLACES * p->in_stride;
    float *patch = m + PLACES * p->out_stride;
    for (; begin < end; begin += p->block) {
        int64_t count = end - begin < p->block ? end - begin : p->block;
        transform_inputs(p, begin, count, v, patch);
        for (int place = 0; place < PLACES; place++) {
            td__gemm_panels(&(td__gemm_arguments){.m = count,
                                                  .n = p->out,
                                                  .k = p->in,
                                                  .a = v + place * p->in_stride,
                                                  .lda = p->in,
                                                  .c = m + place * p->out_stride,
                                                  .ldc = p->out},
                            p->panels[place]);
        }
        for (int64_t i = 0; i < count; i++) {
            tile t = tile_at(p, begin + i);
            p->kernels->winograd_output(p->out, m + i * p->out, p->out_stride, p->bias, t.rows,
                                        t.columns, p->result + result_at(p, &t),
                                        p->columns * p->out, p->flags);
            for (int row = 0; row < t.rows; row++) {
                td__finish_run(&p->finish, t.columns * p->out,
                               p->result + result_at(p, &t) + row * p->columns * p->out);
            }
        }
    }
}

/* --- the three products --------------------------------------------------------------------- */

/* The transformed kernel in u, as panels: where it is, in packing (packed floats for each place), or, to
 * be kept, one panel behind the other in any case. */
static void make_panels(plan *p, bool transposed, int64_t packed, bool keep, const float *u,
                        float *packing) {
    int64_t pairs = p->in * p->out, ld = transposed ? p->in : p->out;
    for (int place = 0; place < PLACES; place++) {
        float *to = packing + place * packed;
        if (keep) {
            td__pack(u + place * pairs, ld, transposed, p->out, p->in, to);
        } else {
            p->panels[place] = td__panels_of(u + place * pairs, ld, transposed, p->out, p->in, to);
        }
    }
}

/* transposed: panels of a kernel whose rows are the results' channels. */
static td_status run(td_tape *tape, const td__conv *c, plan *p, const float *kernel,
                     bool transposed) {
    set_sizes(c, p);
    int64_t pairs = p->in * p->out, width = p->kernels->panel_width;
    int64_t packed = (int64_t)(td__panels_bytes(p->out, p->in) / sizeof(float));
    td__prepared *kept = c->kernel_is_weight && !transposed
                             ? td__prepare(tape, kernel, TD__PREPARED_WINOGRAD,
                                           (size_t)(PLACES * packed) * sizeof(float))
                             : NULL;
    bool made = kept && kept->made;
    int64_t floats = (made ? 0 : PLACES * (pairs + packed)) + p->room * td_threads();
    td__buffer *memory = td__temporary(tape, (size_t)floats * sizeof(float));
    if (!memory) {
        return TD_MEMORY;
    }
    p->rooms = memory->data;
    float *u = p->rooms + p->room * td_threads(), *panels = kept ? kept->data : u + PLACES * pairs;
    if (!made) {
        p->kernels->winograd_kernel(pairs, kernel, transposed, u);
        make_panels(p, transposed, packed, kept, u, panels);
    }
    for (int place = 0; kept && place < PLACES; place++) {
        p->panels[place] = (td__panels){panels + place * packed, p->in * width, width};
        kept->made = true;
    }
    int64_t work = PLACES * pairs;
    td__parallel(p->tile_count, 1, TD__PRODUCT_GRAIN / work + 1, multiply_part, p);
    td__buffer_drop(tape, memory);
    return TD_OK;
}

td_status td__winograd_forward(td_tape *tape, const td__conv *c, const float *x,
                               const float *kernel, const float *bias, float *y, int flags) {
    plan p = {.source = x,
              .height = c->height,
              .width = c->width,
              .in = c->channels,
              .out = c->filters,
              .before = {c->before[0], c->before[1]},
              .rows = c->out[0],
              .columns = c->out[1],
              .bias = bias,
              .result = y,
              .flags = flags,
              .finish = c->finish};
    return run(tape, c, &p, kernel, false);
}

td_status td__winograd_to_input(td_tape *tape, const td__conv *c, const float *dz,
                                const float *kernel, const float *bias, float *dx, int flags) {
    plan p = {.source = dz,
              .height = c->out[0],
              .width = c->out[1],
              .in = c->filters,
              .out = c->channels,
              .before = {2 - c->before[0], 2 - c->before[1]},
              .rows = c->height,
              .columns = c->width,
              .bias = bias,
              .result = dx,
              .flags = flags};
    return run(tape, c, &p, kernel, true);
}

/* Tiles of a slice: m[place] += v[place]^T u[place] */
static void sum_tiles(const plan *p, int64_t begin, int64_t end, float *room, float *sums) {
    float *v = room, *u = v + PLACES * p->in_stride, *patch = u + PLACES * p->out_stride;
    bool add = false;
    for (; begin < end; begin += p->block, add = true) {
        int64_t count = end - begin < p->block ? end - begin : p->block;
        transform_inputs(p, begin, count, v, patch);
        for (int64_t i = 0; i < count; i++) {
            tile t = tile_at(p, begin + i);
            p->kernels->winograd_gradient(p->out, p->gradient + result_at(p, &t),
                                          p->columns * p->out, t.rows, t.columns, u + i * p->out,
                                          p->out_stride);
        }
        for (int place = 0; place < PLACES; place++) {
            td__gemm_serial(&(td__gemm_arguments){.m = p->in,
                                                  .n = p->out,
                                                  .k = count,
                                                  .a = v + place * p->in_stride,
                                                  .lda = p->in,
                                                  .transpose_a = true,
                                                  .b = u + place * p->out_stride,
                                                  .ldb = p->out,
                                                  .c = sums + place * p->in * p->out,
                                                  .ldc = p->out,
                                                  .flags = add ? TD__TILE_ADD : 0},
                            NULL); /* whole vectors need no packing */
        }
    }
}

static void slice_part(void *context, int part, int64_t begin, int64_t end) {
    const plan *p = context;
    for (int64_t slice = begin; slice < end; slice++) {
        sum_tiles(p, p->tile_count * slice / p->slice_count,
                  p->tile_count * (slice + 1) / p->slice_count, p->rooms + part * p->room,
                  p->slices + slice * PLACES * p->in * p->out);
    }
}

td_status td__winograd_to_kernel(td_tape *tape, const td__conv *c, const float *x, const float *dz,
                                 bool add, float *dw) {
    plan p = {.source = x,
              .height = c->height,
              .width = c->width,
              .in = c->channels,
              .out = c->filters,
              .before = {c->before[0], c->before[1]},
              .rows = c->out[0],
              .columns = c->out[1],
              .gradient = dz,
              .slice_count = slice_count(c)};
    set_sizes(c, &p);
    int64_t sums = PLACES * p.in * p.out;
    int64_t floats = sums * p.slice_count + p.room * td_threads();
    td__buffer *memory = td__temporary(tape, (size_t)floats * sizeof(float));
    if (!memory) {
        return TD_MEMORY;
    }
    p.slices = memory->data;
    p.rooms = p.slices + sums * p.slice_count;
    int64_t work = p.tile_count / p.slice_count * sums;
    td__parallel(p.slice_count, 1, TD__PRODUCT_GRAIN / (work + 1) + 1, slice_part, &p);
    for (int64_t slice = 1; slice < p.slice_count; slice++) {
        p.kernels->add(sums, p.slices, p.slices + slice * sums, p.slices);
    }
    p.kernels->winograd_kernel_back(p.in * p.out, p.slices, add, dw);
    td__buffer_drop(tape, memory);
    return TD_OK;
}
