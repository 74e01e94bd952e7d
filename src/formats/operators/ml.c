/* ai.onnx.ml: what scikit-learn's pipelines are made of, but for trees (ml_trees.c) and support vectors
 * (ml_svm.c). Scores are computed in double and written as float. */
#include "operators/ml.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- attributes --------------------------------------------------------------------------- */

td__graph_reals td__graph_reals_of(const td__graph_node *node, const char *name) {
    const td__graph_attribute *list = td__graph_attribute_of(node, name);
    list = list && list->kind == TD__GRAPH_ATTRIBUTE_FLOATS && list->count ? list : NULL;
    char longer[80];
    (void)snprintf(longer, sizeof longer, "%s_as_tensor", name);
    const td__graph_attribute *tensor = td__graph_attribute_of(node, longer);
    tensor = tensor ? tensor : td__graph_attribute_of(node, name);
    const td_tensor *values = tensor && tensor->kind == TD__GRAPH_ATTRIBUTE_TENSOR &&
                                      tensor->constant.type != TD__GRAPH_STRING
                                  ? tensor->constant.tensor
                                  : NULL;
    return list     ? (td__graph_reals){.count = list->count, .floats = list->numbers}
           : values ? (td__graph_reals){.count = (size_t)values->count, .tensor = values}
                    : (td__graph_reals){0};
}

double td__graph_reals_at(const td__graph_reals *list, size_t i) {
    return list->floats ? (double)list->floats[i] : td__graph_real(list->tensor, (int64_t)i);
}

td_tensor *td__graph_features(td__graph_call *call, int64_t *rows, int64_t *width) {
    td_tensor *x = td__graph_plain(call, 0);
    if (!x || x->shape.rank < 1 || x->shape.rank > 2) {
        (void)td__graph_fail(call, TD_BAD_SHAPE, "its input must be rows of features");
        return NULL;
    }
    *rows = x->shape.rank == 2 ? x->shape.dims[0] : 1;
    *width = x->shape.dims[x->shape.rank - 1];
    return x;
}

/* --- scores ------------------------------------------------------------------------------- */

/* The value below which that share of a normal distribution lies, as onnxruntime approximates it. */
static double probit(double share) {
    double x = 2 * share - 1, sign = x < 0 ? -1 : 1, log_rest = log((1 - x) * (1 + x));
    double v = 2 / (M_PI * 0.147) + 0.5 * log_rest;
    return sqrt(2) * sign * sqrt(sqrt(v * v - log_rest / 0.147) - v);
}

/* Zeros keep out of it, if they are asked to. */
static void softmax(double *scores, int64_t count, bool zeros_stay) {
    double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < count; i++) {
        max = scores[i] > max ? scores[i] : max;
    }
    for (int64_t i = 0; i < count; i++) {
        bool stays = zeros_stay && fabs(scores[i]) <= 1e-7;
        scores[i] = stays ? scores[i] * exp(-max) : exp(scores[i] - max);
        sum += scores[i];
    }
    for (int64_t i = 0; i < count && sum != 0; i++) {
        scores[i] /= sum;
    }
}

void td__graph_post_transform(const td__graph_node *node, double *scores, int64_t count) {
    const char *kind = td__graph_text(node, "post_transform", "NONE");
    if (!strncmp(kind, "SOFTMAX", 7)) {
        softmax(scores, count, !strcmp(kind, "SOFTMAX_ZERO"));
    }
    for (int64_t i = 0; i < count; i++) {
        scores[i] = !strcmp(kind, "LOGISTIC") ? 1 / (1 + exp(-scores[i]))
                    : !strcmp(kind, "PROBIT") ? probit(scores[i])
                                              : scores[i];
    }
}

bool td__graph_output_labels(td__graph_call *call, const td__graph_labels *labels, int64_t rows,
                             const int64_t *indices) {
    bool texts = labels->texts != NULL;
    td_tensor *y = td__output(call->tape, TD_INT64, &TD_SHAPE(rows));
    for (int64_t i = 0; y && i < rows; i++) {
        size_t at = (size_t)indices[i];
        if (texts) {
            td__graph_put_text(y, i, at < labels->count ? labels->texts[at] : "");
        } else {
            ((int64_t *)y->data)[i] =
                at < labels->count && labels->numbers ? labels->numbers[at] : indices[i];
        }
    }
    return td__graph_output(call, 0, texts ? TD__GRAPH_STRING : TD__GRAPH_INT64, y);
}

/* --- linear models ------------------------------------------------------------------------ */

/* Scores (rows, targets) of rows before they are transformed; NULL on failure. */
static double *linear_scores(td__graph_call *call, int64_t targets, int64_t *rows) {
    int64_t width;
    const td_tensor *x = td__graph_features(call, rows, &width);
    td__graph_reals weights = td__graph_reals_of(call->node, "coefficients");
    td__graph_reals bias = td__graph_reals_of(call->node, "intercepts");
    if (!x || targets < 1 || targets > 1 << 20 || weights.count != (size_t)(targets * width) ||
        (bias.count && bias.count != (size_t)targets)) {
        (void)td__graph_fail(call, TD_BAD_SHAPE, "%zu coefficients do not fit its input",
                             weights.count);
        return NULL;
    }
    double *scores = td__scratch(call->tape, (size_t)(*rows * (targets + 1) + 1) * sizeof *scores);
    for (int64_t i = 0; scores && i < *rows * targets; i++) {
        int64_t row = i / targets, target = i % targets;
        double sum = bias.count ? td__graph_reals_at(&bias, (size_t)target) : 0;
        for (int64_t k = 0; k < width; k++) {
            sum += td__graph_real(x, row * width + k) *
                   td__graph_reals_at(&weights, (size_t)(target * width + k));
        }
        scores[i] = sum;
    }
    return scores;
}

static bool linear_regressor(td__graph_call *call) {
    int64_t rows, targets = td__graph_int(call->node, "targets", 1);
    double *scores = linear_scores(call, targets, &rows);
    td_tensor *y = scores ? td__output(call->tape, TD_FLOAT32, &TD_SHAPE(rows, targets)) : NULL;
    for (int64_t i = 0; y && i < rows; i++) {
        td__graph_post_transform(call->node, scores + i * targets, targets);
        for (int64_t k = 0; k < targets; k++) {
            td__floats(y)[i * targets + k] = (float)scores[i * targets + k];
        }
    }
    return td__graph_output(call, 0, TD__GRAPH_FLOAT, y);
}

static bool linear_classifier(td__graph_call *call) {
    td__graph_labels labels = td__graph_labels_of(call->node, "classlabels");
    td__graph_reals bias = td__graph_reals_of(call->node, "intercepts");
    int64_t rows, targets = (int64_t)(bias.count ? bias.count : labels.count);
    double *scores = linear_scores(call, targets, &rows);
    int64_t *best = scores ? td__scratch(call->tape, (size_t)(rows + 1) * sizeof *best) : NULL;
    bool two = targets == 1 && labels.count == 2; /* the other class has the opposite score */
    int64_t classes = two ? 2 : targets;
    td_tensor *y = best ? td__output(call->tape, TD_FLOAT32, &TD_SHAPE(rows, classes)) : NULL;
    for (int64_t i = 0; y && i < rows; i++) {
        double pair[2] = {-scores[i], scores[i]}, *row = two ? pair : scores + i * targets;
        td__graph_post_transform(call->node, row, classes);
        best[i] = 0;
        for (int64_t k = 0; k < classes; k++) {
            td__floats(y)[i * classes + k] = (float)row[k];
            best[i] = row[k] > row[best[i]] ? k : best[i];
        }
        if (classes == 1) {
            bool plain = !strcmp(td__graph_text(call->node, "post_transform", "NONE"), "NONE");
            best[i] = row[0] >= (plain ? 0 : 0.5) ? 0 : -1;
        }
    }
    return y && td__graph_output_labels(call, &labels, rows, best) &&
           td__graph_output(call, 1, TD__GRAPH_FLOAT, y);
}

/* --- preparing features ------------------------------------------------------------------- */

/* (x - offset) scale, one for all features or one for each */
static bool scaler(td__graph_call *call) {
    int64_t rows, width;
    const td_tensor *x = td__graph_features(call, &rows, &width);
    td__graph_reals offset = td__graph_reals_of(call->node, "offset");
    td__graph_reals scale = td__graph_reals_of(call->node, "scale");
    if (!x || (offset.count > 1 && offset.count != (size_t)width) ||
        (scale.count > 1 && scale.count != (size_t)width)) {
        return td__graph_fail(call, TD_BAD_SHAPE, "%zu offsets and %zu scales do not fit its input",
                              offset.count, scale.count);
    }
    td_tensor *y = td__output(call->tape, TD_FLOAT32, &x->shape);
    for (int64_t i = 0; y && i < x->count; i++) {
        size_t k = (size_t)(i % width);
        double from = offset.count ? td__graph_reals_at(&offset, offset.count > 1 ? k : 0) : 0;
        double by = scale.count ? td__graph_reals_at(&scale, scale.count > 1 ? k : 0) : 1;
        td__floats(y)[i] = (float)((td__graph_real(x, i) - from) * by);
    }
    return td__graph_output(call, 0, TD__GRAPH_FLOAT, y);
}

/* Each row by its largest (MAX), its sum (L1) or its length (L2). */
static bool normalizer(td__graph_call *call) {
    int64_t rows, width;
    const td_tensor *x = td__graph_features(call, &rows, &width);
    const char *norm = td__graph_text(call->node, "norm", "MAX");
    td_tensor *y = x ? td__output(call->tape, TD_FLOAT32, &x->shape) : NULL;
    for (int64_t i = 0; y && i < rows; i++) {
        double sum = !strcmp(norm, "MAX") ? -INFINITY : 0;
        for (int64_t k = 0; k < width; k++) {
            double value = td__graph_real(x, i * width + k);
            sum = !strcmp(norm, "MAX")  ? (value > sum ? value : sum)
                  : !strcmp(norm, "L1") ? sum + fabs(value)
                                        : sum + value * value;
        }
        sum = strcmp(norm, "L2") ? sum : sqrt(sum);
        for (int64_t k = 0; k < width; k++) {
            double value = td__graph_real(x, i * width + k);
            td__floats(y)[i * width + k] = (float)(sum != 0 ? value / sum : value);
        }
    }
    return td__graph_output(call, 0, TD__GRAPH_FLOAT, y);
}

/* Values that stand for "not there" are replaced, by one for all or one for each feature. */
static bool imputer(td__graph_call *call) {
    int64_t rows, width;
    const td_tensor *x = td__graph_features(call, &rows, &width);
    bool integers = x && x->dtype == TD_INT64;
    const td__graph_attribute *list = td__graph_attribute_of(call->node, "imputed_value_int64s");
    td__graph_reals reals = td__graph_reals_of(call->node, "imputed_value_floats");
    size_t count = integers ? (list && list->integers ? list->count : 0) : reals.count;
    if (!x || (count != 1 && count != (size_t)width)) {
        return td__graph_fail(call, TD_BAD_SHAPE, "%zu values to replace by", count);
    }
    double missing = integers ? (double)td__graph_int(call->node, "replaced_value_int64", 0)
                              : (double)td__graph_float(call->node, "replaced_value_float", 0);
    td_tensor *y = td__output(call->tape, x->dtype, &x->shape);
    for (int64_t i = 0; y && i < x->count; i++) {
        double value = td__graph_real(x, i);
        bool gone = isnan(missing) ? isnan(value) : value == missing;
        size_t k = count > 1 ? (size_t)(i % width) : 0;
        if (integers) {
            td__graph_put_integer(y, i, gone ? list->integers[k] : td__graph_integer(x, i));
        } else {
            td__graph_put_real(y, i, gone ? td__graph_reals_at(&reals, k) : value);
        }
    }
    return td__graph_output(call, 0, td__graph_input(call, 0)->type, y);
}

static bool binarizer(td__graph_call *call) {
    const td_tensor *x = td__graph_plain(call, 0);
    double threshold = (double)td__graph_float(call->node, "threshold", 0);
    td_tensor *y = x ? td__output(call->tape, x->dtype, &x->shape) : NULL;
    for (int64_t i = 0; y && i < x->count; i++) {
        td__graph_put_integer(y, i, td__graph_real(x, i) > threshold);
    }
    return td__graph_output(call, 0, td__graph_input(call, 0)->type, y);
}

/* Columns of the last axis, by index. */
static bool array_feature_extractor(td__graph_call *call) {
    td_tensor *x = td__graph_plain(call, 0), *indices = td__graph_plain(call, 1);
    if (!x || !indices || indices->dtype != TD_INT64 || x->shape.rank < 1) {
        return td__graph_fail(call, TD_DTYPE, "its indices must be integers");
    }
    td_shape shape = x->shape;
    int64_t width = shape.dims[shape.rank - 1], rows = width ? x->count / width : 0;
    if (shape.rank == 1) {
        shape = TD_SHAPE(1, indices->count);
    }
    shape.dims[shape.rank - 1] = indices->count;
    td_tensor *y = td__output(call->tape, x->dtype, &shape);
    size_t size = td_dtype_size(x->dtype);
    for (int64_t i = 0; y && i < rows * indices->count; i++) {
        int64_t at = ((const int64_t *)indices->data)[i % indices->count];
        if (at < 0 || at >= width) {
            return td__graph_fail(call, TD_RANGE, "column %lld of %lld", (long long)at,
                                  (long long)width);
        }
        memcpy((char *)y->data + (size_t)i * size,
               (const char *)x->data + (size_t)(i / indices->count * width + at) * size, size);
    }
    return td__graph_output(call, 0, td__graph_input(call, 0)->type, y);
}

/* Inputs side by side, as floats. */
static bool feature_vectorizer(td__graph_call *call) {
    size_t count = call->node->input_count;
    td_tensor **parts = td__scratch(call->tape, count * sizeof *parts);
    for (size_t i = 0; parts && i < count; i++) {
        td_tensor *part = td__graph_input(call, i) ? td__graph_as_float(call, i) : NULL;
        bool row = part && part->shape.rank == 1;
        parts[i] = row ? td_reshape(call->tape, part, TD_SHAPE(part->count, 1)) : part;
        if (!parts[i]) {
            return td__graph_fail(call, TD_INVALID, "input %zu is left out", i);
        }
    }
    return parts &&
           td__graph_output(call, 0, TD__GRAPH_FLOAT, td_concatenate(call->tape, count, parts, -1));
}

/* --- categories --------------------------------------------------------------------------- */

/* A new axis with a 1 at the category; all 0 for others, if those are allowed. */
static bool one_hot_encoder(td__graph_call *call) {
    td_tensor *x = td__graph_plain(call, 0);
    td__graph_labels known = td__graph_labels_of(call->node, "cats");
    bool text = td__graph_input(call, 0)->type == TD__GRAPH_STRING;
    if (!x || x->shape.rank == TD_MAX_RANK || known.count == 0 || text != (known.texts != NULL)) {
        return td__graph_fail(call, TD_DTYPE, "its input is not of the type of its categories");
    }
    td_shape shape = x->shape;
    shape.dims[shape.rank++] = (int64_t)known.count;
    td_tensor *y = td__graph_filled(call->tape, shape, 0);
    for (int64_t i = 0; y && i < x->count; i++) {
        bool found = false;
        for (size_t k = 0; k < known.count && !found; k++) {
            found = text ? !strcmp(known.texts[k], td__graph_text_at(x, i))
                         : known.numbers[k] == td__graph_integer(x, i);
            td__floats(y)[i * (int64_t)known.count + (int64_t)k] = found;
        }
        if (!found && !td__graph_int(call->node, "zeros", 1)) {
            return td__graph_fail(call, TD_RANGE, "element %lld is of no known category",
                                  (long long)i);
        }
    }
    return td__graph_output(call, 0, TD__GRAPH_FLOAT, y);
}

/* Keys or values of a table: texts, integers or floats. */
typedef struct column {
    td__graph_labels labels;
    td__graph_reals reals;
    const td__graph_constant *tensor; /* of opset 4 */
    size_t count;
    td__graph_type type;
} column;

static column column_of(const td__graph_node *node, const char *prefix) {
    char name[40];
    column c = {.labels = td__graph_labels_of(node, prefix)};
    (void)snprintf(name, sizeof name, "%s_floats", prefix);
    c.reals = td__graph_reals_of(node, name);
    (void)snprintf(name, sizeof name, "%s_tensor", prefix);
    const td__graph_attribute *tensor = td__graph_attribute_of(node, name);
    c.tensor = tensor && tensor->constant.tensor ? &tensor->constant : NULL;
    c.type = c.tensor         ? c.tensor->type
             : c.labels.texts ? TD__GRAPH_STRING
             : c.labels.count ? TD__GRAPH_INT64
                              : TD__GRAPH_FLOAT;
    c.count = c.tensor         ? (size_t)c.tensor->tensor->count
              : c.labels.count ? c.labels.count
                               : c.reals.count;
    return c;
}

static const char *text_in(const column *c, size_t i) {
    return c->tensor ? td__graph_text_at(c->tensor->tensor, (int64_t)i) : c->labels.texts[i];
}

static double real_in(const column *c, size_t i) {
    return c->tensor         ? td__graph_real(c->tensor->tensor, (int64_t)i)
           : c->labels.count ? (double)c->labels.numbers[i]
                             : td__graph_reals_at(&c->reals, i);
}

static bool is_key(const column *keys, size_t k, const td_tensor *x, int64_t i) {
    if (keys->type == TD__GRAPH_STRING) {
        return !strcmp(text_in(keys, k), td__graph_text_at(x, i));
    }
    double key = real_in(keys, k), value = td__graph_real(x, i);
    return key == value || (isnan(key) && isnan(value));
}

/* Sets element i to value number k, or to the default when k is none of them. */
static void put_value(const td__graph_node *node, const column *values, size_t k, td_tensor *y,
                      int64_t i) {
    bool known = k < values->count;
    const td__graph_attribute *other = td__graph_attribute_of(node, "default_tensor");
    const td_tensor *one = other && other->constant.tensor && other->constant.tensor->count == 1 &&
                                   other->constant.type == values->type
                               ? other->constant.tensor
                               : NULL;
    if (values->type == TD__GRAPH_STRING) {
        const char *fallback =
            one ? td__graph_text_at(one, 0) : td__graph_text(node, "default_string", "_Unused");
        td__graph_put_text(y, i, known ? text_in(values, k) : fallback);
    } else if (y->dtype == TD_INT64) {
        int64_t fallback =
            one ? td__graph_integer(one, 0) : td__graph_int(node, "default_int64", -1);
        int64_t found = !known           ? fallback
                        : values->tensor ? td__graph_integer(values->tensor->tensor, (int64_t)k)
                                         : values->labels.numbers[k];
        td__graph_put_integer(y, i, found);
    } else {
        double fallback =
            one ? td__graph_real(one, 0) : (double)td__graph_float(node, "default_float", -0.0f);
        td__graph_put_real(y, i, known ? real_in(values, k) : fallback);
    }
}

static bool label_encoder(td__graph_call *call) {
    td_tensor *x = td__graph_plain(call, 0);
    column keys = column_of(call->node, "keys"), values = column_of(call->node, "values");
    bool text = td__graph_input(call, 0)->type == TD__GRAPH_STRING;
    if (!x || keys.count == 0 || keys.count != values.count ||
        text != (keys.type == TD__GRAPH_STRING)) {
        return td__graph_fail(call, TD_DTYPE, "its keys do not fit its input or its values");
    }
    td_tensor *y = td__output(call->tape, td__graph_storage(values.type), &x->shape);
    for (int64_t i = 0; y && i < x->count; i++) {
        size_t k = 0;
        while (k < keys.count && !is_key(&keys, k, x, i)) {
            k++;
        }
        put_value(call->node, &values, k, y, i);
    }
    return td__graph_output(call, 0, values.type, y);
}

/* Its maps from class to score stay the columns that they are made of. */
static bool zip_map(td__graph_call *call) {
    return td__graph_pass(call, 0, 0);
}

const td__graph_operator td__graph_ml[] = {
    {"ArrayFeatureExtractor", array_feature_extractor, 2, 2, 1, 0, 0, NULL},
    {"Binarizer", binarizer, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"FeatureVectorizer", feature_vectorizer, 1, 255, 1, 0, 0, NULL},
    {"Imputer", imputer, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"LabelEncoder", label_encoder, 1, 1, 1, 0, 0, NULL},
    {"LinearClassifier", linear_classifier, 1, 1, 2, 0, 0, NULL},
    {"LinearRegressor", linear_regressor, 1, 1, 1, 0, 0, NULL},
    {"Normalizer", normalizer, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"OneHotEncoder", one_hot_encoder, 1, 1, 1, 0, 0, NULL},
    {"Scaler", scaler, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"ZipMap", zip_map, 1, 1, 1, 0, 0, NULL},
    {0},
};
