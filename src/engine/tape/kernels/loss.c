/* Losses over rows: the value of each row (a sum over its elements, not yet a mean) and the
 * derivatives in the prediction p and the truth t, times a factor for each row.
 *
 * Probabilities are clipped to [epsilon, 1 - epsilon] as Keras does; outside, the derivative is 0.
 * Long sums run in lanes and blocks.
 */
#include "tape/kernels/vector.h"

enum { BLOCK = 4096 };
#define EPSILON 1e-7f

TD__INLINE float clip(float p, float max) {
    return p < EPSILON ? EPSILON : p > max ? max : p; /* NaN stays */
}

/* ln of a clipped value, without the special cases that keep a loop from becoming vector code; what
 * is subtracted is 0, or NaN for NaN. */
TD__INLINE float log_clipped(float q) {
    return td__log_normal(q) - (q - q);
}

TD__INLINE bool inside(float p, float max) {
    return p >= EPSILON && p <= max;
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
    TD__INLINE float name##_at(float p, float t, float c, float alpha) {                           \
        (void)p, (void)t, (void)c, (void)alpha;                                                    \
        return (derivative);                                                                       \
    }                                                                                              \
    static void name(const td__loss_rows *w) {                                                     \
        const int64_t n = w->n;                                                                    \
        const float c = w->parameter, alpha = w->weight;                                           \
        for (int64_t r = 0; r < w->rows; r++) {                                                    \
            const float *p = w->p + r * n, *t = w->t + r * n;                                      \
            float *d = w->d + r * n, scale = w->scale[r * w->scale_step];                          \
            WRITE(scale *name##_at(p[i], t[i], c, alpha))                                          \
        }                                                                                          \
    }

/* value, d/dp, d/dt; c is the parameter, alpha the weight. */
#define DEFINE(name, value, in_p, in_t)                                                            \
    static void name(const td__loss_rows *w) {                                                     \
        float c = w->parameter, alpha = w->weight;                                                 \
        (void)c, (void)alpha;                                                                      \
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

/* |p - t| over |t|, in percent; a truth of 0 counts as epsilon */
TD__INLINE float percent_of(float t) {
    float size = magnitude(t);
    return 100.0f / (size < EPSILON ? EPSILON : size);
}

TD__INLINE float percent_truth_slope(float p, float t) {
    float slope = sign(t - p) * percent_of(t);
    return magnitude(t) < EPSILON ? slope : slope - magnitude(p - t) * percent_of(t) / t;
}

/* ln(1 + x), x at least epsilon */
TD__INLINE float log_above(float x) {
    return td__log_normal(1.0f + (x < EPSILON ? EPSILON : x)) - (x - x);
}

TD__INLINE float log_above_slope(float x) {
    return x < EPSILON ? 0.0f : 1.0f / (1.0f + x);
}

/* ln cosh e = |e| + ln(1 + e^(-2 |e|)) - ln 2, which never overflows */
TD__INLINE float log_cosh_value(float e) {
    float size = magnitude(e);
    return size + td__softplusf(-2.0f * size) - 0.69314718f;
}

/* Truths 0 and 1 become -1 and 1. */
TD__INLINE float side(float t, float binary) {
    return binary > 0.0f ? 2.0f * t - 1.0f : t;
}

/* max(1 - t p, 0); NaN stays */
TD__INLINE float margin(float p, float t) {
    float short_of = 1.0f - t * p;
    return short_of < 0.0f ? 0.0f : short_of;
}

TD__INLINE float hinge_slope(float x, float other) {
    return 1.0f - x * other < 0.0f ? 0.0f : -other;
}

DEFINE(percent, magnitude(p - t) * percent_of(t), sign(p - t) * percent_of(t),
       percent_truth_slope(p, t))
DEFINE(logarithmic, (log_above(p) - log_above(t)) * (log_above(p) - log_above(t)),
       2.0f * (log_above(p) - log_above(t)) * log_above_slope(p),
       2.0f * (log_above(t) - log_above(p)) * log_above_slope(t))
DEFINE(log_cosh, log_cosh_value(p - t), td__tanhf(p - t), td__tanhf(t - p))
DEFINE(poisson, p - t * td__logf(p + EPSILON), 1.0f - t / (p + EPSILON), -td__logf(p + EPSILON))
DEFINE(hinge, margin(p, side(t, c)), hinge_slope(p, side(t, c)),
       (1.0f + c) * hinge_slope(side(t, c), p))
DEFINE(squared_hinge, margin(p, side(t, c)) * margin(p, side(t, c)),
       2.0f * margin(p, side(t, c)) * -side(t, c), 2.0f * (1.0f + c) * margin(p, side(t, c)) * -p)

/* --- focal cross-entropies: hard examples count more ---------------------------------------- */

/* x^gamma of an x in [0, 1] */
TD__INLINE float power(float x, float gamma) {
    return gamma == 2.0f ? x * x : __builtin_powf(x, gamma);
}

/* gamma x^(gamma - 1) */
TD__INLINE float power_slope(float x, float gamma) {
    return gamma == 2.0f   ? 2.0f * x
           : gamma == 0.0f ? 0.0f
                           : gamma * __builtin_powf(x, gamma - 1.0f);
}

/* w (1 - p_t)^gamma b: p_t = t p + (1 - t) (1 - p), b the cross-entropy, w = 1 or the class's */
TD__INLINE float class_weight(float t, float alpha) {
    return alpha > 0.0f ? t * alpha + (1.0f - t) * (1.0f - alpha) : 1.0f;
}

TD__INLINE float missed(float p, float t) {
    return 1.0f - (t * p + (1.0f - t) * (1.0f - p));
}

TD__INLINE float focal_value(float p, float t, float gamma, float alpha) {
    return class_weight(t, alpha) * power(missed(p, t), gamma) * binary_value(p, t);
}

TD__INLINE float focal_slope(float p, float t, float gamma, float alpha) {
    float x = missed(p, t);
    return class_weight(t, alpha) *
           (power(x, gamma) * binary_slope(p, t) -
            power_slope(x, gamma) * (2.0f * t - 1.0f) * binary_value(p, t));
}

TD__INLINE float focal_truth_slope(float p, float t, float gamma, float alpha) {
    float x = missed(p, t), b = binary_value(p, t);
    float slope = power(x, gamma) * -log_odds(p) - power_slope(x, gamma) * (2.0f * p - 1.0f) * b;
    float of_weight = alpha > 0.0f ? 2.0f * alpha - 1.0f : 0.0f;
    return class_weight(t, alpha) * slope + of_weight * power(x, gamma) * b;
}

TD__INLINE float sigmoid_slope(float z) {
    float s = td__sigmoidf(z);
    return s * (1.0f - s);
}

DEFINE(focal, focal_value(p, t, c, alpha), focal_slope(p, t, c, alpha),
       focal_truth_slope(p, t, c, alpha))
DEFINE(focal_logits, focal_value(td__sigmoidf(p), t, c, alpha),
       focal_slope(td__sigmoidf(p), t, c, alpha) * sigmoid_slope(p),
       focal_truth_slope(td__sigmoidf(p), t, c, alpha))

/* --- over whole rows ------------------------------------------------------------------------ */

/* max(1 + max (1 - t) p - sum t p, 0); the first of equal largest counts. Returns 1 + …, and where
 * the largest is. */
TD__INLINE float row_margin(int64_t n, const float *p, const float *t, int64_t *largest) {
    float max = 0, own = 0;
    *largest = 0;
    for (int64_t i = 0; i < n; i++) {
        float other = (1.0f - t[i]) * p[i];
        own += t[i] * p[i];
        if (i == 0 || other > max) {
            max = other;
            *largest = i;
        }
    }
    return 1.0f + max - own;
}

static void categorical_hinge(const td__loss_rows *w) {
    for (int64_t r = 0; r < w->rows; r++) {
        int64_t largest;
        float value = row_margin(w->n, w->p + r * w->n, w->t + r * w->n, &largest);
        w->values[r] = value < 0.0f ? 0.0f : value;
    }
}

/* d (=|+=) scale * ((1 - x) at the largest - x), x = t for the derivative in p and the other way
 * round, where -p stands for 1 - x */
static void categorical_hinge_in(const td__loss_rows *w, bool in_t) {
    const int64_t n = w->n;
    for (int64_t r = 0; r < w->rows; r++) {
        const float *p = w->p + r * n, *t = w->t + r * n, *x = in_t ? p : t;
        int64_t largest;
        bool flat = row_margin(n, p, t, &largest) < 0.0f;
        float *d = w->d + r * n, scale = flat ? 0.0f : w->scale[r * w->scale_step];
        WRITE(-scale * x[i])
        d[largest] += scale * (in_t ? -p[largest] : 1.0f - t[largest]);
    }
}
static void categorical_hinge_in_p(const td__loss_rows *w) {
    categorical_hinge_in(w, false);
}
static void categorical_hinge_in_t(const td__loss_rows *w) {
    categorical_hinge_in(w, true);
}

/* 1 / |x|, |x|^2 at least 1e-12 as Keras has it */
TD__INLINE float inverse_norm(int64_t n, const float *x) {
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < n; i++) {
        squares += x[i] * x[i];
    }
    return 1.0f / __builtin_sqrtf(squares < 1e-12f ? 1e-12f : squares);
}

TD__INLINE float inner(int64_t n, const float *x, const float *y) {
    float total = 0;
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < n; i++) {
        total += x[i] * y[i];
    }
    return total;
}

/* value = -p t / (|p| |t|); dp = (p (p t) / |p|^2 - t) / (|p| |t|), dt the other way round */
static void cosine(const td__loss_rows *w) {
    for (int64_t r = 0; r < w->rows; r++) {
        const float *p = w->p + r * w->n, *t = w->t + r * w->n;
        w->values[r] = -inner(w->n, p, t) * inverse_norm(w->n, p) * inverse_norm(w->n, t);
    }
}

static void cosine_in(const td__loss_rows *w, const float *in, const float *other) {
    const int64_t n = w->n;
    for (int64_t r = 0; r < w->rows; r++) {
        const float *x = in + r * n, *y = other + r * n;
        float *d = w->d + r * n, own = inverse_norm(n, x);
        float scale = w->scale[r * w->scale_step] * own * inverse_norm(n, y);
        float along = inner(n, x, y) * own * own;
        WRITE(scale * (x[i] * along - y[i]))
    }
}
static void cosine_in_p(const td__loss_rows *w) {
    cosine_in(w, w->p, w->t);
}
static void cosine_in_t(const td__loss_rows *w) {
    cosine_in(w, w->t, w->p);
}

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
    float max = td__largest(n, z), total = 0;
    max = max < -3.40282347e+38f ? 0.0f : max; /* a row of -inf */
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < n; i++) {
        total += td__exp_below(z[i] - max);
    }
    *maximum = max;
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

/* q = p / sum p, or softmax(p): clipped. value = -alpha sum (1 - q)^gamma t ln q. With f = d/dq,
 * dp = (f - sum f q) / sum p where q is not clipped, or q (f - sum f q). */
TD__INLINE float class_share(bool logits, const float *p, int64_t i, float m, float total) {
    return logits ? td__expf(p[i] - m) * total : p[i] * total;
}

/* What each share is to be multiplied with; *m is to be subtracted from logits before. */
TD__INLINE float share_scale(bool logits, int64_t n, const float *p, float *m) {
    *m = 0;
    if (!logits) {
        return 1.0f / row_sum(n, p);
    }
    float l = log_sum_exp(n, p, m);
    return td__expf(-l);
}

TD__INLINE float class_focal_slope(float q, float t, float gamma, float alpha) {
    float in_range = inside(q, 1.0f - EPSILON) ? alpha * t : 0.0f, x = 1.0f - q;
    return in_range * (power_slope(x, gamma) * log_clipped(clip(q, 1.0f - EPSILON)) -
                       power(x, gamma) / clip(q, 1.0f - EPSILON));
}

TD__INLINE float class_focal_term(float q, float gamma, float alpha) {
    float c = clip(q, 1.0f - EPSILON);
    return -alpha * power(1.0f - c, gamma) * log_clipped(c);
}

TD__INLINE void class_focal(const td__loss_rows *w, bool logits) {
    for (int64_t r = 0; r < w->rows; r++) {
        const float *p = w->p + r * w->n, *t = w->t + r * w->n;
        float m, total = share_scale(logits, w->n, p, &m), value = 0;
        for (int64_t i = 0; i < w->n; i++) {
            float q = class_share(logits, p, i, m, total);
            value += t[i] * class_focal_term(q, w->parameter, w->weight);
        }
        w->values[r] = value;
    }
}

TD__INLINE void class_focal_in_p(const td__loss_rows *w, bool logits) {
    const int64_t n = w->n;
    for (int64_t r = 0; r < w->rows; r++) {
        const float *p = w->p + r * n, *t = w->t + r * n;
        float *d = w->d + r * n, scale = w->scale[r * w->scale_step];
        float m, total = share_scale(logits, n, p, &m), mean = 0;
        for (int64_t i = 0; i < n; i++) {
            float q = class_share(logits, p, i, m, total);
            mean += q * class_focal_slope(q, t[i], w->parameter, w->weight);
        }
        for (int64_t i = 0; i < n; i++) {
            float q = class_share(logits, p, i, m, total);
            float slope = class_focal_slope(q, t[i], w->parameter, w->weight) - mean;
            slope *= scale * (logits ? q : total);
            d[i] = w->add ? d[i] + slope : slope;
        }
    }
}

TD__INLINE void class_focal_in_t(const td__loss_rows *w, bool logits) {
    const int64_t n = w->n;
    for (int64_t r = 0; r < w->rows; r++) {
        const float *p = w->p + r * n;
        float *d = w->d + r * n, scale = w->scale[r * w->scale_step];
        float m, total = share_scale(logits, n, p, &m);
        WRITE(scale *
              class_focal_term(class_share(logits, p, i, m, total), w->parameter, w->weight))
    }
}

#define CLASS_FOCAL(name, logits)                                                                  \
    static void name(const td__loss_rows *w) {                                                     \
        class_focal(w, logits);                                                                    \
    }                                                                                              \
    static void name##_in_p(const td__loss_rows *w) {                                              \
        class_focal_in_p(w, logits);                                                               \
    }                                                                                              \
    static void name##_in_t(const td__loss_rows *w) {                                              \
        class_focal_in_t(w, logits);                                                               \
    }
CLASS_FOCAL(classes_focal, false)
CLASS_FOCAL(classes_focal_logits, true)

#define ENTRY(member, name)                                                                        \
    table->loss[TD__LOSS_##member] = name;                                                         \
    table->loss_in_prediction[TD__LOSS_##member] = name##_in_p
#define ENTRY_IN_BOTH(member, name)                                                                \
    ENTRY(member, name);                                                                           \
    table->loss_in_truth[TD__LOSS_##member] = name##_in_t

void TD__VARIANT(td__fill_loss)(td__kernels_table *table) {
    ENTRY_IN_BOTH(SQUARED, squared);
    ENTRY_IN_BOTH(ABSOLUTE, absolute);
    ENTRY_IN_BOTH(HUBER, huber);
    ENTRY_IN_BOTH(BINARY, binary);
    ENTRY_IN_BOTH(BINARY_LOGITS, binary_logits);
    ENTRY_IN_BOTH(KL, kl);
    ENTRY_IN_BOTH(PERCENT, percent);
    ENTRY_IN_BOTH(LOGARITHMIC, logarithmic);
    ENTRY_IN_BOTH(LOG_COSH, log_cosh);
    ENTRY_IN_BOTH(POISSON, poisson);
    ENTRY_IN_BOTH(HINGE, hinge);
    ENTRY_IN_BOTH(SQUARED_HINGE, squared_hinge);
    ENTRY_IN_BOTH(FOCAL, focal);
    ENTRY_IN_BOTH(FOCAL_LOGITS, focal_logits);
    ENTRY_IN_BOTH(CATEGORICAL_HINGE, categorical_hinge);
    ENTRY_IN_BOTH(COSINE, cosine);
    ENTRY_IN_BOTH(CLASSES_FOCAL, classes_focal);
    ENTRY_IN_BOTH(CLASSES_FOCAL_LOGITS, classes_focal_logits);
    ENTRY_IN_BOTH(CLASSES, classes);
    ENTRY_IN_BOTH(CLASSES_LOGITS, classes_logits);
    ENTRY(SPARSE, sparse);
    ENTRY(SPARSE_LOGITS, sparse_logits);
}
