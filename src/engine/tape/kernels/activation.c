/* Activations and their derivatives, one line each.
 *
 * Derivatives are written in terms of the output y where that is possible
 * (td__activation_uses_output), so that the forward pass can run in place; otherwise of the input
 * x.
 */
#include "tape/kernels/math.h"
#include "tape/kernels/variant.h"

#define SELU_SCALE 1.05070098f
#define SELU_ALPHA 1.67326324f
#define INVERSE_SQRT_2_PI 0.39894228f
#define SQRT_2_OVER_PI 0.79788456f

/* f: value of x. d: derivative, of v = y or x. */
#define DEFINE(name, f, d)                                                                         \
    static void name(int64_t n, float alpha, const float *xs, float *ys) {                         \
        (void)alpha;                                                                               \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) {                                      \
            float x = xs[i];                                                                       \
            ys[i] = (f);                                                                           \
        }                                                                                          \
    }                                                                                              \
    static void name##_backward(int64_t n, float alpha, const float *vs, const float *gs,          \
                                bool add, float *dxs) {                                            \
        (void)alpha;                                                                               \
        if (add) {                                                                                 \
            _Pragma("omp simd") for (int64_t i = 0; i < n; i++) {                                  \
                float v = vs[i];                                                                   \
                dxs[i] += gs[i] * (d);                                                             \
            }                                                                                      \
        } else {                                                                                   \
            _Pragma("omp simd") for (int64_t i = 0; i < n; i++) {                                  \
                float v = vs[i];                                                                   \
                dxs[i] = gs[i] * (d);                                                              \
            }                                                                                      \
        }                                                                                          \
    }

TD__INLINE float gelu_tanh_derivative(float x) {
    float t = td__tanhf(SQRT_2_OVER_PI * (x + 0.044715f * x * x * x));
    float inner = SQRT_2_OVER_PI * (1.0f + 3.0f * 0.044715f * x * x);
    return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * inner;
}

TD__INLINE float swish_derivative(float x) {
    float s = td__sigmoidf(x);
    return s + x * s * (1.0f - s);
}

TD__INLINE float softsign_derivative(float x) {
    float d = 1.0f + (x < 0.0f ? -x : x);
    return 1.0f / (d * d);
}

TD__INLINE float mish_derivative(float x) {
    float t = td__tanhf(td__softplusf(x));
    return t + x * (1.0f - t * t) * td__sigmoidf(x);
}

TD__INLINE float tanh_shrink_derivative(float x) {
    float t = td__tanhf(x);
    return t * t;
}

/* NaN stays: all comparisons are written so that it takes the branch that keeps it. */
DEFINE(linear, x, v == v ? 1.0f : v)
DEFINE(relu, x <= 0.0f ? 0.0f : x, v > 0.0f ? 1.0f : 0.0f)
DEFINE(leaky_relu, x<0.0f ? alpha * x : x, v> 0.0f ? 1.0f : alpha)
DEFINE(elu, x<0.0f ? alpha *(td__expf(x) - 1.0f) : x, v> 0.0f ? 1.0f : v + alpha)
DEFINE(selu, SELU_SCALE *(x < 0.0f ? SELU_ALPHA * (td__expf(x) - 1.0f) : x),
       v < 0.0f ? v + SELU_SCALE * SELU_ALPHA : SELU_SCALE)
DEFINE(gelu, x *td__normal_cdff(x),
       td__normal_cdff(v) + v * INVERSE_SQRT_2_PI * td__expf(-0.5f * v * v))
DEFINE(gelu_tanh, 0.5f * x * (1.0f + td__tanhf(SQRT_2_OVER_PI * (x + 0.044715f * x * x * x))),
       gelu_tanh_derivative(v))
DEFINE(softplus, td__softplusf(x), td__sigmoidf(v))
DEFINE(sigmoid, td__sigmoidf(x), v *(1.0f - v))
DEFINE(hyperbolic_tangent, td__tanhf(x), 1.0f - v * v)
DEFINE(swish, x *td__sigmoidf(x), swish_derivative(v))
DEFINE(exponential, td__expf(x), v)
DEFINE(relu6, x <= 0.0f ? 0.0f : x > 6.0f ? 6.0f : x, v > 0.0f && v < 6.0f ? 1.0f : 0.0f)
DEFINE(hard_sigmoid,
       x <= -3.0f  ? 0.0f
       : x >= 3.0f ? 1.0f
                   : x * (1.0f / 6.0f) + 0.5f,
       v > 0.0f && v < 1.0f ? 1.0f / 6.0f : 0.0f)
DEFINE(softsign, x / (1.0f + (x < 0.0f ? -x : x)), softsign_derivative(v))

DEFINE(hard_silu,
       x <= -3.0f  ? 0.0f
       : x >= 3.0f ? x
                   : x * (x * (1.0f / 6.0f) + 0.5f),
       v <= -3.0f  ? 0.0f
       : v >= 3.0f ? 1.0f
                   : v * (1.0f / 3.0f) + 0.5f)
DEFINE(hard_tanh, x<-1.0f ? -1.0f : x> 1.0f ? 1.0f : x, v >= -1.0f && v <= 1.0f ? 1.0f : 0.0f)
DEFINE(hard_shrink, x >= -0.5f && x <= 0.5f ? 0.0f : x, v >= -0.5f && v <= 0.5f ? 0.0f : 1.0f)
DEFINE(soft_shrink,
       x > 0.5f    ? x - 0.5f
       : x < -0.5f ? x + 0.5f
                   : x - x,
       v > 0.5f || v < -0.5f ? 1.0f : 0.0f)
DEFINE(tanh_shrink, x - td__tanhf(x), tanh_shrink_derivative(v))
DEFINE(mish, x *td__tanhf(td__softplusf(x)), mish_derivative(v))
DEFINE(celu, x<0.0f ? td__expf(x) - 1.0f : x, v> 0.0f ? 1.0f : v + 1.0f)
DEFINE(log_sigmoid, -td__softplusf(-x), td__sigmoidf(-v))
DEFINE(squareplus, 0.5f * (x + __builtin_sqrtf(x * x + 4.0f)),
       0.5f * (1.0f + v / __builtin_sqrtf(v * v + 4.0f)))
DEFINE(sparse_plus,
       x <= -1.0f  ? 0.0f
       : x >= 1.0f ? x
                   : 0.25f * (x + 1.0f) * (x + 1.0f),
       v <= -1.0f  ? 0.0f
       : v >= 1.0f ? 1.0f
                   : 0.5f * (v + 1.0f))
DEFINE(sparse_sigmoid,
       x <= -1.0f  ? 0.0f
       : x >= 1.0f ? 1.0f
                   : 0.5f * (x + 1.0f),
       v > -1.0f && v < 1.0f ? 0.5f : 0.0f)

/* Keras 2's: HARD_SIGMOID has the slope of Keras 3's and PyTorch's. */
DEFINE(hard_sigmoid_keras2,
       x <= -2.5f  ? 0.0f
       : x >= 2.5f ? 1.0f
                   : x * 0.2f + 0.5f,
       v > 0.0f && v < 1.0f ? 0.2f : 0.0f)

#define ENTRY(member, name)                                                                        \
    table->activate[TD_##member] = name;                                                           \
    table->activate_backward[TD_##member] = name##_backward

void TD__VARIANT(td__fill_activation)(td__kernels_table *table) {
    ENTRY(LINEAR, linear);
    ENTRY(RELU, relu);
    ENTRY(LEAKY_RELU, leaky_relu);
    ENTRY(ELU, elu);
    ENTRY(SELU, selu);
    ENTRY(GELU, gelu);
    ENTRY(GELU_TANH, gelu_tanh);
    ENTRY(SOFTPLUS, softplus);
    ENTRY(SIGMOID, sigmoid);
    ENTRY(TANH, hyperbolic_tangent);
    ENTRY(SWISH, swish);
    ENTRY(EXPONENTIAL, exponential);
    ENTRY(RELU6, relu6);
    ENTRY(HARD_SIGMOID, hard_sigmoid);
    ENTRY(SOFTSIGN, softsign);
    ENTRY(HARD_SILU, hard_silu);
    ENTRY(HARD_TANH, hard_tanh);
    ENTRY(HARD_SHRINK, hard_shrink);
    ENTRY(SOFT_SHRINK, soft_shrink);
    ENTRY(TANH_SHRINK, tanh_shrink);
    ENTRY(MISH, mish);
    ENTRY(CELU, celu);
    ENTRY(LOG_SIGMOID, log_sigmoid);
    ENTRY(SQUAREPLUS, squareplus);
    ENTRY(SPARSE_PLUS, sparse_plus);
    ENTRY(SPARSE_SIGMOID, sparse_sigmoid);
    ENTRY(HARD_SIGMOID_KERAS2, hard_sigmoid_keras2);
}
