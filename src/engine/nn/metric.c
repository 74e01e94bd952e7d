/* Metrics: predictions against truth, accumulated over batches in double precision. Here: accuracies,
 * errors and r2, and what all have in common; see metric.h. */
#include "nn/metric.h"

#include "base/memory.h"
#include "base/options.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_SUMS = 1 << 24 }; /* numbers of one metric: 128 MiB */

/* --- reading the truth -------------------------------------------------------------------- */

static int64_t class_at(const td_tensor *truth, int64_t i) {
    switch (truth->dtype) {
    case TD_INT32:
        return ((const int32_t *)truth->data)[i];
    case TD_INT64:
        return ((const int64_t *)truth->data)[i];
    case TD_UINT8:
        return ((const uint8_t *)truth->data)[i];
    default: {
        float value = ((const float *)truth->data)[i];
        return value >= 0 && value < 2147483648.0f ? (int64_t)value : -1;
    }
    }
}

/* Truth of element i, for truths that are like the prediction. */
static double value_at(const td_tensor *truth, int64_t i) {
    return truth->dtype == TD_FLOAT32 ? (double)td__floats(truth)[i] : (double)class_at(truth, i);
}

int64_t td__metric_largest(const float *row, int64_t width) {
    int64_t best = 0;
    for (int64_t i = 1; i < width; i++) {
        best = row[i] > row[best] ? i : best;
    }
    return best;
}

int64_t td__metric_true_class(const td__metric_batch *b, int64_t row) {
    return b->classes ? class_at(b->truth, row)
                      : td__metric_largest(td__floats(b->truth) + row * b->width, b->width);
}

bool td__metric_is_true(const td__metric_batch *b, int64_t row, int64_t class) {
    return b->classes ? class_at(b->truth, row) == class
                      : value_at(b->truth, row * b->width + class) != 0;
}

/* --- probabilities ------------------------------------------------------------------------ */

static void softmax(const float *logits, int64_t width, double *out) {
    double max = (double)logits[td__metric_largest(logits, width)], sum = 0;
    for (int64_t i = 0; i < width; i++) {
        out[i] = exp((double)logits[i] - max);
        sum += out[i];
    }
    for (int64_t i = 0; i < width; i++) {
        out[i] /= sum;
    }
}

const double *td__metric_row(const td_metric *metric, const td__metric_batch *b, int64_t row) {
    const float *prediction = b->prediction + row * b->width;
    if (metric->options.link == TD_LINK_SOFTMAX && b->width > 1) {
        softmax(prediction, b->width, metric->row);
        return metric->row;
    }
    for (int64_t i = 0; i < b->width; i++) {
        double value = (double)prediction[i];
        metric->row[i] = metric->options.link == TD_LINK_NONE ? value : 1 / (1 + exp(-value));
    }
    return metric->row;
}

/* In float32, as predictions are: 0.3 is not above 0.3. A logit is compared with the logit of the
 * threshold, so that 0.5 parts logits at exactly 0. */
bool td__metric_is_above(const td_metric *metric, float prediction) {
    double threshold = metric->options.threshold.value;
    bool logit = metric->options.link != TD_LINK_NONE;
    return prediction > (float)(logit ? log(threshold / (1 - threshold)) : threshold);
}

/* --- accuracies and errors ---------------------------------------------------------------- */

static void update_categorical(td_metric *metric, const td__metric_batch *b) {
    for (int64_t r = 0; r < b->rows; r++) {
        metric->sum += td__metric_largest(b->prediction + r * b->width, b->width) ==
                       td__metric_true_class(b, r);
    }
    metric->count += b->rows;
}

static void update_binary(td_metric *metric, const td__metric_batch *b) {
    for (int64_t r = 0; r < b->rows; r++) {
        const double *soft =
            metric->options.link == TD_LINK_SOFTMAX ? td__metric_row(metric, b, r) : NULL;
        for (int64_t i = 0; i < b->width; i++) {
            bool above = soft ? (float)soft[i] > (float)metric->options.threshold.value
                              : td__metric_is_above(metric, b->prediction[r * b->width + i]);
            metric->sum += (double)above == value_at(b->truth, r * b->width + i);
        }
    }
    metric->count += b->rows * b->width;
}

/* One output is one of two classes; several are scores of classes. */
static void update_accuracy(td_metric *metric, const td__metric_batch *b) {
    if (b->width == 1) {
        update_binary(metric, b);
    } else {
        update_categorical(metric, b);
    }
}

/* The class is among the k largest when fewer than k others are larger; not when it is NaN. */
static void update_top_k(td_metric *metric, const td__metric_batch *b) {
    for (int64_t r = 0; r < b->rows; r++) {
        const float *row = b->prediction + r * b->width;
        int64_t wanted = td__metric_true_class(b, r), larger = 0;
        if (wanted < 0 || wanted >= b->width || isnan(row[wanted])) {
            continue;
        }
        for (int64_t i = 0; i < b->width; i++) {
            larger += row[i] > row[wanted];
        }
        metric->sum += larger < metric->options.k;
    }
    metric->count += b->rows;
}

static void update_mae(td_metric *metric, const td__metric_batch *b) {
    for (int64_t i = 0; i < b->rows * b->width; i++) {
        metric->sum += fabs((double)b->prediction[i] - value_at(b->truth, i));
    }
    metric->count += b->rows * b->width;
}

static void update_mse(td_metric *metric, const td__metric_batch *b) {
    for (int64_t i = 0; i < b->rows * b->width; i++) {
        double difference = (double)b->prediction[i] - value_at(b->truth, i);
        metric->sum += difference * difference;
    }
    metric->count += b->rows * b->width;
}

/* --- r2: three sums for each output ------------------------------------------------------- */

enum { TRUTH, TRUTH_SQUARE, RESIDUAL_SQUARE, R2_SUMS };

static size_t r2_sums(const td_metric_options *options, int64_t width) {
    (void)options;
    return (size_t)width * R2_SUMS;
}

static void update_r2(td_metric *metric, const td__metric_batch *b) {
    for (int64_t i = 0; i < b->rows * b->width; i++) {
        double *sums = metric->sums + i % b->width * R2_SUMS;
        double truth = value_at(b->truth, i), residual = truth - (double)b->prediction[i];
        sums[TRUTH] += truth;
        sums[TRUTH_SQUARE] += truth * truth;
        sums[RESIDUAL_SQUARE] += residual * residual;
    }
    metric->count += b->rows;
}

/* An output whose truth never changes scores 1 when it is predicted exactly, otherwise 0. */
static void r2_values(const td_metric *metric, double *value) {
    double sum = 0;
    for (int64_t i = 0; i < metric->width; i++) {
        const double *sums = metric->sums + i * R2_SUMS;
        double total = sums[TRUTH_SQUARE] - sums[TRUTH] * sums[TRUTH] / (double)metric->count;
        if (total > 0) {
            sum += 1 - sums[RESIDUAL_SQUARE] / total;
        } else {
            sum += sums[RESIDUAL_SQUARE] == 0;
        }
    }
    *value = sum / (double)metric->width;
}

/* --- the table ---------------------------------------------------------------------------- */

static const td__field plain_fields[] = {TD__METRIC_NAME};
static const td__field threshold_fields[] = {TD__METRIC_NAME, TD__METRIC_THRESHOLD};
static const td__field top_k_fields[] = {
    TD__METRIC_NAME, TD__FIELD(INTEGER, td_metric_options, k, .by_default = 5, .minimum = 1)};

#define FIELDS(table) .fields = (table), .field_count = sizeof(table) / sizeof *(table)
static const td__metric_rule accuracy_rule = {FIELDS(threshold_fields), .takes_classes = true,
                                              .takes_values = true, .update = update_accuracy};
static const td__metric_rule sparse_rule = {FIELDS(plain_fields), .takes_classes = true,
                                            .update = update_categorical};
static const td__metric_rule categorical_rule = {FIELDS(plain_fields), .takes_classes = true,
                                                 .takes_values = true,
                                                 .update = update_categorical};
static const td__metric_rule binary_rule = {FIELDS(threshold_fields), .takes_values = true,
                                            .update = update_binary};
static const td__metric_rule top_k_rule = {FIELDS(top_k_fields), .takes_classes = true,
                                           .takes_values = true, .update = update_top_k};
static const td__metric_rule mae_rule = {FIELDS(plain_fields), .takes_values = true,
                                         .update = update_mae};
static const td__metric_rule mse_rule = {FIELDS(plain_fields), .takes_values = true,
                                         .update = update_mse};
static const td__metric_rule r2_rule = {FIELDS(plain_fields), .takes_values = true,
                                        .update = update_r2, .sums = r2_sums, .values = r2_values};

static const td__metric_rule *const rules[TD_METRIC_KIND_COUNT] = {
    [TD_METRIC_ACCURACY] = &accuracy_rule,
    [TD_METRIC_SPARSE_CATEGORICAL_ACCURACY] = &sparse_rule,
    [TD_METRIC_CATEGORICAL_ACCURACY] = &categorical_rule,
    [TD_METRIC_BINARY_ACCURACY] = &binary_rule,
    [TD_METRIC_TOP_K_ACCURACY] = &top_k_rule,
    [TD_METRIC_MAE] = &mae_rule,
    [TD_METRIC_MSE] = &mse_rule,
    [TD_METRIC_R2] = &r2_rule,
    [TD_METRIC_PRECISION] = &td__precision_rule,
    [TD_METRIC_RECALL] = &td__recall_rule,
    [TD_METRIC_F1] = &td__f1_rule,
    [TD_METRIC_AUC] = &td__auc_rule,
    [TD_METRIC_CONFUSION_MATRIX] = &td__confusion_matrix_rule,
};

static const char *const names[] = {
#define METRIC_NAME(member, text) text,
    TD_METRIC_LIST(METRIC_NAME)
#undef METRIC_NAME
};
static const td__words words = {"metric", names, TD_METRIC_KIND_COUNT, NULL, NULL};

/* Keras's other names. */
static const struct {
    const char *name;
    td_metric_kind kind;
} synonyms[] = {
    {"acc", TD_METRIC_ACCURACY},
    {"mean_absolute_error", TD_METRIC_MAE},
    {"mean_squared_error", TD_METRIC_MSE},
    {"r2_score", TD_METRIC_R2},
    {"f1_score", TD_METRIC_F1},
    {"top_k_categorical_accuracy", TD_METRIC_TOP_K_ACCURACY},
    {"sparse_top_k_categorical_accuracy", TD_METRIC_TOP_K_ACCURACY},
};

const td__field *td__metric_fields(td_metric_kind kind, size_t *count) {
    *count = rules[kind]->field_count;
    return rules[kind]->fields;
}

/* --- the public functions ----------------------------------------------------------------- */

const char *td_metric_kind_name(td_metric_kind kind) {
    return (unsigned)kind < TD_METRIC_KIND_COUNT ? names[kind] : NULL;
}

td_status td_metric_kind_find(const char *name, td_metric_kind *kind, td_error *error) {
    for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++) {
        if (!strcmp(name, synonyms[i].name)) {
            *kind = synonyms[i].kind;
            return TD_OK;
        }
    }
    int found = td__word_find(&words, name, "", error);
    if (found < 0) {
        return TD_NOT_FOUND;
    }
    *kind = (td_metric_kind)found;
    return TD_OK;
}

td_status td_metric_configure(td_metric_options *options, const char *name,
                              const td_setting *settings, size_t count, td_error *error) {
    td_metric_options made = {.size = sizeof made, .link = options->link};
    td_status status = td_metric_kind_find(name, &made.kind, error);
    if (status) {
        return status;
    }
    const td__metric_rule *rule = rules[made.kind];
    char where[64];
    (void)snprintf(where, sizeof where, "metric %s: ", names[made.kind]);
    td__fields_fill(rule->fields, rule->field_count, &made, true);
    status = td__fields_set(rule->fields, rule->field_count, &made, settings, count, where, error);
    status =
        status ? status : td__fields_check(rule->fields, rule->field_count, &made, where, error);
    if (!status) {
        *options = made;
    }
    return status;
}

td_metric *td_metric_create(const td_metric_options *given, td_error *error) {
    td_metric_options options;
    (void)td__options(&options, sizeof options, given);
    if ((unsigned)options.kind >= TD_METRIC_KIND_COUNT || options.k < 0 ||
        (unsigned)options.link > TD_LINK_SOFTMAX) {
        (void)td_error_set(error, TD_INVALID, "a metric needs a valid kind, and k of 0 or more");
        return NULL;
    }
    const td__metric_rule *rule = rules[options.kind];
    td__fields_fill(rule->fields, rule->field_count, &options, false);
    if (td__fields_check(rule->fields, rule->field_count, &options, "", error)) {
        return NULL;
    }
    td_metric *metric = td__calloc(1, sizeof *metric);
    if (!metric) {
        (void)td_error_set(error, TD_MEMORY, "out of memory for a metric");
        return NULL;
    }
    options.name = NULL;
    metric->options = options;
    return metric;
}

void td_metric_destroy(td_metric *metric) {
    if (metric) {
        td__free(metric->sums);
        td__free(metric->row);
        td__free(metric);
    }
}

void td_metric_reset(td_metric *metric) {
    metric->sum = 0;
    metric->count = 0;
    if (metric->sums) {
        memset(metric->sums, 0, metric->sum_count * sizeof *metric->sums);
    }
}

/* Allocates for predictions of `width` outputs; sums of another width are lost. */
static bool make_metric_room(td_metric *metric, int64_t width) {
    const td__metric_rule *rule = rules[metric->options.kind];
    size_t count = rule->sums ? rule->sums(&metric->options, width) : 0;
    double *sums = td__calloc(count + 1, sizeof *sums);
    double *row = td__calloc((size_t)width + 1, sizeof *row);
    if (!sums || !row) {
        td__free(sums);
        td__free(row);
        return false;
    }
    td__free(metric->sums);
    td__free(metric->row);
    metric->sums = sums;
    metric->row = row;
    metric->sum_count = count;
    metric->width = width;
    return true;
}

static td_status set_width(td_metric *metric, int64_t width, td_error *error) {
    const char *name = names[metric->options.kind];
    if (metric->options.class_id.set && metric->options.class_id.value >= (double)width) {
        return td_error_set(error, TD_RANGE, "%s: there is no class %.0f among %lld outputs", name,
                            metric->options.class_id.value, (long long)width);
    }
    if (metric->width == width) {
        return TD_OK;
    }
    const td__metric_rule *rule = rules[metric->options.kind];
    if (rule->sums && rule->sums(&metric->options, width) > MAX_SUMS) {
        return td_error_set(error, TD_RANGE, "%s: too much to count for %lld outputs", name,
                            (long long)width);
    }
    if (metric->count && rule->sums) {
        return td_error_set(error, TD_BAD_SHAPE, "%s: %lld outputs after batches with %lld", name,
                            (long long)width, (long long)metric->width);
    }
    return make_metric_room(metric, width)
               ? TD_OK
               : td_error_set(error, TD_MEMORY, "out of memory for a metric");
}

td_status td_metric_update(td_metric *metric, const td_tensor *prediction, const td_tensor *truth,
                           td_error *error) {
    const td_shape *shape = &prediction->shape;
    int64_t width = shape->rank ? shape->dims[shape->rank - 1] : 1;
    td__metric_batch b = {.prediction = td__floats(prediction),
                          .rows = width ? prediction->count / width : 0,
                          .width = width,
                          .truth = truth};
    const td__metric_rule *rule = rules[metric->options.kind];
    bool fits = prediction->dtype == TD_FLOAT32 && truth->dtype != TD_FLOAT64 && width > 0;
    b.classes = fits && width > 1 && truth->count == b.rows;
    fits = fits && (b.classes || truth->count == prediction->count);
    if (!fits || !(b.classes ? rule->takes_classes : rule->takes_values)) {
        char p[TD_SHAPE_TEXT_SIZE], t[TD_SHAPE_TEXT_SIZE];
        return td_error_set(error, TD_BAD_SHAPE, "%s: prediction %s %s and truth %s %s do not fit",
                            names[metric->options.kind], td_dtype_name(prediction->dtype),
                            td_shape_text(shape, p), td_dtype_name(truth->dtype),
                            td_shape_text(&truth->shape, t));
    }
    td_status status = set_width(metric, width, error);
    if (!status) {
        rule->update(metric, &b);
    }
    return status;
}

size_t td_metric_value_count(const td_metric_options *options, int64_t outputs) {
    size_t classes = outputs > 1 ? (size_t)outputs : 1;
    bool matrix = options->kind == TD_METRIC_CONFUSION_MATRIX;
    if (matrix) {
        classes = classes > 1 ? classes : 2;
    }
    return matrix                                                          ? classes * classes
           : options->average == TD_AVERAGE_NONE && !options->class_id.set ? classes
                                                                           : 1;
}

void td_metric_values(const td_metric *metric, double *values) {
    const td__metric_rule *rule = rules[metric->options.kind];
    if (metric->count == 0) {
        size_t count = td_metric_value_count(&metric->options, metric->width);
        for (size_t i = 0; i < count; i++) {
            values[i] = (double)NAN;
        }
    } else if (rule->values) {
        rule->values(metric, values);
    } else {
        *values = metric->sum / (double)metric->count;
    }
}

double td_metric_value(const td_metric *metric) {
    double value = (double)NAN;
    if (td_metric_value_count(&metric->options, metric->width) == 1) {
        td_metric_values(metric, &value);
    }
    return value;
}

/* --- its state ---------------------------------------------------------------------------- */

/* sum, count, width (0 when there are no sums for it), then the sums. */
enum { STATE_HEAD = 3 };

size_t td__metric_state(const td_metric *metric, double *state) {
    if (state) {
        state[0] = metric->sum;
        state[1] = (double)metric->count;
        state[2] = metric->sum_count ? (double)metric->width : 0;
        if (metric->sum_count) {
            memcpy(state + STATE_HEAD, metric->sums, metric->sum_count * sizeof *metric->sums);
        }
    }
    return STATE_HEAD + metric->sum_count;
}

size_t td__metric_set_state(td_metric *metric, const double *state, size_t max) {
    const td__metric_rule *rule = rules[metric->options.kind];
    if (max < STATE_HEAD || !(state[2] >= 0) || state[2] > (double)(max - STATE_HEAD) ||
        !(state[1] >= 0) || state[1] > 9e15) {
        return 0;
    }
    int64_t width = (int64_t)state[2];
    size_t count = rule->sums && width ? rule->sums(&metric->options, width) : 0;
    if (count > max - STATE_HEAD || (width && !rule->sums) ||
        (width && !make_metric_room(metric, width))) {
        return 0;
    }
    if (count) {
        memcpy(metric->sums, state + STATE_HEAD, count * sizeof *metric->sums);
    } else {
        td_metric_reset(metric);
    }
    metric->sum = state[0];
    metric->count = (int64_t)state[1];
    return STATE_HEAD + count;
}

size_t td__metric_take_sum(td_metric *metric, const double *state) {
    metric->sum = state[0];
    metric->count = (int64_t)state[1];
    if (metric->sum_count) {
        memcpy(metric->sums, state + STATE_HEAD, metric->sum_count * sizeof *metric->sums);
    }
    return STATE_HEAD + metric->sum_count;
}

bool td__metric_merge(td_metric *metric, const td_metric *other) {
    if (metric->width != other->width && !make_metric_room(metric, other->width)) {
        return false;
    }
    metric->sum += other->sum;
    metric->count += other->count;
    for (size_t i = 0; i < other->sum_count; i++) {
        metric->sums[i] += other->sums[i];
    }
    return true;
}
