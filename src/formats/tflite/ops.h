/* What the operators' files share: options of a call, attributes of a node. */
#ifndef TAPEDECK_TFLITE_OPS_H
#define TAPEDECK_TFLITE_OPS_H

#include "tflite/convert.h"

#define OPTION(call, n, fallback) td__flat_int(&(call)->lite->flat, (call)->options, n, fallback)
#define OPTION_BYTE(call, n) td__flat_byte(&(call)->lite->flat, (call)->options, n, 0)

/* The operator of ONNX that stands for a fused activation, which the option says. */
const char *td__lite_fused(td__lite_call *call, const char *x, unsigned option);

/* Those that move elements (ops_shapes.c). */
#define TD__LITE_SHAPES(X)                                                                         \
    X(reshape)                                                                                     \
    X(transpose)                                                                                   \
    X(squeeze)                                                                                     \
    X(expand_dims)                                                                                 \
    X(concatenation)                                                                               \
    X(pack)                                                                                        \
    X(split)                                                                                       \
    X(split_v)                                                                                     \
    X(unpack)                                                                                      \
    X(strided_slice)                                                                               \
    X(slice)                                                                                       \
    X(pad)                                                                                         \
    X(mirror_pad)                                                                                  \
    X(space_to_batch)                                                                              \
    X(batch_to_space)                                                                              \
    X(gather)                                                                                      \
    X(embedding_lookup)
#define TD__LITE_SHAPE(name) const char *td__lite_##name(td__lite_call *call);
TD__LITE_SHAPES(TD__LITE_SHAPE)
#undef TD__LITE_SHAPE

#endif
