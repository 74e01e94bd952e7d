/* An element of any type as a number, for what people look at. */
#ifndef TAPEDECK_SINK_ELEMENT_H
#define TAPEDECK_SINK_ELEMENT_H

#include "tapedeck/tensor.h"

static inline double td__element(const td_view *view, int64_t i) {
    switch (view->dtype) {
    case TD_FLOAT32:
        return (double)((const float *)view->data)[i];
    case TD_INT32:
        return ((const int32_t *)view->data)[i];
    case TD_INT64:
        return (double)((const int64_t *)view->data)[i];
    case TD_UINT8:
        return ((const uint8_t *)view->data)[i];
    default:
        return ((const double *)view->data)[i];
    }
}

/* How many elements are in the dimensions from … rank. */
static inline int64_t td__elements_from(const td_shape *shape, int32_t from) {
    int64_t count = 1;
    for (int32_t i = from; i < shape->rank; i++) {
        count *= shape->dims[i];
    }
    return count;
}

#endif
