/* losses: a value for each example (a row), times its weight; the mean of those
 *
 * mse                              mean (p - t)^2
 * mae                              mean |p - t|
 * huber                            mean of (p - t)^2 / 2 up to delta, a line from there on
 * binary_crossentropy              mean of -t ln p - (1 - t) ln(1 - p)
 * categorical_crossentropy         -sum t ln p
 * sparse_categorical_crossentropy  -ln p[class]
 * kl_divergence                    sum t ln(t / p)
 * mape                             mean 100 |p - t| / |t|
 * msle                             mean (ln(1 + p) - ln(1 + t))^2
 * log_cosh                         mean ln cosh(p - t)
 * poisson                          mean p - t ln p
 * hinge, squared_hinge             mean max(1 - t p, 0), its square
 * categorical_hinge                max(1 + max (1 - t) p - sum t p, 0)
 * cosine_similarity                -sum of t / |t| times p / |p|
 * binary_focal_crossentropy        mean of (1 - p_t)^gamma times the cross-entropy, p_t = p of the truth
 * categorical_focal_crossentropy   -alpha sum (1 - p)^gamma t ln p
 *
 * Means and sums go over the last axis. The kernels of rows and their derivatives stand in
 * kernels/loss.c. On the way back a factor for each row carries the output's gradient, the weight
 * and the means. Where rows need not be distinguished, all elements run as one long row.
 */
#include "base/options.h"
#include "base/words.h"
#include "tape/kernels.h"
#include "tape/op.h"
#include "tape/parallel.h"

#include <math.h>
#include <string.h>

static const char *const names[TD_LOSS_COUNT] = {
#define LOSS_NAME(member, text) [TD_LOSS_##member] = text,
    TD_LOSS_LIST(LOSS_NAME)
#undef LOSS_NAME
};

static const struct {
    td__loss_kind kind, from_logits;
    bool mean; /* over the last axis; otherwise the sum */
} kinds[TD_LOSS_COUNT] = {
    [TD_LOSS_MSE] = {TD__LOSS_SQUARED, TD__LOSS_SQUARED, true},
    [TD_LOSS_MAE] = {TD__LOSS_ABSOLUTE, TD__LOSS_ABSOLUTE, true},
    [TD_LOSS_HUBER] = {TD__LOSS_HUBER, TD__LOSS_HUBER, true},
    [TD_LOSS_BINARY_CROSSENTROPY] = {TD__LOSS_BINARY, TD__LOSS_BINARY_LOGITS, true},
    [TD_LOSS_CATEGORICAL_CROSSENTROPY] = {TD__LOSS_CLASSES, TD__LOSS_CLASSES_LOGITS, false},
    [TD_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY] = {TD__LOSS_SPARSE, TD__LOSS_SPARSE_LOGITS, false},
    [TD_LOSS_KL_DIVERGENCE] = {TD__LOSS_KL, TD__LOSS_KL, false},
    [TD_LOSS_MAPE] = {TD__LOSS_PERCENT, TD__LOSS_PERCENT, true},
    [TD_LOSS_MSLE] = {TD__LOSS_LOGARITHMIC, TD__LOSS_LOGARITHMIC, true},
    [TD_LOSS_LOG_COSH] = {TD__LOSS_LOG_COSH, TD__LOSS_LOG_COSH, true},
    [TD_LOSS_POISSON] = {TD__LOSS_POISSON, TD__LOSS_POISSON, true},
    [TD_LOSS_HINGE] = {TD__LOSS_HINGE, TD__LOSS_HINGE, true},
    [TD_LOSS_SQUARED_HINGE] = {TD__LOSS_SQUARED_HINGE, TD__LOSS_SQUARED_HINGE, true},
    [TD_LOSS_CATEGORICAL_HINGE] = {TD__LOSS_CATEGORICAL_HINGE, TD__LOSS_CATEGORICAL_HINGE, false},
    [TD_LOSS_COSINE_SIMILARITY] = {TD__LOSS_COSINE, TD__LOSS_COSINE, false},
    [TD_LOSS_BINARY_FOCAL_CROSSENTROPY] = {TD__LOSS_FOCAL, TD__LOSS_FOCAL_LOGITS, true},
    [TD_LOSS_CATEGORICAL_FOCAL_CROSSENTROPY] = {TD__LOSS_CLASSES_FOCAL,
                                                TD__LOSS_CLASSES_FOCAL_LOGITS, false},
};

const char *td_loss_name(td_loss loss) {
    return (unsigned)loss < TD_LOSS_COUNT ? names[loss] : NULL;
}

td_status td_loss_find(const char *name, td_loss *loss, td_error *error) {
    static const td__words words = {.what = "loss", .words = names, .count = TD_LOSS_COUNT};
    int found = td__word_find(&words, name, "", error);
    if (found < 0) {
        return TD_NOT_FOUND;
    }
    *loss = (td_loss)found;
    return TD_OK;
}

typedef struct loss_saved {
    td__loss_kind kind;
    bool per_example;
    bool together;              /* all elements are one row */
    int64_t rows, n;            /* as the caller sees them */
    int64_t weight_repeat;      /* rows that share a weight */
    float row_scale;            /* from a row's sum to its value */
    float parameter, weight;    /* of the kernel */
    int64_t *classes;           /* sparse: (rows,) */
    float *values;              /* sums of rows; together: of parts */
    float *maxima, *log_totals; /* class kinds over logits: td__loss_rows */
} loss_saved;

/* --- kernels over threads ------------------------------------------------------------------- */

typedef struct loss_work {
    void (*kernel)(const td__loss_rows *rows);
    td__loss_rows all; /* of the whole tensor */
    bool together;
} loss_work;

static void loss_part(void *context, int part, int64_t begin, int64_t end) {
    const loss_work *w = context;
    td__loss_rows rows = w->all;
    int64_t at = w->together ? begin : begin * rows.n; /* first element */
    rows.rows = w->together ? 1 : end - begin;
    rows.n = w->together ? end - begin : rows.n;
    int64_t row = w->together ? part : begin;
    rows.p += at;
    rows.t = rows.t ? rows.t + at : NULL;
    rows.classes = rows.classes ? rows.classes + row : NULL;
    rows.values = rows.values ? rows.values + row : NULL;
    rows.maxima = rows.maxima ? rows.maxima + row : NULL;
    rows.log_totals = rows.log_totals ? rows.log_totals + row : NULL;
    rows.scale = rows.scale ? rows.scale + row * rows.scale_step : NULL;
    rows.d = rows.d ? rows.d + at : NULL;
    w->kernel(&rows);
}

static int run_loss_work(loss_work *work, const loss_saved *saved) {
    work->together = saved->together;
    return saved->together
               ? td__parallel(saved->rows * saved->n, 64, TD__GRAIN, loss_part, work)
               : td__parallel(saved->rows, 1, TD__GRAIN / 4 / (saved->n + 1) + 1, loss_part, work);
}

static td__loss_rows all_rows(const loss_saved *saved, const td_tensor *prediction,
                              const td_tensor *truth) {
    return (td__loss_rows){.rows = saved->rows,
                           .n = saved->n,
                           .p = td__floats(prediction),
                           .t = saved->classes ? NULL : td__floats(truth),
                           .classes = saved->classes,
                           .parameter = saved->parameter,
                           .weight = saved->weight,
                           .maxima = saved->maxima,
                           .log_totals = saved->log_totals};
}

/* --- backward ------------------------------------------------------------------------------- */

/* The factor of row r's value in what is differentiated, without its weight. */
static float row_gradient(const loss_saved *saved, const float *g, int64_t r) {
    return saved->per_example ? g[r] : g[0] / (float)saved->rows;
}

static td_status weight_gradient(td_tape *tape, td__node *node, const loss_saved *saved,
                                 const float *g) {
    float *d = td__gradient_begin(tape, node, 2);
    if (!d) {
        return TD_MEMORY;
    }
    memset(d, 0, (size_t)node->inputs[2].tensor->count * sizeof *d);
    for (int64_t r = 0; r < saved->rows; r++) {
        d[r / saved->weight_repeat] +=
            row_gradient(saved, g, r) * saved->values[r] * saved->row_scale;
    }
    td__gradient_end(tape, node, 2);
    return TD_OK;
}

/* Factors of all rows, or one for all: *step says which. */
static td__buffer *row_scales(td_tape *tape, const td__node *node, const loss_saved *saved,
                              const float *g, int64_t *step) {
    const td_tensor *weight = node->inputs[2].tensor;
    *step = weight || saved->per_example ? 1 : 0;
    td__buffer *scales =
        td__temporary(tape, (size_t)(*step ? saved->rows : 1) * sizeof *scales->data);
    for (int64_t r = 0; scales && r < (*step ? saved->rows : 1); r++) {
        float w = weight ? td__floats(weight)[r / saved->weight_repeat] : 1.0f;
        scales->data[r] = row_gradient(saved, g, r) * saved->row_scale * w;
    }
    return scales;
}

static td_status loss_backward(td_tape *tape, td__node *node) {
    const loss_saved *saved = node->saved;
    const float *g = td__output_gradient(tape, node);
    if (node->inputs[2].tensor && td__wants(tape, node, 2) &&
        weight_gradient(tape, node, saved, g)) {
        return TD_MEMORY;
    }
    loss_work work = {.all = all_rows(saved, node->inputs[0].tensor, node->inputs[1].tensor)};
    td__buffer *scales = row_scales(tape, node, saved, g, &work.all.scale_step);
    td_status status = scales ? TD_OK : TD_MEMORY;
    for (int32_t i = 0; i < 2 && !status; i++) {
        if (!td__wants(tape, node, i)) {
            continue;
        }
        work.kernel = i == 0 ? td__kernels()->loss_in_prediction[saved->kind]
                             : td__kernels()->loss_in_truth[saved->kind];
        work.all.scale = scales->data;
        work.all.d = td__gradient(tape, node, i, &work.all.add);
        status = work.all.d ? TD_OK : TD_MEMORY;
        if (!status) {
            run_loss_work(&work, saved);
        }
    }
    if (scales) {
        td__buffer_drop(tape, scales);
    }
    return status;
}

static const td__op loss_ops[TD_LOSS_COUNT] = {
#define LOSS_OP(member, text) [TD_LOSS_##member] = {.name = text, .backward = loss_backward},
    TD_LOSS_LIST(LOSS_OP)
#undef LOSS_OP
};

/* --- forward -------------------------------------------------------------------------------- */

static td_shape without_last(const td_shape *shape) {
    td_shape shorter = *shape;
    shorter.rank = shape->rank > 0 ? shape->rank - 1 : 0;
    return shorter;
}

static int64_t class_at(const td_tensor *classes, int64_t i) {
    return classes->dtype == TD_INT32   ? ((const int32_t *)classes->data)[i]
           : classes->dtype == TD_INT64 ? ((const int64_t *)classes->data)[i]
                                        : ((const uint8_t *)classes->data)[i];
}

static bool check_classes(td_tape *tape, const char *name, const td_tensor *prediction,
                          const td_tensor *truth, loss_saved *saved) {
    char a[TD_SHAPE_TEXT_SIZE], b[TD_SHAPE_TEXT_SIZE];
    td_shape expected = without_last(&prediction->shape);
    if (truth->dtype != TD_INT32 && truth->dtype != TD_INT64 && truth->dtype != TD_UINT8) {
        td__fail(tape, TD_DTYPE, "%s: truth '%s' is %s; classes are int32, int64 or uint8", name,
                 truth->name, td_dtype_name(truth->dtype));
        return false;
    }
    if (prediction->shape.rank < 1 || !td_shape_equal(&truth->shape, &expected)) {
        td__fail(tape, TD_BAD_SHAPE,
                 "%s: classes %s do not fit prediction %s: they must have its shape without the "
                 "last axis",
                 name, td_shape_text(&truth->shape, a), td_shape_text(&prediction->shape, b));
        return false;
    }
    saved->classes = td__scratch(tape, (size_t)saved->rows * sizeof *saved->classes);
    for (int64_t r = 0; saved->classes && r < saved->rows; r++) {
        saved->classes[r] = class_at(truth, r);
        if (saved->classes[r] < 0 || saved->classes[r] >= saved->n) {
            td__fail(tape, TD_RANGE,
                     "%s: row %lld has class %lld, but prediction %s has the classes 0 to %lld",
                     name, (long long)r, (long long)saved->classes[r],
                     td_shape_text(&prediction->shape, a), (long long)saved->n - 1);
            return false;
        }
    }
    return saved->classes != NULL;
}

static bool check_truth(td_tape *tape, const char *name, const td_tensor *prediction,
                        const td_tensor *truth) {
    if (!td__check_float(tape, name, "truth", truth)) {
        return false;
    }
    if (!td_shape_equal(&prediction->shape, &truth->shape)) {
        char a[TD_SHAPE_TEXT_SIZE], b[TD_SHAPE_TEXT_SIZE];
        td__fail(tape, TD_BAD_SHAPE, "%s: prediction %s and truth %s must have the same shape",
                 name, td_shape_text(&prediction->shape, a), td_shape_text(&truth->shape, b));
        return false;
    }
    return true;
}

static bool check_weight(td_tape *tape, const char *name, const td_tensor *prediction,
                         const td_tensor *weight, loss_saved *saved) {
    if (!td__check_float(tape, name, "sample weight", weight)) {
        return false;
    }
    td_shape expected = without_last(&prediction->shape);
    bool for_batch =
        weight->shape.rank == 1 && expected.rank > 0 && weight->shape.dims[0] == expected.dims[0];
    if (!for_batch && !td_shape_equal(&weight->shape, &expected)) {
        char a[TD_SHAPE_TEXT_SIZE], b[TD_SHAPE_TEXT_SIZE];
        td__fail(tape, TD_BAD_SHAPE,
                 "%s: sample weights %s do not fit prediction %s: one for each example, or its "
                 "shape without the last axis",
                 name, td_shape_text(&weight->shape, a), td_shape_text(&prediction->shape, b));
        return false;
    }
    saved->weight_repeat = weight->count > 0 ? saved->rows / weight->count : 1;
    return true;
}

static bool all_binary(const td_tensor *truth) {
    const float *t = td__floats(truth);
    for (int64_t i = 0; i < truth->count; i++) {
        if (t[i] != 0 && t[i] != 1) {
            return false;
        }
    }
    return true;
}

/* The numbers of a loss's kernel. */
static void read_numbers(td_loss loss, const td_loss_options *options, const td_tensor *truth,
                         loss_saved *saved) {
    float gamma = (float)td__number_or(options->gamma, 2);
    float alpha = (float)td__number_or(options->alpha, 0.25);
    switch (loss) {
    case TD_LOSS_HUBER:
        saved->parameter = (float)td__number_or(options->delta, 1);
        break;
    case TD_LOSS_HINGE:
    case TD_LOSS_SQUARED_HINGE:
        saved->parameter = truth->dtype == TD_FLOAT32 && all_binary(truth) ? 1.0f : 0.0f;
        break;
    case TD_LOSS_BINARY_FOCAL_CROSSENTROPY:
        saved->parameter = gamma;
        saved->weight = options->balanced ? alpha : 0.0f;
        break;
    case TD_LOSS_CATEGORICAL_FOCAL_CROSSENTROPY:
        saved->parameter = gamma;
        saved->weight = alpha;
        break;
    default:
        saved->parameter = (float)options->label_smoothing;
        break;
    }
}

td_status td_loss_check(td_loss loss, const td_loss_options *options, td_error *error) {
    const char *name = td_loss_name(loss);
    if (!name) {
        return td_error_set(error, TD_INVALID, "%d is no loss", (int)loss);
    }
    td_loss_options given;
    options = td__options(&given, sizeof given, options);
    double smoothing = options->label_smoothing;
    bool smooths = loss == TD_LOSS_BINARY_CROSSENTROPY || loss == TD_LOSS_CATEGORICAL_CROSSENTROPY;
    bool focal = kinds[loss].kind == TD__LOSS_FOCAL || kinds[loss].kind == TD__LOSS_CLASSES_FOCAL;
    bool huber = loss == TD_LOSS_HUBER;
    if (!(smoothing >= 0 && smoothing <= 1) || (smoothing > 0 && !smooths)) {
        return td_error_set(error, TD_INVALID, "%s: label smoothing %g is not possible%s", name,
                            smoothing, smooths ? "; it is between 0 and 1" : " with this loss");
    }
    if (options->from_logits && kinds[loss].kind == kinds[loss].from_logits) {
        return td_error_set(error, TD_INVALID, "%s: from_logits is for cross-entropies", name);
    }
    if (options->delta.set && !(huber && options->delta.value > 0)) {
        return td_error_set(error, TD_INVALID, "%s: delta %g is not %s", name, options->delta.value,
                            huber ? "positive" : "possible: it is for huber");
    }
    double gamma = td__number_or(options->gamma, 2), alpha = td__number_or(options->alpha, 0.25);
    bool in_range = gamma >= 0 && alpha >= 0 && alpha <= 1;
    if (focal && !in_range) {
        return td_error_set(error, TD_INVALID, "%s: gamma must be 0 or more, alpha between 0 and 1",
                            name);
    }
    if (options->balanced && loss != TD_LOSS_BINARY_FOCAL_CROSSENTROPY) {
        return td_error_set(error, TD_INVALID, "%s: balanced is for binary_focal_crossentropy",
                            name);
    }
    if (!focal && (options->gamma.set || options->alpha.set)) {
        return td_error_set(error, TD_INVALID, "%s: gamma and alpha are for focal cross-entropies",
                            name);
    }
    return TD_OK;
}

/* What the options mean for this loss; false (and the tape's error) when they mean nothing. */
static bool read_options(td_tape *tape, td_loss loss, const td_loss_options *options,
                         const td_tensor *truth, loss_saved *saved) {
    td_error error;
    td_status status = td_loss_check(loss, options, &error);
    if (status) {
        td__fail(tape, status, "%s", error.text);
        return false;
    }
    saved->kind = options->from_logits ? kinds[loss].from_logits : kinds[loss].kind;
    saved->per_example = options->per_example;
    read_numbers(loss, options, truth, saved);
    return true;
}

/* result = the weighted values, or their mean */
static void combine(const loss_saved *saved, const td_tensor *weight, int64_t sums, float *result) {
    double total = 0;
    for (int64_t r = 0; r < sums; r++) {
        float value = saved->values[r] * saved->row_scale;
        value *= weight ? td__floats(weight)[r / saved->weight_repeat] : 1.0f;
        total += (double)value;
        if (saved->per_example) {
            result[r] = value;
        }
    }
    if (!saved->per_example) {
        result[0] = (float)(total / (double)saved->rows);
    }
}

static td_tensor *compute(td_tape *tape, td_loss loss, td_tensor *prediction, td_tensor *truth,
                          td_tensor *weight, loss_saved *saved) {
    td_shape shape = saved->per_example ? without_last(&prediction->shape) : (td_shape){0};
    td_tensor *result = td__output(tape, TD_FLOAT32, &shape);
    int64_t sums = saved->together ? td_threads() : saved->rows;
    saved->values = td__scratch(tape, (size_t)sums * sizeof *saved->values);
    bool totals = saved->kind == TD__LOSS_CLASSES_LOGITS || saved->kind == TD__LOSS_SPARSE_LOGITS;
    if (totals) {
        saved->maxima = td__scratch(tape, 2 * (size_t)sums * sizeof *saved->maxima);
        saved->log_totals = saved->maxima ? saved->maxima + sums : NULL;
    }
    if (!result || !saved->values || (totals && !saved->log_totals)) {
        return NULL;
    }
    loss_work work = {.kernel = td__kernels()->loss[saved->kind],
                      .all = all_rows(saved, prediction, truth)};
    work.all.values = saved->values;
    int parts = run_loss_work(&work, saved);
    combine(saved, weight, saved->together ? parts : saved->rows, td__floats(result));
    return td__record(tape, &loss_ops[loss], result, 3, (td_tensor *[]){prediction, truth, weight},
                      saved);
}

td_tensor *td_loss_compute(td_tape *tape, td_loss loss, td_tensor *prediction, td_tensor *truth,
                           const td_loss_options *options) {
    const char *name = td_loss_name(loss);
    if (!name) {
        return td__fail(tape, TD_INVALID, "%d is no loss", (int)loss);
    }
    if (!td__check_float(tape, name, "prediction", prediction) ||
        !td__check_usable(tape, name, "truth", truth)) {
        return NULL;
    }
    if (prediction->count == 0) {
        char text[TD_SHAPE_TEXT_SIZE];
        return td__fail(tape, TD_BAD_SHAPE, "%s: prediction %s has no elements", name,
                        td_shape_text(&prediction->shape, text));
    }
    loss_saved *saved = td__scratch(tape, sizeof *saved);
    if (!saved) {
        return NULL;
    }
    const td_shape *shape = &prediction->shape;
    *saved = (loss_saved){.n = shape->rank > 0 ? shape->dims[shape->rank - 1] : 1};
    saved->rows = prediction->count / saved->n;
    saved->row_scale = kinds[loss].mean ? 1.0f / (float)saved->n : 1.0f;
    td_loss_options given;
    options = td__options(&given, sizeof given, options);
    td_tensor *weight = options->sample_weight;
    if (!read_options(tape, loss, options, truth, saved) ||
        !(loss == TD_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY
              ? check_classes(tape, name, prediction, truth, saved)
              : check_truth(tape, name, prediction, truth)) ||
        (weight && !check_weight(tape, name, prediction, weight, saved))) {
        return NULL;
    }
    saved->together = !weight && !saved->per_example && saved->kind < TD__LOSS_ELEMENTS_END;
    return compute(tape, loss, prediction, truth, weight, saved);
}

td_tensor *td_mse(td_tape *tape, td_tensor *prediction, td_tensor *truth,
                  const td_loss_options *options) {
    return td_loss_compute(tape, TD_LOSS_MSE, prediction, truth, options);
}

td_tensor *td_sparse_categorical_crossentropy(td_tape *tape, td_tensor *prediction,
                                              td_tensor *classes, const td_loss_options *options) {
    return td_loss_compute(tape, TD_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, prediction, classes,
                           options);
}
