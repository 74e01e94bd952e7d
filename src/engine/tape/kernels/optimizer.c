/* Optimizers' inner loops, with Keras's equations. rate already includes any bias correction. */
#include "tape/kernels/math.h"
#include "tape/kernels/variant.h"

/* keep before + gain now. The small terms are added first: little of them is lost. */
TD__INLINE float average(td__average a, float before, float now) {
    return a.near * before + (a.rest * before + a.gain * now);
}

/* w -= rate g */
static void sgd(int64_t n, float rate, const float *g, float *w) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        w[i] -= rate * g[i];
    }
}

/* v = momentum v - rate g, the average that is given; w += v, or with Nesterov
 * w += momentum v - rate g */
static void sgd_momentum(int64_t n, td__average moving, bool nesterov, const float *g,
                         float *velocity, float *w) {
    if (nesterov) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            float v = average(moving, velocity[i], g[i]);
            velocity[i] = v;
            w[i] += average(moving, v, g[i]);
        }
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            float v = average(moving, velocity[i], g[i]);
            velocity[i] = v;
            w[i] += v;
        }
    }
}

/* m = beta_1 m + (1 - beta_1) g; v = beta_2 v + (1 - beta_2) g^2; w -= decay w + rate m / (sqrt v +
 * epsilon), where with amsgrad the largest v so far takes the place of v */
static void adam(int64_t n, float rate, td__average first, td__average second, float epsilon,
                 float decay, const float *g, float *m, float *v, float *largest, float *w) {
    if (largest) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            float moment = average(first, m[i], g[i]);
            float square = average(second, v[i], g[i] * g[i]);
            float max = largest[i] > square ? largest[i] : square;
            m[i] = moment;
            v[i] = square;
            largest[i] = max;
            w[i] -= decay * w[i] + rate * moment / (__builtin_sqrtf(max) + epsilon);
        }
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            float moment = average(first, m[i], g[i]);
            float square = average(second, v[i], g[i] * g[i]);
            m[i] = moment;
            v[i] = square;
            w[i] -= decay * w[i] + rate * moment / (__builtin_sqrtf(square) + epsilon);
        }
    }
}

/* s = rho s + (1 - rho) g^2; v = momentum v + rate g / sqrt(s + epsilon); w -= v. Centered, the root
 * is of s - a^2 + epsilon with a = rho a + (1 - rho) g; s - a^2 is a variance: what rounding leaves of
 * it below 0 is 0. The flags are constants of each call. */
TD__INLINE void rmsprop_loop(bool moves, bool centered, int64_t n, float rate, td__average square,
                             td__average moving, float epsilon, const float *g, float *mean_square,
                             float *velocity, float *mean, float *w) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float s = average(square, mean_square[i], g[i] * g[i]);
        mean_square[i] = s;
        if (centered) {
            float a = average(square, mean[i], g[i]);
            mean[i] = a;
            s -= a * a;
            s = s < 0.0f ? 0.0f : s;
        }
        float step = rate * g[i] / __builtin_sqrtf(s + epsilon);
        if (moves) {
            step = average(moving, velocity[i], step);
            velocity[i] = step;
        }
        w[i] -= step;
    }
}

static void rmsprop(int64_t n, float rate, td__average square, td__average moving, float epsilon,
                    const float *g, float *mean_square, float *velocity, float *mean, float *w) {
#define LOOP(moves, centered)                                                                      \
    rmsprop_loop(moves, centered, n, rate, square, moving, epsilon, g, mean_square, velocity,      \
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
static void adadelta(int64_t n, float rate, td__average square, float epsilon, const float *g,
                     float *mean_square, float *mean_update, float *w) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float s = average(square, mean_square[i], g[i] * g[i]);
        float d = g[i] * __builtin_sqrtf(mean_update[i] + epsilon) / __builtin_sqrtf(s + epsilon);
        mean_square[i] = s;
        mean_update[i] = average(square, mean_update[i], d * d);
        w[i] -= rate * d;
    }
}

/* m = beta_1 m + (1 - beta_1) g; u = max(beta_2 u, |g|); w -= rate m / (u + epsilon) */
static void adamax(int64_t n, float rate, td__average first, td__average largest, float epsilon,
                   const float *g, float *m, float *u, float *w) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float moment = average(first, m[i], g[i]), size = __builtin_fabsf(g[i]);
        float before = average(largest, u[i], 0.0f);
        float max = before > size ? before : size;
        m[i] = moment;
        u[i] = max;
        w[i] -= rate * moment / (max + epsilon);
    }
}

/* m and v as adam's; w -= rate (of_moment m + of_gradient g) / (sqrt(of_square v) + epsilon) */
static void nadam(int64_t n, float rate, const td__nadam *numbers, const float *g, float *m,
                  float *v, float *w) {
    const td__nadam c = *numbers;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float moment = average(c.first, m[i], g[i]);
        float square = average(c.second, v[i], g[i] * g[i]);
        m[i] = moment;
        v[i] = square;
        w[i] -= rate * (c.of_moment * moment + c.of_gradient * g[i]) /
                (__builtin_sqrtf(c.of_square * square) + c.epsilon);
    }
}

/* w -= rate sign(beta_1 m + (1 - beta_1) g); m = beta_2 m + (1 - beta_2) g */
static void lion(int64_t n, float rate, td__average direction, td__average moment, const float *g,
                 float *m, float *w) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float d = average(direction, m[i], g[i]);
        float sign = d > 0.0f ? 1.0f : d < 0.0f ? -1.0f : d; /* NaN stays */
        w[i] -= rate * sign;
        m[i] = average(moment, m[i], g[i]);
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
