/* An element of any type as a number. */
#ifndef TAPEDECK_TENSOR_ELEMENT_H
#define TAPEDECK_TENSOR_ELEMENT_H

#include "base/half.h"
#include "tapedeck/tensor.h"

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

/* Copies elements [first, first + count) of a view, of any type and at any address, to float32. */
void td__copy_floats(float *to, const td_view *from, int64_t first, int64_t count);

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

/* The product of the dimensions begin … end - 1; 1 when there are none. The shape has been checked
 * before, so that the product does not overflow. */
static inline int64_t td__elements_between(const td_shape *shape, int32_t begin, int32_t end) {
    int64_t count = 1;
    for (int32_t i = begin; i < end; i++) {
        count *= shape->dims[i];
    }
    return count;
}

/* The product of the dimensions from `begin` to the last one. */
static inline int64_t td__elements_from(const td_shape *shape, int32_t begin) {
    return td__elements_between(shape, begin, shape->rank);
}

#endif
