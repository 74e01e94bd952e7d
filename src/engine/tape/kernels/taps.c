/* Convolutions whose channels stand alone: each lane is a channel, a tap is a load, and no value
 * meets another channel's. Sums run over taps in their order, over pixels in theirs.
 */
#include "tape/kernels/vector.h"

/* Pixels of one register block, and taps of another: accumulators and what they are multiplied with
 * fit 16 registers. */
enum { PIXELS = 8, TAPS = 9, WIDEST = 5 };

TD__INLINE td__vec load_some(int64_t count, const float *p) {
    float padded[TD__LANES] = {0};
    memcpy(padded, p, (size_t)count * sizeof *p);
    return td__load(padded);
}

TD__INLINE void store_result(td__vec sum, int64_t lanes, float *y, int flags) {
    if (flags & TD__TILE_ADD) {
        sum += lanes == TD__LANES ? td__load(y) : load_some(lanes, y);
    }
    sum = td__tile_end(sum, flags);
    if (lanes == TD__LANES) {
        td__store(y, sum);
    } else {
        memcpy(y, &sum, (size_t)lanes * sizeof *y);
    }
}

TD__INLINE void taps_of_pixels(const int64_t pixels, const td__taps *t, const float *x,
                               const float *weights, const float *bias, float *y, int64_t y_step,
                               int flags) {
    for (int64_t c = 0; c < t->channels; c += TD__LANES) {
        td__vec sum[PIXELS];
#pragma GCC unroll 8
        for (int64_t p = 0; p < pixels; p++) {
            sum[p] = bias ? td__load(bias + c) : (td__vec){0};
        }
        const float *w = weights + c;
        for (int64_t tap = 0; tap < t->count; tap++, w += t->width) {
            const float *from = x + t->offsets[tap] + c;
            td__vec weight = td__load(w);
#pragma GCC unroll 8
            for (int64_t p = 0; p < pixels; p++) {
                sum[p] += weight * td__load(from + p * t->step);
            }
        }
        int64_t lanes = t->channels - c < TD__LANES ? t->channels - c : TD__LANES;
#pragma GCC unroll 8
        for (int64_t p = 0; p < pixels; p++) {
            store_result(sum[p], lanes, y + p * y_step + c, flags);
        }
    }
}

static void taps(int64_t pixels, const td__taps *t, const float *x, const float *weights,
                 const float *bias, float *y, int64_t y_step, int flags) {
    for (; pixels >= PIXELS; pixels -= PIXELS, x += PIXELS * t->step, y += PIXELS * y_step) {
        taps_of_pixels(PIXELS, t, x, weights, bias, y, y_step, flags);
    }
    if (pixels >= 4) {
        taps_of_pixels(4, t, x, weights, bias, y, y_step, flags);
        pixels -= 4, x += 4 * t->step, y += 4 * y_step;
    }
    for (; pixels > 0; pixels--, x += t->step, y += y_step) {
        taps_of_pixels(1, t, x, weights, bias, y, y_step, flags);
    }
}

/* sum[p, v] += a row of the window at a few pixels and vectors of channels. Windows side by side share
 * what they read. */
TD__INLINE void depthwise_row(const int64_t pixels, const int64_t vectors, const int64_t columns,
                              const bool shared, int64_t channels, const td__depth_window *w,
                              const float *x, const float *weights, td__vec *sum) {
    if (shared) {
        td__vec factor[WIDEST];
#pragma GCC unroll 5
        for (int64_t j = 0; j < columns; j++) {
            factor[j] = td__load(weights + j * channels);
        }
#pragma GCC unroll 12
        for (int64_t j = 0; j < pixels + columns - 1; j++, x += w->step) {
            td__vec value = td__load(x);
#pragma GCC unroll 5
            for (int64_t p = j < columns ? 0 : j - columns + 1; p <= j && p < pixels; p++) {
                sum[p] += factor[j - p] * value;
            }
        }
        return;
    }
#pragma GCC unroll 5
    for (int64_t j = 0; j < columns; j++, x += w->column_stride, weights += channels) {
#pragma GCC unroll 8
        for (int64_t v = 0; v < vectors; v++) {
            td__vec factor = td__load(weights + v * TD__LANES);
#pragma GCC unroll 8
            for (int64_t p = 0; p < pixels; p++) {
                sum[p * vectors + v] += factor * td__load(x + p * w->step + v * TD__LANES);
            }
        }
    }
}

/* A few vectors of channels at a few pixels, PIXELS sums at most; only the lanes from `first` on are new.
 */
TD__INLINE void depthwise_block(const int64_t pixels, const int64_t vectors, const int64_t rows,
                                const int64_t columns, const bool shared, int64_t channels,
                                const td__depth_window *w, const float *x, const float *weights,
                                const float *bias, float *y, int64_t first, int flags) {
    td__vec sum[PIXELS];
#pragma GCC unroll 8
    for (int64_t i = 0; i < pixels * vectors; i++) {
        sum[i] = bias ? td__load(bias + i % vectors * TD__LANES) : (td__vec){0};
    }
    for (int64_t row = 0; row < rows; row++, x += w->row_stride, weights += w->weight_row) {
        depthwise_row(pixels, vectors, columns, shared, channels, w, x, weights, sum);
    }
#pragma GCC unroll 8
    for (int64_t i = 0; i < pixels * vectors; i++) {
        float *to = y + i / vectors * channels + i % vectors * TD__LANES;
        if (first == 0) {
            store_result(sum[i], TD__LANES, to, flags);
        } else {
            float lanes[TD__LANES];
            td__store(lanes, sum[i]);
            store_result(load_some(TD__LANES - first, lanes + first), TD__LANES - first, to + first,
                         flags);
        }
    }
}

/* All channels of a few pixels. */
TD__INLINE void depthwise_pixels(const int64_t pixels, const int64_t vectors, const int64_t rows,
                                 const int64_t columns, const bool shared, int64_t channels,
                                 const td__depth_window *w, const float *x, const float *weights,
                                 const float *bias, float *y, int flags) {
    const int64_t max = vectors * TD__LANES;
    int64_t c = 0;
    for (; c + max <= channels; c += max) {
        depthwise_block(pixels, vectors, rows, columns, shared, channels, w, x + c, weights + c,
                        bias ? bias + c : NULL, y + c, 0, flags);
    }
    for (; vectors > 1 && c + TD__LANES <= channels; c += TD__LANES) {
        depthwise_block(pixels, 1, rows, columns, false, channels, w, x + c, weights + c,
                        bias ? bias + c : NULL, y + c, 0, flags);
    }
    if (c < channels) { /* the last vector's worth, of which some are done */
        int64_t first = c - (channels - TD__LANES);
        c = channels - TD__LANES;
        depthwise_block(pixels, 1, w->rows, w->columns, false, channels, w, x + c, weights + c,
                        bias ? bias + c : NULL, y + c, first, flags);
    }
}

/* Whole blocks of pixels with windows of the common sizes, whose loops unroll. */
#define DEFINE_DEPTHWISE(name, rows_, columns_, shared_)                                           \
    static void name(int64_t blocks, int64_t channels, const td__depth_window *w, const float *x,  \
                     const float *weights, const float *bias, float *y, int flags) {               \
        for (; blocks > 0; blocks--, x += PIXELS * w->step, y += PIXELS * channels) {              \
            depthwise_pixels(PIXELS, 1, rows_, columns_, shared_, channels, w, x, weights, bias,   \
                             y, flags);                                                            \
        }                                                                                          \
    }
DEFINE_DEPTHWISE(depthwise_3x3_near, 3, 3, true)
DEFINE_DEPTHWISE(depthwise_3x3, 3, 3, false)
DEFINE_DEPTHWISE(depthwise_5x5_near, 5, 5, true)
DEFINE_DEPTHWISE(depthwise_5x5, 5, 5, false)
DEFINE_DEPTHWISE(depthwise_any, w->rows, w->columns, false)

static void depthwise(int64_t pixels, int64_t channels, const td__depth_window *w, const float *x,
                      const float *weights, const float *bias, float *y, int flags) {
    bool near = w->step == w->column_stride;
    int64_t size = w->rows == w->columns ? w->rows : 0, blocks = pixels / PIXELS;
    (size == 3   ? (near ? depthwise_3x3_near : depthwise_3x3)
     : size == 5 ? (near ? depthwise_5x5_near : depthwise_5x5)
                 : depthwise_any)(blocks, channels, w, x, weights, bias, y, flags);
    pixels -= blocks * PIXELS, x += blocks * PIXELS * w->step, y += blocks * PIXELS * channels;
    if (pixels >= 4) {
        depthwise_pixels(4, 2, w->rows, w->columns, false, channels, w, x, weights, bias, y, flags);
        pixels -= 4, x += 4 * w->step, y += 4 * channels;
    }
    if (pixels >= 2) {
        depthwise_pixels(2, 4, w->rows, w->columns, false, channels, w, x, weights, bias, y, flags);
        pixels -= 2, x += 2 * w->step, y += 2 * channels;
    }
    if (pixels > 0) {
        depthwise_pixels(1, 8, w->rows, w->columns, false, channels, w, x, weights, bias, y, flags);
    }
}

/* `count` taps of one vector of channels. */
TD__INLINE void sums_of_taps(const int64_t count, int64_t rows, int64_t pixels, const td__taps *t,
                             const int64_t *offsets, const float *x, int64_t x_row, const float *g,
                             int64_t g_row, int64_t lanes, float *dw) {
    td__vec sum[TAPS];
#pragma GCC unroll 9
    for (int64_t tap = 0; tap < count; tap++) {
        sum[tap] = td__load(dw + tap * t->width);
    }
    for (int64_t row = 0; row < rows; row++, x += x_row, g += g_row) {
        const float *at[TAPS];
#pragma GCC unroll 9
        for (int64_t tap = 0; tap < count; tap++) {
            at[tap] = x + offsets[tap];
        }
        const float *gradient = g;
        for (int64_t p = 0, place = 0; p < pixels; p++, place += t->step, gradient += t->g_step) {
            td__vec value = lanes == TD__LANES ? td__load(gradient) : load_some(lanes, gradient);
#pragma GCC unroll 9
            for (int64_t tap = 0; tap < count; tap++) {
                sum[tap] += value * td__load(at[tap] + place);
            }
        }
    }
#pragma GCC unroll 9
    for (int64_t tap = 0; tap < count; tap++) {
        td__store(dw + tap * t->width, sum[tap]);
    }
}

static void taps_backward(int64_t rows, int64_t pixels, const td__taps *t, const float *x,
                          int64_t x_row, const float *g, int64_t g_row, float *dw) {
    for (int64_t c = 0; c < t->channels; c += TD__LANES) {
        int64_t lanes = t->channels - c < TD__LANES ? t->channels - c : TD__LANES, tap = 0;
        for (; tap + TAPS <= t->count; tap += TAPS) {
            sums_of_taps(TAPS, rows, pixels, t, t->offsets + tap, x + c, x_row, g + c, g_row, lanes,
                         dw + tap * t->width + c);
        }
        for (; tap + 4 <= t->count; tap += 4) {
            sums_of_taps(4, rows, pixels, t, t->offsets + tap, x + c, x_row, g + c, g_row, lanes,
                         dw + tap * t->width + c);
        }
        for (; tap < t->count; tap++) {
            sums_of_taps(1, rows, pixels, t, t->offsets + tap, x + c, x_row, g + c, g_row, lanes,
                         dw + tap * t->width + c);
        }
    }
}

/* How a vector of a layer is made from the pixel's channels. */
enum { COPY, SHUFFLE, PICK };

static int way_of_vector(int64_t in, const int32_t *index) {
    int32_t span = index[TD__LANES - 1] - index[0];
    if (in == 1 && span == TD__LANES - 1) {
        return COPY;
    }
    return span + in <= TD__LANES ? SHUFFLE : PICK;
}

static void spread_channels(int64_t pixels, int64_t channels, int64_t in, int64_t width,
                            const int32_t *index, const float *from, float *to) {
    if (in == 1 && index[width - 1] - index[0] == width - 1) {
        /* A plain copy, pixel by pixel: in the order that processors fetch ahead. */
        for (from += index[0]; pixels > 0; pixels--, from += channels, to += width) {
            for (int64_t v = 0; v < width; v += TD__LANES) {
                td__store(to + v, td__load(from + v));
            }
        }
        return;
    }
    for (int64_t v = 0; v < width; v += TD__LANES) {
        const int32_t *lane = index + v;
        const float *source = from;
        float *target = to + v;
        int way = way_of_vector(in, lane);
        td__mask shuffle = *(const td__mask *)lane - lane[0];
        int64_t have = channels - lane[0];
        for (int64_t p = 0; p < pixels; p++, source += channels, target += in * width) {
            if (way == COPY) {
                td__store(target, td__load(source + lane[0]));
            } else if (way == SHUFFLE) {
                td__vec values = have >= TD__LANES ? td__load(source + lane[0])
                                                   : load_some(have, source + lane[0]);
                for (int64_t d = 0; d < in; d++) {
                    td__store(target + d * width, td__shuffle(values, shuffle + (int32_t)d));
                }
            } else {
                for (int64_t d = 0; d < in; d++) {
                    for (int l = 0; l < TD__LANES; l++) {
                        target[d * width + l] = source[lane[l] + d];
                    }
                }
            }
        }
    }
}

void TD__VARIANT(td__fill_taps)(td__kernels_table *table) {
    table->taps = taps;
    table->depthwise = depthwise;
    table->taps_backward = taps_backward;
    table->spread_channels = spread_channels;
}
