/* Layer normalisation over rows, batch normalisation over channels.
 *
 * Channel sums run over blocks of rows that stay in the first-level cache, in chunks of channels
 * that stay in registers. A block's mean and squared deviations are merged into those before it
 * (Chan, Golub, LeVeque), so that memory is read once and a large mean costs no digits.
 */
#include "tape/kernels/math.h"
#include "tape/kernels/variant.h"

enum { CHUNK = 64, BLOCK = 32 };

/* y = (x - mean) / sqrt(variance + epsilon) * gamma + beta; stats: mean and 1 / sqrt(…) of each
 * row */
static void layer_norm(int64_t rows, int64_t n, float epsilon, const float *x, const float *gamma,
                       const float *beta, float *stats, float *y) {
    for (int64_t r = 0; r < rows; r++, x += n, y += n, stats += 2) {
        float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < n; i++) {
            sum += x[i];
        }
        float mean = sum / (float)n;
#pragma omp simd reduction(+ : squares)
        for (int64_t i = 0; i < n; i++) {
            squares += (x[i] - mean) * (x[i] - mean);
        }
        float scale = 1.0f / __builtin_sqrtf(squares / (float)n + epsilon);
        stats[0] = mean;
        stats[1] = scale;
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            y[i] = (x[i] - mean) * scale * gamma[i] + beta[i];
        }
    }
}

/* With h = (x - mean) scale and e = g gamma: dx (=|+=) scale (e - mean(e) - h mean(e h)) */
static void layer_norm_backward(int64_t rows, int64_t n, const float *x, const float *stats,
                                const float *gamma, const float *g, bool add, float *dx) {
    for (int64_t r = 0; r < rows; r++, x += n, g += n, dx += n, stats += 2) {
        float mean = stats[0], scale = stats[1], sum = 0, along = 0;
#pragma omp simd reduction(+ : sum, along)
        for (int64_t i = 0; i < n; i++) {
            float e = g[i] * gamma[i];
            sum += e;
            along += e * ((x[i] - mean) * scale);
        }
        sum /= (float)n;
        along /= (float)n;
        if (add) {
#pragma omp simd
            for (int64_t i = 0; i < n; i++) {
                float h = (x[i] - mean) * scale;
                dx[i] += scale * (g[i] * gamma[i] - sum - h * along);
            }
        } else {
#pragma omp simd
            for (int64_t i = 0; i < n; i++) {
                float h = (x[i] - mean) * scale;
                dx[i] = scale * (g[i] * gamma[i] - sum - h * along);
            }
        }
    }
}

/* dgamma += sum over rows of g h, dbeta += sum over rows of g */
static void layer_norm_sums(int64_t rows, int64_t n, const float *x, const float *stats,
                            const float *g, float *dgamma, float *dbeta) {
    for (int64_t r = 0; r < rows; r++, x += n, g += n, stats += 2) {
        float mean = stats[0], scale = stats[1];
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            dgamma[i] += g[i] * ((x[i] - mean) * scale);
            dbeta[i] += g[i];
        }
    }
}

TD__INLINE void moments_of_chunk(int64_t rows, int64_t n, const int width, const float *x,
                                 float *mean, float *squares) {
    float total_mean[CHUNK] = {0}, total[CHUNK] = {0};
    for (int64_t first = 0; first < rows; first += BLOCK) {
        int64_t count = rows - first < BLOCK ? rows - first : BLOCK;
        const float *block = x + first * n;
        float sum[CHUNK] = {0}, deviation[CHUNK] = {0};
        for (int64_t r = 0; r < count; r++) {
#pragma omp simd
            for (int i = 0; i < width; i++) {
                sum[i] += block[r * n + i];
            }
        }
        float share = 1.0f / (float)count;
        for (int i = 0; i < width; i++) {
            sum[i] *= share;
        }
        for (int64_t r = 0; r < count; r++) {
#pragma omp simd
            for (int i = 0; i < width; i++) {
                float d = block[r * n + i] - sum[i];
                deviation[i] += d * d;
            }
        }
        float weight = (float)count / (float)(first + count);
        float between = (float)first * weight;
        for (int i = 0; i < width; i++) {
            float difference = sum[i] - total_mean[i];
            total_mean[i] += difference * weight;
            total[i] += deviation[i] + difference * difference * between;
        }
    }
    for (int i = 0; i < width; i++) {
        mean[i] = total_mean[i];
        squares[i] = total[i];
    }
}

static void channel_moments(int64_t rows, int64_t n, const float *x, float *mean, float *squares) {
    int64_t c = 0;
    for (; c + CHUNK <= n; c += CHUNK) {
        moments_of_chunk(rows, n, CHUNK, x + c, mean + c, squares + c);
    }
    if (c < n) {
        moments_of_chunk(rows, n, (int)(n - c), x + c, mean + c, squares + c);
    }
}

TD__INLINE void sums_of_chunk(int64_t rows, int64_t n, const int width, const float *x,
                              const float *mean, const float *g, float *sums, float *products) {
    float total[CHUNK] = {0}, total_product[CHUNK] = {0};
    for (int64_t first = 0; first < rows; first += BLOCK) {
        int64_t last = first + BLOCK < rows ? first + BLOCK : rows;
        float sum[CHUNK] = {0}, product[CHUNK] = {0};
        for (int64_t r = first; r < last; r++) {
#pragma omp simd
            for (int i = 0; i < width; i++) {
                sum[i] += g[r * n + i];
                product[i] += g[r * n + i] * (x[r * n + i] - mean[i]);
            }
        }
        for (int i = 0; i < width; i++) {
            total[i] += sum[i];
            total_product[i] += product[i];
        }
    }
    for (int i = 0; i < width; i++) {
        sums[i] = total[i];
        products[i] = total_product[i];
    }
}

static void channel_sums(int64_t rows, int64_t n, const float *x, const float *mean, const float *g,
                         float *sums, float *products) {
    int64_t c = 0;
    for (; c + CHUNK <= n; c += CHUNK) {
        sums_of_chunk(rows, n, CHUNK, x + c, mean + c, g + c, sums + c, products + c);
    }
    if (c < n) {
        sums_of_chunk(rows, n, (int)(n - c), x + c, mean + c, g + c, sums + c, products + c);
    }
}

static void channel_scale(int64_t count, int64_t n, const float *x, const float *mean,
                          const float *scale, const float *offset, float *y) {
    for (int64_t start = 0; start < count; start += n, x += n, y += n) {
        int64_t width = count - start < n ? count - start : n;
#pragma omp simd
        for (int64_t i = 0; i < width; i++) {
            y[i] = (x[i] - mean[i]) * scale[i] + offset[i];
        }
    }
}

static void channel_backward(int64_t count, int64_t n, const float *x, const float *g,
                             const float *mean, const float *scale, const float *slope,
                             const float *offset, bool add, float *dx) {
    for (int64_t start = 0; start < count; start += n, x += n, g += n, dx += n) {
        int64_t width = count - start < n ? count - start : n;
        if (add) {
#pragma omp simd
            for (int64_t i = 0; i < width; i++) {
                dx[i] += g[i] * scale[i] + ((x[i] - mean[i]) * slope[i] + offset[i]);
            }
        } else {
#pragma omp simd
            for (int64_t i = 0; i < width; i++) {
                dx[i] = g[i] * scale[i] + ((x[i] - mean[i]) * slope[i] + offset[i]);
            }
        }
    }
}

void TD__VARIANT(td__fill_normalization)(td__kernels_table *table) {
    table->layer_norm = layer_norm;
    table->layer_norm_backward = layer_norm_backward;
    table->layer_norm_sums = layer_norm_sums;
    table->channel_moments = channel_moments;
    table->channel_sums = channel_sums;
    table->channel_scale = channel_scale;
    table->channel_backward = channel_backward;
}
