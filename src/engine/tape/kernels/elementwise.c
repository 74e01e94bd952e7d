/* Element-wise arithmetic. */
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

void TD__VARIANT(td__fill_elementwise)(td__kernels_table *table) {
    table->add = add;
    table->subtract = subtract;
    table->multiply = multiply;
    table->axpy = axpy;
    table->affine = affine;
}
