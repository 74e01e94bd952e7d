/* Element-wise arithmetic of two operands over rows, either of which may repeat a row or a value.
 *
 * c = f(x, y); dx (=|+=) g df/dx; dy (=|+=) g df/dy. Where both sides of maximum or minimum are
 * equal, each gets half of the gradient. The derivative of x^y in y is 0 where x <= 0, that
 * of prelu in x is 0 where x is 0.
 */
#include "tape/kernels/math.h"
#include "tape/kernels/variant.h"

#include <math.h>

/* One loop for each way the operands step through a row, so that each becomes vector code. */
#define OVER_ROWS(statement)                                                                       \
    for (int64_t r = 0; r < rows; r++) {                                                           \
        const float *as = a.data + r * a.row, *bs = b.data + r * b.row;                            \
        int64_t at = r * row;                                                                      \
        if (a.step && b.step) {                                                                    \
            _Pragma("omp simd") for (int64_t i = 0; i < n; i++) {                                  \
                float x = as[i], y = bs[i];                                                        \
                statement;                                                                         \
            }                                                                                      \
        } else if (a.step) {                                                                       \
            float y = bs[0];                                                                       \
            _Pragma("omp simd") for (int64_t i = 0; i < n; i++) {                                  \
                float x = as[i];                                                                   \
                statement;                                                                         \
            }                                                                                      \
        } else {                                                                                   \
            float x = as[0];                                                                       \
            _Pragma("omp simd") for (int64_t i = 0; i < n; i++) {                                  \
                float y = bs[i];                                                                   \
                statement;                                                                         \
            }                                                                                      \
        }                                                                                          \
    }

#define DEFINE_BACKWARD(name, derivative)                                                          \
    static void name(int64_t rows, int64_t n, td__operand a, td__operand b, const float *g,        \
                     bool add, float *d, int64_t row) {                                            \
        if (add) {                                                                                 \
            OVER_ROWS((void)x; (void)y; d[at + i] += g[at + i] * (derivative))                     \
        } else {                                                                                   \
            OVER_ROWS((void)x; (void)y; d[at + i] = g[at + i] * (derivative))                      \
        }                                                                                          \
    }

#define DEFINE(name, value, in_x, in_y)                                                            \
    static void name(int64_t rows, int64_t n, td__operand a, td__operand b, float *c,              \
                     int64_t row){OVER_ROWS(c[at + i] = (value))} DEFINE_BACKWARD(name##_in_x,     \
                                                                                  in_x)            \
        DEFINE_BACKWARD(name##_in_y, in_y)

#define SHARE(wins, loses) ((wins) ? 1.0f : (loses) ? 0.0f : 0.5f)

DEFINE(add, x + y, 1.0f, 1.0f)
DEFINE(subtract, x - y, 1.0f, -1.0f)
DEFINE(multiply, x *y, y, x)
DEFINE(divide, x / y, 1.0f / y, -x / (y * y))
/* A NaN on either side wins. */
DEFINE(maximum, x > y || x != x ? x : y, SHARE(x > y, x < y), SHARE(y > x, y < x))
DEFINE(minimum, x < y || x != x ? x : y, SHARE(x<y, x> y), SHARE(y<x, y> x))
DEFINE(power, powf(x, y), y == 0.0f ? 0.0f : y * powf(x, y - 1.0f),
       x > 0.0f ? powf(x, y) * logf(x) : 0.0f)
DEFINE(prelu, x > 0.0f ? x : x * y, x > 0.0f ? 1.0f : x == 0.0f ? 0.0f : y, x > 0.0f ? 0.0f : x)

/* 1 where x = y, else 0; without derivative */
static void equal(int64_t rows, int64_t n, td__operand a, td__operand b, float *c, int64_t row) {
    OVER_ROWS(c[at + i] = x == y ? 1.0f : 0.0f)
}

/* y (=|+=) scale x, where x may repeat */
static void expand(int64_t rows, int64_t n, td__operand x, float scale, bool add, float *y,
                   int64_t row) {
    for (int64_t r = 0; r < rows; r++, y += row) {
        const float *from = x.data + r * x.row;
        float start = scale * from[0];
        if (add && x.step) {
#pragma omp simd
            for (int64_t i = 0; i < n; i++) {
                y[i] += scale * from[i];
            }
        } else if (add) {
#pragma omp simd
            for (int64_t i = 0; i < n; i++) {
                y[i] += start;
            }
        } else if (x.step) {
#pragma omp simd
            for (int64_t i = 0; i < n; i++) {
                y[i] = scale * from[i];
            }
        } else {
#pragma omp simd
            for (int64_t i = 0; i < n; i++) {
                y[i] = start;
            }
        }
    }
}

#define ENTRY(member, name)                                                                        \
    table->binary[TD__##member] = name;                                                            \
    table->binary_backward[TD__##member][0] = name##_in_x;                                         \
    table->binary_backward[TD__##member][1] = name##_in_y

void TD__VARIANT(td__fill_binary)(td__kernels_table *table) {
    ENTRY(ADD, add);
    ENTRY(SUBTRACT, subtract);
    ENTRY(MULTIPLY, multiply);
    ENTRY(DIVIDE, divide);
    ENTRY(MAXIMUM, maximum);
    ENTRY(MINIMUM, minimum);
    ENTRY(POWER, power);
    ENTRY(PRELU, prelu);
    table->binary[TD__EQUAL] = equal;
    table->expand = expand;
}
