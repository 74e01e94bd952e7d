/* The middle of attention: scores to probabilities, and back, in place.
 *
 * p = softmax(scale s + mask); ds = scale p (dp - sum dp p)
 */
#include "tape/kernels/vector.h"

/* x = scale x + added, n of them; same stands for what is added where that is NULL. Returns the largest
 * as td__largest does. */
TD__INLINE float scale_scores(int64_t n, float scale, const float *added, float same, float *x) {
    td__vec best = TD__LOWEST;
    int64_t i = 0;
    for (; i + TD__LANES <= n; i += TD__LANES) {
        td__vec v = td__load(x + i) * scale;
        v = added ? v + td__load(added + i) : v + same;
        td__store(x + i, v);
        best = td__choose(v > best, v, best);
    }
    float max = td__largest_lane(best);
    for (; i < n; i++) {
        x[i] = x[i] * scale + (added ? added[i] : same);
        max = x[i] > max ? x[i] : max;
    }
    return max;
}

/* scale x + mask over the columns that row r sees, and -inf up to whole vectors. Returns how many that
 * are; *most is the largest. */
TD__INLINE int64_t finish_scores(const td__scores *s, int64_t r, float *x, float *max) {
    int64_t seen = s->first + r + 1;
    int64_t visible = s->causal && seen < s->n ? seen : s->n;
    int64_t whole = (visible + TD__LANES - 1) / TD__LANES * TD__LANES;
    whole = whole < s->n ? whole : s->n;
    for (int64_t i = visible; i < whole; i++) {
        x[i] = s->scale < 0.0f ? __builtin_inff() : -__builtin_inff();
    }
    const float *added = s->mask ? s->mask + (s->first + r) * s->mask_strides[0] : NULL;
    float largest = added && s->mask_strides[1]
                        ? scale_scores(whole, s->scale, added, 0.0f, x)
                        : scale_scores(whole, s->scale, NULL, added ? added[0] : 0.0f, x);
    /* Without any (all are -inf) probabilities are zero. */
    *max = largest < -3.40282347e+38f ? 0.0f : largest;
    for (int64_t i = whole; i < s->n; i++) {
        x[i] = 0.0f;
    }
    return whole;
}

/* The entropy of a row is ln S + sum p (max - x), S the sum of e^(x - max): no term is negative. This is the sum. */
TD__INLINE float sum_below(int64_t n, const float *x, const float *p, float max) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        float below = p[i] == 0.0f ? 0.0f : max - x[i]; /* 0 times inf where a score is masked */
        sum += p[i] * below;
    }
    return sum;
}

/* The same softmax, from scores that stay: their entropies are taken of them afterwards. */
static void softmax_with_entropies(const td__scores *s, float *stats, float *p) {
    float *x = s->raw;
    for (int64_t r = 0; r < s->rows; r++, x += s->row, p += s->row) {
        float max;
        int64_t n = finish_scores(s, r, x, &max);
        stats[2 * r + 1] = td__softmax_row(n, x, max, p);
        stats[2 * r] = max;
        s->entropies[r] = sum_below(n, x, p, max);
        for (int64_t i = n; i < s->n; i++) {
            p[i] = 0.0f;
        }
    }
#pragma omp simd
    for (int64_t r = 0; r < s->rows; r++) {
        float share = stats[2 * r + 1];
        s->entropies[r] -= td__logf(share == 0.0f ? 1.0f : share);
    }
}

static void attention_softmax(const td__scores *s, float *stats, float *x) {
    if (s->entropies) {
        softmax_with_entropies(s, stats, x);
        return;
    }
    for (int64_t r = 0; r < s->rows; r++, x += s->row, stats += 2) {
        float max;
        int64_t n = finish_scores(s, r, x, &max);
        stats[1] = td__softmax_row(n, x, max, x);
        stats[0] = max;
    }
}

static void attention_again(const td__scores *s, const float *stats, float *x) {
    for (int64_t r = 0; r < s->rows; r++, x += s->row, stats += 2) {
        float max;
        int64_t n = finish_scores(s, r, x, &max);
        float share = stats[1];
        max = stats[0];
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            x[i] = td__exp_below(x[i] - max) * share;
        }
    }
}

static void attention_softmax_backward(const td__scores *s, const float *p, float *d) {
    for (int64_t r = 0; r < s->rows; r++, p += s->row, d += s->row) {
        float total = 0, scale = s->scale;
#pragma omp simd reduction(+ : total)
        for (int64_t i = 0; i < s->n; i++) {
            total += d[i] * p[i];
        }
#pragma omp simd
        for (int64_t i = 0; i < s->n; i++) {
            d[i] = scale * p[i] * (d[i] - total);
        }
    }
}

void TD__VARIANT(td__fill_attention)(td__kernels_table *table) {
    table->attention_softmax = attention_softmax;
    table->attention_again = attention_again;
    table->attention_softmax_backward = attention_softmax_backward;
}
