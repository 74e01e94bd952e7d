/* Operators in types other than float, computed at once on whole tensors. */
#ifndef TAPEDECK_GRAPH_HOST_H
#define TAPEDECK_GRAPH_HOST_H

#include "graph/operator.h"

/* The element-wise operator that call->node names (Add, Abs, Max, Clip, …) on integers or doubles,
 * with broadcasting. Fails for what it does not know. */
bool td__graph_host_arithmetic(td__graph_call *call);
/* The same for the Reduce operators, over the marked axes. */
bool td__graph_host_reduce(td__graph_call *call, const bool reduced[TD_MAX_RANK], bool keep);

/* --- elements ----------------------------------------------------------------------------- */

/* Element i as a double, or as an integer (truncated towards zero; what is not a number is 0, what
 * is too large the largest). */
double td__graph_real(const td_tensor *x, int64_t i);
int64_t td__graph_integer(const td_tensor *x, int64_t i);
/* The way back into a tensor of any type. */
void td__graph_put_real(td_tensor *y, int64_t i, double value);
void td__graph_put_integer(td_tensor *y, int64_t i, int64_t value);
bool td__graph_is_integer(const td_tensor *x);

/* The plain form of inputs [0, count), all of which must be there and, with same, of one type. */
bool td__graph_plains(td__graph_call *call, size_t count, bool same, td_tensor **inputs);
/* A new tensor in the storage of type. */
td_tensor *td__graph_new(td__graph_call *call, td__graph_type type, td_shape shape);

#endif
