/* Transforms of 3x3 convolutions in tiles of 2x2 results (Winograd, F(2x2, 3x3)); see winograd.h.
 * Channels are whole vectors. A tile's 16 values are `stride` floats apart.
 *
 * input    B^T d B, d 4x4      B^T = 1  0 -1  0     A^T = 1 1  1  0
 * output   A^T m A, m 4x4            0  1  1  0           0 1 -1 -1
 * gradient A g A^T, g 2x2            0 -1  1  0
 *                                    0  1  0 -1
 */
#include "tape/kernels/vector.h"

static void winograd_input(int64_t channels, const float *x, int64_t row, float *v,
                           int64_t stride) {
    for (int64_t c = 0; c < channels; c += TD__LANES) {
        td__vec t[4][4];
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            const float *at = x + j * channels + c;
            td__vec d0 = td__load(at), d1 = td__load(at + row), d2 = td__load(at + 2 * row);
            td__vec d3 = td__load(at + 3 * row);
            t[0][j] = d0 - d2;
            t[1][j] = d1 + d2;
            t[2][j] = d2 - d1;
            t[3][j] = d1 - d3;
        }
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            float *to = v + 4 * i * stride + c;
            td__store(to, t[i][0] - t[i][2]);
            td__store(to + stride, t[i][1] + t[i][2]);
            td__store(to + 2 * stride, t[i][2] - t[i][1]);
            td__store(to + 3 * stride, t[i][1] - t[i][3]);
        }
    }
}

TD__INLINE void put(td__vec value, float *y, int flags) {
    if (flags & TD__TILE_ADD) {
        value += td__load(y);
    }
    if (flags & TD__TILE_RELU) {
        value = td__choose(value < (td__vec){0}, (td__vec){0}, value); /* NaN stays */
    }
    td__store(y, value);
}

static void winograd_output(int64_t channels, const float *m, int64_t stride, const float *bias,
                            int rows, int columns, float *y, int64_t row, int flags) {
    for (int64_t c = 0; c < channels; c += TD__LANES) {
        td__vec t[2][4];
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            const float *at = m + j * stride + c;
            td__vec m0 = td__load(at), m1 = td__load(at + 4 * stride);
            td__vec m2 = td__load(at + 8 * stride), m3 = td__load(at + 12 * stride);
            t[0][j] = m0 + m1 + m2;
            t[1][j] = m1 - m2 - m3;
        }
        td__vec offset = bias ? td__load(bias + c) : (td__vec){0};
#pragma GCC unroll 2
        for (int i = 0; i < 2; i++) {
            if (i < rows) {
                float *to = y + i * row + c;
                put(t[i][0] + t[i][1] + t[i][2] + offset, to, flags);
                if (columns > 1) {
                    put(t[i][1] - t[i][2] - t[i][3] + offset, to + channels, flags);
                }
            }
        }
    }
}

static void winograd_gradient(int64_t channels, const float *g, int64_t row, int rows, int columns,
                              float *u, int64_t stride) {
    const td__vec zero = {0};
    for (int64_t c = 0; c < channels; c += TD__LANES) {
        const float *at = g + c;
        td__vec g00 = td__load(at), g01 = columns > 1 ? td__load(at + channels) : zero;
        td__vec g10 = rows > 1 ? td__load(at + row) : zero;
        td__vec g11 = rows > 1 && columns > 1 ? td__load(at + row + channels) : zero;
        const td__vec t[4][2] = {
            {g00, g01}, {g00 + g10, g01 + g11}, {g00 - g10, g01 - g11}, {-g10, -g11}};
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            float *to = u + 4 * i * stride + c;
            td__store(to, t[i][0]);
            td__store(to + stride, t[i][0] + t[i][1]);
            td__store(to + 2 * stride, t[i][0] - t[i][1]);
            td__store(to + 3 * stride, -t[i][1]);
        }
    }
}

void TD__VARIANT(td__fill_winograd)(td__kernels_table *table) {
    table->winograd_input = winograd_input;
    table->winograd_output = winograd_output;
    table->winograd_gradient = winograd_gradient;
}
