/* Convolutions in many small groups, of which the depthwise one is the smallest.
 *
 * A tile of gemm.h would leave most of a register empty there. So lanes are channels of the result, and
 * a group's input channels become layers: layer d holds, under each result channel, the d-th input
 * channel of its group. Then every channel stands alone, and a tap is a row, a column and a layer. A few
 * rows at a time are laid out like that, with their border, in a strip that stays in the cache.
 *
 * Sums have the same order, and results the same bits, for every number of threads.
 */
#include "tape/conv.h"

#include "tape/kernels.h"
#include "tape/parallel.h"

#include <string.h>

enum {
    WIDEST_GROUP = 8,     /* channels or filters: from there on tiles fill their registers */
    BLOCK_VECTORS = 4,    /* of a pixel in a strip, over all layers or one */
    STRIP_FLOATS = 24576, /* of a thread: 96 KiB */
    SLICES = 16           /* of a sum over all pixels, whatever the number of threads */
};

static bool channelwise_fits(const td__conv *c, td__conv_way way) {
    (void)way;
    return c->groups > 1 && c->channels / c->groups <= WIDEST_GROUP &&
           c->filters / c->groups <= WIDEST_GROUP;
}

/* One direction: results at pixels (b, i, j), from taps at source pixels
 * (b, i * step[0] + first[0] + …, j * step[1] + first[1] + …). Channels of the result go in blocks of
 * taps.width; a strip has one block. */
typedef struct plan {
    const td__kernels_table *kernels;
    const float *source; /* (batch, height, width, groups * in) */
    int64_t height, width, groups, in, out;
    int64_t rows, columns; /* results of an image */
    int64_t step[2], first[2];
    int64_t extent[2]; /* source rows and columns under one result */
    int64_t blocks;
    td__taps taps;
    int64_t strip_rows, strip_width, strip_pixel; /* results in it; its row in pixels; floats */
    int64_t strip_floats;
    /* Memory of one kernel. */
    td__buffer *memory;
    int64_t *offsets;
    int32_t *index;        /* of each result channel: where its layers begin in a source pixel */
    float *weights, *bias; /* (blocks, taps, taps.width), (blocks, taps.width); bias may be NULL */
    float *strips;         /* of each thread */
    /* Where results go, or gradients come from. */
    float *result;
    const float *gradient;
    int64_t image_stride, row_stride, pixel_stride;
    int flags;
    float *slices; /* (slices, blocks, taps, taps.width) */
    td__finish finish;
} plan;

static int64_t min(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Floats of all weights. */
static int64_t weight_floats(const plan *p) {
    return p->blocks * p->taps.count * p->taps.width;
}

static void set_strip_size(plan *p) {
    int64_t lanes = p->kernels->vector_width, channels = p->groups * p->out;
    int64_t vectors = min((channels + lanes - 1) / lanes, p->in > 2 ? 1 : BLOCK_VECTORS / p->in);
    p->taps.width = vectors * lanes;
    p->blocks = (channels + p->taps.width - 1) / p->taps.width;
    p->strip_pixel = p->in * p->taps.width;
    p->strip_width = (p->columns - 1) * p->step[1] + p->extent[1];
    p->taps.step = p->step[1] * p->strip_pixel;
    int64_t source_rows = STRIP_FLOATS / (p->strip_width * p->strip_pixel);
    int64_t rows = source_rows > p->extent[0] ? (source_rows - p->extent[0]) / p->step[0] + 1 : 1;
    p->strip_rows = min(rows, p->rows);
    p->strip_floats =
        ((p->strip_rows - 1) * p->step[0] + p->extent[0]) * p->strip_width * p->strip_pixel;
}

/* What follows from the taps' extent, and memory. taps.count is the most there can be. */
static td_status prepare_plan(td_tape *tape, plan *p, const float *bias, int64_t slices) {
    p->kernels = td__kernels();
    set_strip_size(p);
    int64_t padded = p->blocks * p->taps.width, channels = p->groups * p->out;
    int64_t offsets = p->taps.count * (int64_t)(sizeof(int64_t) / sizeof(float));
    int64_t floats = offsets + 2 * padded + p->strip_floats * td_threads() +
                     weight_floats(p) * (slices ? slices : 1);
    p->memory = td__temporary(tape, (size_t)floats * sizeof(float));
    if (!p->memory) {
        return TD_MEMORY;
    }
    p->offsets = (int64_t *)(void *)p->memory->data;
    p->taps.offsets = p->offsets;
    p->index = (int32_t *)(void *)(p->memory->data + offsets);
    for (int64_t c = 0; c < padded; c++) {
        p->index[c] = (int32_t)(min(c, channels - 1) / p->out * p->in);
    }
    float *at = p->memory->data + offsets + padded;
    if (bias) {
        p->bias = at;
        memset(at, 0, (size_t)padded * sizeof *at);
        memcpy(at, bias, (size_t)channels * sizeof *at);
    }
    p->strips = at + padded;
    p->weights = p->slices = p->strips + p->strip_floats * td_threads();
    return TD_OK;
}

/* Lays out a block of source rows [row, row + rows) of an image, columns from first[1] on. */
static void fill_strip(const plan *p, int64_t image, int64_t row, int64_t rows, int64_t block,
                       float *to) {
    int64_t channels = p->groups * p->in, pixel = p->strip_pixel;
    int64_t left = p->first[1] < 0 ? -p->first[1] : 0, from = p->first[1] + left;
    left = min(left, p->strip_width);
    int64_t columns = min(p->width - from, p->strip_width - left);
    columns = columns > 0 ? columns : 0;
    int64_t right = p->strip_width - left - columns;
    for (int64_t i = row; i < row + rows; i++, to += p->strip_width * pixel) {
        if (i < 0 || i >= p->height || columns == 0) {
            memset(to, 0, (size_t)(p->strip_width * pixel) * sizeof *to);
            continue;
        }
        memset(to, 0, (size_t)(left * pixel) * sizeof *to);
        p->kernels->spread_channels(
            columns, channels, p->in, p->taps.width, p->index + block * p->taps.width,
            p->source + ((image * p->height + i) * p->width + from) * channels, to + left * pixel);
        memset(to + (left + columns) * pixel, 0, (size_t)(right * pixel) * sizeof *to);
    }
}

/* Result rows [row, row + rows) of an image and a block of channels. */
typedef struct strip_piece {
    int64_t image, row, rows, block;
    td__taps taps;
    const float *strip;
} strip_piece;

typedef void piece_body(const plan *p, const strip_piece *piece, float *sums);

/* Result rows [begin, end) of all images after each other, strip by strip. */
static void each_piece(const plan *p, int part, int64_t begin, int64_t end, piece_body *body,
                       float *sums) {
    float *strip = p->strips + part * p->strip_floats;
    while (begin < end) {
        strip_piece piece = {.image = begin / p->rows, .row = begin % p->rows, .strip = strip};
        piece.rows = min(min(end - begin, p->rows - piece.row), p->strip_rows);
        for (piece.block = 0; piece.block < p->blocks; piece.block++) {
            int64_t done = piece.block * p->taps.width;
            piece.taps = p->taps;
            piece.taps.channels = min(p->groups * p->out - done, p->taps.width);
            fill_strip(p, piece.image, piece.row * p->step[0] + p->first[0],
                       (piece.rows - 1) * p->step[0] + p->extent[0], piece.block, strip);
            body(p, &piece, sums);
        }
        if (p->finish.activation != TD_LINEAR) {
            td__finish_run(&p->finish, piece.rows * p->row_stride,
                           p->result + piece.image * p->image_stride + piece.row * p->row_stride);
        }
        begin += piece.rows;
    }
}

static void multiply_piece(const plan *p, const strip_piece *piece, float *sums) {
    (void)sums;
    int64_t channel = piece->block * p->taps.width;
    const float *strip = piece->strip;
    float *result =
        p->result + piece->image * p->image_stride + piece->row * p->row_stride + channel;
    for (int64_t i = 0; i < piece->rows; i++, result += p->row_stride) {
        p->kernels->taps(p->columns, &piece->taps, strip, p->weights + channel * p->taps.count,
                         p->bias ? p->bias + channel : NULL, result, p->pixel_stride, p->flags);
        strip += p->step[0] * p->strip_width * p->strip_pixel;
    }
}

static void multiply_part(void *context, int part, int64_t begin, int64_t end) {
    each_piece(context, part, begin, end, multiply_piece, NULL);
}

static void multiply(plan *p, int64_t batch) {
    int64_t work = p->columns * (p->taps.count + p->in) * p->groups * p->out; /* per row */
    td__parallel(batch * p->rows, 1, TD__PRODUCT_GRAIN / (work + 1) + 1, multiply_part, p);
}

/* Where the weights of tap t are, of channels [c, …) to the end of their block. */
static float *weight_at(const plan *p, int64_t t, int64_t c) {
    int64_t block = c / p->taps.width;
    return p->weights + (block * p->taps.count + t) * p->taps.width + c % p->taps.width;
}

/* --- forward -------------------------------------------------------------------------------- */

static plan forward_plan(const td__conv *c, const float *x) {
    plan p = {.source = x,
              .height = c->height,
              .width = c->width,
              .groups = c->groups,
              .in = c->channels / c->groups,
              .out = c->filters / c->groups,
              .rows = c->out[0],
              .columns = c->out[1],
              .image_stride = c->out[0] * c->out[1] * c->filters,
              .row_stride = c->out[1] * c->filters,
              .pixel_stride = c->filters};
    p.taps.count = c->kernel[0] * c->kernel[1] * p.in;
    p.taps.g_step = c->filters;
    for (int axis = 0; axis < 2; axis++) {
        p.step[axis] = c->stride[axis];
        p.first[axis] = -c->before[axis];
        p.extent[axis] = (c->kernel[axis] - 1) * c->dilation[axis] + 1;
    }
    return p;
}

/* Taps in the kernel's own order: rows, columns, layers. */
static void set_forward_offsets(const td__conv *c, plan *p) {
    for (int64_t t = 0; t < p->taps.count; t++) {
        int64_t layer = t % p->in, column = t / p->in % c->kernel[1];
        int64_t row = t / p->in / c->kernel[1];
        p->offsets[t] =
            (row * c->dilation[0] * p->strip_width + column * c->dilation[1]) * p->strip_pixel +
            layer * p->taps.width;
    }
}

static td_status channelwise_forward(td_tape *tape, const td__conv *c, const float *x,
                                     const float *kernel, const float *bias, float *y, int flags) {
    plan p = forward_plan(c, x);
    p.result = y;
    p.finish = c->finish;
    p.flags = flags;
    if (prepare_plan(tape, &p, bias, 0)) {
        return TD_MEMORY;
    }
    set_forward_offsets(c, &p);
    memset(p.weights, 0, (size_t)weight_floats(&p) * sizeof(float));
    for (int64_t t = 0; t < p.taps.count; t++) {
        for (int64_t n = 0; n < c->filters; n += p.taps.width) {
            memcpy(weight_at(&p, t, n), kernel + t * c->filters + n,
                   (size_t)min(c->filters - n, p.taps.width) * sizeof(float));
        }
    }
    multiply(&p, c->batch);
    td__buffer_drop(tape, p.memory);
    return TD_OK;
}

/* --- backward to the input ------------------------------------------------------------------ */

/* Along one axis and phase: the first source pixel under result 0, how many lie under a result, and how
 * many taps count. */
typedef struct phase_axis {
    int64_t first, extent, taps;
} phase_axis;

static phase_axis phase_of(const td__conv *c, int axis, int64_t phase) {
    phase_axis found = {.extent = 1};
    int64_t last = 0, shift;
    for (int64_t tap = 0; tap < c->kernel[axis]; tap++) {
        if (td__conv_tap_shift(c, axis, phase, tap, &shift)) {
            last = found.taps && last > shift ? last : shift;
            found.first = found.taps ? min(found.first, shift) : shift;
            found.extent = last - found.first + 1;
            found.taps++;
        }
    }
    return found;
}

/* weights[tap, layer o, g * in + d] = kernel[tap, d, g * out + o], of the taps that count */
static void set_backward_taps(const td__conv *c, const float *kernel, const int64_t phase[2],
                              plan *p) {
    int64_t depth = p->out, n = p->in, count = 0, shift[2];
    memset(p->weights, 0, (size_t)weight_floats(p) * sizeof(float));
    for (int64_t tap = 0; tap < c->kernel[0] * c->kernel[1]; tap++) {
        if (!td__conv_tap_shift(c, 0, phase[0], tap / c->kernel[1], &shift[0]) ||
            !td__conv_tap_shift(c, 1, phase[1], tap % c->kernel[1], &shift[1])) {
            continue;
        }
        for (int64_t layer = 0; layer < n; layer++, count++) {
            p->offsets[count] =
                ((shift[0] - p->first[0]) * p->strip_width + shift[1] - p->first[1]) *
                    p->strip_pixel +
                layer * p->taps.width;
            for (int64_t i = 0; i < c->channels; i++) {
                *weight_at(p, count, i) =
                    kernel[(tap * depth + i % depth) * c->filters + i / depth * n + layer];
            }
        }
    }
}

static td_status phase_to_input(td_tape *tape, const td__conv *c, const float *dz,
                                const float *kernel, const float *bias, const int64_t phase[2],
                                float *dx, int flags) {
    phase_axis rows = phase_of(c, 0, phase[0]), columns = phase_of(c, 1, phase[1]);
    plan p = {.source = dz,
              .height = c->out[0],
              .width = c->out[1],
              .groups = c->groups,
              .in = c->filters / c->groups,
              .out = c->channels / c->groups,
              .rows = (c->height - phase[0] + c->stride[0] - 1) / c->stride[0],
              .columns = (c->width - phase[1] + c->stride[1] - 1) / c->stride[1],
              .step = {1, 1},
              .first = {rows.first, columns.first},
              .extent = {rows.extent, columns.extent},
              .result = dx + (phase[0] * c->width + phase[1]) * c->channels,
              .image_stride = c->height * c->width * c->channels,
              .row_stride = c->stride[0] * c->width * c->channels,
              .pixel_stride = c->stride[1] * c->channels,
              .flags = flags};
    p.taps.count = rows.taps * columns.taps * p.in;
    if (prepare_plan(tape, &p, bias, 0)) {
        return TD_MEMORY;
    }
    set_backward_taps(c, kernel, phase, &p);
    multiply(&p, c->batch);
    td__buffer_drop(tape, p.memory);
    return TD_OK;
}

static td_status channelwise_to_input(td_tape *tape, const td__conv *c, const float *dz,
                                      const float *kernel, const float *bias, float *dx,
                                      int flags) {
    td_status status = TD_OK;
    int64_t phase[2];
    for (phase[0] = 0; phase[0] < c->stride[0] && phase[0] < c->height; phase[0]++) {
        for (phase[1] = 0; phase[1] < c->stride[1] && phase[1] < c->width && !status; phase[1]++) {
            status = phase_to_input(tape, c, dz, kernel, bias, phase, dx, flags);
        }
    }
    return status;
}

/* --- backward to the kernel ----------------------------------------------------------------- */

static void sum_piece(const plan *p, const strip_piece *piece, float *sums) {
    int64_t channel = piece->block * p->taps.width;
    p->kernels->taps_backward(piece->rows, p->columns, &piece->taps, piece->strip,
                              p->step[0] * p->strip_width * p->strip_pixel,
                              p->gradient + piece->image * p->image_stride +
                                  piece->row * p->row_stride + channel,
                              p->row_stride, sums + channel * p->taps.count);
}

typedef struct slice_work {
    const plan *plan;
    int64_t rows, count;
} slice_work;

static void slice_part(void *context, int part, int64_t begin, int64_t end) {
    const slice_work *w = context;
    const plan *p = w->plan;
    int64_t size = weight_floats(p);
    for (int64_t slice = begin; slice < end; slice++) {
        float *sums = p->slices + slice * size;
        memset(sums, 0, (size_t)size * sizeof *sums);
        each_piece(p, part, w->rows * slice / w->count, w->rows * (slice + 1) / w->count, sum_piece,
                   sums);
    }
}

static td_status channelwise_to_kernel(td_tape *tape, const td__conv *c, const float *x,
                                       const float *dz, bool add, float *dw) {
    plan p = forward_plan(c, x);
    p.gradient = dz;
    slice_work work = {.plan = &p, .rows = c->batch * c->out[0]};
    work.count = min(work.rows, SLICES);
    if (prepare_plan(tape, &p, NULL, work.count)) {
        return TD_MEMORY;
    }
    set_forward_offsets(c, &p);
    int64_t size = weight_floats(&p);
    int64_t each = work.rows / work.count * c->out[1] * size;
    td__parallel(work.count, 1, TD__PRODUCT_GRAIN / (each + 1) + 1, slice_part, &work);
    for (int64_t slice = 1; slice < work.count; slice++) {
        p.kernels->add(size, p.slices, p.slices + slice * size, p.slices);
    }
    for (int64_t t = 0; t < p.taps.count; t++) {
        for (int64_t n = 0; n < c->filters; n += p.taps.width) {
            int64_t count = min(c->filters - n, p.taps.width);
            float *to = dw + t * c->filters + n;
            const float *from = weight_at(&p, t, n);
            if (add) {
                p.kernels->add(count, to, from, to);
            } else {
                memcpy(to, from, (size_t)count * sizeof *to);
            }
        }
    }
    td__buffer_drop(tape, p.memory);
    return TD_OK;
}

const td__conv_strategy td__channelwise = {.fits = channelwise_fits,
                                           .forward = channelwise_forward,
                                           .to_input = channelwise_to_input,
                                           .to_kernel = channelwise_to_kernel};
