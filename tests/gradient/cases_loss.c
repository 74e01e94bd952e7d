/* losses, from probabilities and from logits, with weights and smoothing */
#include "gradient/op_table.h"

/* Inputs: prediction, truth and, when weighted, sample weights. */
typedef struct {
    td_loss loss;
    bool from_logits, per_example, weighted;
    float smoothing;
    td_number delta, gamma, alpha;
    bool balanced;
} how;

static td_tensor *build(td_tape *tape, td_tensor *const in[], const void *options) {
    const how *o = options;
    return td_loss_compute(tape, o->loss, in[0], in[1],
                           &(td_loss_options){.size = sizeof(td_loss_options),
                                              .from_logits = o->from_logits,
                                              .per_example = o->per_example,
                                              .sample_weight = o->weighted ? in[2] : NULL,
                                              .delta = o->delta,
                                              .label_smoothing = (double)o->smoothing,
                                              .gamma = o->gamma,
                                              .alpha = o->alpha,
                                              .balanced = o->balanced});
}

/* --- values of one row ------------------------------------------------------------------------ */

/* ln of what the probabilities of a row are divided by. */
static double log_total(const how *o, int64_t n, const double *p) {
    double total = 0;
    for (int64_t k = 0; k < n; k++) {
        total += o->from_logits ? exp(p[k]) : p[k];
    }
    return log(total);
}

static double log_probability(const how *o, double p, double total) {
    return (o->from_logits ? p : log(p)) - total;
}

static double binary(const how *o, double p, double t) {
    double q = o->from_logits ? 1 / (1 + exp(-p)) : p;
    double s = t * (1 - (double)o->smoothing) + 0.5 * (double)o->smoothing;
    return -s * log(q) - (1 - s) * log(1 - q);
}

static double huber(double e, double delta) {
    return fabs(e) <= delta ? e * e / 2 : delta * (fabs(e) - delta / 2);
}

static double gamma_of(const how *o) {
    return o->gamma.set ? o->gamma.value : 2;
}
static double alpha_of(const how *o) {
    return o->alpha.set ? o->alpha.value : 0.25;
}

static double focal(const how *o, double p, double t) {
    double q = o->from_logits ? 1 / (1 + exp(-p)) : p, alpha = alpha_of(o);
    double weight = o->balanced ? t * alpha + (1 - t) * (1 - alpha) : 1;
    return weight * pow(1 - (t * q + (1 - t) * (1 - q)), gamma_of(o)) * binary(o, p, t);
}

/* Losses of a row as a whole. */
static double cosine(int64_t n, const double *p, const double *t) {
    double product = 0, of_p = 0, of_t = 0;
    for (int64_t i = 0; i < n; i++) {
        product += p[i] * t[i];
        of_p += p[i] * p[i];
        of_t += t[i] * t[i];
    }
    return -product / sqrt(of_p * of_t);
}
static double categorical_hinge(int64_t n, const double *p, const double *t) {
    double own = 0, most = -1e300;
    for (int64_t i = 0; i < n; i++) {
        own += p[i] * t[i];
        most = fmax(most, (1 - t[i]) * p[i]);
    }
    return fmax(1 + most - own, 0);
}

static double row_value(const how *o, int64_t n, const double *p, const double *t) {
    double sum = 0, total = log_total(o, n, p);
    if (o->loss == TD_LOSS_COSINE_SIMILARITY || o->loss == TD_LOSS_CATEGORICAL_HINGE) {
        return o->loss == TD_LOSS_COSINE_SIMILARITY ? cosine(n, p, t) : categorical_hinge(n, p, t);
    }
    for (int64_t i = 0; i < n; i++) {
        double e = p[i] - t[i], smoothing = (double)o->smoothing;
        switch (o->loss) {
        case TD_LOSS_MSE:
            sum += e * e / (double)n;
            break;
        case TD_LOSS_MAE:
            sum += fabs(e) / (double)n;
            break;
        case TD_LOSS_HUBER:
            sum += huber(e, o->delta.set ? o->delta.value : 1) / (double)n;
            break;
        case TD_LOSS_BINARY_CROSSENTROPY:
            sum += binary(o, p[i], t[i]) / (double)n;
            break;
        case TD_LOSS_CATEGORICAL_CROSSENTROPY:
            sum -=
                (t[i] * (1 - smoothing) + smoothing / (double)n) * log_probability(o, p[i], total);
            break;
        case TD_LOSS_MAPE:
            sum += 100 * fabs(e) / fabs(t[i]) / (double)n;
            break;
        case TD_LOSS_MSLE:
            sum += pow(log(1 + p[i]) - log(1 + t[i]), 2) / (double)n;
            break;
        case TD_LOSS_LOG_COSH:
            sum += log(cosh(e)) / (double)n;
            break;
        case TD_LOSS_POISSON:
            sum += (p[i] - t[i] * log(p[i] + 1e-7)) / (double)n;
            break;
        case TD_LOSS_HINGE:
            sum += fmax(1 - t[i] * p[i], 0) / (double)n;
            break;
        case TD_LOSS_SQUARED_HINGE:
            sum += pow(fmax(1 - t[i] * p[i], 0), 2) / (double)n;
            break;
        case TD_LOSS_BINARY_FOCAL_CROSSENTROPY:
            sum += focal(o, p[i], t[i]) / (double)n;
            break;
        case TD_LOSS_CATEGORICAL_FOCAL_CROSSENTROPY: {
            double log_q = log_probability(o, p[i], total);
            sum -= alpha_of(o) * pow(1 - exp(log_q), gamma_of(o)) * t[i] * log_q;
            break;
        }
        default:
            sum += t[i] * log(t[i] / p[i]);
            break; /* KL */
        }
    }
    return sum;
}

static void reference(const op_array in[], op_array *out, const void *options) {
    const how *o = options;
    int64_t n = in[0].shape.rank ? in[0].shape.dims[in[0].shape.rank - 1] : 1;
    int64_t rows = in[0].count / n;
    double total = 0;
    for (int64_t r = 0; r < rows; r++) {
        const double *p = in[0].values + r * n;
        double value = o->loss == TD_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY
                           ? -log_probability(o, p[(int64_t)in[1].values[r]], log_total(o, n, p))
                           : row_value(o, n, p, in[1].values + r * n);
        value *= o->weighted ? in[2].values[r * in[2].count / rows] : 1;
        total += value / (double)rows;
        if (o->per_example) {
            out->values[r] = value;
        }
    }
    if (!o->per_example) {
        out->values[0] = total;
    }
}

/* --- the table -------------------------------------------------------------------------------- */

#define SHAPE(...) TD_SHAPE(__VA_ARGS__)
#define SCALAR ((td_shape){0})
#define HOW(member, ...)                                                                           \
    &(const how) {                                                                                 \
        .loss = TD_LOSS_##member, __VA_ARGS__                                                      \
    }
/* Predictions from low to high, truths from 0.05 to 0.95 (distributions need not sum to 1). */
#define CASE(what, shape_, low_, high_, output_, how_)                                             \
    {                                                                                              \
        .name = what, .input_count = 2, .output = output_, .build = build, .options = how_,        \
        .inputs = {{.shape = shape_, .low = low_, .high = high_},                                  \
                   {.shape = shape_, .low = 0.05, .high = 0.95}},                                  \
        .reference = reference                                                                     \
    }
#define WEIGHTED(what, shape_, low_, high_, weights, output_, how_)                                \
    {                                                                                              \
        .name = what, .input_count = 3, .output = output_, .build = build, .options = how_,        \
        .inputs = {{.shape = shape_, .low = low_, .high = high_},                                  \
                   {.shape = shape_, .low = 0.05, .high = 0.95},                                   \
                   {.shape = weights, .low = 0, .high = 3}},                                       \
        .reference = reference                                                                     \
    }
#define SPARSE(what, dtype_, shape_, rows, low_, high_, output_, how_)                             \
    {                                                                                              \
        .name = "sparse_categorical_crossentropy, " what, .input_count = 3, .output = output_,     \
        .inputs = {{.shape = shape_, .low = low_, .high = high_},                                  \
                   {.shape = rows, .dtype = dtype_, .low = 0, .high = 5},                          \
                   {.shape = rows, .low = 0, .high = 3, .constant = true}},                        \
        .build = build, .options = how_, .reference = reference                                    \
    }
#define EACH(name, member, low, high, ...)                                                         \
    CASE(name ", mean", SHAPE(6, 5), low, high, SCALAR, HOW(member, __VA_ARGS__)),                 \
        CASE(name ", per example", SHAPE(6, 5), low, high, SHAPE(6),                               \
             HOW(member, __VA_ARGS__, .per_example = true)),                                       \
        WEIGHTED(name ", weighted", SHAPE(3, 2, 4), low, high, SHAPE(3), SCALAR,                   \
                 HOW(member, __VA_ARGS__, .weighted = true)),                                      \
        WEIGHTED(name ", weighted per example", SHAPE(3, 2, 4), low, high, SHAPE(3, 2),            \
                 SHAPE(3, 2), HOW(member, __VA_ARGS__, .weighted = true, .per_example = true)),    \
        CASE(name ", large", SHAPE(300, 130), low, high, SCALAR, HOW(member, __VA_ARGS__))

static const op_case cases[] = {
    EACH("mse", MSE, -2, 2, .smoothing = 0),
    EACH("mae", MAE, 1, 2, .smoothing = 0),
    EACH("huber", HUBER, -2, 2, .smoothing = 0),
    EACH("huber, delta 0.3", HUBER, -2, 2, .delta = SET(0.3f)),
    EACH("binary_crossentropy", BINARY_CROSSENTROPY, 0.05, 0.95, .smoothing = 0),
    EACH("binary_crossentropy, smoothed", BINARY_CROSSENTROPY, 0.05, 0.95, .smoothing = 0.2f),
    EACH("binary_crossentropy, logits", BINARY_CROSSENTROPY, -6, 6, .from_logits = true),
    EACH("binary_crossentropy, smoothed logits", BINARY_CROSSENTROPY, -6, 6, .from_logits = true,
         .smoothing = 0.1f),
    EACH("categorical_crossentropy", CATEGORICAL_CROSSENTROPY, 0.05, 0.95, .smoothing = 0),
    EACH("categorical_crossentropy, smoothed", CATEGORICAL_CROSSENTROPY, 0.05, 0.95,
         .smoothing = 0.2f),
    EACH("categorical_crossentropy, logits", CATEGORICAL_CROSSENTROPY, -6, 6, .from_logits = true),
    EACH("categorical_crossentropy, smoothed logits", CATEGORICAL_CROSSENTROPY, -6, 6,
         .from_logits = true, .smoothing = 0.1f),
    EACH("kl_divergence", KL_DIVERGENCE, 0.05, 0.95, .smoothing = 0),
    EACH("mape", MAPE, 1, 2, .smoothing = 0),
    EACH("msle", MSLE, 0.05, 2, .smoothing = 0),
    EACH("log_cosh", LOG_COSH, -3, 3, .smoothing = 0),
    EACH("poisson", POISSON, 0.05, 3, .smoothing = 0),
    EACH("hinge", HINGE, -3, 0.95, .smoothing = 0),
    EACH("squared_hinge", SQUARED_HINGE, -3, 3, .smoothing = 0),
    EACH("categorical_hinge", CATEGORICAL_HINGE, -0.2, 0.2, .smoothing = 0),
    EACH("cosine_similarity", COSINE_SIMILARITY, -2, 2, .smoothing = 0),
    EACH("binary_focal_crossentropy", BINARY_FOCAL_CROSSENTROPY, 0.05, 0.95, .smoothing = 0),
    EACH("binary_focal_crossentropy, balanced", BINARY_FOCAL_CROSSENTROPY, 0.05, 0.95,
         .gamma = SET(1.5f), .alpha = SET(0.4f), .balanced = true),
    EACH("binary_focal_crossentropy, logits", BINARY_FOCAL_CROSSENTROPY, -3, 3,
         .from_logits = true),
    EACH("binary_focal_crossentropy, gamma 0", BINARY_FOCAL_CROSSENTROPY, 0.05, 0.95,
         .gamma = SET(0)),
    EACH("categorical_focal_crossentropy", CATEGORICAL_FOCAL_CROSSENTROPY, 0.05, 0.95,
         .smoothing = 0),
    EACH("categorical_focal_crossentropy, logits", CATEGORICAL_FOCAL_CROSSENTROPY, -3, 3,
         .from_logits = true, .gamma = SET(3), .alpha = SET(0.5f)),
    CASE("mse, one axis", SHAPE(5), -2, 2, SCALAR, HOW(MSE, .smoothing = 0)),
    CASE("mse, a scalar", SCALAR, -2, 2, SCALAR, HOW(MSE, .per_example = true)),
    SPARSE("int32", TD_INT32, SHAPE(6, 5), SHAPE(6), 0.05, 0.95, SCALAR,
           HOW(SPARSE_CATEGORICAL_CROSSENTROPY, .smoothing = 0)),
    SPARSE("per example", TD_INT64, SHAPE(6, 5), SHAPE(6), 0.05, 0.95, SHAPE(6),
           HOW(SPARSE_CATEGORICAL_CROSSENTROPY, .per_example = true)),
    SPARSE("logits", TD_INT64, SHAPE(6, 5), SHAPE(6), -6, 6, SCALAR,
           HOW(SPARSE_CATEGORICAL_CROSSENTROPY, .from_logits = true)),
    SPARSE("one example", TD_INT64, SHAPE(5), SCALAR, -6, 6, SCALAR,
           HOW(SPARSE_CATEGORICAL_CROSSENTROPY, .from_logits = true)),
    SPARSE("large, logits, uint8", TD_UINT8, SHAPE(300, 130), SHAPE(300), -6, 6, SCALAR,
           HOW(SPARSE_CATEGORICAL_CROSSENTROPY, .from_logits = true)),
    {.name = "sparse_categorical_crossentropy, weighted logits over a sequence",
     .input_count = 3,
     .inputs = {{.shape = SHAPE(3, 2, 5), .low = -6, .high = 6},
                {.shape = SHAPE(3, 2), .dtype = TD_UINT8, .low = 0, .high = 5},
                {.shape = SHAPE(3), .low = 0, .high = 3}},
     .output = SHAPE(3, 2),
     .build = build,
     .options = HOW(SPARSE_CATEGORICAL_CROSSENTROPY, .from_logits = true, .weighted = true,
                    .per_example = true),
     .reference = reference},
};

#define MISTAKE(what, p, t, dtype_, w, how_, status_, text_)                                       \
    {                                                                                              \
        .name = what, .input_count = 3, .build = build, .options = how_, .status = status_,        \
        .inputs = {{.shape = p},                                                                   \
                   {.shape = t, .dtype = dtype_, .low = 0, .high = 3},                             \
                   {.shape = w}},                                                                  \
        .text = text_                                                                              \
    }

static const op_mistake mistakes[] = {
    MISTAKE("mse, other shape", SHAPE(4, 3), SHAPE(4), TD_FLOAT32, SHAPE(4),
            HOW(MSE, .smoothing = 0), TD_BAD_SHAPE,
            "mse: prediction (4, 3) and truth (4,) must have the same shape"),
    MISTAKE("mae, integer truth", SHAPE(4, 3), SHAPE(4, 3), TD_INT32, SHAPE(4),
            HOW(MAE, .smoothing = 0), TD_DTYPE,
            "mae: truth 'in1' is int32; operations compute in float32"),
    MISTAKE("huber, weights", SHAPE(4, 3), SHAPE(4, 3), TD_FLOAT32, SHAPE(3),
            HOW(HUBER, .weighted = true), TD_BAD_SHAPE,
            "huber: sample weights (3,) do not fit prediction (4, 3): one for each example, or its "
            "shape without the last axis"),
    MISTAKE("huber, delta", SHAPE(4, 3), SHAPE(4, 3), TD_FLOAT32, SHAPE(4),
            HOW(HUBER, .delta = SET(-1)), TD_INVALID, "huber: delta -1 is not positive"),
    MISTAKE("mse, delta", SHAPE(4, 3), SHAPE(4, 3), TD_FLOAT32, SHAPE(4), HOW(MSE, .delta = SET(3)),
            TD_INVALID, "mse: delta 3 is not possible: it is for huber"),
    MISTAKE("mse, gamma", SHAPE(4, 3), SHAPE(4, 3), TD_FLOAT32, SHAPE(4), HOW(MSE, .gamma = SET(3)),
            TD_INVALID, "mse: gamma and alpha are for focal cross-entropies"),
    MISTAKE("categorical focal, balanced", SHAPE(4, 3), SHAPE(4, 3), TD_FLOAT32, SHAPE(4),
            HOW(CATEGORICAL_FOCAL_CROSSENTROPY, .balanced = true), TD_INVALID,
            "categorical_focal_crossentropy: balanced is for binary_focal_crossentropy"),
    MISTAKE("focal, alpha", SHAPE(4, 3), SHAPE(4, 3), TD_FLOAT32, SHAPE(4),
            HOW(BINARY_FOCAL_CROSSENTROPY, .alpha = SET(3)), TD_INVALID,
            "binary_focal_crossentropy: gamma must be 0 or more, alpha between 0 and 1"),
    MISTAKE("mse, from logits", SHAPE(4, 3), SHAPE(4, 3), TD_FLOAT32, SHAPE(4),
            HOW(MSE, .from_logits = true), TD_INVALID, "mse: from_logits is for cross-entropies"),
    MISTAKE("kl_divergence, smoothing", SHAPE(4, 3), SHAPE(4, 3), TD_FLOAT32, SHAPE(4),
            HOW(KL_DIVERGENCE, .smoothing = 0.1f), TD_INVALID,
            "kl_divergence: label smoothing 0.1 is not possible with this loss"),
    MISTAKE("categorical_crossentropy, smoothing", SHAPE(4, 3), SHAPE(4, 3), TD_FLOAT32, SHAPE(4),
            HOW(CATEGORICAL_CROSSENTROPY, .smoothing = 2), TD_INVALID,
            "categorical_crossentropy: label smoothing 2 is not possible; it is between 0 and 1"),
    MISTAKE("mse, nothing", SHAPE(0, 3), SHAPE(0, 3), TD_FLOAT32, SHAPE(0),
            HOW(MSE, .smoothing = 0), TD_BAD_SHAPE, "mse: prediction (0, 3) has no elements"),
    MISTAKE("no such loss", SHAPE(2), SHAPE(2), TD_FLOAT32, SHAPE(2), (&(const how){.loss = 99}),
            TD_INVALID, "99 is no loss"),
    MISTAKE("sparse, float classes", SHAPE(4, 3), SHAPE(4), TD_FLOAT32, SHAPE(4),
            HOW(SPARSE_CATEGORICAL_CROSSENTROPY, .smoothing = 0), TD_DTYPE,
            "sparse_categorical_crossentropy: truth 'in1' is float32; classes are int32, int64 or "
            "uint8"),
    MISTAKE("sparse, other shape", SHAPE(4, 3), SHAPE(4, 1), TD_INT32, SHAPE(4),
            HOW(SPARSE_CATEGORICAL_CROSSENTROPY, .smoothing = 0), TD_BAD_SHAPE,
            "sparse_categorical_crossentropy: classes (4, 1) do not fit prediction (4, 3): they "
            "must have its shape without the last axis"),
    {.name = "sparse, no such class",
     .input_count = 3,
     .inputs = {{.shape = SHAPE(3, 10)},
                {.shape = SHAPE(3), .dtype = TD_INT64, .values = (const double[]){1, 12, -1}},
                {.shape = SHAPE(3)}},
     .build = build,
     .options = HOW(SPARSE_CATEGORICAL_CROSSENTROPY, .from_logits = true),
     .status = TD_RANGE,
     .text = "sparse_categorical_crossentropy: row 1 has class 12, but prediction (3, 10) has the "
             "classes 0 to 9"},
};

const op_group cases_loss = {OP_LIST(cases), OP_LIST(mistakes)};
