/* Optimizers' inner loops, with Keras's equations. rate already includes any bias correction. */
#include "tape/kernels/math.h"
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
 * epsilon), where with amsgrad the largest v so far takes the place of v */
static void adam(int64_t n, float rate, float beta_1, float beta_2, float epsilon, float decay,
                 const float *g, float *m, float *v, float *largest, float *w) {
    float gain_1 = 1.0f - beta_1, gain_2 = 1.0f - beta_2, keep = 1.0f - decay;
    if (largest) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            float first = m[i] + (g[i] - m[i]) * gain_1;
            float second = v[i] + (g[i] * g[i] - v[i]) * gain_2;
            float most = largest[i] > second ? largest[i] : second;
            m[i] = first;
            v[i] = second;
            largest[i] = most;
            w[i] = w[i] * keep - rate * first / (__builtin_sqrtf(most) + epsilon);
        }
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            float first = m[i] + (g[i] - m[i]) * gain_1;
            float second = v[i] + (g[i] * g[i] - v[i]) * gain_2;
            m[i] = first;
            v[i] = second;
            w[i] = w[i] * keep - rate * first / (__builtin_sqrtf(second) + epsilon);
        }
    }
}

/* s = rho s + (1 - rho) g^2; v = momentum v + rate g / sqrt(s + epsilon); w -= v. Centered, the root
 * is of s - a^2 + epsilon with a = rho a + (1 - rho) g. The flags are constants of each call. */
TD__INLINE void rmsprop_loop(bool moving, bool centered, int64_t n, float rate, float rho,
                             float momentum, float epsilon, const float *g, float *mean_square,
                             float *velocity, float *mean, float *w) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float s = rho * mean_square[i] + (1.0f - rho) * g[i] * g[i];
        mean_square[i] = s;
        if (centered) {
            float a = rho * mean[i] + (1.0f - rho) * g[i];
            mean[i] = a;
            s -= a * a;
        }
        float step = rate * g[i] / __builtin_sqrtf(s + epsilon);
        if (moving) {
            step = momentum * velocity[i] + step;
            velocity[i] = step;
        }
        w[i] -= step;
    }
}

static void rmsprop(int64_t n, float rate, float rho, float momentum, float epsilon, const float *g,
                    float *mean_square, float *velocity, float *mean, float *w) {
#define LOOP(moving, centered)                                                                     \
    rmsprop_loop(moving, centered, n, rate, rho, momentum, epsilon, g, mean_square, velocity,      \
                 mean, w)
    if (mean) {
        velocity ? LOOP(true, true) : LOOP(false, true);
    } else {
        velocity ? LOOP(true, false) : LOOP(false, false);
    }
#undef LOOP
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

/* s = rho s + (1 - rho) g^2; d = g sqrt(e + epsilon) / sqrt(s + epsilon); e = rho e + (1 - rho) d^2;
 * w -= rate d */
static void adadelta(int64_t n, float rate, float rho, float epsilon, const float *g,
                     float *mean_square, float *mean_update, float *w) {
    float gain = 1.0f - rho;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float s = rho * mean_square[i] + gain * g[i] * g[i];
        float d = g[i] * __builtin_sqrtf(mean_update[i] + epsilon) / __builtin_sqrtf(s + epsilon);
        mean_square[i] = s;
        mean_update[i] = rho * mean_update[i] + gain * d * d;
        w[i] -= rate * d;
    }
}

/* m += (g - m)(1 - beta_1); u = max(beta_2 u, |g|); w -= rate m / (u + epsilon) */
static void adamax(int64_t n, float rate, float beta_1, float beta_2, float epsilon, const float *g,
                   float *m, float *u, float *w) {
    float gain = 1.0f - beta_1;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float first = m[i] + (g[i] - m[i]) * gain, size = __builtin_fabsf(g[i]);
        float most = beta_2 * u[i] > size ? beta_2 * u[i] : size;
        m[i] = first;
        u[i] = most;
        w[i] -= rate * first / (most + epsilon);
    }
}

/* m and v as adam's; w -= rate (of_moment m + of_gradient g) / (sqrt(of_square v) + epsilon) */
static void nadam(int64_t n, float rate, const td__nadam *numbers, const float *g, float *m,
                  float *v, float *w) {
    const td__nadam c = *numbers;
    float gain_1 = 1.0f - c.beta_1, gain_2 = 1.0f - c.beta_2;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float first = m[i] + (g[i] - m[i]) * gain_1;
        float second = v[i] + (g[i] * g[i] - v[i]) * gain_2;
        m[i] = first;
        v[i] = second;
        w[i] -= rate * (c.of_moment * first + c.of_gradient * g[i]) /
                (__builtin_sqrtf(c.of_square * second) + c.epsilon);
    }
}

/* w -= rate sign(beta_1 m + (1 - beta_1) g); m = beta_2 m + (1 - beta_2) g */
static void lion(int64_t n, float rate, float beta_1, float beta_2, const float *g, float *m,
                 float *w) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float direction = beta_1 * m[i] + (1.0f - beta_1) * g[i];
        float sign = direction > 0.0f ? 1.0f : direction < 0.0f ? -1.0f : direction; /* NaN stays */
        w[i] -= rate * sign;
        m[i] = beta_2 * m[i] + (1.0f - beta_2) * g[i];
    }
}

void TD__VARIANT(td__fill_optimizer)(td__kernels_table *table) {
    table->sgd = sgd;
    table->sgd_momentum = sgd_momentum;
    table->adam = adam;
    table->rmsprop = rmsprop;
    table->adagrad = adagrad;
    table->adadelta = adadelta;
    table->adamax = adamax;
    table->nadam = nadam;
    table->lion = lion;
}
