/* precision, recall, f1 and the confusion matrix: counts by class, as Keras takes them.
 *
 * Predicted is what is above the threshold, or among the k largest of its row; for f1 without a
 * threshold, what is the largest. Of class numbers the truth is the one-hot row.
 */
#include "nn/layer.h"
#include "nn/metric.h"

#include <math.h>

enum { HIT, WRONG, MISSED, CLASS_SUMS }; /* true positives, false positives, false negatives */

static const char *const average_names[] = {NULL, "micro", "macro", "weighted", "none"};
static const td__words average_words = {"average", average_names, 5, NULL, NULL};

#define AVERAGE(default_value)                                                                     \
    TD__WORD(td_metric_options, average, average_words, TD_AVERAGE_##default_value)
static const td__field found_fields[] = {
    TD__METRIC_NAME,
    TD__METRIC_THRESHOLD,
    AVERAGE(MICRO),
    TD__FIELD_CALLED(INTEGER, td_metric_options, k, "top_k", .quiet = true),
    TD__FIELD(INTEGER, td_metric_options, class_id, .number = true, .no_default = true,
              .quiet = true),
};
static const td__field f1_fields[] = {TD__METRIC_NAME, AVERAGE(MACRO), TD__METRIC_THRESHOLD};
static const td__field matrix_fields[] = {TD__METRIC_NAME, TD__METRIC_THRESHOLD};

/* --- counting ----------------------------------------------------------------------------- */

static size_t class_sums(const td_metric_options *options, int64_t width) {
    (void)options;
    return (size_t)width * CLASS_SUMS;
}

static int64_t larger_in(const double *row, int64_t width, int64_t than) {
    int64_t larger = 0;
    for (int64_t i = 0; i < width; i++) {
        larger += row[i] > row[than] || (i < than && row[i] == row[than]);
    }
    return larger;
}

/* As Keras has it: ties are predicted all, a row of zeros is no prediction. */
static bool is_largest(const double *row, int64_t width, int64_t i) {
    for (int64_t k = 0; k < width; k++) {
        if (row[k] > row[i]) {
            return false;
        }
    }
    return fabs(row[i]) > 1e-9;
}

static bool is_predicted(const td_metric *metric, const td__metric_batch *b, const double *row,
                         int64_t r, int64_t i) {
    const td_metric_options *options = &metric->options;
    if (options->kind == TD_METRIC_F1 && b->width > 1 && !options->threshold.set) {
        return is_largest(row, b->width, i);
    }
    if (options->kind != TD_METRIC_F1 && options->k) {
        return larger_in(row, b->width, i) < options->k;
    }
    return options->link == TD_LINK_SOFTMAX && b->width > 1
               ? (float)row[i] > (float)options->threshold.value
               : td__metric_is_above(metric, b->prediction[r * b->width + i]);
}

static void update(td_metric *metric, const td__metric_batch *b) {
    for (int64_t r = 0; r < b->rows; r++) {
        const double *row = td__metric_row(metric, b, r);
        for (int64_t i = 0; i < b->width; i++) {
            bool predicted = is_predicted(metric, b, row, r, i), is = td__metric_is_true(b, r, i);
            double *sums = metric->sums + i * CLASS_SUMS;
            sums[HIT] += predicted && is;
            sums[WRONG] += predicted && !is;
            sums[MISSED] += !predicted && is;
        }
    }
    metric->count += b->rows;
}

/* --- scores ------------------------------------------------------------------------------- */

static double ratio(double part, double whole) {
    return whole > 0 ? part / whole : 0;
}

static double score(td_metric_kind kind, const double *sums) {
    double precision = ratio(sums[HIT], sums[HIT] + sums[WRONG]);
    double recall = ratio(sums[HIT], sums[HIT] + sums[MISSED]);
    return kind == TD_METRIC_PRECISION ? precision
           : kind == TD_METRIC_RECALL  ? recall
                                       : ratio(2 * precision * recall, precision + recall);
}

static void values(const td_metric *metric, double *out) {
    const td_metric_options *options = &metric->options;
    double total[CLASS_SUMS] = {0}, sum = 0, weighted = 0, support = 0;
    for (int64_t i = 0; i < metric->width; i++) {
        const double *sums = metric->sums + i * CLASS_SUMS;
        double of_class = score(options->kind, sums), truths = sums[HIT] + sums[MISSED];
        if (options->average == TD_AVERAGE_NONE && !options->class_id.set) {
            out[i] = of_class;
        }
        for (int k = 0; k < CLASS_SUMS; k++) {
            total[k] += sums[k];
        }
        sum += of_class;
        weighted += of_class * truths;
        support += truths;
    }
    if (options->class_id.set) {
        *out = score(options->kind, metric->sums + (int64_t)options->class_id.value * CLASS_SUMS);
    } else if (options->average == TD_AVERAGE_MICRO) {
        *out = score(options->kind, total);
    } else if (options->average == TD_AVERAGE_MACRO) {
        *out = sum / (double)metric->width;
    } else if (options->average == TD_AVERAGE_WEIGHTED) {
        *out = ratio(weighted, support);
    }
}

/* --- the matrix --------------------------------------------------------------------------- */

static int64_t matrix_size(int64_t width) {
    return width > 1 ? width : 2;
}

static size_t matrix_sums(const td_metric_options *options, int64_t width) {
    (void)options;
    return (size_t)(matrix_size(width) * matrix_size(width));
}

static void update_matrix(td_metric *metric, const td__metric_batch *b) {
    int64_t size = matrix_size(b->width);
    for (int64_t r = 0; r < b->rows; r++) {
        const float *row = b->prediction + r * b->width;
        bool one = b->width == 1;
        int64_t is = one ? td__metric_is_true(b, r, 0) : td__metric_true_class(b, r);
        int64_t predicted =
            one ? td__metric_is_above(metric, *row) : td__metric_largest(row, b->width);
        if (is >= 0 && is < size) {
            metric->sums[is * size + predicted]++;
        }
    }
    metric->count += b->rows;
}

static void matrix_values(const td_metric *metric, double *out) {
    for (size_t i = 0; i < metric->sum_count; i++) {
        out[i] = metric->sums[i];
    }
}

/* ------------------------------------------------------------------------------------------ */

const td__metric_rule td__precision_rule = TD__METRIC_OF(found_fields, update, class_sums, values);
const td__metric_rule td__recall_rule = TD__METRIC_OF(found_fields, update, class_sums, values);
const td__metric_rule td__f1_rule = TD__METRIC_OF(f1_fields, update, class_sums, values);
const td__metric_rule td__confusion_matrix_rule =
    TD__METRIC_OF(matrix_fields, update_matrix, matrix_sums, matrix_values);
