/* DLPack's binary interface (dmlc.github.io/dlpack, versions 0 and 1), as far as reading needs it. */
#ifndef TAPEDECK_PYTHON_DLPACK_H
#define TAPEDECK_PYTHON_DLPACK_H

#include <stdint.h>

enum { DLPACK_CPU = 1, DLPACK_CUDA_HOST = 3, DLPACK_ROCM_HOST = 11, DLPACK_CUDA_MANAGED = 13 };
enum {
    DLPACK_INT,
    DLPACK_UINT,
    DLPACK_FLOAT,
    DLPACK_HANDLE,
    DLPACK_BFLOAT,
    DLPACK_COMPLEX,
    DLPACK_BOOL,
};

typedef struct dlpack_version {
    uint32_t major, minor;
} dlpack_version;

typedef struct dlpack_tensor {
    void *data;
    struct {
        int32_t type, id;
    } device;
    int32_t rank;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL: row-major (before 1.2) */
    uint64_t byte_offset;
} dlpack_tensor;

/* In a capsule called "dltensor". */
typedef struct dlpack_managed {
    dlpack_tensor tensor;
    void *context;
    void (*deleter)(struct dlpack_managed *self);
} dlpack_managed;

/* In a capsule called "dltensor_versioned". */
typedef struct dlpack_managed_versioned {
    dlpack_version version;
    void *context;
    void (*deleter)(struct dlpack_managed_versioned *self);
    uint64_t flags;
    dlpack_tensor tensor;
} dlpack_managed_versioned;

/* In a capsule called "dlpack_exchange_api", the attribute __dlpack_c_exchange_api__ of a type. */
typedef struct dlpack_exchange {
    dlpack_version version;
    struct dlpack_exchange *previous;
    int (*allocate)(dlpack_tensor *, dlpack_managed_versioned **, void *,
                    void (*)(void *, const char *, const char *));
    int (*managed_from_object)(void *object, dlpack_managed_versioned **out);
    int (*managed_to_object)(dlpack_managed_versioned *tensor, void **object);
    int (*tensor_from_object)(void *object, dlpack_tensor *out); /* borrowed; may be NULL */
    int (*current_stream)(int32_t type, int32_t id, void **stream);
} dlpack_exchange;

#endif
