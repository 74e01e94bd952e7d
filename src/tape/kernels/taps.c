/* Convolutions whose channels stand alone: each lane is a channel, a tap is a load, and no value
 * meets another channel's. Sums run over taps in their order, over pixels in theirs.
 */
#include "tape/kernels/vector.h"

/* Pixels of one register block, and taps of another: accumulators and what they are multiplied with
 * fit 16 registers. */
enum { PIXELS = 8, TAPS = 9 };

TD__INLINE td__vec load_some(int64_t count, const float *p) {
    float padded[TD__LANES] = {0};
    memcpy(padded, p, (size_t)count * sizeof *p);
    return td__load(padded);
}

TD__INLINE void store_result(td__vec sum, int64_t lanes, float *y, int flags) {
    if (flags & TD__TILE_ADD) {
        sum += lanes == TD__LANES ? td__load(y) : load_some(lanes, y);
    }
    if (flags & TD__TILE_RELU) {
        sum = td__choose(sum < (td__vec){0}, (td__vec){0}, sum); /* NaN stays */
    }
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
    table->taps_backward = taps_backward;
    table->spread_channels = spread_channels;
}
