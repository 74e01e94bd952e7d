/* A metric inside: one rule for each kind, which adds batches to sums and makes values of those.
 *
 * Everything is seen as rows: prediction (rows, width), truth (rows, width) or class numbers (rows).
 * What a rule keeps is numbers: a sum, a count, and as many sums as it asks for, so that a checkpoint
 * holds any metric.
 */
#ifndef TAPEDECK_NN_METRIC_H
#define TAPEDECK_NN_METRIC_H

#include "nn/field.h"

/* One batch as rows. */
typedef struct td__metric_batch {
    const float *prediction; /* (rows, width) */
    int64_t rows, width;
    const td_tensor *truth;
    bool classes; /* truth has a class number a row, otherwise it is like prediction */
} td__metric_batch;

typedef struct td__metric_rule {
    const td__field *fields;
    size_t field_count;
    bool takes_classes, takes_values; /* as truth */
    void (*update)(td_metric *metric, const td__metric_batch *batch);
    size_t (*sums)(const td_metric_options *options, int64_t width); /* NULL: none */
    void (*values)(const td_metric *metric, double *values);         /* NULL: sum / count */
} td__metric_rule;

/* A rule that takes classes and values as truth. */
#define TD__METRIC_OF(fields_, update_, sums_, values_)                                            \
    {                                                                                              \
        .fields = (fields_), .field_count = TD__COUNT(fields_), .takes_classes = true,             \
        .takes_values = true, .update = (update_), .sums = (sums_), .values = (values_)            \
    }

struct td_metric {
    td_metric_options options;
    double sum;
    int64_t count; /* of what is added up; 0: nothing was */
    double *sums;
    size_t sum_count;
    int64_t width; /* of the predictions; 0 before the first */
    double *row;   /* of width: a row of probabilities */
};

extern const td__metric_rule td__precision_rule, td__recall_rule, td__f1_rule,
    td__confusion_matrix_rule, td__auc_rule;

/* The options of a kind. */
const td__field *td__metric_fields(td_metric_kind kind, size_t *count);
/* The class of a row, given as a number or as the largest of one value per class. */
int64_t td__metric_true_class(const td__metric_batch *batch, int64_t row);
/* Whether the truth has a row in a class. */
bool td__metric_is_true(const td__metric_batch *batch, int64_t row, int64_t class);
int64_t td__metric_largest(const float *row, int64_t width);
/* The probabilities of a row; the metric's, until the next call. */
const double *td__metric_row(const td_metric *metric, const td__metric_batch *batch, int64_t row);
/* Whether a prediction with one probability each is above the threshold. */
bool td__metric_is_above(const td_metric *metric, float prediction);
/* Rows that tables share. */
#define TD__METRIC_NAME TD__FIELD(TEXT, td_metric_options, name, .quiet = true)
#define TD__METRIC_THRESHOLD                                                                       \
    TD__FIELD(NUMBER, td_metric_options, threshold, .alias = "thresholds", .by_default = 0.5,      \
              .number = true, .no_default = true)

/* --- what a metric has summed up, to be saved and given back ------------------------------- */

/* Writes the numbers to state (may be NULL) and returns how many there are. */
size_t td__metric_state(const td_metric *metric, double *state);
/* Like td__metric_set_state, for a state of the same size that several were added up to, number by number. */
size_t td__metric_take_sum(td_metric *metric, const double *state);
/* Adds what another metric of the same options has summed up; false when memory is exhausted. */
bool td__metric_merge(td_metric *metric, const td_metric *other);
/* Takes them back; returns how many of at most max it took, 0 when they cannot be its own or memory is
 * exhausted. */
size_t td__metric_set_state(td_metric *metric, const double *state, size_t max);

#endif
