/* Numbers in 8 bits, for operators that compute with them their own way. */
#ifndef TAPEDECK_GRAPH_OPS_QUANTIZED_H
#define TAPEDECK_GRAPH_OPS_QUANTIZED_H

#include "graph/ops/common.h"

/* Rounded to even, and kept within the type. */
int64_t td__graph_saturate(td__graph_type type, double value);
/* Input minus its zero point (input zero; left out: 0), one for all or along an axis, as integers;
 * NULL on failure. */
td_tensor *td__graph_centred(td__graph_call *call, size_t input, size_t zero, int64_t axis);
/* (…, m, k) times (…, k, n) of such, the leading axes broadcast, exact in 32 bits. */
td_tensor *td__graph_integer_product(td__graph_call *call, const td_tensor *a, const td_tensor *b);
/* Input as floats: (x - zero) scale. */
td_tensor *td__graph_dequantized(td__graph_call *call, size_t input, size_t scale, size_t zero,
                                 int64_t axis);
/* The way back; x in float. Sets output 0 in the type of input zero (left out: uint8). */
bool td__graph_output_quantized(td__graph_call *call, const td_tensor *x, size_t scale,
                                size_t zero);
/* The range of x, 0 included, onto 0 to 255: the numbers minus their zero point, and the scale. */
td_tensor *td__graph_quantize_range(td__graph_call *call, const td_tensor *x, float *scale,
                                    int64_t *zero);

#endif
