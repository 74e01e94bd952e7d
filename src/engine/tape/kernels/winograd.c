/* Transforms of 3x3 convolutions in tiles of 2x2 or 4x4 results (Winograd, F(2x2, 3x3) and F(4x4, 3x3));
 * see tape/winograd.c. Channels are whole vectors. A tile's values are `stride` floats apart.
 *
 * A tile is a polynomial known by its values at a few points: 0, 1, -1 and infinity for two results an
 * axis, 0, a, -a, b, -b and infinity for four. With a = 5/8 and b = 3/2 the matrices' numbers stay near
 * one another: the error is a quarter of that of the usual 1 and 2.
 *
 * input    B^T d B     two: B^T = 1  0 -1  0     A^T = 1 1  1  0     G^T = 1 1/2  1/2 0
 * output   A^T m A                0  1  1  0           0 1 -1 -1           0 1/2 -1/2 0
 * gradient A g A^T                0 -1  1  0                               0 1/2  1/2 1
 * kernel   G k G^T                0  1  0 -1
 * back     G^T m G
 *
 * four: row p of B^T has the coefficients of the product of (x - q) over the other points q, of A and
 * G the powers of p, in G divided by that product at p; infinity stands for the highest power.
 */
#include "tape/kernels/vector.h"

#define A (5.0f / 8)
#define B (3.0f / 2)
#define A2 (A * A)
#define B2 (B * B)
#define AT_0 (1 / (A2 * B2))
#define AT_A (1 / (2 * A2 * (A2 - B2)))
#define AT_B (1 / (2 * B2 * (B2 - A2)))

enum { MAX_SIDE = 6 }; /* values of a tile along an axis */

/* --- along one axis; side is 2 or 4 and known to the compiler -------------------------------- */

TD__INLINE void input_axis(int side, const td__vec d[MAX_SIDE], td__vec t[MAX_SIDE]) {
    if (side == 2) {
        t[0] = d[0] - d[2];
        t[1] = d[1] + d[2];
        t[2] = d[2] - d[1];
        t[3] = d[1] - d[3];
        return;
    }
    td__vec even = d[4] - B2 * d[2], odd = A * (d[3] - B2 * d[1]);
    t[0] = A2 * B2 * d[0] - (A2 + B2) * d[2] + d[4];
    t[1] = even + odd;
    t[2] = even - odd;
    even = d[4] - A2 * d[2];
    odd = B * (d[3] - A2 * d[1]);
    t[3] = even + odd;
    t[4] = even - odd;
    t[5] = A2 * B2 * d[1] - (A2 + B2) * d[3] + d[5];
}

TD__INLINE void output_axis(int side, const td__vec m[MAX_SIDE], td__vec y[4]) {
    if (side == 2) {
        y[0] = m[0] + m[1] + m[2];
        y[1] = m[1] - m[2] - m[3];
        return;
    }
    td__vec even_a = m[1] + m[2], odd_a = m[1] - m[2];
    td__vec even_b = m[3] + m[4], odd_b = m[3] - m[4];
    y[0] = m[0] + even_a + even_b;
    y[1] = A * odd_a + B * odd_b;
    y[2] = A2 * even_a + B2 * even_b;
    y[3] = A2 * A * odd_a + B2 * B * odd_b + m[5];
}

TD__INLINE void gradient_axis(int side, const td__vec g[4], td__vec t[MAX_SIDE]) {
    t[0] = g[0];
    if (side == 2) {
        t[1] = g[0] + g[1];
        t[2] = g[0] - g[1];
        t[3] = -g[1];
        return;
    }
    td__vec even = g[0] + A2 * g[2], odd = A * g[1] + A2 * A * g[3];
    t[1] = even + odd;
    t[2] = even - odd;
    even = g[0] + B2 * g[2];
    odd = B * g[1] + B2 * B * g[3];
    t[3] = even + odd;
    t[4] = even - odd;
    t[5] = g[3];
}

TD__INLINE void kernel_axis(int side, const td__vec k[3], td__vec t[MAX_SIDE]) {
    if (side == 2) {
        td__vec even = 0.5f * (k[0] + k[2]), odd = 0.5f * k[1];
        t[0] = k[0];
        t[1] = even + odd;
        t[2] = even - odd;
        t[3] = k[2];
        return;
    }
    td__vec even = AT_A * k[0] + AT_A * A2 * k[2], odd = AT_A * A * k[1];
    t[0] = AT_0 * k[0];
    t[1] = even + odd;
    t[2] = even - odd;
    even = AT_B * k[0] + AT_B * B2 * k[2];
    odd = AT_B * B * k[1];
    t[3] = even + odd;
    t[4] = even - odd;
    t[5] = k[2];
}

TD__INLINE void back_axis(int side, const td__vec m[MAX_SIDE], td__vec k[3]) {
    if (side == 2) {
        td__vec even = 0.5f * (m[1] + m[2]);
        k[0] = m[0] + even;
        k[1] = 0.5f * (m[1] - m[2]);
        k[2] = even + m[3];
        return;
    }
    td__vec even_a = AT_A * (m[1] + m[2]), even_b = AT_B * (m[3] + m[4]);
    k[0] = AT_0 * m[0] + even_a + even_b;
    k[1] = AT_A * A * (m[1] - m[2]) + AT_B * B * (m[3] - m[4]);
    k[2] = A2 * even_a + B2 * even_b + m[5];
}

/* --- along both ------------------------------------------------------------------------------ */

TD__INLINE void input(int side, int64_t channels, const float *x, int64_t row, float *v,
                      int64_t stride) {
    int n = side + 2;
    for (int64_t c = 0; c < channels; c += TD__LANES) {
        td__vec t[MAX_SIDE][MAX_SIDE], d[MAX_SIDE], to[MAX_SIDE];
#pragma GCC unroll 6
        for (int j = 0; j < n; j++) {
#pragma GCC unroll 6
            for (int i = 0; i < n; i++) {
                d[i] = td__load(x + i * row + j * channels + c);
            }
            input_axis(side, d, to);
#pragma GCC unroll 6
            for (int i = 0; i < n; i++) {
                t[i][j] = to[i];
            }
        }
#pragma GCC unroll 6
        for (int i = 0; i < n; i++) {
            input_axis(side, t[i], to);
#pragma GCC unroll 6
            for (int j = 0; j < n; j++) {
                td__store(v + (n * i + j) * stride + c, to[j]);
            }
        }
    }
}

TD__INLINE void put(td__vec value, float *y, int flags) {
    if (flags & TD__TILE_ADD) {
        value += td__load(y);
    }
    td__store(y, td__tile_end(value, flags));
}

TD__INLINE void output(int side, int64_t channels, const float *m, int64_t stride,
                       const float *bias, int rows, int columns, float *y, int64_t row, int flags) {
    int n = side + 2;
    for (int64_t c = 0; c < channels; c += TD__LANES) {
        td__vec t[4][MAX_SIDE], d[MAX_SIDE], to[4];
#pragma GCC unroll 6
        for (int j = 0; j < n; j++) {
#pragma GCC unroll 6
            for (int i = 0; i < n; i++) {
                d[i] = td__load(m + (n * i + j) * stride + c);
            }
            output_axis(side, d, to);
#pragma GCC unroll 4
            for (int i = 0; i < side; i++) {
                t[i][j] = to[i];
            }
        }
        td__vec offset = bias ? td__load(bias + c) : (td__vec){0};
#pragma GCC unroll 4
        for (int i = 0; i < side; i++) {
            if (i < rows) {
                output_axis(side, t[i], to);
#pragma GCC unroll 4
                for (int j = 0; j < side; j++) {
                    if (j < columns) {
                        put(to[j] + offset, y + i * row + j * channels + c, flags);
                    }
                }
            }
        }
    }
}

TD__INLINE void gradient(int side, int64_t channels, const float *g, int64_t row, int rows,
                         int columns, float *u, int64_t stride) {
    int n = side + 2;
    for (int64_t c = 0; c < channels; c += TD__LANES) {
        td__vec t[MAX_SIDE][4], d[4], to[MAX_SIDE];
#pragma GCC unroll 4
        for (int j = 0; j < side; j++) {
#pragma GCC unroll 4
            for (int i = 0; i < side; i++) {
                bool inside = i < rows && j < columns;
                d[i] = inside ? td__load(g + i * row + j * channels + c) : (td__vec){0};
            }
            gradient_axis(side, d, to);
#pragma GCC unroll 6
            for (int i = 0; i < n; i++) {
                t[i][j] = to[i];
            }
        }
#pragma GCC unroll 6
        for (int i = 0; i < n; i++) {
            gradient_axis(side, t[i], to);
#pragma GCC unroll 6
            for (int j = 0; j < n; j++) {
                td__store(u + (n * i + j) * stride + c, to[j]);
            }
        }
    }
}

TD__INLINE void kernel(int side, int64_t pairs, const float *k, bool turned, float *u) {
    int n = side + 2;
    for (int64_t i = 0; i < pairs; i += TD__LANES) {
        td__vec columns[3][MAX_SIDE], d[3], to[MAX_SIDE];
#pragma GCC unroll 3
        for (int x = 0; x < 3; x++) {
#pragma GCC unroll 3
            for (int y = 0; y < 3; y++) {
                int place = 3 * y + x;
                d[y] = td__load(k + (turned ? 8 - place : place) * pairs + i);
            }
            kernel_axis(side, d, columns[x]);
        }
#pragma GCC unroll 6
        for (int y = 0; y < n; y++) {
            d[0] = columns[0][y], d[1] = columns[1][y], d[2] = columns[2][y];
            kernel_axis(side, d, to);
#pragma GCC unroll 6
            for (int x = 0; x < n; x++) {
                td__store(u + (n * y + x) * pairs + i, to[x]);
            }
        }
    }
}

TD__INLINE void back(int side, int64_t pairs, const float *m, bool add, float *dw) {
    int n = side + 2;
    for (int64_t i = 0; i < pairs; i += TD__LANES) {
        td__vec t[3][MAX_SIDE], d[MAX_SIDE], to[3];
#pragma GCC unroll 6
        for (int x = 0; x < n; x++) {
#pragma GCC unroll 6
            for (int y = 0; y < n; y++) {
                d[y] = td__load(m + (n * y + x) * pairs + i);
            }
            back_axis(side, d, to);
            t[0][x] = to[0], t[1][x] = to[1], t[2][x] = to[2];
        }
#pragma GCC unroll 3
        for (int y = 0; y < 3; y++) {
            back_axis(side, t[y], to);
#pragma GCC unroll 3
            for (int x = 0; x < 3; x++) {
                put(to[x], dw + (3 * y + x) * pairs + i, add ? TD__TILE_ADD : 0);
            }
        }
    }
}

/* --- for each side --------------------------------------------------------------------------- */

#define TRANSFORMS(SIDE)                                                                           \
    static void input_##SIDE(int64_t channels, const float *x, int64_t row, float *v,              \
                             int64_t stride) {                                                     \
        input(SIDE, channels, x, row, v, stride);                                                  \
    }                                                                                              \
    static void output_##SIDE(int64_t channels, const float *m, int64_t stride, const float *bias, \
                              int rows, int columns, float *y, int64_t row, int flags) {           \
        output(SIDE, channels, m, stride, bias, rows, columns, y, row, flags);                     \
    }                                                                                              \
    static void gradient_##SIDE(int64_t channels, const float *g, int64_t row, int rows,           \
                                int columns, float *u, int64_t stride) {                           \
        gradient(SIDE, channels, g, row, rows, columns, u, stride);                                \
    }                                                                                              \
    static void kernel_##SIDE(int64_t pairs, const float *k, bool turned, float *u) {              \
        kernel(SIDE, pairs, k, turned, u);                                                         \
    }                                                                                              \
    static void back_##SIDE(int64_t pairs, const float *m, bool add, float *dw) {                  \
        back(SIDE, pairs, m, add, dw);                                                             \
    }

TRANSFORMS(2)
TRANSFORMS(4)

void TD__VARIANT(td__fill_winograd)(td__kernels_table *table) {
    table->winograd[0] = (td__winograd_kernels){4, input_4, output_4, gradient_4, kernel_4, back_4};
    table->winograd[1] = (td__winograd_kernels){2, input_2, output_2, gradient_2, kernel_2, back_2};
}
