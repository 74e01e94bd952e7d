/* Element-wise arithmetic and simple sums. Sums are reordered: lanes first, then the lanes. */
#include "tape/kernels/math.h"
#include "tape/kernels/variant.h"

#define DEFINE_BINARY(name, expression)                                                            \
    static void name(int64_t n, const float *a, const float *b, float *c) {                        \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) {                                      \
            float x = a[i], y = b[i];                                                              \
            c[i] = (expression);                                                                   \
        }                                                                                          \
    }
DEFINE_BINARY(add, x + y)
DEFINE_BINARY(subtract, x - y)
DEFINE_BINARY(multiply, x *y)
DEFINE_BINARY(divide, x / y)
/* A NaN on either side wins. */
DEFINE_BINARY(maximum, x > y || x != x ? x : y)
DEFINE_BINARY(minimum, x < y || x != x ? x : y)

static void axpy(int64_t n, float a, const float *x, float *y) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        y[i] += a * x[i];
    }
}

static void affine(int64_t n, float a, const float *x, float b, float *y) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        y[i] = a * x[i] + b;
    }
}

static void add_bias(int64_t rows, int64_t n, const float *bias, float *y) {
    for (int64_t r = 0; r < rows; r++, y += n) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            y[i] += bias[i];
        }
    }
}

static void sum_rows(int64_t rows, int64_t n, const float *x, bool add, float *sums) {
    if (!add) {
        memset(sums, 0, (size_t)n * sizeof *sums);
    }
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4, x += 4 * n) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            sums[i] += (x[i] + x[n + i]) + (x[2 * n + i] + x[3 * n + i]);
        }
    }
    for (; r < rows; r++, x += n) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            sums[i] += x[i];
        }
    }
}

/* Blocks keep the rounding error of long sums small: it grows with the number of blocks. */
enum { BLOCK = 4096 };

static float sum(int64_t n, const float *x) {
    double total = 0;
    for (int64_t start = 0; start < n; start += BLOCK) {
        int64_t end = start + BLOCK < n ? start + BLOCK : n;
        float part = 0;
#pragma omp simd reduction(+ : part)
        for (int64_t i = start; i < end; i++) {
            part += x[i];
        }
        total += (double)part;
    }
    return (float)total;
}

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

static float max(int64_t n, const float *x) {
    float best = x[0];
    int32_t nans = 0;
#pragma omp simd reduction(max : best) reduction(| : nans)
    for (int64_t i = 0; i < n; i++) {
        best = x[i] > best ? x[i] : best;
        nans |= x[i] != x[i];
    }
    return nans ? __builtin_nanf("") : best;
}

static void exponential(int64_t n, const float *x, float *y) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        y[i] = td__expf(x[i]);
    }
}

static void logarithm(int64_t n, const float *x, float *y) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        y[i] = td__logf(x[i]);
    }
}

void TD__VARIANT(td__fill_elementwise)(td__kernels_table *table) {
    table->add = add;
    table->subtract = subtract;
    table->multiply = multiply;
    table->divide = divide;
    table->maximum = maximum;
    table->minimum = minimum;
    table->axpy = axpy;
    table->affine = affine;
    table->add_bias = add_bias;
    table->sum_rows = sum_rows;
    table->sum = sum;
    table->dot = dot;
    table->max = max;
    table->exp = exponential;
    table->log = logarithm;
}
