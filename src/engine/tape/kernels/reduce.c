/* Reductions of the middle axis of x (outer, size, inner): y[o, i] = reduce over s of x[o, s, i].
 *
 * Sums are reordered: lanes or groups of rows first, and long ones in blocks, so that rounding
 * errors grow with the number of blocks and not with the length.
 */
#include "tape/kernels/vector.h"

enum { BLOCK = 4096, ROWS = 64, COLUMNS = 256, NARROW = 16 };

TD__INLINE float sum_short(int64_t n, const float *x) {
    float total = 0;
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < n; i++) {
        total += x[i];
    }
    return total;
}

static float sum_line(int64_t n, const float *x) {
    if (n <= BLOCK) {
        return sum_short(n, x);
    }
    double total = 0;
    for (int64_t start = 0; start < n; start += BLOCK) {
        total += (double)sum_short(start + BLOCK < n ? BLOCK : n - start, x + start);
    }
    return (float)total;
}

/* sums[i] (+)= sum over rows of x[r, i], for up to ROWS rows that are `row` apart. */
TD__INLINE void sum_block(int64_t rows, int64_t n, const float *x, int64_t row, bool add,
                          float *sums) {
    for (int64_t i = 0; !add && i < n; i++) {
        sums[i] = 0;
    }
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4, x += 4 * row) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            sums[i] += (x[i] + x[row + i]) + (x[2 * row + i] + x[3 * row + i]);
        }
    }
    for (; r < rows; r++, x += row) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            sums[i] += x[i];
        }
    }
}

static void sum_rows(int64_t rows, int64_t n, const float *x, bool add, float *sums);

/* Several narrow rows side by side make one that is worth vector code. */
static void sum_narrow_rows(int64_t rows, int64_t n, const float *x, bool add, float *sums) {
    float part[ROWS];
    int64_t beside = ROWS / n, wide = rows / beside;
    sum_rows(wide, beside * n, x, false, part);
    sum_block(beside, n, part, n, add, sums);
    sum_block(rows - wide * beside, n, x + wide * beside * n, n, true, sums);
}

/* Blocks of rows are summed where they fit the cache, then added up. */
static void sum_rows(int64_t rows, int64_t n, const float *x, bool add, float *sums) {
    if (rows <= ROWS || n == 0) {
        sum_block(rows, n, x, n, add, sums);
        return;
    }
    if (n <= NARROW) {
        sum_narrow_rows(rows, n, x, add, sums);
        return;
    }
    for (int64_t first = 0; first < n; first += COLUMNS) {
        int64_t width = first + COLUMNS < n ? COLUMNS : n - first;
        float part[COLUMNS];
        for (int64_t r = 0; r < rows; r += ROWS) {
            int64_t height = r + ROWS < rows ? ROWS : rows - r;
            bool begun = add || r > 0;
            sum_block(height, width, x + r * n + first, n, false, begun ? part : sums + first);
            for (int64_t i = 0; begun && i < width; i++) {
                sums[first + i] += part[i];
            }
        }
    }
}

static void reduce_sum(int64_t outer, int64_t size, int64_t inner, const float *x, float *y) {
    for (int64_t o = 0; o < outer; o++, x += size * inner, y += inner) {
        if (inner == 1) {
            y[0] = sum_line(size, x);
        } else {
            sum_rows(size, inner, x, false, y);
        }
    }
}

/* A NaN wins. Narrow rows run side by side, as above. */
#define DEFINE_EXTREME(name, better)                                                               \
    static float name##_line(int64_t n, const float *x) {                                          \
        td__vec bests = x[0] - (td__vec){0}; /* -0 stays */                                        \
        td__mask strange = {0};                                                                    \
        int64_t i = 0;                                                                             \
        for (; i + TD__LANES <= n; i += TD__LANES) {                                               \
            td__vec v = td__load(x + i);                                                           \
            bests = td__choose(v better bests, v, bests);                                          \
            strange |= v != v;                                                                     \
        }                                                                                          \
        float best = x[0];                                                                         \
        int32_t nans = 0;                                                                          \
        for (int l = 0; l < TD__LANES; l++) {                                                      \
            best = bests[l] better best ? bests[l] : best;                                         \
            nans |= strange[l];                                                                    \
        }                                                                                          \
        for (; i < n; i++) {                                                                       \
            best = x[i] better best ? x[i] : best;                                                 \
            nans |= x[i] != x[i];                                                                  \
        }                                                                                          \
        return nans ? __builtin_nanf("") : best;                                                   \
    }                                                                                              \
    static void name##_more_rows(int64_t rows, int64_t n, const float *x, float *best) {           \
        for (int64_t r = 0; r < rows; r++, x += n) {                                               \
            _Pragma("omp simd") for (int64_t i = 0; i < n; i++) {                                  \
                best[i] = x[i] better best[i] || x[i] != x[i] ? x[i] : best[i];                    \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static void name##_rows(int64_t rows, int64_t n, const float *x, float *best) {                \
        float part[ROWS];                                                                          \
        int64_t beside = n <= NARROW && rows > ROWS ? ROWS / n : 1, wide = rows / beside;          \
        float *first = beside > 1 ? part : best;                                                   \
        memcpy(first, x, (size_t)(beside * n) * sizeof *first);                                    \
        name##_more_rows(wide - 1, beside * n, x + beside * n, first);                             \
        if (beside > 1) {                                                                          \
            memcpy(best, part, (size_t)n * sizeof *best);                                          \
            name##_more_rows(beside - 1, n, part + n, best);                                       \
            name##_more_rows(rows - wide * beside, n, x + wide * beside * n, best);                \
        }                                                                                          \
    }                                                                                              \
    static void reduce_##name(int64_t outer, int64_t size, int64_t inner, const float *x,          \
                              float *y) {                                                          \
        for (int64_t o = 0; o < outer; o++, x += size * inner, y += inner) {                       \
            if (inner == 1) {                                                                      \
                y[0] = name##_line(size, x);                                                       \
            } else {                                                                               \
                name##_rows(size, inner, x, y);                                                    \
            }                                                                                      \
        }                                                                                          \
    }
DEFINE_EXTREME(max, >)
DEFINE_EXTREME(min, <)

static float dot(int64_t n, const float *a, const float *b) {
    double total = 0;
    for (int64_t start = 0; start < n; start += BLOCK) {
        int64_t end = start + BLOCK < n ? start + BLOCK : n;
        float part = 0;
#pragma omp simd reduction(+ : part)
        for (int64_t i = start; i < end; i++) {
            part += a[i] * b[i];
        }
        total += (double)part;
    }
    return (float)total;
}

void TD__VARIANT(td__fill_reduce)(td__kernels_table *table) {
    table->sum_rows = sum_rows;
    table->sum = sum_line;
    table->dot = dot;
    table->reduce[TD__REDUCE_SUM] = reduce_sum;
    table->reduce[TD__REDUCE_MAX] = reduce_max;
    table->reduce[TD__REDUCE_MIN] = reduce_min;
}
