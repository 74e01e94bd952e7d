/* Losses over rows: the value of each row (a sum over its elements, not yet a mean) and the
 * derivatives in the prediction p and the truth t, times a factor for each row.
 *
 * Probabilities are clipped to [epsilon, 1 - epsilon] as Keras does; outside, the derivative is 0.
 * Long sums run in lanes and blocks.
 */
#include "tape/kernels/math.h"
#include "tape/kernels/variant.h"

enum { BLOCK = 4096 };
#define EPSILON 1e-7f

TD__INLINE float clip(float p, float most) {
    return p < EPSILON ? EPSILON : p > most ? most : p; /* NaN stays */
}

/* ln of a clipped value, without the special cases that keep a loop from becoming vector code; what
 * is subtracted is 0, or NaN for NaN. */
TD__INLINE float log_clipped(float q) {
    return td__log_normal(q) - (q - q);
}

TD__INLINE bool inside(float p, float most) {
    return p >= EPSILON && p <= most;
}

/* --- sums of single elements --------------------------------------------------------------- */

/* d[i] (=|+=) expression, for a row */
#define WRITE(expression)                                                                          \
    if (w->add) {                                                                                  \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) {                                      \
            d[i] += (expression);                                                                  \
        }                                                                                          \
    } else {                                                                                       \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) {                                      \
            d[i] = (expression);                                                                   \
        }                                                                                          \
    }

#define DEFINE_DERIVATIVE(name, derivative)                                                        \
    TD__INLINE float name##_at(float p, float t, float c) {                                        \
        (void)p, (void)t, (void)c;                                                                 \
        return (derivative);                                                                       \
    }                                                                                              \
    static void name(const td__loss_rows *w) {                                                     \
        const int64_t n = w->n;                                                                    \
        const float c = w->parameter;                                                              \
        for (int64_t r = 0; r < w->rows; r++) {                                                    \
            const float *p = w->p + r * n, *t = w->t + r * n;                                      \
            float *d = w->d + r * n, scale = w->scale[r * w->scale_step];                          \
            WRITE(scale *name##_at(p[i], t[i], c))                                                 \
        }                                                                                          \
    }

/* value, d/dp, d/dt; c is the parameter. */
#define DEFINE(name, value, in_p, in_t)                                                            \
    static void name(const td__loss_rows *w) {                                                     \
        float c = w->parameter;                                                                    \
        (void)c;                                                                                   \
        for (int64_t r = 0; r < w->rows; r++) {                                                    \
            const float *ps = w->p + r * w->n, *ts = w->t + r * w->n;                              \
            double total = 0;                                                                      \
            for (int64_t start = 0; start < w->n; start += BLOCK) {                                \
                int64_t end = start + BLOCK < w->n ? start + BLOCK : w->n;                         \
                float part = 0;                                                                    \
                _Pragma("omp simd reduction(+ : part)") for (int64_t i = start; i < end; i++) {    \
                    float p = ps[i], t = ts[i];                                                    \
                    part += (value);                                                               \
                }                                                                                  \
                total += (double)part;                                                             \
            }                                                                                      \
            w->values[r] = (float)total;                                                           \
        }                                                                                          \
    }                                                                                              \
    DEFINE_DERIVATIVE(name##_in_p, in_p)                                                           \
    DEFINE_DERIVATIVE(name##_in_t, in_t)

TD__INLINE float magnitude(float x) {
    return __builtin_fabsf(x);
}

TD__INLINE float sign(float x) {
    return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x; /* 0 and NaN stay */
}

/* e^2 / 2 up to delta, from there on a line */
TD__INLINE float huber_value(float e, float delta) {
    float size = magnitude(e);
    return size <= delta ? 0.5f * e * e : delta * (size - 0.5f * delta);
}

TD__INLINE float huber_slope(float e, float delta) {
    return e < -delta ? -delta : e > delta ? delta : e;
}

/* Labels moved towards 1/2 */
TD__INLINE float smooth(float t, float smoothing) {
    return t * (1.0f - smoothing) + 0.5f * smoothing;
}

/* -t ln p - (1 - t) ln(1 - p) */
TD__INLINE float binary_value(float p, float t) {
    float q = clip(p, 1.0f - EPSILON);
    return -t * log_clipped(q) - (1.0f - t) * log_clipped(1.0f - q);
}

TD__INLINE float binary_slope(float p, float t) {
    return inside(p, 1.0f - EPSILON) ? (p - t) / (p * (1.0f - p)) : 0.0f;
}

TD__INLINE float log_odds(float p) {
    float q = clip(p, 1.0f - EPSILON);
    return log_clipped(q) - log_clipped(1.0f - q);
}

TD__INLINE float kl_value(float p, float t) {
    float q = clip(t, 1.0f);
    return q * (log_clipped(q) - log_clipped(clip(p, 1.0f)));
}

TD__INLINE float kl_truth_slope(float p, float t) {
    float slope = log_clipped(clip(t, 1.0f)) - log_clipped(clip(p, 1.0f)) + 1.0f;
    return inside(t, 1.0f) ? slope : 0.0f;
}

DEFINE(squared, (p - t) * (p - t), 2.0f * (p - t), 2.0f * (t - p))
DEFINE(absolute, magnitude(p - t), sign(p - t), sign(t - p))
DEFINE(huber, huber_value(p - t, c), huber_slope(p - t, c), huber_slope(t - p, c))
DEFINE(binary, binary_value(p, smooth(t, c)), binary_slope(p, smooth(t, c)),
       (c - 1.0f) * log_odds(p))
/* With z = p: max(z, 0) - z t + ln(1 + e^-|z|), which never overflows */
DEFINE(binary_logits, td__softplusf(p) - p * smooth(t, c), td__sigmoidf(p) - smooth(t, c),
       (c - 1.0f) * p)
DEFINE(kl, kl_value(p, t), inside(p, 1.0f) ? -clip(t, 1.0f) / p : 0.0f, kl_truth_slope(p, t))

/* --- cross-entropies over classes ----------------------------------------------------------- */

TD__INLINE float row_sum(int64_t n, const float *x) {
    float total = 0;
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < n; i++) {
        total += x[i];
    }
    return total;
}

/* m, the maximum, and ln sum e^(z - m): apart, because their sum would lose digits of the second
 * where logits are large */
TD__INLINE float log_sum_exp(int64_t n, const float *z, float *maximum) {
    float most = z[0], total = 0;
#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < n; i++) {
        most = z[i] > most ? z[i] : most;
    }
    most = most < -3.40282347e+38f ? 0.0f : most; /* a row of -inf */
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < n; i++) {
        total += td__expf(z[i] - most);
    }
    *maximum = most;
    return td__logf(total);
}

#define OVER_ROWS                                                                                  \
    const int64_t n = w->n;                                                                        \
    const float uniform = w->parameter / (float)n, keep = 1.0f - w->parameter;                     \
    (void)uniform, (void)keep;                                                                     \
    for (int64_t r = 0; r < w->rows; r++)
#define ROW(pointer) ((pointer) + r * n)

/* Labels t, smoothed to s = (1 - c) t + c / n. value = sum s (m - z + l), m = max z,
 * l = ln sum e^(z - m); dz = e^(z - m - l) sum s - s; dt = (1 - c) (m - z + l) */
static void classes_logits(const td__loss_rows *w) {
    OVER_ROWS {
        const float *z = ROW(w->p), *t = ROW(w->t);
        float m, l = log_sum_exp(n, z, &m), total = 0;
#pragma omp simd reduction(+ : total)
        for (int64_t i = 0; i < n; i++) {
            float s = keep * t[i] + uniform;
            total += s * (m - z[i] + l);
        }
        w->maxima[r] = m;
        w->log_totals[r] = l;
        w->values[r] = total;
    }
}

static void classes_logits_in_p(const td__loss_rows *w) {
    OVER_ROWS {
        const float *z = ROW(w->p), *t = ROW(w->t);
        float *d = ROW(w->d), scale = w->scale[r * w->scale_step];
        float m = w->maxima[r], l = w->log_totals[r], total = keep * row_sum(n, t) + w->parameter;
        WRITE(scale * (td__expf(z[i] - m - l) * total - (keep * t[i] + uniform)))
    }
}

static void classes_logits_in_t(const td__loss_rows *w) {
    OVER_ROWS {
        const float *z = ROW(w->p);
        float *d = ROW(w->d), scale = keep * w->scale[r * w->scale_step];
        float m = w->maxima[r], l = w->log_totals[r];
        WRITE(scale * (m - z[i] + l))
    }
}

/* value = - sum s ln q, q = clip(p / sum p); dp = (sum over unclipped s) / sum p - s / p, the last
 * where q is not clipped; dt = -(1 - c) ln q */
static void classes(const td__loss_rows *w) {
    OVER_ROWS {
        const float *p = ROW(w->p), *t = ROW(w->t);
        float inverse = 1.0f / row_sum(n, p), total = 0;
#pragma omp simd reduction(+ : total)
        for (int64_t i = 0; i < n; i++) {
            float s = keep * t[i] + uniform;
            total -= s * log_clipped(clip(p[i] * inverse, 1.0f - EPSILON));
        }
        w->values[r] = total;
    }
}

/* s / p, where p / sum p is not clipped */
TD__INLINE float own_slope(float p, float s, float inverse) {
    return inside(p * inverse, 1.0f - EPSILON) ? s / p : 0.0f;
}

static void classes_in_p(const td__loss_rows *w) {
    OVER_ROWS {
        const float *p = ROW(w->p), *t = ROW(w->t);
        float *d = ROW(w->d), scale = w->scale[r * w->scale_step];
        float inverse = 1.0f / row_sum(n, p), total = 0;
#pragma omp simd reduction(+ : total)
        for (int64_t i = 0; i < n; i++) {
            float s = keep * t[i] + uniform;
            total += inside(p[i] * inverse, 1.0f - EPSILON) ? s : 0.0f;
        }
        WRITE(scale * (total * inverse - own_slope(p[i], keep * t[i] + uniform, inverse)))
    }
}

static void classes_in_t(const td__loss_rows *w) {
    OVER_ROWS {
        const float *p = ROW(w->p);
        float *d = ROW(w->d), scale = keep * w->scale[r * w->scale_step];
        float inverse = 1.0f / row_sum(n, p);
        WRITE(-scale * log_clipped(clip(p[i] * inverse, 1.0f - EPSILON)))
    }
}

/* The class k is given. value = m - z_k + l; dz = e^(z - m - l) - [i = k] */
static void sparse_logits(const td__loss_rows *w) {
    OVER_ROWS {
        const float *z = ROW(w->p);
        float m, l = log_sum_exp(n, z, &m);
        w->maxima[r] = m;
        w->log_totals[r] = l;
        w->values[r] = m - z[w->classes[r]] + l;
    }
}

static void sparse_logits_in_p(const td__loss_rows *w) {
    OVER_ROWS {
        const float *z = ROW(w->p);
        float *d = ROW(w->d), scale = w->scale[r * w->scale_step];
        float m = w->maxima[r], l = w->log_totals[r];
        WRITE(scale * td__expf(z[i] - m - l))
        d[w->classes[r]] -= scale;
    }
}

/* q = clip(p); value = ln sum q - ln q_k; dp = 1 / sum q - [i = k] / q_k where p is not clipped */
TD__INLINE float clipped_sum(int64_t n, const float *p) {
    float total = 0;
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < n; i++) {
        total += clip(p[i], 1.0f - EPSILON);
    }
    return total;
}

static void sparse(const td__loss_rows *w) {
    OVER_ROWS {
        const float *p = ROW(w->p);
        float own = clip(p[w->classes[r]], 1.0f - EPSILON);
        w->values[r] = td__logf(clipped_sum(n, p)) - log_clipped(own);
    }
}

static void sparse_in_p(const td__loss_rows *w) {
    OVER_ROWS {
        const float *p = ROW(w->p);
        float *d = ROW(w->d), scale = w->scale[r * w->scale_step];
        float share = scale / clipped_sum(n, p), own = p[w->classes[r]];
        WRITE(inside(p[i], 1.0f - EPSILON) ? share : 0.0f)
        d[w->classes[r]] -= inside(own, 1.0f - EPSILON) ? scale / own : 0.0f;
    }
}

#define ENTRY(member, name)                                                                        \
    table->loss[TD__LOSS_##member] = name;                                                         \
    table->loss_in_prediction[TD__LOSS_##member] = name##_in_p

void TD__VARIANT(td__fill_loss)(td__kernels_table *table) {
    ENTRY(SQUARED, squared);
    ENTRY(ABSOLUTE, absolute);
    ENTRY(HUBER, huber);
    ENTRY(BINARY, binary);
    ENTRY(BINARY_LOGITS, binary_logits);
    ENTRY(KL, kl);
    ENTRY(CLASSES, classes);
    ENTRY(CLASSES_LOGITS, classes_logits);
    ENTRY(SPARSE, sparse);
    ENTRY(SPARSE_LOGITS, sparse_logits);
    table->loss_in_truth[TD__LOSS_SQUARED] = squared_in_t;
    table->loss_in_truth[TD__LOSS_ABSOLUTE] = absolute_in_t;
    table->loss_in_truth[TD__LOSS_HUBER] = huber_in_t;
    table->loss_in_truth[TD__LOSS_BINARY] = binary_in_t;
    table->loss_in_truth[TD__LOSS_BINARY_LOGITS] = binary_logits_in_t;
    table->loss_in_truth[TD__LOSS_KL] = kl_in_t;
    table->loss_in_truth[TD__LOSS_CLASSES] = classes_in_t;
    table->loss_in_truth[TD__LOSS_CLASSES_LOGITS] = classes_logits_in_t;
}
