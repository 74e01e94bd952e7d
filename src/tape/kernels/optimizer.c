/* Optimizers' inner loops, with Keras's equations. rate already includes any bias correction. */
#include "tape/kernels/variant.h"

/* w -= rate g */
static void sgd(int64_t n, float rate, const float *g, float *w) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        w[i] -= rate * g[i];
    }
}

/* v = momentum v - rate g; w += v, or with Nesterov w += momentum v - rate g */
static void sgd_momentum(int64_t n, float rate, float momentum, bool nesterov, const float *g,
                         float *velocity, float *w) {
    if (nesterov) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            float v = momentum * velocity[i] - rate * g[i];
            velocity[i] = v;
            w[i] += momentum * v - rate * g[i];
        }
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            float v = momentum * velocity[i] - rate * g[i];
            velocity[i] = v;
            w[i] += v;
        }
    }
}

/* w -= decay w; m += (g - m)(1 - beta_1); v += (g^2 - v)(1 - beta_2); w -= rate m / (sqrt v +
 * epsilon) */
static void adam(int64_t n, float rate, float beta_1, float beta_2, float epsilon, float decay,
                 const float *g, float *m, float *v, float *w) {
    float gain_1 = 1.0f - beta_1, gain_2 = 1.0f - beta_2, keep = 1.0f - decay;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float first = m[i] + (g[i] - m[i]) * gain_1;
        float second = v[i] + (g[i] * g[i] - v[i]) * gain_2;
        m[i] = first;
        v[i] = second;
        w[i] = w[i] * keep - rate * first / (__builtin_sqrtf(second) + epsilon);
    }
}

/* s = rho s + (1 - rho) g^2; v = momentum v + rate g / sqrt(s + epsilon); w -= v */
static void rmsprop(int64_t n, float rate, float rho, float momentum, float epsilon, const float *g,
                    float *mean_square, float *velocity, float *w) {
    if (velocity) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            float s = rho * mean_square[i] + (1.0f - rho) * g[i] * g[i];
            mean_square[i] = s;
            float v = momentum * velocity[i] + rate * g[i] / __builtin_sqrtf(s + epsilon);
            velocity[i] = v;
            w[i] -= v;
        }
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            float s = rho * mean_square[i] + (1.0f - rho) * g[i] * g[i];
            mean_square[i] = s;
            w[i] -= rate * g[i] / __builtin_sqrtf(s + epsilon);
        }
    }
}

/* s += g^2; w -= rate g / sqrt(s + epsilon) */
static void adagrad(int64_t n, float rate, float epsilon, const float *g, float *sum_square,
                    float *w) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float s = sum_square[i] + g[i] * g[i];
        sum_square[i] = s;
        w[i] -= rate * g[i] / __builtin_sqrtf(s + epsilon);
    }
}

void TD__VARIANT(td__fill_optimizer)(td__kernels_table *table) {
    table->sgd = sgd;
    table->sgd_momentum = sgd_momentum;
    table->adam = adam;
    table->rmsprop = rmsprop;
    table->adagrad = adagrad;
}
