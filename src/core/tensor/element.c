#include "tensor/element.h"

void td__copy_floats(float *to, const td_view *from, int64_t first, int64_t count) {
    const char *at = (const char *)from->data + (size_t)first * td_dtype_size(from->dtype);
    if (count > 0 && from->dtype == TD_FLOAT32) {
        memcpy(to, at, (size_t)count * sizeof *to);
        return;
    }
    switch (from->dtype) {
#define COPY(name, text, type)                                                                     \
    case TD_##name:                                                                                \
        for (int64_t i = 0; i < count; i++) {                                                      \
            type value;                                                                            \
            memcpy(&value, at + (size_t)i * sizeof value, sizeof value);                           \
            to[i] = (float)TD__NUMBER_##name(value);                                               \
        }                                                                                          \
        break;
        TD_DTYPE_LIST(COPY)
#undef COPY
    default:
        break;
    }
}
