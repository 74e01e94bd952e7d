/* What classifiers and regressors of ai.onnx.ml share: labels, and what is done to scores last. */
#ifndef TAPEDECK_OPERATORS_ML_H
#define TAPEDECK_OPERATORS_ML_H

#include "graph/classes.h"
#include "graph/host.h"
#include "graph/ops/common.h"

/* Output 0 of a classifier: label number indices[i] of each row. */
bool td__graph_output_labels(td__graph_call *call, const td__graph_labels *labels, int64_t rows,
                             const int64_t *indices);
/* Attribute post_transform, applied to a row of scores. */
void td__graph_post_transform(const td__graph_node *node, double *scores, int64_t count);
/* Input 0 as rows of features (rank 1: one row) of any type; NULL on failure. */
td_tensor *td__graph_features(td__graph_call *call, int64_t *rows, int64_t *width);
/* The numbers of an attribute, floats or (NAME_as_tensor, or a tensor itself) of any type; count 0
 * when it has none. */
typedef struct td__graph_reals {
    size_t count;
    const float *floats;
    const td_tensor *tensor;
} td__graph_reals;
td__graph_reals td__graph_reals_of(const td__graph_node *node, const char *name);
double td__graph_reals_at(const td__graph_reals *list, size_t i);

#endif
