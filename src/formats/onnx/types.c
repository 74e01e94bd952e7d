/* How ONNX's files have numbers of each element type, and the types of values. */
#include "onnx/parse.h"

/* bits 0: not stored */
static const td__onnx_encoding encodings[] = {
    [TD__GRAPH_FLOAT] = {32, 4, TD__FIXED32},      [TD__GRAPH_UINT8] = {8, 5, TD__VARINT},
    [TD__GRAPH_INT8] = {8, 5, TD__VARINT},         [TD__GRAPH_UINT16] = {16, 5, TD__VARINT},
    [TD__GRAPH_INT16] = {16, 5, TD__VARINT},       [TD__GRAPH_INT32] = {32, 5, TD__VARINT},
    [TD__GRAPH_INT64] = {64, 7, TD__VARINT},       [TD__GRAPH_STRING] = {64, 6, TD__BYTES},
    [TD__GRAPH_BOOL] = {8, 5, TD__VARINT},         [TD__GRAPH_FLOAT16] = {16, 5, TD__VARINT},
    [TD__GRAPH_DOUBLE] = {64, 10, TD__FIXED64},    [TD__GRAPH_UINT32] = {32, 11, TD__VARINT},
    [TD__GRAPH_UINT64] = {64, 11, TD__VARINT},     [TD__GRAPH_BFLOAT16] = {16, 5, TD__VARINT},
    [TD__GRAPH_FLOAT8E4M3FN] = {8, 5, TD__VARINT}, [TD__GRAPH_FLOAT8E4M3FNUZ] = {8, 5, TD__VARINT},
    [TD__GRAPH_FLOAT8E5M2] = {8, 5, TD__VARINT},   [TD__GRAPH_FLOAT8E5M2FNUZ] = {8, 5, TD__VARINT},
    [TD__GRAPH_UINT4] = {4, 5, TD__VARINT},        [TD__GRAPH_INT4] = {4, 5, TD__VARINT},
    [TD__GRAPH_FLOAT4E2M1] = {4, 5, TD__VARINT},   [TD__GRAPH_FLOAT8E8M0] = {8, 5, TD__VARINT},
    [TD__GRAPH_UINT2] = {2, 5, TD__VARINT},        [TD__GRAPH_INT2] = {2, 5, TD__VARINT},
    [TD__GRAPH_FLOAT6E2M3] = {6, 5, TD__VARINT},   [TD__GRAPH_FLOAT6E3M2] = {6, 5, TD__VARINT},
};

const td__onnx_encoding *td__onnx_encoding_of(td__graph_type type) {
    bool known = (size_t)type < sizeof encodings / sizeof *encodings && encodings[type].bits;
    return known ? &encodings[type] : NULL;
}

bool td__onnx_decode(td__graph_type type, uint64_t bits, void *values, int64_t at) {
    if (td__graph_is_small(type)) {
        unsigned width = encodings[type].bits;
        ((float *)values)[at] =
            td__graph_small_decode(type, (unsigned)(bits & ((1u << width) - 1)), width);
        return true;
    }
    switch (type) {
    case TD__GRAPH_FLOAT:
        ((float *)values)[at] = td__float_of((uint32_t)bits);
        return true;
    case TD__GRAPH_FLOAT16:
        ((float *)values)[at] = td__from_float16((uint16_t)bits);
        return true;
    case TD__GRAPH_BFLOAT16:
        ((float *)values)[at] = td__from_bfloat16((uint16_t)bits);
        return true;
    case TD__GRAPH_DOUBLE:
        ((double *)values)[at] = td__double_of(bits);
        return true;
    default:
        ((int64_t *)values)[at] = td__graph_wrap(type, bits);
        return type != TD__GRAPH_UINT64 || bits <= INT64_MAX;
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
static void read_shape(td__proto message, td__graph_info *info) {
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

void td__onnx_read_type(td__proto message, td__graph_info *info) {
    for (td__proto_field field; td__proto_next(&message, &field);) {
        if (field.wire != TD__BYTES || field.number > TD__GRAPH_KIND_OPTIONAL) {
            continue;
        }
        info->kind =
            field.number == 6 ? info->kind /* a denotation */ : (td__graph_kind)field.number;
        if (field.number != TD__GRAPH_KIND_TENSOR) {
            continue;
        }
        td__proto tensor = td__proto_in(&field);
        for (td__proto_field part; td__proto_next(&tensor, &part);) {
            if (part.number == ELEMENT && part.wire == TD__VARINT) {
                info->type =
                    part.bits <= INT32_MAX ? (td__graph_type)part.bits : TD__GRAPH_UNDEFINED;
            } else if (part.number == SHAPE && part.wire == TD__BYTES) {
                read_shape(td__proto_in(&part), info);
            }
        }
    }
}
