/* Transforms of 3x3 convolutions in tiles of 2x2 results (Winograd, F(2x2, 3x3)); see winograd.h.
 * Channels are whole vectors. A tile's 16 values are `stride` floats apart.
 *
 * input    B^T d B, d 4x4      B^T = 1  0 -1  0     A^T = 1 1  1  0
 * output   A^T m A, m 4x4            0  1  1  0           0 1 -1 -1
 * gradient A g A^T, g 2x2            0 -1  1  0
 *                                    0  1  0 -1
 *
 * kernel   G k G^T, k 3x3      G^T = 1 1/2  1/2 0
 * back     G^T m G, m 4x4            0 1/2 -1/2 0
 *                                    0 1/2  1/2 1
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

/* G k, of three numbers. */
TD__INLINE void widen(td__vec a, td__vec b, td__vec c, td__vec to[4]) {
    td__vec outer = 0.5f * (a + c), inner = 0.5f * b;
    to[0] = a;
    to[1] = outer + inner;
    to[2] = outer - inner;
    to[3] = c;
}

static void winograd_kernel(int64_t pairs, const float *kernel, bool turned, float *u) {
    for (int64_t i = 0; i < pairs; i += TD__LANES) {
        td__vec columns[3][4], row[4];
#pragma GCC unroll 3
        for (int x = 0; x < 3; x++) {
            const float *k = kernel + (turned ? 2 - x : x) * pairs + i;
            td__vec first = td__load(k), last = td__load(k + 6 * pairs);
            widen(turned ? last : first, td__load(k + 3 * pairs), turned ? first : last,
                  columns[x]);
        }
#pragma GCC unroll 4
        for (int y = 0; y < 4; y++) {
            widen(columns[0][y], columns[1][y], columns[2][y], row);
#pragma GCC unroll 4
            for (int x = 0; x < 4; x++) {
                td__store(u + (4 * y + x) * pairs + i, row[x]);
            }
        }
    }
}

/* G^T m, of four numbers. */
TD__INLINE void narrow(td__vec m0, td__vec m1, td__vec m2, td__vec m3, td__vec to[3]) {
    td__vec sum = 0.5f * (m1 + m2);
    to[0] = m0 + sum;
    to[1] = 0.5f * (m1 - m2);
    to[2] = sum + m3;
}

static void winograd_kernel_back(int64_t pairs, const float *m, bool add, float *dw) {
    for (int64_t i = 0; i < pairs; i += TD__LANES) {
        td__vec columns[4][3], row[3];
#pragma GCC unroll 4
        for (int x = 0; x < 4; x++) {
            const float *at = m + x * pairs + i;
            narrow(td__load(at), td__load(at + 4 * pairs), td__load(at + 8 * pairs),
                   td__load(at + 12 * pairs), columns[x]);
        }
#pragma GCC unroll 3
        for (int y = 0; y < 3; y++) {
            narrow(columns[0][y], columns[1][y], columns[2][y], columns[3][y], row);
#pragma GCC unroll 3
            for (int x = 0; x < 3; x++) {
                float *to = dw + (3 * y + x) * pairs + i;
                put(row[x], to, add ? TD__TILE_ADD : 0);
            }
        }
    }
}

void TD__VARIANT(td__fill_winograd)(td__kernels_table *table) {
    table->winograd_input = winograd_input;
    table->winograd_output = winograd_output;
    table->winograd_gradient = winograd_gradient;
    table->winograd_kernel = winograd_kernel;
    table->winograd_kernel_back = winograd_kernel_back;
}
