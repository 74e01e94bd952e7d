#include "torch/names.h"

#include <string.h>

#define TYPE(storage, word, dtype)                                                                 \
    {"torch", storage, TD__TORCH_STORAGE, dtype}, {                                                \
        "torch", word, TD__TORCH_DTYPE, dtype                                                      \
    }

static const td__torch_name names[] = {
    {"torch._utils", "_rebuild_tensor", TD__TORCH_TENSOR, 0},
    {"torch._utils", "_rebuild_tensor_v2", TD__TORCH_TENSOR, 0},
    {"torch._utils", "_rebuild_tensor_v3", TD__TORCH_TYPED, 0},
    {"torch._utils", "_rebuild_parameter", TD__TORCH_PARAMETER, 0},
    {"torch._utils", "_rebuild_parameter_with_state", TD__TORCH_PARAMETER, 0},
    {"torch._tensor", "_rebuild_from_type_v2", TD__TORCH_FROM_TYPE, 0},
    {"collections", "OrderedDict", TD__TORCH_DICT, 0},
    {"collections", "defaultdict", TD__TORCH_DICT, 0},
    {"torch", "Size", TD__TORCH_SIZE, 0},
    TYPE("FloatStorage", "float32", TD_FLOAT32),
    TYPE("DoubleStorage", "float64", TD_FLOAT64),
    TYPE("HalfStorage", "float16", TD_FLOAT16),
    TYPE("BFloat16Storage", "bfloat16", TD_BFLOAT16),
    TYPE("LongStorage", "int64", TD_INT64),
    TYPE("IntStorage", "int32", TD_INT32),
    TYPE("ShortStorage", "int16", TD_INT16),
    TYPE("CharStorage", "int8", TD_INT8),
    TYPE("ByteStorage", "uint8", TD_UINT8),
    TYPE("BoolStorage", "bool", TD_BOOL),
    {"torch", "uint16", TD__TORCH_DTYPE, TD_UINT16},
    {"torch", "uint32", TD__TORCH_DTYPE, TD_UINT32},
    {"torch", "uint64", TD__TORCH_DTYPE, TD_UINT64},
    {"torch.storage", "UntypedStorage", TD__TORCH_UNTYPED, 0},
    {"torch", "UntypedStorage", TD__TORCH_UNTYPED, 0},
    {"torch", "ComplexFloatStorage", TD__TORCH_UNREADABLE, 0},
    {"torch", "ComplexDoubleStorage", TD__TORCH_UNREADABLE, 0},
    {"torch", "complex64", TD__TORCH_UNREADABLE, 0},
    {"torch", "complex128", TD__TORCH_UNREADABLE, 0},
    {"torch", "float8_e4m3fn", TD__TORCH_UNREADABLE, 0},
    {"torch", "float8_e5m2", TD__TORCH_UNREADABLE, 0},
    {"torch", "Tensor", TD__TORCH_PLAIN, 0},
    {"torch.nn.parameter", "Parameter", TD__TORCH_PLAIN, 0},
    {"torch.nn.parameter", "Buffer", TD__TORCH_PLAIN, 0},
    {"torch", "device", TD__TORCH_PLAIN, 0},
    {"_codecs", "encode", TD__TORCH_PLAIN, 0},
    {"builtins", "set", TD__TORCH_PLAIN, 0},
    {"__builtin__", "set", TD__TORCH_PLAIN, 0},
    {"builtins", "dict", TD__TORCH_PLAIN, 0},
    {"__builtin__", "dict", TD__TORCH_PLAIN, 0},
};

static bool same(const char *text, size_t length, const char *word) {
    return strlen(word) == length && !memcmp(text, word, length);
}

const td__torch_name *td__torch_name_of(const td__pickle_value *value) {
    for (size_t i = 0; value->kind == TD__PICKLE_NAME && i < sizeof names / sizeof *names; i++) {
        if (same(value->text, value->length, names[i].name) &&
            same(value->module, value->module_length, names[i].module)) {
            return &names[i];
        }
    }
    return NULL;
}
