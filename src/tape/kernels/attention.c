/* The middle of attention: scores to probabilities, and back, in place.
 *
 * p = softmax(scale s + mask); ds = scale p (dp - sum dp p)
 */
#include "tape/kernels/math.h"
#include "tape/kernels/variant.h"

/* A row of scores to probabilities, given its largest. Without any (all are -inf) they are zero. */
TD__INLINE void probabilities(int64_t n, float most, float *x) {
    float total = 0;
    most = most < -3.40282347e+38f ? 0.0f : most;
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < n; i++) {
        float e = td__expf(x[i] - most);
        x[i] = e;
        total += e;
    }
    float share = total == 0.0f ? 0.0f : 1.0f / total;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        x[i] *= share;
    }
}

static void attention_softmax(int64_t rows, int64_t n, float scale, const float *mask,
                              const int64_t *mask_strides, bool causal, float *x) {
    for (int64_t r = 0; r < rows; r++, x += n) {
        int64_t visible = causal && r + 1 < n ? r + 1 : n;
        /* Whole vectors: what is hidden counts as -inf up to the next multiple. */
        int64_t whole = (visible + TD__LANES - 1) / TD__LANES * TD__LANES;
        whole = whole < n ? whole : n;
        for (int64_t i = visible; i < whole; i++) {
            x[i] = scale < 0.0f ? __builtin_inff() : -__builtin_inff();
        }
        const float *added = mask ? mask + r * mask_strides[0] : NULL;
        float most = -__builtin_inff();
        if (added && mask_strides[1]) {
#pragma omp simd reduction(max : most)
            for (int64_t i = 0; i < whole; i++) {
                float score = x[i] * scale + added[i];
                x[i] = score;
                most = score > most ? score : most;
            }
        } else {
            float same = added ? added[0] : 0.0f;
#pragma omp simd reduction(max : most)
            for (int64_t i = 0; i < whole; i++) {
                float score = x[i] * scale + same;
                x[i] = score;
                most = score > most ? score : most;
            }
        }
        probabilities(whole, most, x);
        for (int64_t i = whole; i < n; i++) {
            x[i] = 0.0f;
        }
    }
}

static void attention_softmax_backward(int64_t rows, int64_t n, float scale, const float *p,
                                       float *d) {
    for (int64_t r = 0; r < rows; r++, p += n, d += n) {
        float total = 0;
#pragma omp simd reduction(+ : total)
        for (int64_t i = 0; i < n; i++) {
            total += d[i] * p[i];
        }
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            d[i] = scale * p[i] * (d[i] - total);
        }
    }
}

void TD__VARIANT(td__fill_attention)(td__kernels_table *table) {
    table->attention_softmax = attention_softmax;
    table->attention_softmax_backward = attention_softmax_backward;
}
