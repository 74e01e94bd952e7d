/* What classifiers and regressors of ai.onnx.ml share: labels, and what is done to scores last. */
#ifndef TAPEDECK_ONNX_OPS_ML_H
#define TAPEDECK_ONNX_OPS_ML_H

#include "onnx/host.h"
#include "onnx/ops/common.h"

/* What a node calls its classes: numbers, or texts. */
typedef struct td__onnx_labels {
    size_t count;
    const int64_t *numbers; /* NULL: they are texts */
    const char *const *texts;
} td__onnx_labels;

/* From the attributes PREFIX_ints, PREFIX_int64s or PREFIX_strings; none: count 0. */
td__onnx_labels td__onnx_labels_of(const td__onnx_node *node, const char *prefix);
/* Output 0 of a classifier: label number indices[i] of each row. */
bool td__onnx_output_labels(td__onnx_call *call, const td__onnx_labels *labels, int64_t rows,
                            const int64_t *indices);
/* Attribute post_transform, applied to a row of scores. */
void td__onnx_post_transform(const td__onnx_node *node, double *scores, int64_t count);
/* Input 0 as rows of features (rank 1: one row) of any type; NULL on failure. */
td_tensor *td__onnx_features(td__onnx_call *call, int64_t *rows, int64_t *width);
/* The numbers of an attribute, floats or (NAME_as_tensor, or a tensor itself) of any type; count 0
 * when it has none. */
typedef struct td__onnx_reals {
    size_t count;
    const float *floats;
    const td_tensor *tensor;
} td__onnx_reals;
td__onnx_reals td__onnx_reals_of(const td__onnx_node *node, const char *name);
double td__onnx_reals_at(const td__onnx_reals *list, size_t i);

#endif
