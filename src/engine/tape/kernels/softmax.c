/* Softmax and log-softmax over rows.
 *
 * y = e^(x - m) / sum e^(x - m), m the row's maximum; dx = y (g - sum g y)
 * y = x - m - ln sum e^(x - m); dx = g - e^y sum g
 */
#include "tape/kernels/vector.h"

/* A row of -inf (everything masked) has no maximum to subtract. */
static float safe_max(int64_t n, const float *x) {
    float best = td__largest(n, x);
    return best < -3.40282347e+38f ? 0.0f : best;
}

static void softmax(int64_t rows, int64_t n, const float *x, float *y) {
    for (int64_t r = 0; r < rows; r++, x += n, y += n) {
        (void)td__softmax_row(n, x, safe_max(n, x), y);
    }
}

static float entropy(int64_t n, const float *p) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        bool counts = p[i] >= 1.17549435e-38f;
        float log = td__log_normal(counts ? p[i] : 1.0f);
        sum += p[i] * log;
    }
    return -sum;
}

static void softmax_backward(int64_t rows, int64_t n, const float *y, const float *g, bool add,
                             float *dx) {
    for (int64_t r = 0; r < rows; r++, y += n, g += n, dx += n) {
        float total = 0;
#pragma omp simd reduction(+ : total)
        for (int64_t i = 0; i < n; i++) {
            total += g[i] * y[i];
        }
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            float d = y[i] * (g[i] - total);
            dx[i] = add ? dx[i] + d : d;
        }
    }
}

static void log_softmax(int64_t rows, int64_t n, const float *x, float *y) {
    for (int64_t r = 0; r < rows; r++, x += n, y += n) {
        float max = safe_max(n, x), total = 0;
#pragma omp simd reduction(+ : total)
        for (int64_t i = 0; i < n; i++) {
            total += td__exp_below(x[i] - max);
        }
        float log_total = td__logf(total);
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            y[i] = x[i] - max - log_total;
        }
    }
}

static void log_softmax_backward(int64_t rows, int64_t n, const float *y, const float *g, bool add,
                                 float *dx) {
    for (int64_t r = 0; r < rows; r++, y += n, g += n, dx += n) {
        float total = 0;
#pragma omp simd reduction(+ : total)
        for (int64_t i = 0; i < n; i++) {
            total += g[i];
        }
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            float d = g[i] - td__expf(y[i]) * total;
            dx[i] = add ? dx[i] + d : d;
        }
    }
}

void TD__VARIANT(td__fill_softmax)(td__kernels_table *table) {
    table->softmax = softmax;
    table->entropy = entropy;
    table->softmax_backward = softmax_backward;
    table->log_softmax = log_softmax;
    table->log_softmax_backward = log_softmax_backward;
}
