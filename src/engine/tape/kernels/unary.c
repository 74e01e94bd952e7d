/* Element-wise functions of one operand and up to two numbers p, q.
 *
 * y = f(x); dx (=|+=) g f'(x), which may use y too
 */
#include "tape/kernels/math.h"
#include "tape/kernels/variant.h"

#define DEFINE(name, value, derivative)                                                            \
    static void name(int64_t n, float p, float q, const float *xs, float *ys) {                    \
        (void)p, (void)q;                                                                          \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) {                                      \
            float x = xs[i];                                                                       \
            ys[i] = (value);                                                                       \
        }                                                                                          \
    }                                                                                              \
    static void name##_backward(int64_t n, float p, float q, const float *xs, const float *ys,     \
                                const float *g, bool add, float *dx) {                             \
        (void)p, (void)q;                                                                          \
        if (add) {                                                                                 \
            _Pragma("omp simd") for (int64_t i = 0; i < n; i++) {                                  \
                float x = xs[i], y = ys[i];                                                        \
                (void)x, (void)y;                                                                  \
                dx[i] += g[i] * (derivative);                                                      \
            }                                                                                      \
        } else {                                                                                   \
            _Pragma("omp simd") for (int64_t i = 0; i < n; i++) {                                  \
                float x = xs[i], y = ys[i];                                                        \
                (void)x, (void)y;                                                                  \
                dx[i] = g[i] * (derivative);                                                       \
            }                                                                                      \
        }                                                                                          \
    }

DEFINE(affine, p *x + q, p)
DEFINE(exponential, td__expf(x), y)
DEFINE(logarithm, td__logf(x), 1.0f / x)
DEFINE(square_root, __builtin_sqrtf(x), 0.5f / y)
DEFINE(square, x *x, 2.0f * x)
DEFINE(absolute, __builtin_fabsf(x), x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : 0.0f)
DEFINE(error_function, td__erff(x), 1.12837917f * td__expf(-x * x))
/* Not at the bounds' outside; NaN stays. */
DEFINE(clip, x<p ? p : x> q ? q : x, x >= p && x <= q ? 1.0f : 0.0f)

#define ENTRY(member, name)                                                                        \
    table->unary[TD__##member] = name;                                                             \
    table->unary_backward[TD__##member] = name##_backward

void TD__VARIANT(td__fill_unary)(td__kernels_table *table) {
    ENTRY(AFFINE, affine);
    ENTRY(EXP, exponential);
    ENTRY(LOG, logarithm);
    ENTRY(SQRT, square_root);
    ENTRY(SQUARE, square);
    ENTRY(ABSOLUTE, absolute);
    ENTRY(CLIP, clip);
    ENTRY(ERF, error_function);
}
