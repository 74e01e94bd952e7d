/* Tensors: n-dimensional arrays, contiguous and row-major; and views, which describe memory that
 * somebody else owns.
 *
 * A tensor made by td_tensor_create or td_tensor_from is owned by the caller (td_tensor_destroy).
 * A tensor returned by an operation (ops.h) belongs to its tape and lives until td_tape_reset.
 */
#ifndef TAPEDECK_TENSOR_H
#define TAPEDECK_TENSOR_H

#include "tapedeck/base.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TD_MAX_RANK 8

/* Values are part of the binary interface: only ever append. */
#define TD_DTYPE_LIST(X)                                                                           \
    X(FLOAT32, "float32", float)                                                                   \
    X(INT32, "int32", int32_t)                                                                     \
    X(INT64, "int64", int64_t)                                                                     \
    X(UINT8, "uint8", uint8_t)                                                                     \
    X(FLOAT64, "float64", double)                                                                  \
    X(FLOAT16, "float16", uint16_t)   /* IEEE's half, as bits */                                   \
    X(BFLOAT16, "bfloat16", uint16_t) /* the upper half of a float32, as bits */                   \
    X(BOOL, "bool", uint8_t)          /* 0 is false */                                             \
    X(INT8, "int8", int8_t)                                                                        \
    X(INT16, "int16", int16_t)                                                                     \
    X(UINT16, "uint16", uint16_t)                                                                  \
    X(UINT32, "uint32", uint32_t)                                                                  \
    X(UINT64, "uint64", uint64_t)

typedef enum td_dtype {
#define TD_DTYPE_MEMBER(name, text, type) TD_##name,
    TD_DTYPE_LIST(TD_DTYPE_MEMBER)
#undef TD_DTYPE_MEMBER
        TD_DTYPE_COUNT
} td_dtype;

/* "float32"; NULL for a value that is no dtype. */
TD_API const char *td_dtype_name(td_dtype dtype);
/* Bytes of one element; 0 for a value that is no dtype. */
TD_API size_t td_dtype_size(td_dtype dtype);

/* A shape: rank dimensions, each >= 0. Rank 0 is a scalar (one element). */
typedef struct td_shape {
    int32_t rank;
    int64_t dims[TD_MAX_RANK];
} td_shape;

/* TD_SHAPE(64, 28, 28, 1); at least one dimension. A scalar's shape is (td_shape){0}. */
#ifndef __cplusplus
#define TD_SHAPE(...)                                                                              \
    ((td_shape){.rank = (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),             \
                .dims = {__VA_ARGS__}})
#else
extern "C++" template <class... dims> inline td_shape td__shape(dims... each) {
    static_assert(sizeof...(dims) <= TD_MAX_RANK, "a shape has at most TD_MAX_RANK dimensions");
    return td_shape{sizeof...(dims), {static_cast<int64_t>(each)...}};
}
#define TD_SHAPE(...) td__shape(__VA_ARGS__)
#endif

/* Checks rank, dimensions and that count and bytes fit int64_t; count may be NULL. */
TD_API TD_NODISCARD td_status td_shape_check(const td_shape *shape, td_dtype dtype, int64_t *count,
                                             td_error *error);
TD_API bool td_shape_equal(const td_shape *a, const td_shape *b);

#define TD_SHAPE_TEXT_SIZE 192
/* Writes "(64, 28, 28, 1)" into text and returns it. */
TD_API const char *td_shape_text(const td_shape *shape, char text[TD_SHAPE_TEXT_SIZE]);

/* Memory that somebody else owns, described. With a release callback, the receiver may keep the
 * memory without copying it and calls release(owner) exactly once when done, from any thread;
 * without one, the memory is valid for the duration of the call only. */
typedef struct td_view {
    td_dtype dtype;
    td_shape shape;
    const void *data;
    void (*release)(void *owner);
    void *owner;
} td_view;

/* Element i of a view that is valid, as a number. */
TD_API double td_view_element(const td_view *view, int64_t i);

/* Row-major, whatever the memory's order: strides[i] elements lie between neighbours of dimension i
 * (any sign; NULL: row-major). Memory that is row-major already is described by packed as it is, with
 * view's release and owner; otherwise it is copied, view's release is called, and packed has a
 * release of its own, for the receiver to call. On failure view's release is called too. */
TD_API TD_NODISCARD td_status td_view_pack(const td_view *view, const int64_t *strides,
                                           td_view *packed, td_error *error);

typedef struct td_tensor td_tensor;

/* Zero-filled. name is copied and may be NULL. NULL on failure. */
TD_API td_tensor *td_tensor_create(const char *name, td_dtype dtype, td_shape shape,
                                   td_error *error);
/* A copy of the values at data. */
TD_API td_tensor *td_tensor_from(const char *name, td_dtype dtype, td_shape shape, const void *data,
                                 td_error *error);
/* A tensor over memory that the caller keeps valid and unchanged while the tensor is in use. */
TD_API td_tensor *td_tensor_borrow(const char *name, td_dtype dtype, td_shape shape, void *data,
                                   td_error *error);
/* Accepts NULL. Only for tensors of the three functions above. */
TD_API void td_tensor_destroy(td_tensor *tensor);

TD_API const char *td_tensor_name(const td_tensor *tensor); /* never NULL */
TD_API td_dtype td_tensor_dtype(const td_tensor *tensor);
TD_API td_shape td_tensor_shape(const td_tensor *tensor);
TD_API int64_t td_tensor_count(const td_tensor *tensor);
TD_API void *td_tensor_data(const td_tensor *tensor);
/* The first element of a float32 tensor. */
TD_API float td_tensor_scalar(const td_tensor *tensor);
/* A view without a release callback. */
TD_API td_view td_view_of(const td_tensor *tensor);

/* Prints like numpy does: name, shape, values; large tensors are summarised with "...".
 * Returns TD_IO when the stream fails. */
TD_API td_status td_tensor_print(const td_tensor *tensor, FILE *stream);

#ifdef __cplusplus
}
#endif
#endif
