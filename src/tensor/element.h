/* An element of any type as a number. */
#ifndef TAPEDECK_TENSOR_ELEMENT_H
#define TAPEDECK_TENSOR_ELEMENT_H

#include "tapedeck/tensor.h"

#include <string.h>

static inline float td__float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float td__from_bfloat16(uint16_t bits) {
    return td__float_of_bits((uint32_t)bits << 16);
}

/* A normal number has its exponent's bias changed; a subnormal one is a difference of two normal
 * ones, so that it survives where subnormal float32 are flushed to zero. */
static inline float td__from_float16(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
    uint32_t shifted = magnitude << 13;
    uint32_t normal = shifted + ((magnitude >= 0x7c00 ? 224u : 112u) << 23);
    float tiny = td__float_of_bits(shifted | 113u << 23) - td__float_of_bits(113u << 23);
    uint32_t small;
    memcpy(&small, &tiny, sizeof small);
    return td__float_of_bits(sign | (magnitude < 0x400 ? small : normal));
}

#define TD__NUMBER_FLOAT32(x) (x)
#define TD__NUMBER_INT32(x) (x)
#define TD__NUMBER_INT64(x) (x)
#define TD__NUMBER_UINT8(x) (x)
#define TD__NUMBER_FLOAT64(x) (x)
#define TD__NUMBER_FLOAT16(x) td__from_float16(x)
#define TD__NUMBER_BFLOAT16(x) td__from_bfloat16(x)
#define TD__NUMBER_BOOL(x) ((x) != 0)
#define TD__NUMBER_INT8(x) (x)
#define TD__NUMBER_INT16(x) (x)
#define TD__NUMBER_UINT16(x) (x)
#define TD__NUMBER_UINT32(x) (x)
#define TD__NUMBER_UINT64(x) (x)

static inline double td__element(const td_view *view, int64_t i) {
#define ELEMENT(name, text, type)                                                                  \
    case TD_##name:                                                                                \
        return (double)TD__NUMBER_##name(((const type *)view->data)[i]);
    switch (view->dtype) {
        TD_DTYPE_LIST(ELEMENT)
    default:
        return 0;
    }
#undef ELEMENT
}

#endif
