#include "sink/csv_cells.h"

#include "base/half.h"

#define DEFINE_CELLS(name, type, format)                                                           \
    static char *cells_##name(char *out, const void *data, int64_t first, int64_t count) {         \
        const type *values = (const type *)data + first;                                           \
        for (int64_t i = 0; i < count; i++) {                                                      \
            out += format(out, values[i]);                                                         \
            *out++ = ',';                                                                          \
        }                                                                                          \
        return out;                                                                                \
    }
static char *cells_float32(char *out, const void *data, int64_t first, int64_t count) {
    return td__format_floats(out, (const float *)data + first, (size_t)count, ',');
}
DEFINE_CELLS(int32, int32_t, td__format_int)
DEFINE_CELLS(int64, int64_t, td__format_int)
DEFINE_CELLS(uint8, uint8_t, td__format_uint)
DEFINE_CELLS(float64, double, td__format_double)
DEFINE_CELLS(int8, int8_t, td__format_int)
DEFINE_CELLS(int16, int16_t, td__format_int)
DEFINE_CELLS(uint16, uint16_t, td__format_uint)
DEFINE_CELLS(uint32, uint32_t, td__format_uint)
DEFINE_CELLS(uint64, uint64_t, td__format_uint)

static size_t format_float16(char *out, uint16_t bits) {
    return td__format_float(out, td__from_float16(bits));
}
static size_t format_bfloat16(char *out, uint16_t bits) {
    return td__format_float(out, td__from_bfloat16(bits));
}
DEFINE_CELLS(float16, uint16_t, format_float16)
DEFINE_CELLS(bfloat16, uint16_t, format_bfloat16)

td__csv_cells_function *const td__csv_cells[TD_DTYPE_COUNT] = {
    [TD_FLOAT32] = cells_float32,   [TD_INT32] = cells_int32,     [TD_INT64] = cells_int64,
    [TD_UINT8] = cells_uint8,       [TD_FLOAT64] = cells_float64, [TD_FLOAT16] = cells_float16,
    [TD_BFLOAT16] = cells_bfloat16, [TD_BOOL] = cells_uint8,      [TD_INT8] = cells_int8,
    [TD_INT16] = cells_int16,       [TD_UINT16] = cells_uint16,   [TD_UINT32] = cells_uint32,
    [TD_UINT64] = cells_uint64,
};
