/* Convolution through tiles; see conv.h. */
#include "tape/conv.h"

#include "tape/gemm.h"
#include "tape/parallel.h"
#include "tape/prepared.h"

#include <string.h>

enum {
    MAXIMUM_TILE_ROWS = 16,
    LONGEST_SUM = 640,
    FEW_ROWS = 8,
    SUM_GRAIN = 1000000 /* multiply-adds that are worth another sum over pixels */
};

bool td__conv_axis(int64_t size, int64_t kernel, int64_t stride, int64_t dilation,
                   td_padding padding, int64_t *out, int64_t *before) {
    int64_t reach = (kernel - 1) * dilation + 1;
    if (padding == TD_PADDING_VALID) {
        *out = size < reach ? 0 : (size - reach) / stride + 1;
        *before = 0;
        return size >= reach;
    }
    *out = (size + stride - 1) / stride;
    if (padding == TD_PADDING_CAUSAL) {
        *before = reach - 1;
        return true;
    }
    int64_t total = (*out - 1) * stride + reach - size;
    *before = total > 0 ? total / 2 : 0;
    return true;
}

/* --- padded images ------------------------------------------------------------------------- */

/* An image with a border of zeros. Without a border it is the image itself. */
typedef struct image {
    const float *data;
    int64_t height, width, channels;
    int64_t first_row, last_row; /* rows outside [first_row, last_row) are zeros */
    td__buffer *memory;          /* NULL: not a copy */
} image;

typedef struct pad_work {
    const float *from;
    int64_t height, width, channels, top, left;
    float *to;
    int64_t to_height, to_width;
} pad_work;

/* Rows of the padded image, all images after each other. */
static void pad_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const pad_work *w = context;
    size_t pixel = (size_t)w->channels * sizeof(float);
    for (int64_t row = begin; row < end; row++) {
        int64_t y = row % w->to_height - w->top;
        char *to = (char *)(w->to + row * w->to_width * w->channels);
        if (y < 0 || y >= w->height) {
            memset(to, 0, (size_t)w->to_width * pixel);
            continue;
        }
        const float *from = w->from + (row / w->to_height * w->height + y) * w->width * w->channels;
        memset(to, 0, (size_t)w->left * pixel);
        memcpy(to + (size_t)w->left * pixel, from, (size_t)w->width * pixel);
        memset(to + (size_t)(w->left + w->width) * pixel, 0,
               (size_t)(w->to_width - w->left - w->width) * pixel);
    }
}

static td_status pad_image(td_tape *tape, const float *from, int64_t batch, int64_t height,
                           int64_t width, int64_t channels, const int64_t before[2],
                           const int64_t after[2], image *out) {
    *out = (image){.data = from,
                   .height = height,
                   .width = width,
                   .channels = channels,
                   .first_row = before[0],
                   .last_row = before[0] + height};
    if (before[0] == 0 && before[1] == 0 && after[0] <= 0 && after[1] <= 0) {
        return TD_OK;
    }
    out->height = height + before[0] + (after[0] > 0 ? after[0] : 0);
    out->width = width + before[1] + (after[1] > 0 ? after[1] : 0);
    out->memory =
        td__temporary(tape, (size_t)(batch * out->height * out->width * channels) * sizeof(float));
    if (!out->memory) {
        return TD_MEMORY;
    }
    out->data = out->memory->data;
    pad_work work = {.from = from,
                     .height = height,
                     .width = width,
                     .channels = channels,
                     .top = before[0],
                     .left = before[1],
                     .to = out->memory->data,
                     .to_height = out->height,
                     .to_width = out->width};
    td__parallel(batch * out->height, 1, TD__GRAIN / (out->width * channels + 1) + 1, pad_part,
                 &work);
    return TD_OK;
}

static void drop_buffer(td_tape *tape, td__buffer *buffer) {
    if (buffer) {
        td__buffer_drop(tape, buffer);
    }
}

/* --- patches times panels ------------------------------------------------------------------ */

/* Results at pixels (b, i, j), 0 <= i < rows, 0 <= j < columns:
 * result[b, i, j, :] = bias + sum over taps of source[b, i * step[0] + …, j * step[1] + …] * panels
 */
typedef struct patches {
    const td__kernels_table *kernels;
    image source;
    int64_t rows, columns;
    int64_t step[2];
    int64_t segments, segment;
    const int64_t *offsets; /* of each segment from the pixel's place in the source; ascending by
                               row */
    const float *panels;    /* (panel, segments * segment, panel_width) */
    const float *bias;      /* filled up to whole panels, or NULL */
    int64_t n;              /* columns of the product */
    float *result;
    int64_t image_stride, row_stride, pixel_stride;
    int flags;
    td__finish finish;
} patches;

/* A tile being collected: pixels that lie evenly in the result and use the same segments. */
typedef struct patch_tile {
    int count;
    const float *starts[MAXIMUM_TILE_ROWS];
    float *result;
    int64_t first, last; /* segments */
} patch_tile;

/* Segments [first, first + count) from `within` on, `length` floats of each, times all panels. */
static void multiply_tile(const patches *p, const patch_tile *tile, int64_t first, int64_t count,
                          int64_t within, int64_t length, int flags) {
    int64_t width = p->kernels->panel_width, k = p->segments * p->segment, offset;
    const int64_t *offsets = p->offsets + first;
    if (within > 0) {
        offset = *offsets + within;
        offsets = &offset;
    }
    bool begins = first == tile->first && within == 0;
    for (int64_t column = 0; column < p->n; column += width) {
        int columns = (int)(p->n - column < width ? p->n - column : width);
        p->kernels->tile_dot(tile->count, columns, count, length, offsets, tile->starts,
                             p->panels + column * k + (first * p->segment + within) * width, width,
                             p->bias && begins ? p->bias + column : NULL, tile->result + column,
                             p->pixel_stride, begins ? flags : flags | TD__TILE_ADD);
    }
}

/* Multiplies what was collected, all at once or, where sums are long, in blocks: sums of sums lose fewer
 * digits. */
static void flush_tile(const patches *p, patch_tile *tile) {
    int64_t count = tile->last - tile->first, within = 0;
    if (tile->count > 0 && count * p->segment <= LONGEST_SUM) {
        multiply_tile(p, tile, tile->first, count, 0, p->segment, p->flags);
    } else if (tile->count > 0) {
        for (int64_t s = tile->first; s < tile->last; s += count) {
            count = LONGEST_SUM / p->segment;
            count = count < 1 ? 1 : count < tile->last - s ? count : tile->last - s;
            for (int64_t length; within < p->segment; within += length) {
                length = p->segment - within < LONGEST_SUM ? p->segment - within : LONGEST_SUM;
                bool ends = s + count == tile->last && within + length == p->segment;
                multiply_tile(p, tile, s, count, within, length,
                              ends ? p->flags : p->flags & ~TD__TILE_ENDS);
            }
            within = 0;
        }
    }
    if (p->pixel_stride == p->n) {
        td__finish_run(&p->finish, tile->count * p->n, tile->result);
    } else {
        for (int i = 0; i < tile->count; i++) {
            td__finish_run(&p->finish, p->n, tile->result + i * p->pixel_stride);
        }
    }
    tile->count = 0;
}

/* The segments of a row of pixels that are not all in the border above or below. */
static void used_segments(const patches *p, int64_t row, int64_t *first, int64_t *last) {
    int64_t stride = p->source.width * p->source.channels;
    *first = 0;
    *last = p->segments;
    while (*first < *last && row + p->offsets[*first] / stride < p->source.first_row) {
        ++*first;
    }
    while (*last > *first && row + p->offsets[*last - 1] / stride >= p->source.last_row) {
        --*last;
    }
}

/* Pixels [begin, end) of all images' rows after each other. Where results of consecutive rows are
 * contiguous, a tile may go over the end of a row. */
static void patch_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const patches *p = context;
    bool flat =
        p->row_stride == p->columns * p->pixel_stride && p->image_stride == p->rows * p->row_stride;
    int64_t source_row = p->source.width * p->source.channels;
    patch_tile tile = {.last = -1};
    for (int64_t next; begin < end; begin = next) {
        int64_t row = begin / p->columns, b = row / p->rows, i = row % p->rows, first, last;
        next = (row + 1) * p->columns < end ? (row + 1) * p->columns : end;
        used_segments(p, i * p->step[0], &first, &last);
        if (!flat || first != tile.first || last != tile.last) {
            flush_tile(p, &tile);
            tile.first = first;
            tile.last = last;
        }
        const float *start = p->source.data + (b * p->source.height + i * p->step[0]) * source_row;
        float *result = p->result + b * p->image_stride + i * p->row_stride;
        for (int64_t j = begin - row * p->columns; j < next - row * p->columns; j++) {
            if (tile.count == 0) {
                tile.result = result + j * p->pixel_stride;
            }
            tile.starts[tile.count++] = start + j * p->step[1] * p->source.channels;
            if (tile.count == p->kernels->tile_rows) {
                flush_tile(p, &tile);
            }
        }
    }
    flush_tile(p, &tile);
}

static void run_patches(patches *p, int64_t batch) {
    int64_t work = p->segments * p->segment * p->n, rows = batch * p->rows;
    /* Whole rows, unless they are so few that threads would have nothing to do. */
    int64_t step = rows < FEW_ROWS * td_threads() ? p->kernels->tile_rows : p->columns;
    td__parallel(rows * p->columns, step, TD__PRODUCT_GRAIN / (work + 1) + 1, patch_part, p);
}

/* Memory for packed panels, a padded bias, and offsets. */
typedef struct pack {
    td__buffer *memory;
    float *panels, *bias;
    int64_t *offsets;
} pack;

static td_status make_pack(td_tape *tape, int64_t n, int64_t k, int64_t segments, const float *bias,
                           pack *out) {
    size_t panels = td__panels_bytes(n, k), bias_bytes = td__panels_bytes(n, 1);
    size_t bytes = panels + bias_bytes + (size_t)segments * sizeof(int64_t);
    out->memory = td__temporary(tape, bytes);
    if (!out->memory) {
        return TD_MEMORY;
    }
    out->offsets = (int64_t *)(void *)out->memory->data;
    out->panels = out->memory->data + (size_t)segments * (sizeof(int64_t) / sizeof(float));
    out->bias = bias ? out->panels + panels / sizeof(float) : NULL;
    if (bias) {
        memset(out->bias, 0, bias_bytes);
        memcpy(out->bias, bias, (size_t)n * sizeof(float));
    }
    return TD_OK;
}

/* --- forward -------------------------------------------------------------------------------- */

/* Padding after the image: what the last window reaches beyond it. */
static int64_t pad_after(const td__conv *c, int axis) {
    int64_t size = axis == 0 ? c->height : c->width;
    return (c->out[axis] - 1) * c->stride[axis] + (c->kernel[axis] - 1) * c->dilation[axis] + 1 -
           size - c->before[axis];
}

static td_status pad_input(td_tape *tape, const td__conv *c, const float *x, image *out) {
    return pad_image(tape, x, c->batch, c->height, c->width, c->channels, c->before,
                     (int64_t[]){pad_after(c, 0), pad_after(c, 1)}, out);
}

/* In the order in which they are tried. */
static const td__conv_strategy *const strategies[] = {&td__depthwise, &td__channelwise,
                                                      &td__winograd, &td__pointwise};

/* NULL: none fits, and the product below computes it. */
static const td__conv_strategy *choose_strategy(const td__conv *c, td__conv_way way) {
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
        if (strategies[i]->fits(c, way)) {
            return strategies[i];
        }
    }
    return NULL;
}

/* Without gaps between taps and without groups a whole row of the window is one run. */
static bool has_long_runs(const td__conv *c) {
    return c->groups == 1 && (c->dilation[1] == 1 || c->kernel[1] == 1);
}

td_status td__conv_forward(td_tape *tape, const td__conv *c, const float *x, const float *kernel,
                           const float *bias, float *y, int flags) {
    int64_t taps = c->kernel[0] * c->kernel[1];
    int64_t depth = c->channels / c->groups, n = c->filters / c->groups, k = taps * depth;
    bool long_runs = has_long_runs(c);
    image source;
    if (c->batch * c->out[0] * c->out[1] * n == 0) {
        return TD_OK;
    }
    const td__conv_strategy *strategy = choose_strategy(c, TD__CONV_FORWARD);
    if (strategy) {
        return strategy->forward(tape, c, x, kernel, bias, y, flags);
    }
    if (pad_input(tape, c, x, &source)) {
        return TD_MEMORY;
    }
    int64_t segments = long_runs ? c->kernel[0] : taps;
    td_status status = TD_OK;
    for (int64_t group = 0; group < c->groups && !status; group++) {
        pack packed;
        td__prepared *kept =
            c->kernel_is_weight && c->batch * c->out[0] * c->out[1] < TD__PREPARED_ROWS
                ? td__prepare(tape, kernel + group * n, TD__PREPARED_PANELS, td__panels_bytes(n, k))
                : NULL;
        status =
            make_pack(tape, n, kept ? 0 : k, segments, bias ? bias + group * n : NULL, &packed);
        if (status) {
            break;
        }
        packed.panels = kept ? kept->data : packed.panels;
        if (!kept || !kept->made) {
            td__pack_panels(kernel + group * n, c->filters, false, n, k, 0, td__panel_count(n),
                            k * td__kernels()->panel_width, packed.panels);
        }
        if (kept) {
            kept->made = true;
        }
        for (int64_t s = 0; s < segments; s++) {
            int64_t ky = long_runs ? s : s / c->kernel[1], kx = long_runs ? 0 : s % c->kernel[1];
            packed.offsets[s] =
                (ky * c->dilation[0] * source.width + kx * c->dilation[1]) * c->channels +
                group * depth;
        }
        patches p = {.kernels = td__kernels(),
                     .source = source,
                     .rows = c->out[0],
                     .columns = c->out[1],
                     .step = {c->stride[0], c->stride[1]},
                     .segments = segments,
                     .segment = k / segments,
                     .offsets = packed.offsets,
                     .panels = packed.panels,
                     .bias = packed.bias,
                     .n = n,
                     .result = y + group * n,
                     .image_stride = c->out[0] * c->out[1] * c->filters,
                     .row_stride = c->out[1] * c->filters,
                     .pixel_stride = c->filters,
                     .flags = flags,
                     .finish = c->finish};
        run_patches(&p, c->batch);
        td__buffer_drop(tape, packed.memory);
    }
    drop_buffer(tape, source.memory);
    return status;
}

/* --- backward to the input ------------------------------------------------------------------ */

bool td__conv_tap_shift(const td__conv *c, int axis, int64_t phase, int64_t tap, int64_t *shift) {
    int64_t distance = phase + c->before[axis] - tap * c->dilation[axis];
    if (distance % c->stride[axis] != 0) {
        return false;
    }
    *shift = distance / c->stride[axis];
    return true;
}

/* How far the taps of all phases reach beyond the output along one axis. */
static void reach(const td__conv *c, int axis, int64_t *before, int64_t *after) {
    int64_t size = axis == 0 ? c->height : c->width;
    *before = *after = 0;
    for (int64_t phase = 0; phase < c->stride[axis] && phase < size; phase++) {
        int64_t last = (size - 1 - phase) / c->stride[axis], shift;
        for (int64_t tap = 0; tap < c->kernel[axis]; tap++) {
            if (td__conv_tap_shift(c, axis, phase, tap, &shift)) {
                *before = -shift > *before ? -shift : *before;
                int64_t beyond = last + shift - (c->out[axis] - 1);
                *after = beyond > *after ? beyond : *after;
            }
        }
    }
}

/* One phase and group. Taps go backwards, so that they lie in the source's order: without gaps and
 * groups, those of one kernel row are one run. */
static td_status phase_to_input(td_tape *tape, const td__conv *c, const image *source,
                                const int64_t before[2], const float *kernel, const float *bias,
                                int64_t group, const int64_t phase[2], float *dx, int flags) {
    int64_t depth = c->channels / c->groups, n = c->filters / c->groups;
    int64_t width = td__kernels()->panel_width, taps = c->kernel[0] * c->kernel[1];
    pack packed;
    if (make_pack(tape, depth, taps * n, taps, bias ? bias + group * depth : NULL, &packed)) {
        return TD_MEMORY;
    }
    int64_t used = 0, shift[2];
    for (int64_t tap = taps - 1; tap >= 0; tap--) {
        used += td__conv_tap_shift(c, 0, phase[0], tap / c->kernel[1], &shift[0]) &&
                td__conv_tap_shift(c, 1, phase[1], tap % c->kernel[1], &shift[1]);
    }
    int64_t k = used * n, segments = 0;
    for (int64_t tap = taps - 1; tap >= 0; tap--) {
        if (!td__conv_tap_shift(c, 0, phase[0], tap / c->kernel[1], &shift[0]) ||
            !td__conv_tap_shift(c, 1, phase[1], tap % c->kernel[1], &shift[1])) {
            continue;
        }
        td__pack_panels(kernel + tap * depth * c->filters + group * n, c->filters, true, depth, n,
                        0, td__panel_count(depth), k * width, packed.panels + segments * n * width);
        packed.offsets[segments++] =
            ((shift[0] + before[0]) * source->width + shift[1] + before[1]) * c->filters +
            group * n;
    }
    int64_t segment = n;
    if (has_long_runs(c) && c->stride[0] == 1 && c->stride[1] == 1) {
        for (int64_t row = 0; row < c->kernel[0]; row++) {
            packed.offsets[row] = packed.offsets[row * c->kernel[1]];
        }
        segments = c->kernel[0];
        segment = c->kernel[1] * n;
    }
    patches p = {.kernels = td__kernels(),
                 .source = *source,
                 .rows = (c->height - phase[0] + c->stride[0] - 1) / c->stride[0],
                 .columns = (c->width - phase[1] + c->stride[1] - 1) / c->stride[1],
                 .step = {1, 1},
                 .segments = segments,
                 .segment = segment,
                 .offsets = packed.offsets,
                 .panels = packed.panels,
                 .bias = packed.bias,
                 .n = depth,
                 .result = dx + (phase[0] * c->width + phase[1]) * c->channels + group * depth,
                 .image_stride = c->height * c->width * c->channels,
                 .row_stride = c->stride[0] * c->width * c->channels,
                 .pixel_stride = c->stride[1] * c->channels,
                 .flags = flags};
    run_patches(&p, c->batch);
    td__buffer_drop(tape, packed.memory);
    return TD_OK;
}

td_status td__conv_to_input(td_tape *tape, const td__conv *c, const float *dz, const float *kernel,
                            const float *bias, float *dx, int flags) {
    if (c->batch * c->height * c->width * c->channels == 0) {
        return TD_OK;
    }
    const td__conv_strategy *strategy = choose_strategy(c, TD__CONV_TO_INPUT);
    if (strategy) {
        return strategy->to_input(tape, c, dz, kernel, bias, dx, flags);
    }
    int64_t before[2], after[2];
    reach(c, 0, &before[0], &after[0]);
    reach(c, 1, &before[1], &after[1]);
    image source;
    if (pad_image(tape, dz, c->batch, c->out[0], c->out[1], c->filters, before, after, &source)) {
        return TD_MEMORY;
    }
    td_status status = TD_OK;
    int64_t phase[2];
    for (phase[0] = 0; phase[0] < c->stride[0] && phase[0] < c->height; phase[0]++) {
        for (phase[1] = 0; phase[1] < c->stride[1] && phase[1] < c->width; phase[1]++) {
            for (int64_t group = 0; group < c->groups && !status; group++) {
                status =
                    phase_to_input(tape, c, &source, before, kernel, bias, group, phase, dx, flags);
            }
        }
    }
    drop_buffer(tape, source.memory);
    return status;
}

/* --- backward to the kernel ----------------------------------------------------------------- */

typedef struct kernel_work {
    const td__conv *conv;
    const td__kernels_table *kernels;
    image source;
    const float **starts; /* of each output row's first window */
    const float *dz;      /* (batch * out rows * out columns, …) */
    int64_t ldz;          /* floats from pixel to pixel of dz */
    int64_t group;
    int64_t run; /* kernel elements that are contiguous in the source */
    int64_t tiles_per_run;
    int64_t tile_count;
    float *dw;      /* of part 0, or of everything */
    float *partial; /* of the other parts: (parts - 1, kernel size); NULL: parts share tiles */
    bool add;
    bool split_rows; /* parts share the pixels, otherwise the tiles */
} kernel_work;

/* Tiles [first, last) over output rows [begin, end). Rows go in chunks whose windows and gradients
 * stay in the cache while all tiles pass; that also keeps the rounding error of long sums small. */
static void kernel_tiles(const kernel_work *w, int64_t begin, int64_t end, int64_t first,
                         int64_t last, bool add, float *dw) {
    const td__conv *c = w->conv;
    int64_t depth = c->channels / c->groups, n = c->filters / c->groups;
    int64_t width = w->kernels->panel_width, row_floats = c->out[1] * (c->channels + c->filters);
    int64_t chunk = 49152 / (row_floats + 1) + 1;
    int64_t runs_per_row = c->kernel[1] * depth / w->run;
    for (int64_t row = begin; row < end; row += chunk) {
        int64_t rows = end - row < chunk ? end - row : chunk;
        int flags = add || row > begin ? TD__TILE_ADD : 0;
        const float *dz = w->dz + row * c->out[1] * w->ldz;
        for (int64_t tile = first; tile < last; tile++) {
            int64_t number = tile / w->tiles_per_run, part = tile % w->tiles_per_run;
            int64_t from = w->run * part / w->tiles_per_run;
            int64_t to = w->run * (part + 1) / w->tiles_per_run;
            int64_t ky = number / runs_per_row, kx = number % runs_per_row;
            int64_t offset =
                (ky * c->dilation[0] * w->source.width + kx * c->dilation[1]) * c->channels +
                w->group * depth + from;
            float *result = dw + (number * w->run + from) * c->filters + w->group * n;
            for (int64_t column = 0; column < n; column += width) {
                int columns = (int)(n - column < width ? n - column : width);
                w->kernels->tile_outer((int)(to - from), columns, rows, c->out[1],
                                       c->stride[1] * c->channels, w->starts + row, offset,
                                       dz + column, w->ldz, result + column, c->filters, flags);
            }
        }
    }
}

static void kernel_part(void *context, int part, int64_t begin, int64_t end) {
    const kernel_work *w = context;
    const td__conv *c = w->conv;
    if (!w->split_rows) {
        kernel_tiles(w, 0, c->batch * c->out[0], begin, end, w->add, w->dw);
        return;
    }
    int64_t size = c->kernel[0] * c->kernel[1] * (c->channels / c->groups) * c->filters;
    float *dw = part == 0 ? w->dw : w->partial + (part - 1) * size;
    kernel_tiles(w, begin, end, 0, w->tile_count, part == 0 && w->add, dw);
}

/* dz with rows of whole panels, so that tiles may read to a panel's end. */
static td_status widen(td_tape *tape, const td__conv *c, const float *dz, int64_t group,
                       kernel_work *w, td__buffer **memory) {
    int64_t n = c->filters / c->groups, vector = w->kernels->vector_width;
    *memory = NULL;
    w->dz = dz + group * n;
    w->ldz = c->filters;
    if (n % w->kernels->panel_width == 0 || n % w->kernels->panel_width == vector) {
        return TD_OK;
    }
    int64_t width = td__panel_count(n) * w->kernels->panel_width;
    int64_t pixels = c->batch * c->out[0] * c->out[1];
    *memory = td__temporary(tape, (size_t)(pixels * width) * sizeof(float));
    if (!*memory) {
        return TD_MEMORY;
    }
    float *to = (*memory)->data;
    for (int64_t i = 0; i < pixels; i++, to += width) {
        memcpy(to, w->dz + i * c->filters, (size_t)n * sizeof *to);
        memset(to + n, 0, (size_t)(width - n) * sizeof *to);
    }
    w->dz = (*memory)->data;
    w->ldz = width;
    return TD_OK;
}

/* Shares the work: tiles when there are plenty, otherwise pixels, whose sums are added
 * up in order. */
static td_status run_kernel_group(td_tape *tape, kernel_work *w) {
    const td__conv *c = w->conv;
    int threads = td_threads();
    int64_t rows = c->batch * c->out[0], pixels = rows * c->out[1];
    int64_t depth = c->channels / c->groups, n = c->filters / c->groups;
    int64_t size = c->kernel[0] * c->kernel[1] * depth * c->filters;
    int64_t work = pixels * c->kernel[0] * c->kernel[1] * depth * n;
    if (!w->split_rows) {
        td__parallel(w->tile_count, 1, TD__PRODUCT_GRAIN / (work / w->tile_count + 1) + 1,
                     kernel_part, w);
        return TD_OK;
    }
    td__buffer *partial = td__temporary(tape, (size_t)((threads - 1) * size) * sizeof(float));
    if (!partial) {
        return TD_MEMORY;
    }
    memset(partial->data, 0, partial->bytes); /* other groups' columns stay zero */
    w->partial = partial->data;
    int parts = td__parallel(rows, 1, SUM_GRAIN / (work / rows + 1) + 1, kernel_part, w);
    for (int part = 1; part < parts; part++) {
        const float *from = partial->data + (part - 1) * size;
        w->kernels->add(size, w->dw, from, w->dw);
    }
    td__buffer_drop(tape, partial);
    return TD_OK;
}

td_status td__conv_to_kernel(td_tape *tape, const td__conv *c, const float *x, const float *dz,
                             bool add, float *dw) {
    int64_t depth = c->channels / c->groups, rows = c->batch * c->out[0];
    int64_t size = c->kernel[0] * c->kernel[1] * depth * c->filters;
    if (rows * c->out[1] == 0 || size == 0) {
        if (!add) {
            memset(dw, 0, (size_t)size * sizeof *dw);
        }
        return TD_OK;
    }
    const td__conv_strategy *strategy = choose_strategy(c, TD__CONV_TO_KERNEL);
    if (strategy) {
        return strategy->to_kernel(tape, c, x, dz, add, dw);
    }
    kernel_work w = {.conv = c, .kernels = td__kernels(), .dw = dw, .add = add};
    w.run = has_long_runs(c) ? c->kernel[1] * depth : depth;
    w.tiles_per_run = (w.run + w.kernels->tile_rows - 1) / w.kernels->tile_rows;
    w.tile_count = size / c->filters / w.run * w.tiles_per_run;
    w.split_rows = td_threads() > 1 && w.tile_count < 4 * td_threads();
    if (pad_input(tape, c, x, &w.source)) {
        return TD_MEMORY;
    }
    td__buffer *starts = td__temporary(tape, (size_t)rows * sizeof(float *));
    td_status status = starts ? TD_OK : TD_MEMORY;
    if (starts) {
        w.starts = (const float **)(void *)starts->data;
        for (int64_t row = 0; row < rows; row++) {
            int64_t b = row / c->out[0], i = row % c->out[0] * c->stride[0];
            w.starts[row] =
                w.source.data + (b * w.source.height + i) * w.source.width * c->channels;
        }
    }
    for (w.group = 0; w.group < c->groups && !status; w.group++) {
        td__buffer *widened = NULL;
        status = widen(tape, c, dz, w.group, &w, &widened);
        status = status ? status : run_kernel_group(tape, &w);
        drop_buffer(tape, widened);
    }
    drop_buffer(tape, starts);
    drop_buffer(tape, w.source.memory);
    return status;
}
