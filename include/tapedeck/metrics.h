/* Metrics: predictions against the truth, accumulated over batches. */
#ifndef TAPEDECK_METRICS_H
#define TAPEDECK_METRICS_H

#include "tapedeck/settings.h"
#include "tapedeck/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Prediction against truth, accumulated over batches. accuracy is the one that fits: sparse for
 * integer truth, binary when there is one output, else categorical; as Keras chooses. */
#define TD_METRIC_LIST(X)                                                                          \
    X(ACCURACY, "accuracy")                                                                        \
    X(SPARSE_CATEGORICAL_ACCURACY, "sparse_categorical_accuracy")                                  \
    X(CATEGORICAL_ACCURACY, "categorical_accuracy")                                                \
    X(BINARY_ACCURACY, "binary_accuracy")                                                          \
    X(TOP_K_ACCURACY, "top_k_accuracy") /* sparse or one-hot truth */                              \
    X(MAE, "mae")                                                                                  \
    X(MSE, "mse")                                                                                  \
    X(R2, "r2") /* mean over outputs of 1 - residual / total sum of squares */                     \
    X(PRECISION, "precision")                                                                      \
    X(RECALL, "recall")                                                                            \
    X(F1, "f1")                                                                                    \
    X(AUC, "auc")                                                                                  \
    X(CONFUSION_MATRIX, "confusion_matrix") /* counts (true class, predicted class) */

typedef enum td_metric_kind {
#define TD_METRIC_MEMBER(name, text) TD_METRIC_##name,
    TD_METRIC_LIST(TD_METRIC_MEMBER)
#undef TD_METRIC_MEMBER
        TD_METRIC_KIND_COUNT
} td_metric_kind;

/* What makes probabilities of predictions: nothing, they are; or they are logits. */
typedef enum td_link { TD_LINK_NONE, TD_LINK_SIGMOID, TD_LINK_SOFTMAX } td_link;
/* Over classes: all counts together; the mean; the mean by how many there are; each by itself. */
typedef enum td_average {
    TD_AVERAGE_DEFAULT, /* micro for precision and recall, macro for f1 */
    TD_AVERAGE_MICRO,
    TD_AVERAGE_MACRO,
    TD_AVERAGE_WEIGHTED,
    TD_AVERAGE_NONE
} td_average;
typedef enum td_curve { TD_CURVE_ROC, TD_CURVE_PR } td_curve;
typedef enum td_summation {
    TD_SUMMATION_INTERPOLATION,
    TD_SUMMATION_MINORING,
    TD_SUMMATION_MAJORING
} td_summation;

/* Thresholds are of probabilities. */
typedef struct td_metric_options {
    size_t size;
    td_metric_kind kind;
    /* Above it is class 1 (0.5). Left out, f1 with several outputs takes the largest instead. */
    td_number threshold;
    int64_t k;        /* top_k: 5; precision, recall: the k largest are predicted, no threshold */
    const char *name; /* what it is called; NULL: as its kind. Borrowed for the call */
    td_link link;
    td_average average;     /* precision, recall, f1 */
    td_number class_id;     /* precision, recall: of this class alone */
    int64_t thresholds;     /* auc: 200 */
    td_curve curve;         /* auc */
    td_summation summation; /* auc */
} td_metric_options;
#define TD_METRIC(...) TD_OPTIONS(td_metric_options, __VA_ARGS__)

/* "accuracy"; NULL for a value that is no kind. */
TD_API const char *td_metric_kind_name(td_metric_kind kind);
/* Sets the kind and what the keys say ("auc", {curve: PR}), the rest to the defaults. The link
 * stays as it is; texts are borrowed. */
TD_API TD_NODISCARD td_status td_metric_configure(td_metric_options *options, const char *kind,
                                                  const td_setting *settings, size_t count,
                                                  td_error *error);
/* TD_NOT_FOUND names the nearest. Keras's other names (acc, f1_score, …) are found too. */
TD_API TD_NODISCARD td_status td_metric_kind_find(const char *name, td_metric_kind *kind,
                                                  td_error *error);

typedef struct td_metric td_metric;
/* NULL on failure. */
TD_API td_metric *td_metric_create(const td_metric_options *options, td_error *error);
/* Accepts NULL. */
TD_API void td_metric_destroy(td_metric *metric);
/* prediction: float32 (batch, …, outputs); truth: of the same shape in float32, or class numbers
 * (int32, int64, uint8) without the last axis. A truth of one value less axis or one axis of size 1
 * more fits too. */
TD_API TD_NODISCARD td_status td_metric_update(td_metric *metric, const td_tensor *prediction,
                                               const td_tensor *truth, td_error *error);
/* Over what was seen since the last reset; NaN when that is nothing. */
TD_API double td_metric_value(const td_metric *metric);
/* How many values it has of predictions with `outputs` outputs: 1; with `average: none` one for each
 * class; of a confusion matrix classes * classes. And all of them. */
TD_API size_t td_metric_value_count(const td_metric_options *options, int64_t outputs);
TD_API void td_metric_values(const td_metric *metric, double *values);
TD_API void td_metric_reset(td_metric *metric);

#ifdef __cplusplus
}
#endif
#endif
