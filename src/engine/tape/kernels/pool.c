/* Windows over images with channels last: the largest value, the sum, and their ways back. Vectors
 * run over channels, so that a window's taps are loads and nothing is shuffled.
 */
#include "tape/kernels/vector.h"

/* Where the tap in row r, column k of a pixel's window is. */
#define TAP(w, channels, r, k) ((r) * (w)->row_stride + (k) * (channels))

/* The first of equal values wins; NaN is larger than all. */
TD__INLINE void max_of_window(const td__window *w, const int64_t rows, const int64_t columns,
                              int64_t channels, const float *x, float *y, uint8_t *bytes,
                              int32_t *words) {
    int64_t c = 0;
    for (; c + TD__LANES <= channels; c += TD__LANES) {
        td__vec best = td__load(x + c);
        td__mask index = (td__mask){0} + (int32_t)w->first_tap;
        for (int64_t r = 0; r < rows; r++) {
            for (int64_t k = 0; k < columns; k++) {
                td__vec value = td__load(x + TAP(w, channels, r, k) + c);
                td__mask take = (value > best) | (value != value);
                int32_t tap = (int32_t)(w->first_tap + r * w->tap_row + k);
                best = td__choose(take, value, best);
                index = (take & tap) | (~take & index);
            }
        }
        td__store(y + c, best);
        if (bytes) {
            *(td__bytes *)(bytes + c) = __builtin_convertvector(index, td__bytes);
        } else if (words) {
            *(td__mask *)(words + c) = index;
        }
    }
    for (; c < channels; c++) {
        float best = x[c];
        int64_t index = w->first_tap;
        for (int64_t r = 0; r < rows; r++) {
            for (int64_t k = 0; k < columns; k++) {
                float value = x[TAP(w, channels, r, k) + c];
                bool take = value > best || value != value;
                best = take ? value : best;
                index = take ? w->first_tap + r * w->tap_row + k : index;
            }
        }
        y[c] = best;
        if (bytes) {
            bytes[c] = (uint8_t)index;
        } else if (words) {
            words[c] = (int32_t)index;
        }
    }
}

static void max_pool(int64_t pixels, int64_t channels, const td__window *w, const float *x,
                     float *y, uint8_t *bytes, int32_t *words) {
    bool small = w->rows == 2 && w->columns == 2;
    for (int64_t p = 0; p < pixels; p++, x += w->step, y += channels) {
        if (small) {
            max_of_window(w, 2, 2, channels, x, y, bytes, words);
        } else {
            max_of_window(w, w->rows, w->columns, channels, x, y, bytes, words);
        }
        bytes = bytes ? bytes + channels : NULL;
        words = words ? words + channels : NULL;
    }
}

/* dx at each tap (=|+=) g where the index is that tap, 0 elsewhere */
TD__INLINE void spread_max(const td__window *w, const int64_t rows, const int64_t columns,
                           int64_t channels, const uint8_t *bytes, const int32_t *words,
                           const float *g, const bool add, float *dx) {
    int64_t c = 0;
    for (; c + TD__LANES <= channels; c += TD__LANES) {
        td__vec gradient = td__load(g + c);
        td__mask index = bytes ? __builtin_convertvector(*(const td__bytes *)(bytes + c), td__mask)
                               : *(const td__mask *)(words + c);
        for (int64_t r = 0; r < rows; r++) {
            for (int64_t k = 0; k < columns; k++) {
                int32_t tap = (int32_t)(w->first_tap + r * w->tap_row + k);
                td__vec part = (td__vec)((td__mask)gradient & (index == tap));
                float *to = dx + TAP(w, channels, r, k) + c;
                if (add) {
                    part += td__load(to);
                }
                td__store(to, part);
            }
        }
    }
    for (; c < channels; c++) {
        int64_t index = bytes ? bytes[c] : words[c];
        for (int64_t r = 0; r < rows; r++) {
            for (int64_t k = 0; k < columns; k++) {
                float part = index == w->first_tap + r * w->tap_row + k ? g[c] : 0.0f;
                float *to = dx + TAP(w, channels, r, k) + c;
                *to = add ? *to + part : part;
            }
        }
    }
}

static void max_pool_backward(int64_t pixels, int64_t channels, const td__window *w,
                              const uint8_t *bytes, const int32_t *words, const float *g, bool add,
                              float *dx) {
    bool small = w->rows == 2 && w->columns == 2;
    for (int64_t p = 0; p < pixels; p++, dx += w->step, g += channels) {
        if (small && add) {
            spread_max(w, 2, 2, channels, bytes, words, g, true, dx);
        } else if (small) {
            spread_max(w, 2, 2, channels, bytes, words, g, false, dx);
        } else {
            spread_max(w, w->rows, w->columns, channels, bytes, words, g, add, dx);
        }
        bytes = bytes ? bytes + channels : NULL;
        words = words ? words + channels : NULL;
    }
}

/* Row by row, so that the rounding error of a large window grows with its rows only. */
TD__INLINE void sum_of_window(const td__window *w, const int64_t rows, const int64_t columns,
                              int64_t channels, float scale, const float *x, bool add, float *y) {
    int64_t c = 0;
    for (; c + TD__LANES <= channels; c += TD__LANES) {
        td__vec total = {0};
        for (int64_t r = 0; r < rows; r++) {
            td__vec sum = {0};
            for (int64_t k = 0; k < columns; k++) {
                sum += td__load(x + TAP(w, channels, r, k) + c);
            }
            total += sum;
        }
        total *= scale;
        if (add) {
            total += td__load(y + c);
        }
        td__store(y + c, total);
    }
    for (; c < channels; c++) {
        float total = 0;
        for (int64_t r = 0; r < rows; r++) {
            float sum = 0;
            for (int64_t k = 0; k < columns; k++) {
                sum += x[TAP(w, channels, r, k) + c];
            }
            total += sum;
        }
        y[c] = (add ? y[c] : 0.0f) + total * scale;
    }
}

static void sum_pool(int64_t pixels, int64_t channels, const td__window *w, float scale,
                     const float *x, bool add, float *y) {
    bool small = w->rows == 2 && w->columns == 2;
    for (int64_t p = 0; p < pixels; p++, x += w->step, y += channels) {
        if (small) {
            sum_of_window(w, 2, 2, channels, scale, x, add, y);
        } else {
            sum_of_window(w, w->rows, w->columns, channels, scale, x, add, y);
        }
    }
}

static void spread(int64_t pixels, int64_t channels, const td__window *w, float scale,
                   const float *g, bool add, float *dx) {
    for (int64_t p = 0; p < pixels; p++, dx += w->step, g += channels) {
        for (int64_t r = 0; r < w->rows; r++) {
            for (int64_t k = 0; k < w->columns; k++) {
                float *to = dx + TAP(w, channels, r, k);
                if (add) {
#pragma omp simd
                    for (int64_t c = 0; c < channels; c++) {
                        to[c] += g[c] * scale;
                    }
                } else {
#pragma omp simd
                    for (int64_t c = 0; c < channels; c++) {
                        to[c] = g[c] * scale;
                    }
                }
            }
        }
    }
}

void TD__VARIANT(td__fill_pool)(td__kernels_table *table) {
    table->max_pool = max_pool;
    table->max_pool_backward = max_pool_backward;
    table->sum_pool = sum_pool;
    table->spread = spread;
}
