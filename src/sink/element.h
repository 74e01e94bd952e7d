/* What sinks ask of a shape and its elements. */
#ifndef TAPEDECK_SINK_ELEMENT_H
#define TAPEDECK_SINK_ELEMENT_H

#include "tensor/element.h"

/* How many elements are in the dimensions from … rank. */
static inline int64_t td__elements_from(const td_shape *shape, int32_t from) {
    int64_t count = 1;
    for (int32_t i = from; i < shape->rank; i++) {
        count *= shape->dims[i];
    }
    return count;
}

#endif
