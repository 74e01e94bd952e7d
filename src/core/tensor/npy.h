/* What stands before the values of an NPY file. */
#ifndef TAPEDECK_TENSOR_NPY_H
#define TAPEDECK_TENSOR_NPY_H

#include "tapedeck/tensor.h"

/* numpy's word for an element type: "<f4". NumPy has no bfloat16: NULL. */
const char *td__npy_type(td_dtype dtype);
/* Puts magic, version and padding around the dictionary of `length` bytes at out + TD__NPY_PREFIX.
 * Returns the total size, a multiple of 64; out must have room for it. */
enum { TD__NPY_PREFIX = 10 };
size_t td__npy_frame(char *out, size_t length);
/* Writes the header of an array of this type and shape; returns how many bytes, a multiple of 64. */
#define TD__NPY_HEADER 320
size_t td__npy_header(char out[TD__NPY_HEADER], td_dtype dtype, const td_shape *shape);

typedef struct td__npy_array {
    char type[32]; /* numpy's word for its elements: "<f4" */
    bool fortran;  /* column-major */
    td_shape shape;
    size_t start; /* of the elements, in the file */
} td__npy_array;

/* Reads the header that a file of version 1 to 3 begins with; bytes may end behind it. what is what
 * messages call the file. TD_FORMAT, and TD_UNSUPPORTED for records and too many dimensions. */
td_status td__npy_parse_header(const void *bytes, size_t size, const char *what,
                               td__npy_array *array, td_error *error);

#endif
