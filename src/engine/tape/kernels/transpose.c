/* Rows to columns, a square of registers at a time. */
#include "tape/kernels/vector.h"

enum { LINE = 16 }; /* floats of a cache line, which is written as a whole */

/* Columns [first, last) of TD__LANES rows of x, whole squares. */
TD__INLINE void turn_squares(int64_t first, int64_t last, const float *x, int64_t ldx, float *y,
                             int64_t ldy) {
    for (int64_t j = first; j < last; j += TD__LANES) {
        td__vec square[TD__LANES];
#pragma GCC unroll 16
        for (int r = 0; r < TD__LANES; r++) {
            square[r] = td__load(x + r * ldx + j);
        }
        td__transpose(square);
#pragma GCC unroll 16
        for (int r = 0; r < TD__LANES; r++) {
            td__store(y + (j + r) * ldy, square[r]);
        }
    }
}

static void transpose(int64_t rows, int64_t columns, const float *x, int64_t ldx, float *y,
                      int64_t ldy) {
    int64_t whole = columns / TD__LANES * TD__LANES, i = 0;
    for (; i + LINE <= rows; i += LINE) {
        for (int64_t j = 0; j < whole; j += TD__LANES) {
            for (int64_t k = i; k < i + LINE; k += TD__LANES) {
                turn_squares(j, j + TD__LANES, x + k * ldx, ldx, y + k, ldy);
            }
        }
    }
    for (; i + TD__LANES <= rows; i += TD__LANES) {
        turn_squares(0, whole, x + i * ldx, ldx, y + i, ldy);
    }
    for (int64_t j = 0; j < columns; j++) {
        for (int64_t k = j < whole ? i : 0; k < rows; k++) {
            y[j * ldy + k] = x[k * ldx + j];
        }
    }
}

void TD__VARIANT(td__fill_transpose)(td__kernels_table *table) {
    table->transpose = transpose;
}
