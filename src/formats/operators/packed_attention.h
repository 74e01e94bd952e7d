/* Attention of onnxruntime, for its float and its quantised operator. */
#ifndef TAPEDECK_OPERATORS_PACKED_ATTENTION_H
#define TAPEDECK_OPERATORS_PACKED_ATTENTION_H

#include "graph/ops/attention.h"

/* Attention of (batch, steps, queries keys values); mask, past and bias are numbers of inputs. Output 0 is
 * the result, output 1, where it is wanted, has keys and values. */
bool td__packed_attention(td__graph_call *call, td_tensor *qkv, size_t mask, size_t past,
                          size_t bias);

#endif
