/* What a tensor is inside. */
#ifndef TAPEDECK_TENSOR_TENSOR_H
#define TAPEDECK_TENSOR_TENSOR_H

#include "tapedeck/tensor.h"

struct td_tensor {
    td_dtype dtype;
    td_shape shape;
    int64_t count; /* product of the dimensions, checked when the tensor was made */
    void *data;
    const char *name; /* never NULL; owned when the tensor is on the heap */

    /* Of tape tensors only. */
    uint64_t recording; /* serial number of the tape's recording that made it; 0: on the heap */
    int32_t slot;       /* its place on that tape */
    struct td__buffer *memory; /* that td__recycle gives back; NULL: none */
    /* What its gradient is called ("hidden.error"); borrowed; NULL: its name and ".gradient". */
    const char *gradient_name;
    bool gradient;     /* of the tensor it is named after */
    bool disconnected; /* a gradient that is zero because the loss does not depend on the target */
    bool owns_data;    /* heap tensors: data is freed with the tensor */
    bool weight;       /* a parameter or constant of a model, or a view of one */
};

static inline td_view td__view_of(const td_tensor *tensor) {
    return (td_view){.dtype = tensor->dtype, .shape = tensor->shape, .data = tensor->data};
}

static inline float *td__floats(const td_tensor *tensor) {
    return (float *)tensor->data;
}

/* td_tensor_create whose values are not set yet: the caller writes them all. */
td_tensor *td__tensor_create_raw(const char *name, td_dtype dtype, td_shape shape, td_error *error);

/* Points a tensor that td_tensor_borrow made at other memory, of any type and shape; no copy. */
void td__tensor_point(td_tensor *borrowed, const td_view *view);

/* Negative axes count from the end. False when out of range. */
static inline bool td__axis(int32_t rank, int32_t axis, int32_t *out) {
    int32_t resolved = axis < 0 ? axis + rank : axis;
    if (resolved < 0 || resolved >= rank) {
        return false;
    }
    *out = resolved;
    return true;
}

#endif
