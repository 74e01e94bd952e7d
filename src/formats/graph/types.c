/* Element types: what they are called, and how values keep to them. */
#include "graph/graph.h"

#include "base/proto.h"
#include "tensor/tensor.h"

#include <math.h>

static const struct {
    const char *name;
    bool stored;
    td_dtype storage;
} types[] = {
    [TD__GRAPH_UNDEFINED] = {.name = "undefined"},
    [TD__GRAPH_FLOAT] = {"float", true, TD_FLOAT32},
    [TD__GRAPH_UINT8] = {"uint8", true, TD_INT64},
    [TD__GRAPH_INT8] = {"int8", true, TD_INT64},
    [TD__GRAPH_UINT16] = {"uint16", true, TD_INT64},
    [TD__GRAPH_INT16] = {"int16", true, TD_INT64},
    [TD__GRAPH_INT32] = {"int32", true, TD_INT64},
    [TD__GRAPH_INT64] = {"int64", true, TD_INT64},
    [TD__GRAPH_STRING] = {"string", true, TD_INT64},
    [TD__GRAPH_BOOL] = {"bool", true, TD_INT64},
    [TD__GRAPH_FLOAT16] = {"float16", true, TD_FLOAT32},
    [TD__GRAPH_DOUBLE] = {"double", true, TD_FLOAT64},
    [TD__GRAPH_UINT32] = {"uint32", true, TD_INT64},
    [TD__GRAPH_UINT64] = {"uint64", true, TD_INT64},
    [14] = {.name = "complex64"},
    [15] = {.name = "complex128"},
    [TD__GRAPH_BFLOAT16] = {"bfloat16", true, TD_FLOAT32},
    [TD__GRAPH_FLOAT8E4M3FN] = {"float8e4m3fn", true, TD_FLOAT32},
    [TD__GRAPH_FLOAT8E4M3FNUZ] = {"float8e4m3fnuz", true, TD_FLOAT32},
    [TD__GRAPH_FLOAT8E5M2] = {"float8e5m2", true, TD_FLOAT32},
    [TD__GRAPH_FLOAT8E5M2FNUZ] = {"float8e5m2fnuz", true, TD_FLOAT32},
    [TD__GRAPH_UINT4] = {"uint4", true, TD_INT64},
    [TD__GRAPH_INT4] = {"int4", true, TD_INT64},
    [TD__GRAPH_FLOAT4E2M1] = {"float4e2m1", true, TD_FLOAT32},
    [TD__GRAPH_FLOAT8E8M0] = {"float8e8m0", true, TD_FLOAT32},
    [TD__GRAPH_UINT2] = {"uint2", true, TD_INT64},
    [TD__GRAPH_INT2] = {"int2", true, TD_INT64},
    [TD__GRAPH_FLOAT6E2M3] = {"float6e2m3", true, TD_FLOAT32},
    [TD__GRAPH_FLOAT6E3M2] = {"float6e3m2", true, TD_FLOAT32},
};

static bool is_known(td__graph_type type) {
    return (size_t)type < sizeof types / sizeof *types;
}

bool td__graph_is_stored(td__graph_type type) {
    return is_known(type) && types[type].stored && type != TD__GRAPH_STRING;
}

td_dtype td__graph_storage(td__graph_type type) {
    return is_known(type) ? types[type].storage : TD_FLOAT32;
}

const char *td__graph_text_at(const td_tensor *text, int64_t i) {
    const char *found = (const char *)(intptr_t)((const int64_t *)text->data)[i];
    return found ? found : "";
}

void td__graph_put_text(td_tensor *text, int64_t i, const char *value) {
    ((int64_t *)text->data)[i] = (int64_t)(intptr_t)value;
}

const char *td__graph_type_name(td__graph_type type) {
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
    uint32_t min = 113u << 23; /* of 2^-14: below, a half is subnormal */
    float digit = td__float_of((exponent > min ? exponent : min) + (13u << 23));
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

/* As C converts in practice and GCC and Clang define. */
int64_t td__graph_wrap(td__graph_type type, uint64_t bits) {
    switch (type) {
    case TD__GRAPH_UINT8:
        return (uint8_t)bits;
    case TD__GRAPH_INT8:
        return (int8_t)bits;
    case TD__GRAPH_UINT16:
        return (uint16_t)bits;
    case TD__GRAPH_INT16:
        return (int16_t)bits;
    case TD__GRAPH_UINT32:
        return (uint32_t)bits;
    case TD__GRAPH_INT32:
        return (int32_t)bits;
    case TD__GRAPH_UINT4:
        return (int64_t)(bits & 15);
    case TD__GRAPH_INT4:
        return (int64_t)((bits & 15) ^ 8) - 8;
    case TD__GRAPH_UINT2:
        return (int64_t)(bits & 3);
    case TD__GRAPH_INT2:
        return (int64_t)((bits & 3) ^ 2) - 2;
    case TD__GRAPH_BOOL:
        return bits != 0;
    default:
        return (int64_t)bits;
    }
}

static float round_to(td__graph_type type, float value) {
    return type == TD__GRAPH_FLOAT16    ? round_float16(value)
           : type == TD__GRAPH_BFLOAT16 ? round_bfloat16(value)
                                        : td__graph_small_round(type, value, false, 'u');
}

/* Writes only what changes: a view's elements are another value's, settled already, and may lie in
 * memory that cannot be written. */
void td__graph_settle(td__graph_type type, int64_t count, void *values) {
    if (td__graph_storage(type) == TD_FLOAT32 && type != TD__GRAPH_FLOAT) {
        float *numbers = values;
        for (int64_t i = 0; i < count; i++) {
            float rounded = round_to(type, numbers[i]);
            if (numbers[i] != rounded) {
                numbers[i] = rounded;
            }
        }
    } else if (td__graph_storage(type) == TD_INT64 && type != TD__GRAPH_INT64) {
        int64_t *numbers = values;
        for (int64_t i = 0; i < count; i++) {
            int64_t wrapped = td__graph_wrap(type, (uint64_t)numbers[i]);
            if (numbers[i] != wrapped) {
                numbers[i] = wrapped;
            }
        }
    }
}
