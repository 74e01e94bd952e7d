/* Metrics: predictions against truth, accumulated over batches in double precision.
 *
 * Everything is seen as rows: prediction (rows, width), truth (rows, width) or class numbers
 * (rows). An accuracy counts rows (binary: elements), an error sums over elements, r2 keeps three
 * sums per output.
 */
#include "nn/metric.h"

#include "base/memory.h"
#include "nn/field.h"
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

typedef struct output_sums {
    double truth, truth_square, residual_square;
} output_sums;

struct td_metric {
    td_metric_options options;
    double sum;
    int64_t count;
    output_sums *outputs; /* r2 */
    int64_t output_count;
};

/* One batch as rows. */
typedef struct batch {
    const float *prediction; /* (rows, width) */
    int64_t rows, width;
    const td_tensor *truth;
    bool classes; /* truth has a class number a row, otherwise it is like prediction */
} batch;

typedef td_status metric_update(td_metric *metric, const batch *b, td_error *error);

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

static int64_t largest(const float *row, int64_t width) {
    int64_t best = 0;
    for (int64_t i = 1; i < width; i++) {
        best = row[i] > row[best] ? i : best;
    }
    return best;
}

/* The class of a row, given as a number or as the largest of one value per class. */
static int64_t true_class(const batch *b, int64_t row) {
    return b->classes ? class_at(b->truth, row)
                      : largest(td__floats(b->truth) + row * b->width, b->width);
}

/* --- the metrics -------------------------------------------------------------------------- */

static td_status update_categorical(td_metric *metric, const batch *b, td_error *error) {
    (void)error;
    for (int64_t r = 0; r < b->rows; r++) {
        metric->sum += largest(b->prediction + r * b->width, b->width) == true_class(b, r);
    }
    metric->count += b->rows;
    return TD_OK;
}

static td_status update_binary(td_metric *metric, const batch *b, td_error *error) {
    (void)error;
    for (int64_t i = 0; i < b->rows * b->width; i++) {
        double predicted = (double)b->prediction[i] > metric->options.threshold;
        metric->sum += predicted == value_at(b->truth, i);
    }
    metric->count += b->rows * b->width;
    return TD_OK;
}

/* The class is among the k largest when fewer than k others are larger; not when it is NaN. */
static td_status update_top_k(td_metric *metric, const batch *b, td_error *error) {
    (void)error;
    for (int64_t r = 0; r < b->rows; r++) {
        const float *row = b->prediction + r * b->width;
        int64_t wanted = true_class(b, r), larger = 0;
        if (wanted < 0 || wanted >= b->width || isnan(row[wanted])) {
            continue;
        }
        for (int64_t i = 0; i < b->width; i++) {
            larger += row[i] > row[wanted];
        }
        metric->sum += larger < metric->options.k;
    }
    metric->count += b->rows;
    return TD_OK;
}

static td_status update_mae(td_metric *metric, const batch *b, td_error *error) {
    (void)error;
    for (int64_t i = 0; i < b->rows * b->width; i++) {
        metric->sum += fabs((double)b->prediction[i] - value_at(b->truth, i));
    }
    metric->count += b->rows * b->width;
    return TD_OK;
}

static td_status update_mse(td_metric *metric, const batch *b, td_error *error) {
    (void)error;
    for (int64_t i = 0; i < b->rows * b->width; i++) {
        double difference = (double)b->prediction[i] - value_at(b->truth, i);
        metric->sum += difference * difference;
    }
    metric->count += b->rows * b->width;
    return TD_OK;
}

static td_status update_r2(td_metric *metric, const batch *b, td_error *error) {
    if (metric->output_count != b->width) {
        if (metric->count) {
            return td_error_set(error, TD_BAD_SHAPE, "r2: %lld outputs after batches with %lld",
                                (long long)b->width, (long long)metric->output_count);
        }
        output_sums *outputs = td__calloc((size_t)b->width, sizeof *outputs);
        if (!outputs) {
            return td_error_set(error, TD_MEMORY, "out of memory for a metric");
        }
        td__free(metric->outputs);
        metric->outputs = outputs;
        metric->output_count = b->width;
    }
    for (int64_t i = 0; i < b->rows * b->width; i++) {
        output_sums *sums = &metric->outputs[i % b->width];
        double truth = value_at(b->truth, i), residual = truth - (double)b->prediction[i];
        sums->truth += truth;
        sums->truth_square += truth * truth;
        sums->residual_square += residual * residual;
    }
    metric->count += b->rows;
    return TD_OK;
}

/* An output whose truth never changes scores 1 when it is predicted exactly, otherwise 0. */
static double r2_value(const td_metric *metric) {
    double sum = 0;
    for (int64_t i = 0; i < metric->output_count; i++) {
        const output_sums *sums = &metric->outputs[i];
        double total = sums->truth_square - sums->truth * sums->truth / (double)metric->count;
        if (total > 0) {
            sum += 1 - sums->residual_square / total;
        } else {
            sum += sums->residual_square == 0;
        }
    }
    return sum / (double)metric->output_count;
}

static const char *const names[] = {
#define METRIC_NAME(member, text) text,
    TD_METRIC_LIST(METRIC_NAME)
#undef METRIC_NAME
};
static const td__words words = {"metric", names, TD_METRIC_KIND_COUNT, NULL, NULL};

static metric_update *const updates[TD_METRIC_KIND_COUNT] = {
    [TD_METRIC_SPARSE_CATEGORICAL_ACCURACY] = update_categorical,
    [TD_METRIC_CATEGORICAL_ACCURACY] = update_categorical,
    [TD_METRIC_BINARY_ACCURACY] = update_binary,
    [TD_METRIC_TOP_K_ACCURACY] = update_top_k,
    [TD_METRIC_MAE] = update_mae,
    [TD_METRIC_MSE] = update_mse,
    [TD_METRIC_R2] = update_r2,
};

/* --- the public functions ----------------------------------------------------------------- */

const char *td_metric_kind_name(td_metric_kind kind) {
    return (unsigned)kind < TD_METRIC_KIND_COUNT ? names[kind] : NULL;
}

td_status td_metric_kind_find(const char *name, td_metric_kind *kind, td_error *error) {
    int found = td__word_find(&words, name, "", error);
    if (found < 0) {
        return TD_NOT_FOUND;
    }
    *kind = (td_metric_kind)found;
    return TD_OK;
}

td_metric *td_metric_create(const td_metric_options *given, td_error *error) {
    td_metric_options options = {0};
    size_t size = given->struct_size < sizeof options ? given->struct_size : sizeof options;
    memcpy(&options, given, size);
    if (size <= offsetof(td_metric_options, kind) ||
        (unsigned)options.kind >= TD_METRIC_KIND_COUNT || options.k < 0) {
        (void)td_error_set(error, TD_INVALID, "a metric needs a valid kind, and k of 0 or more");
        return NULL;
    }
    bool unset = options.threshold == 0 && !signbit(options.threshold);
    options.threshold = unset ? 0.5 : options.threshold;
    options.k = options.k ? options.k : 5;
    td_metric *metric = td__calloc(1, sizeof *metric);
    if (!metric) {
        (void)td_error_set(error, TD_MEMORY, "out of memory for a metric");
        return NULL;
    }
    metric->options = options;
    return metric;
}

void td_metric_destroy(td_metric *metric) {
    if (metric) {
        td__free(metric->outputs);
        td__free(metric);
    }
}

void td_metric_reset(td_metric *metric) {
    metric->sum = 0;
    metric->count = 0;
    if (metric->outputs) {
        memset(metric->outputs, 0, (size_t)metric->output_count * sizeof *metric->outputs);
    }
}

/* Which accuracy `accuracy` is for this batch. */
static td_metric_kind resolve(td_metric_kind kind, const batch *b) {
    if (kind != TD_METRIC_ACCURACY) {
        return kind;
    }
    return b->width == 1 ? TD_METRIC_BINARY_ACCURACY : TD_METRIC_CATEGORICAL_ACCURACY;
}

/* Whether the kind may be given class numbers, or else values like the prediction. */
static bool takes(td_metric_kind kind, bool classes) {
    switch (kind) {
    case TD_METRIC_SPARSE_CATEGORICAL_ACCURACY:
        return classes;
    case TD_METRIC_CATEGORICAL_ACCURACY:
    case TD_METRIC_TOP_K_ACCURACY:
        return true;
    default:
        return !classes;
    }
}

td_status td_metric_update(td_metric *metric, const td_tensor *prediction, const td_tensor *truth,
                           td_error *error) {
    const td_shape *shape = &prediction->shape;
    int64_t width = shape->rank ? shape->dims[shape->rank - 1] : 1;
    batch b = {.prediction = td__floats(prediction),
               .rows = width ? prediction->count / width : 0,
               .width = width,
               .truth = truth};
    bool fits = prediction->dtype == TD_FLOAT32 && truth->dtype != TD_FLOAT64;
    b.classes = fits && width > 1 && truth->count == b.rows;
    fits = fits && (b.classes || truth->count == prediction->count);
    td_metric_kind kind = resolve(metric->options.kind, &b);
    if (!fits || !takes(kind, b.classes)) {
        char p[TD_SHAPE_TEXT_SIZE], t[TD_SHAPE_TEXT_SIZE];
        return td_error_set(error, TD_BAD_SHAPE, "%s: prediction %s %s and truth %s %s do not fit",
                            names[metric->options.kind], td_dtype_name(prediction->dtype),
                            td_shape_text(shape, p), td_dtype_name(truth->dtype),
                            td_shape_text(&truth->shape, t));
    }
    return updates[kind](metric, &b, error);
}

double td_metric_value(const td_metric *metric) {
    if (metric->count == 0) {
        return (double)NAN;
    }
    return metric->options.kind == TD_METRIC_R2 ? r2_value(metric)
                                                : metric->sum / (double)metric->count;
}

/* --- its state ------------------------------------------------------------------------------ */

/* sum, count, number of outputs, then three sums for each. */
enum { STATE_HEAD = 3, OUTPUT_SUMS = sizeof(output_sums) / sizeof(double) };

size_t td__metric_state(const td_metric *metric, double *state) {
    size_t outputs = (size_t)metric->output_count;
    if (state) {
        state[0] = metric->sum;
        state[1] = (double)metric->count;
        state[2] = (double)outputs;
        for (size_t i = 0; i < outputs; i++) {
            memcpy(state + STATE_HEAD + i * OUTPUT_SUMS, &metric->outputs[i], sizeof(output_sums));
        }
    }
    return STATE_HEAD + outputs * OUTPUT_SUMS;
}

size_t td__metric_set_state(td_metric *metric, const double *state, size_t most) {
    if (most < STATE_HEAD || !(state[2] >= 0) ||
        state[2] > (double)((most - STATE_HEAD) / OUTPUT_SUMS) || !(state[1] >= 0) ||
        state[1] > 9e15) {
        return 0;
    }
    size_t outputs = (size_t)state[2];
    output_sums *sums = td__calloc(outputs + 1, sizeof *sums);
    if (!sums) {
        return 0;
    }
    if (outputs) {
        memcpy(sums, state + STATE_HEAD, outputs * sizeof *sums);
    }
    td__free(metric->outputs);
    metric->outputs = sums;
    metric->output_count = (int64_t)outputs;
    metric->sum = state[0];
    metric->count = (int64_t)state[1];
    return STATE_HEAD + outputs * OUTPUT_SUMS;
}
