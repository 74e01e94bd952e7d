/* ONNX's element types: what they are called, how files have them, and how values keep to them. */
#include "onnx/parse.h"

#include "tensor/tensor.h"

#include <math.h>

static const struct {
    const char *name;
    td_dtype storage;
    td__onnx_encoding encoding; /* bits 0: not stored */
} types[] = {
    [TD__ONNX_UNDEFINED] = {.name = "undefined"},
    [TD__ONNX_FLOAT] = {"float", TD_FLOAT32, {32, 4, TD__FIXED32}},
    [TD__ONNX_UINT8] = {"uint8", TD_INT64, {8, 5, TD__VARINT}},
    [TD__ONNX_INT8] = {"int8", TD_INT64, {8, 5, TD__VARINT}},
    [TD__ONNX_UINT16] = {"uint16", TD_INT64, {16, 5, TD__VARINT}},
    [TD__ONNX_INT16] = {"int16", TD_INT64, {16, 5, TD__VARINT}},
    [TD__ONNX_INT32] = {"int32", TD_INT64, {32, 5, TD__VARINT}},
    [TD__ONNX_INT64] = {"int64", TD_INT64, {64, 7, TD__VARINT}},
    [TD__ONNX_STRING] = {"string", TD_INT64, {64, 6, TD__BYTES}},
    [TD__ONNX_BOOL] = {"bool", TD_INT64, {8, 5, TD__VARINT}},
    [TD__ONNX_FLOAT16] = {"float16", TD_FLOAT32, {16, 5, TD__VARINT}},
    [TD__ONNX_DOUBLE] = {"double", TD_FLOAT64, {64, 10, TD__FIXED64}},
    [TD__ONNX_UINT32] = {"uint32", TD_INT64, {32, 11, TD__VARINT}},
    [TD__ONNX_UINT64] = {"uint64", TD_INT64, {64, 11, TD__VARINT}},
    [14] = {.name = "complex64"},
    [15] = {.name = "complex128"},
    [TD__ONNX_BFLOAT16] = {"bfloat16", TD_FLOAT32, {16, 5, TD__VARINT}},
    [TD__ONNX_FLOAT8E4M3FN] = {"float8e4m3fn", TD_FLOAT32, {8, 5, TD__VARINT}},
    [TD__ONNX_FLOAT8E4M3FNUZ] = {"float8e4m3fnuz", TD_FLOAT32, {8, 5, TD__VARINT}},
    [TD__ONNX_FLOAT8E5M2] = {"float8e5m2", TD_FLOAT32, {8, 5, TD__VARINT}},
    [TD__ONNX_FLOAT8E5M2FNUZ] = {"float8e5m2fnuz", TD_FLOAT32, {8, 5, TD__VARINT}},
    [TD__ONNX_UINT4] = {"uint4", TD_INT64, {4, 5, TD__VARINT}},
    [TD__ONNX_INT4] = {"int4", TD_INT64, {4, 5, TD__VARINT}},
    [TD__ONNX_FLOAT4E2M1] = {"float4e2m1", TD_FLOAT32, {4, 5, TD__VARINT}},
    [TD__ONNX_FLOAT8E8M0] = {"float8e8m0", TD_FLOAT32, {8, 5, TD__VARINT}},
    [TD__ONNX_UINT2] = {"uint2", TD_INT64, {2, 5, TD__VARINT}},
    [TD__ONNX_INT2] = {"int2", TD_INT64, {2, 5, TD__VARINT}},
    [TD__ONNX_FLOAT6E2M3] = {"float6e2m3", TD_FLOAT32, {6, 5, TD__VARINT}},
    [TD__ONNX_FLOAT6E3M2] = {"float6e3m2", TD_FLOAT32, {6, 5, TD__VARINT}},
};

static bool is_known(td__onnx_type type) {
    return (size_t)type < sizeof types / sizeof *types;
}

const td__onnx_encoding *td__onnx_encoding_of(td__onnx_type type) {
    return is_known(type) && types[type].encoding.bits ? &types[type].encoding : NULL;
}

bool td__onnx_is_stored(td__onnx_type type) {
    return td__onnx_encoding_of(type) && type != TD__ONNX_STRING;
}

td_dtype td__onnx_storage(td__onnx_type type) {
    return is_known(type) ? types[type].storage : TD_FLOAT32;
}

const char *td__onnx_text_at(const td_tensor *text, int64_t i) {
    const char *found = (const char *)(intptr_t)((const int64_t *)text->data)[i];
    return found ? found : "";
}

void td__onnx_put_text(td_tensor *text, int64_t i, const char *value) {
    ((int64_t *)text->data)[i] = (int64_t)(intptr_t)value;
}

const char *td__onnx_type_name(td__onnx_type type) {
    return is_known(type) ? types[type].name : "an unknown type";
}

/* --- halves ------------------------------------------------------------------------------- */

/* To the nearest half, ties to even; still as a float. Adding and taking away a number of which
 * the last digit is a half's last digit does the rounding. */
static float round_float16(float value) {
    float magnitude = fabsf(value);
    if (!(magnitude < 65520.0f)) {
        return isnan(value) ? value : copysignf(INFINITY, value);
    }
    uint32_t exponent = td__bits_of(magnitude) & 0x7f800000;
    uint32_t least = 113u << 23; /* of 2^-14: below, a half is subnormal */
    float digit = td__float_of((exponent > least ? exponent : least) + (13u << 23));
    return copysignf(magnitude + digit - digit, value);
}

static float round_bfloat16(float value) {
    uint32_t bits = td__bits_of(value);
    if ((bits & 0x7fffffff) > 0x7f800000) {
        return td__float_of((bits | 0x00400000) & 0xffff0000); /* not a number stays one */
    }
    return td__float_of((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000);
}

/* --- keeping to a type -------------------------------------------------------------------- */

/* Two's complement, as C converts in practice and GCC and Clang define. */
static int64_t wrap(td__onnx_type type, uint64_t bits) {
    switch (type) {
    case TD__ONNX_UINT8:
        return (uint8_t)bits;
    case TD__ONNX_INT8:
        return (int8_t)bits;
    case TD__ONNX_UINT16:
        return (uint16_t)bits;
    case TD__ONNX_INT16:
        return (int16_t)bits;
    case TD__ONNX_UINT32:
        return (uint32_t)bits;
    case TD__ONNX_INT32:
        return (int32_t)bits;
    case TD__ONNX_UINT4:
        return (int64_t)(bits & 15);
    case TD__ONNX_INT4:
        return (int64_t)((bits & 15) ^ 8) - 8;
    case TD__ONNX_UINT2:
        return (int64_t)(bits & 3);
    case TD__ONNX_INT2:
        return (int64_t)((bits & 3) ^ 2) - 2;
    case TD__ONNX_BOOL:
        return bits != 0;
    default:
        return (int64_t)bits;
    }
}

static float round_to(td__onnx_type type, float value) {
    return type == TD__ONNX_FLOAT16    ? round_float16(value)
           : type == TD__ONNX_BFLOAT16 ? round_bfloat16(value)
                                       : td__onnx_small_round(type, value, false, 'u');
}

/* Writes only what changes: a view's elements are another value's, settled already, and may lie in
 * memory that cannot be written. */
void td__onnx_settle(td__onnx_type type, int64_t count, void *values) {
    if (td__onnx_storage(type) == TD_FLOAT32 && type != TD__ONNX_FLOAT) {
        float *numbers = values;
        for (int64_t i = 0; i < count; i++) {
            float rounded = round_to(type, numbers[i]);
            if (numbers[i] != rounded) {
                numbers[i] = rounded;
            }
        }
    } else if (td__onnx_storage(type) == TD_INT64 && type != TD__ONNX_INT64) {
        int64_t *numbers = values;
        for (int64_t i = 0; i < count; i++) {
            int64_t wrapped = wrap(type, (uint64_t)numbers[i]);
            if (numbers[i] != wrapped) {
                numbers[i] = wrapped;
            }
        }
    }
}

bool td__onnx_decode(td__onnx_type type, uint64_t bits, void *values, int64_t at) {
    if (td__onnx_is_small(type)) {
        unsigned width = types[type].encoding.bits;
        ((float *)values)[at] =
            td__onnx_small_decode(type, (unsigned)(bits & ((1u << width) - 1)), width);
        return true;
    }
    switch (type) {
    case TD__ONNX_FLOAT:
        ((float *)values)[at] = td__float_of((uint32_t)bits);
        return true;
    case TD__ONNX_FLOAT16:
        ((float *)values)[at] = td__from_float16((uint16_t)bits);
        return true;
    case TD__ONNX_BFLOAT16:
        ((float *)values)[at] = td__from_bfloat16((uint16_t)bits);
        return true;
    case TD__ONNX_DOUBLE:
        ((double *)values)[at] = td__double_of(bits);
        return true;
    default:
        ((int64_t *)values)[at] = wrap(type, bits);
        return type != TD__ONNX_UINT64 || bits <= INT64_MAX;
    }
}

/* --- numbers in a field ------------------------------------------------------------------- */

bool td__onnx_next_number(td__proto *packed, uint32_t wire, uint64_t *bits) {
    if (packed->p == packed->end) {
        return false;
    }
    size_t size = wire == TD__FIXED32 ? 4 : 8;
    if (wire == TD__VARINT) {
        return td__proto_varint(packed, bits);
    }
    if ((size_t)(packed->end - packed->p) < size) {
        return td__proto_fail(packed);
    }
    *bits = size == 4 ? td__load32(packed->p) : td__load64(packed->p);
    packed->p += size;
    return true;
}

size_t td__onnx_count_numbers(const td__proto_field *field, uint32_t wire, bool *bad) {
    if (field->wire == wire) {
        return 1;
    }
    size_t count = 0;
    if (field->wire != TD__BYTES) {
        *bad = true;
    } else if (wire == TD__VARINT) {
        for (size_t i = 0; i < field->size; i++) {
            count += field->data[i] < 0x80;
        }
    } else {
        size_t size = wire == TD__FIXED32 ? 4 : 8;
        count = field->size / size;
        *bad = *bad || field->size % size;
    }
    return count;
}

/* --- the type of a value ------------------------------------------------------------------ */

enum { ELEMENT = 1, SHAPE = 2, DIM = 1, DIM_VALUE = 1 };

/* A TensorShapeProto; dimensions without a number are -1. */
static void read_shape(td__proto message, td__onnx_info *info) {
    info->shape.rank = 0;
    info->has_shape = true;
    for (td__proto_field field; td__proto_next(&message, &field);) {
        if (field.number != DIM || field.wire != TD__BYTES) {
            continue;
        }
        if (info->shape.rank == TD_MAX_RANK) {
            info->has_shape = false;
            return;
        }
        int64_t dim = -1;
        td__proto inside = td__proto_in(&field);
        for (td__proto_field part; td__proto_next(&inside, &part);) {
            if (part.number == DIM_VALUE && part.wire == TD__VARINT) {
                dim = part.bits <= INT64_MAX ? (int64_t)part.bits : -1;
            }
        }
        info->shape.dims[info->shape.rank++] = dim;
    }
}

void td__onnx_read_type(td__proto message, td__onnx_info *info) {
    for (td__proto_field field; td__proto_next(&message, &field);) {
        if (field.wire != TD__BYTES || field.number > TD__ONNX_KIND_OPTIONAL) {
            continue;
        }
        info->kind =
            field.number == 6 ? info->kind /* a denotation */ : (td__onnx_kind)field.number;
        if (field.number != TD__ONNX_KIND_TENSOR) {
            continue;
        }
        td__proto tensor = td__proto_in(&field);
        for (td__proto_field part; td__proto_next(&tensor, &part);) {
            if (part.number == ELEMENT && part.wire == TD__VARINT) {
                info->type = part.bits <= INT32_MAX ? (td__onnx_type)part.bits : TD__ONNX_UNDEFINED;
            } else if (part.number == SHAPE && part.wire == TD__BYTES) {
                read_shape(td__proto_in(&part), info);
            }
        }
    }
}
