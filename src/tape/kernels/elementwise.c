/* Element-wise arithmetic. */
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
    table->max = max;
    table->exp = exponential;
    table->log = logarithm;
}
