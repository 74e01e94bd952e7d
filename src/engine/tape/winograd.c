/* 3x3 convolutions of stride 1 with 36 multiplications for 16 results instead of 144 (Winograd's
 * F(4x4, 3x3)), or with 16 for four where images are small: y = A^T [ (G k G^T) * (B^T x B) ] A for each
 * tile, where * is a product of 36 or 16 matrices.
 *
 * The error is up to 2e-6 of the largest result with tiles of 4x4 and 5e-7 with tiles of 2x2, as with sums
 * written out: a test bounds both. TAPEDECK_WINOGRAD=off in the environment does without. Results have the
 * same bits for every number of threads.
 */
#include "tape/conv.h"

#include "tape/gemm.h"
#include "tape/parallel.h"
#include "tape/prepared.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_PLACES = 36,         /* values of a transformed tile */
    BLOCK_FLOATS = 131072,   /* of a block's transformed tiles: 512 KiB */
    MIN_BLOCK = 56,          /* tiles, where there are many channels */
    MAX_SLICES = 8,          /* of a sum over all tiles, whatever the number of threads */
    SLICES_FLOATS = 1 << 22, /* all of them: 16 MiB */
    MIN_SLICES = 4
};

static bool switched_off;

static void look_at_switch(void) {
    const char *wish = getenv("TAPEDECK_WINOGRAD");
    switched_off = wish && strcmp(wish, "off") == 0;
}

/* Results of an image: below, transforming the kernel may cost more than tiles with this side save. Not of
 * a batch: an example's results do not depend on its company. */
static int64_t worth_results(int side) {
    return side == 4 ? 96 : 64;
}

static int64_t place_count(const td__winograd_kernels *w) {
    return (int64_t)(w->side + 2) * (w->side + 2);
}

static int64_t slice_count(const td__conv *c, const td__winograd_kernels *w) {
    int64_t fit = SLICES_FLOATS / (place_count(w) * c->channels * c->filters);
    return fit < MAX_SLICES ? fit : MAX_SLICES;
}

/* The tiles for a convolution; NULL: none. */
static const td__winograd_kernels *find_tiles(const td__conv *c, bool to_kernel) {
    const td__kernels_table *kernels = td__kernels();
    for (size_t i = 0; i < sizeof kernels->winograd / sizeof kernels->winograd[0]; i++) {
        const td__winograd_kernels *w = &kernels->winograd[i];
        if (c->out[0] * c->out[1] >= worth_results(w->side) &&
            (!to_kernel || slice_count(c, w) >= MIN_SLICES)) {
            return w;
        }
    }
    return NULL;
}

static bool winograd_fits(const td__conv *c, td__conv_way way) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, look_at_switch);
    int lanes = td__kernels()->vector_width;
    bool shape = c->groups == 1 && c->channels % lanes == 0 && c->filters % lanes == 0;
    for (int axis = 0; axis < 2; axis++) {
        shape = shape && c->kernel[axis] == 3 && c->stride[axis] == 1 && c->dilation[axis] == 1 &&
                c->before[axis] <= 2;
    }
    return shape && !switched_off && c->channels > 0 && c->filters > 0 &&
           find_tiles(c, way == TD__CONV_TO_KERNEL);
}

/* One direction, from a source image (in channels) to results (out channels). */
typedef struct plan {
    const td__kernels_table *kernels;
    const td__winograd_kernels *tiles;
    int64_t places; /* values of a transformed tile */
    const float *source;
    int64_t height, width, in, out;
    int64_t before[2]; /* a tile's first pixel is at side * tile - before */
    int64_t rows, columns, tile_columns, tiles_of_image, tile_count;
    int64_t block;                 /* tiles transformed at a time */
    int64_t in_stride, out_stride; /* floats between the places of a block */
    td__panels panels[MAX_PLACES]; /* the transformed kernel */
    const float *bias;
    float *result;
    const float *gradient;
    int flags;
    td__finish finish;
    float *rooms; /* of each thread: a block of tiles, a block of results, a patch */
    int64_t room;
    float *slices; /* (slices, places, in, out) */
    int64_t slice_count;
} plan;

/* A tile: its results at (row, column) of an image. */
typedef struct tile {
    int64_t image, row, column;
    int rows, columns; /* results inside */
} tile;

static void set_sizes(const td__conv *c, plan *p) {
    int64_t side = p->tiles->side;
    p->kernels = td__kernels();
    p->places = place_count(p->tiles);
    p->tile_columns = (p->columns + side - 1) / side;
    p->tiles_of_image = (p->rows + side - 1) / side * p->tile_columns;
    p->tile_count = c->batch * p->tiles_of_image;
    int64_t unit = p->kernels->tile_rows, block = BLOCK_FLOATS / (p->places * (p->in + p->out));
    block = block > MIN_BLOCK ? block : MIN_BLOCK;
    p->block = (block + unit - 1) / unit * unit;
    /* A vector more: places that are a multiple of 4 KiB apart would share a few cache lines. */
    p->in_stride = p->block * p->in + p->kernels->vector_width;
    p->out_stride = p->block * p->out + p->kernels->vector_width;
    p->room = p->places * (p->in_stride + p->out_stride + p->in);
}

static tile tile_at(const plan *p, int64_t number) {
    int64_t within = number % p->tiles_of_image, side = p->tiles->side;
    tile t = {.image = number / p->tiles_of_image,
              .row = within / p->tile_columns * side,
              .column = within % p->tile_columns * side};
    t.rows = (int)(p->rows - t.row < side ? p->rows - t.row : side);
    t.columns = (int)(p->columns - t.column < side ? p->columns - t.column : side);
    return t;
}

/* The tile's pixels with zeros where there is no image. */
static void copy_patch(const plan *p, const tile *t, float *patch) {
    size_t bytes = (size_t)p->in * sizeof(float);
    int64_t n = p->tiles->side + 2;
    for (int64_t i = 0; i < p->places; i++, patch += p->in) {
        int64_t y = t->row - p->before[0] + i / n, x = t->column - p->before[1] + i % n;
        if (y < 0 || y >= p->height || x < 0 || x >= p->width) {
            memset(patch, 0, bytes);
        } else {
            memcpy(patch, p->source + ((t->image * p->height + y) * p->width + x) * p->in, bytes);
        }
    }
}

/* Tiles [begin, begin + count) to v: (places, count, in). */
static void transform_inputs(const plan *p, int64_t begin, int64_t count, float *v, float *patch) {
    int64_t n = p->tiles->side + 2;
    for (int64_t i = 0; i < count; i++) {
        tile t = tile_at(p, begin + i);
        int64_t y = t.row - p->before[0], x = t.column - p->before[1];
        if (y >= 0 && y + n <= p->height && x >= 0 && x + n <= p->width) {
            p->tiles->input(p->in, p->source + ((t.image * p->height + y) * p->width + x) * p->in,
                            p->width * p->in, v + i * p->in, p->in_stride);
        } else {
            copy_patch(p, &t, patch);
            p->tiles->input(p->in, patch, n * p->in, v + i * p->in, p->in_stride);
        }
    }
}

static int64_t result_at(const plan *p, const tile *t) {
    return ((t->image * p->rows + t->row) * p->columns + t->column) * p->out;
}

static void multiply_part(void *context, int part, int64_t begin, int64_t end) {
    const plan *p = context;
    float *v = p->rooms + part * p->room, *m = v + p->places * p->in_stride;
    float *patch = m + p->places * p->out_stride;
    for (; begin < end; begin += p->block) {
        int64_t count = end - begin < p->block ? end - begin : p->block;
        transform_inputs(p, begin, count, v, patch);
        for (int place = 0; place < p->places; place++) {
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
            p->tiles->output(p->out, m + i * p->out, p->out_stride, p->bias, t.rows, t.columns,
                             p->result + result_at(p, &t), p->columns * p->out, p->flags);
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
    for (int place = 0; place < p->places; place++) {
        float *to = packing + place * packed;
        if (keep) {
            td__pack(u + place * pairs, ld, transposed, p->out, p->in, to);
        } else {
            p->panels[place] = td__panels_of(u + place * pairs, ld, transposed, p->out, p->in, to);
        }
    }
}

/* transposed: panels of a kernel whose rows are the results' channels. */
static td_status run_winograd(td_tape *tape, const td__conv *c, plan *p, const float *kernel,
                              bool transposed) {
    set_sizes(c, p);
    int64_t pairs = p->in * p->out, width = p->kernels->panel_width;
    int64_t packed = (int64_t)(td__panels_bytes(p->out, p->in) / sizeof(float));
    td__prepared *kept = c->kernel_is_weight && !transposed
                             ? td__prepare(tape, kernel, TD__PREPARED_WINOGRAD,
                                           (size_t)(p->places * packed) * sizeof(float))
                             : NULL;
    bool made = kept && kept->made;
    int64_t floats = (made ? 0 : p->places * (pairs + packed)) + p->room * td_threads();
    td__buffer *memory = td__temporary(tape, (size_t)floats * sizeof(float));
    if (!memory) {
        return TD_MEMORY;
    }
    p->rooms = memory->data;
    float *u = p->rooms + p->room * td_threads(),
          *panels = kept ? kept->data : u + p->places * pairs;
    if (!made) {
        p->tiles->kernel(pairs, kernel, transposed, u);
        make_panels(p, transposed, packed, kept, u, panels);
    }
    for (int place = 0; kept && place < p->places; place++) {
        p->panels[place] = (td__panels){panels + place * packed, p->in * width, width};
        kept->made = true;
    }
    int64_t work = p->places * pairs;
    td__parallel(p->tile_count, 1, TD__PRODUCT_GRAIN / work + 1, multiply_part, p);
    td__buffer_drop(tape, memory);
    return TD_OK;
}

/* From the convolution's input to its output. */
static plan forward_plan(const td__conv *c, bool for_kernel, const float *x) {
    return (plan){.tiles = find_tiles(c, for_kernel),
                  .source = x,
                  .height = c->height,
                  .width = c->width,
                  .in = c->channels,
                  .out = c->filters,
                  .before = {c->before[0], c->before[1]},
                  .rows = c->out[0],
                  .columns = c->out[1]};
}

static td_status winograd_forward(td_tape *tape, const td__conv *c, const float *x,
                                  const float *kernel, const float *bias, float *y, int flags) {
    plan p = forward_plan(c, false, x);
    p.bias = bias;
    p.result = y;
    p.flags = flags;
    p.finish = c->finish;
    return run_winograd(tape, c, &p, kernel, false);
}

static td_status winograd_to_input(td_tape *tape, const td__conv *c, const float *dz,
                                   const float *kernel, const float *bias, float *dx, int flags) {
    plan p = {.tiles = find_tiles(c, false),
              .source = dz,
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
    return run_winograd(tape, c, &p, kernel, true);
}

/* Tiles of a slice: m[place] += v[place]^T u[place] */
static void sum_tiles(const plan *p, int64_t begin, int64_t end, float *room, float *sums) {
    float *v = room, *u = v + p->places * p->in_stride, *patch = u + p->places * p->out_stride;
    bool add = false;
    for (; begin < end; begin += p->block, add = true) {
        int64_t count = end - begin < p->block ? end - begin : p->block;
        transform_inputs(p, begin, count, v, patch);
        for (int64_t i = 0; i < count; i++) {
            tile t = tile_at(p, begin + i);
            p->tiles->gradient(p->out, p->gradient + result_at(p, &t), p->columns * p->out, t.rows,
                               t.columns, u + i * p->out, p->out_stride);
        }
        for (int place = 0; place < p->places; place++) {
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
                  p->slices + slice * p->places * p->in * p->out);
    }
}

static td_status winograd_to_kernel(td_tape *tape, const td__conv *c, const float *x,
                                    const float *dz, bool add, float *dw) {
    plan p = forward_plan(c, true, x);
    p.gradient = dz;
    p.slice_count = slice_count(c, p.tiles);
    set_sizes(c, &p);
    int64_t sums = p.places * p.in * p.out;
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
    p.tiles->kernel_back(p.in * p.out, p.slices, add, dw);
    td__buffer_drop(tape, memory);
    return TD_OK;
}

const td__conv_strategy td__winograd = {.fits = winograd_fits,
                                        .forward = winograd_forward,
                                        .to_input = winograd_to_input,
                                        .to_kernel = winograd_to_kernel};
