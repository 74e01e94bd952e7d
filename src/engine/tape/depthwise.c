/* Depthwise convolutions, one filter to a channel: a lane is a channel, and the image is read where it
 * is.
 *
 * Results row by row, in the order of memory: pixels whose windows are whole a few at a time, those at the
 * border one by one, with the taps that lie inside the image. */
#include "tape/conv.h"

#include "tape/kernels.h"
#include "tape/parallel.h"

#include <string.h>

enum {
    NEAR_FLOATS = 4096, /* results that stay in the first-level cache */
    PIXEL_TAPS = 24     /* as many multiply-adds of a product as a result costs besides its taps */
};

/* The way back to the input is such a convolution too, at stride 1. */
static bool depthwise_fits(const td__conv *c, td__conv_way way) {
    bool back = way == TD__CONV_TO_INPUT && c->stride[0] == 1 && c->stride[1] == 1;
    return (way == TD__CONV_FORWARD || back) && c->groups > 1 && c->channels == c->groups &&
           c->filters == c->groups && c->channels >= td__kernels()->vector_width;
}

typedef struct work {
    const td__conv *conv;
    const td__kernels_table *kernels;
    const float *x, *kernel, *bias;
    float *y;
    int flags;
    int64_t whole_begin, whole_end; /* columns of results whose windows are inside the image */
    int64_t chunk;                  /* pixels at a time */
} work;

/* Taps [*first, *first + *count) of a window at a result's place along an axis lie inside the image. */
static void cut_taps(const td__conv *c, int axis, int64_t place, int64_t *first, int64_t *count) {
    int64_t size = axis == 0 ? c->height : c->width, dilation = c->dilation[axis];
    int64_t start = place * c->stride[axis] - c->before[axis];
    int64_t skipped = start < 0 ? (-start + dilation - 1) / dilation : 0;
    int64_t last = start < size ? (size - 1 - start) / dilation + 1 : 0;
    last = last < c->kernel[axis] ? last : c->kernel[axis];
    *first = skipped < last ? skipped : last;
    *count = last - *first;
}

static bool is_whole(const td__conv *c, int64_t column) {
    int64_t first, count;
    cut_taps(c, 1, column, &first, &count);
    return count == c->kernel[1];
}

/* Columns [begin, end) of a result's row, whose windows have the same taps. */
static void pixels(const work *w, int64_t row, int64_t begin, int64_t end) {
    const td__conv *c = w->conv;
    int64_t image = row / c->out[0], i = row % c->out[0], top, left;
    td__depth_window window = {.row_stride = c->dilation[0] * c->width * c->channels,
                               .column_stride = c->dilation[1] * c->channels,
                               .step = c->stride[1] * c->channels,
                               .weight_row = c->kernel[1] * c->channels};
    cut_taps(c, 0, i, &top, &window.rows);
    cut_taps(c, 1, begin, &left, &window.columns);
    int64_t y = i * c->stride[0] - c->before[0] + top * c->dilation[0];
    int64_t x = begin * c->stride[1] - c->before[1] + left * c->dilation[1];
    bool inside = window.rows > 0 && window.columns > 0; /* otherwise nothing is read */
    int64_t from = inside ? ((image * c->height + y) * c->width + x) * c->channels : 0;
    int64_t weights = inside ? (top * c->kernel[1] + left) * c->channels : 0;
    float *to = w->y + (row * c->out[1] + begin) * c->channels;
    w->kernels->depthwise(end - begin, c->channels, &window, w->x + from, w->kernel + weights,
                          w->bias, to, w->flags);
    td__finish_run(&c->finish, (end - begin) * c->channels, to);
}

static void rows_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const work *w = context;
    for (int64_t row = begin; row < end; row++) {
        for (int64_t j = 0, next; j < w->conv->out[1]; j = next) {
            bool whole = j >= w->whole_begin && j < w->whole_end;
            next = !whole ? j + 1 : j + w->chunk < w->whole_end ? j + w->chunk : w->whole_end;
            pixels(w, row, j, next);
        }
    }
}

static td_status depthwise_forward(td_tape *tape, const td__conv *c, const float *x,
                                   const float *kernel, const float *bias, float *y, int flags) {
    (void)tape;
    work w = {.conv = c,
              .kernels = td__kernels(),
              .x = x,
              .kernel = kernel,
              .bias = bias,
              .y = y,
              .flags = flags,
              .chunk = (NEAR_FLOATS / c->channels / 8 + 1) * 8};
    while (w.whole_begin < c->out[1] && !is_whole(c, w.whole_begin)) {
        w.whole_begin++;
    }
    for (w.whole_end = w.whole_begin; w.whole_end < c->out[1] && is_whole(c, w.whole_end);) {
        w.whole_end++;
    }
    /* Reading and writing a pixel takes as long as many taps. */
    int64_t each = c->out[1] * (c->kernel[0] * c->kernel[1] + PIXEL_TAPS) * c->channels;
    td__parallel(c->batch * c->out[0], 1, TD__PRODUCT_GRAIN / (each + 1) + 1, rows_part, &w);
    return TD_OK;
}

/* dx[p] = sum over taps of dz[p + before - tap * dilation] kernel[tap]: a convolution with the kernel
 * turned by 180 degrees. */
static td_status depthwise_to_input(td_tape *tape, const td__conv *c, const float *dz,
                                    const float *kernel, const float *bias, float *dx, int flags) {
    int64_t taps = c->kernel[0] * c->kernel[1], channels = c->channels;
    td__buffer *memory = td__temporary(tape, (size_t)(taps * channels) * sizeof(float));
    if (!memory) {
        return TD_MEMORY;
    }
    for (int64_t tap = 0; tap < taps; tap++) {
        memcpy(memory->data + tap * channels, kernel + (taps - 1 - tap) * channels,
               (size_t)channels * sizeof(float));
    }
    td__conv back = *c;
    back.height = c->out[0];
    back.width = c->out[1];
    back.out[0] = c->height;
    back.out[1] = c->width;
    back.finish = (td__finish){.activation = TD_LINEAR};
    for (int axis = 0; axis < 2; axis++) {
        back.before[axis] = (c->kernel[axis] - 1) * c->dilation[axis] - c->before[axis];
    }
    td_status status = depthwise_forward(tape, &back, dz, memory->data, bias, dx, flags);
    td__buffer_drop(tape, memory);
    return status;
}

const td__conv_strategy td__depthwise = {
    .fits = depthwise_fits, .forward = depthwise_forward, .to_input = depthwise_to_input};
