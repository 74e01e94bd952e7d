#include "tensor/npy.h"

#include <stdio.h>
#include <string.h>

const char *td__npy_type(td_dtype dtype) {
    static const char *const types[TD_DTYPE_COUNT] = {
        [TD_FLOAT32] = "<f4", [TD_INT32] = "<i4",   [TD_INT64] = "<i8",  [TD_UINT8] = "|u1",
        [TD_FLOAT64] = "<f8", [TD_FLOAT16] = "<f2", [TD_BOOL] = "|b1",   [TD_INT8] = "|i1",
        [TD_INT16] = "<i2",   [TD_UINT16] = "<u2",  [TD_UINT32] = "<u4", [TD_UINT64] = "<u8",
    };
    return types[dtype];
}

size_t td__npy_frame(char *out, size_t length) {
    size_t size = (TD__NPY_PREFIX + length + 1 + 63) / 64 * 64, rest = size - TD__NPY_PREFIX;
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    out[8] = (char)(rest & 0xff);
    out[9] = (char)(rest >> 8);
    memset(out + TD__NPY_PREFIX + length, ' ', rest - length);
    out[size - 1] = '\n';
    return size;
}

size_t td__npy_header(char out[TD__NPY_HEADER], td_dtype dtype, const td_shape *shape) {
    char text[TD_SHAPE_TEXT_SIZE];
    int length = snprintf(out + TD__NPY_PREFIX, TD__NPY_HEADER - TD__NPY_PREFIX,
                          "{'descr': '%s', 'fortran_order': False, 'shape': %s, }",
                          td__npy_type(dtype), td_shape_text(shape, text));
    return td__npy_frame(out, (size_t)length);
}
