/* Numbers of any width and byte order become the nearest td_dtype that holds them all. */
#include "hdf5/type.h"
#include "base/half.h"
#include "base/little.h"

enum { FIXED = 0, FLOAT = 1, STRING = 3, ENUMERATED = 8, VARIABLE = 9 };

static const char *const class_names[] = {
    [2] = "a time",
    [4] = "a bit field",
    [5] = "opaque",
    [6] = "a compound",
    [7] = "a reference",
    [ENUMERATED] = "an enumeration",
    [VARIABLE] = "a sequence",
    [10] = "an array type",
};

static td__h5_type other(td__h5_type type, const char *why) {
    type.kind = TD__H5_OTHER;
    type.why = why;
    return type;
}

static td__h5_type read_fixed(td__h5_type type, uint64_t bits, td__h5_cursor *body) {
    static const td_dtype unsigned_as[] = {
        [1] = TD_UINT8, [2] = TD_INT32, [4] = TD_INT64, [8] = TD_INT64};
    static const td_dtype signed_as[] = {
        [1] = TD_INT32, [2] = TD_INT32, [4] = TD_INT32, [8] = TD_INT64};
    uint64_t shift = td__h5_number(body, 2), precision = td__h5_number(body, 2);
    uint32_t size = type.size;
    if ((size != 1 && size != 2 && size != 4 && size != 8) || shift != 0 || precision != 8 * size) {
        return other(type, "an integer of unusual width");
    }
    type.kind = TD__H5_NUMBER;
    type.big = bits & 1;
    type.sign = bits & 8;
    type.dtype = type.sign ? signed_as[size] : unsigned_as[size];
    return type;
}

static td__h5_type read_float(td__h5_type type, uint64_t bits, td__h5_cursor *body) {
    static const struct {
        uint32_t size;
        uint8_t layout[8]; /* bit offset, precision, exponent at, of, mantissa at, of */
        uint32_t bias;
        td_dtype dtype;
    } known[] = {
        {2, {0, 0, 16, 0, 10, 5, 0, 10}, 15, TD_FLOAT32},
        {4, {0, 0, 32, 0, 23, 8, 0, 23}, 127, TD_FLOAT32},
        {8, {0, 0, 64, 0, 52, 11, 0, 52}, 1023, TD_FLOAT64},
    };
    const uint8_t *layout = td__h5_take(body, 8);
    uint64_t bias = td__h5_number(body, 4);
    bool vax = bits & 0x40;
    for (size_t i = 0; i < sizeof known / sizeof *known && !body->bad && !vax; i++) {
        if (known[i].size == type.size && known[i].bias == bias &&
            !memcmp(known[i].layout, layout, 8)) {
            type.kind = TD__H5_NUMBER;
            type.big = bits & 1;
            type.real = true;
            type.dtype = known[i].dtype;
            return type;
        }
    }
    return other(type, "a float that is not IEEE half, single or double");
}

/* bool, as h5py writes it, is an enumeration over a byte. */
static td__h5_type read_enumerated(td__h5_type type, td__h5_cursor *body) {
    td__h5_cursor base = *body;
    if ((td__h5_byte(body) & 15) != FIXED) {
        return other(type, class_names[ENUMERATED]);
    }
    type = td__h5_type_read(&base);
    body->bad |= base.bad;
    if (type.kind == TD__H5_NUMBER && type.size == 1) {
        type.sign = false;
        type.dtype = TD_UINT8;
    }
    return type;
}

td__h5_type td__h5_type_read(td__h5_cursor *body) {
    td__h5_type type = {0};
    unsigned class = td__h5_byte(body) & 15;
    uint64_t bits = td__h5_number(body, 3);
    type.size = (uint32_t)td__h5_number(body, 4);
    if (type.size == 0) {
        body->bad = true;
    }
    switch (class) {
    case FIXED:
        return read_fixed(type, bits, body);
    case FLOAT:
        return read_float(type, bits, body);
    case STRING:
        type.kind = TD__H5_TEXT;
        type.padded = (bits & 15) == 2;
        return type;
    case ENUMERATED:
        return read_enumerated(type, body);
    case VARIABLE:
        if ((bits & 15) == 1) {
            type.kind = TD__H5_TEXT_VARIABLE;
            return type;
        }
        break;
    default:
        break;
    }
    bool named = class < sizeof class_names / sizeof *class_names && class_names[class];
    return other(type, named ? class_names[class] : "unknown");
}

td_status td__h5_space_read(const td__hdf5 *file, td__h5_cursor body, td_shape *shape,
                            td_error *error) {
    unsigned version = td__h5_byte(&body), rank = td__h5_byte(&body);
    td__h5_skip(&body, 1);
    unsigned type = td__h5_byte(&body);
    td__h5_skip(&body, version == 1 ? 4 : 0);
    if (rank > TD_MAX_RANK) {
        return td__h5_unsupported(file, "an array of more than 8 dimensions", error);
    }
    *shape = (td_shape){.rank = (int32_t)rank};
    if (version == 2 && type == 2) {
        *shape = TD_SHAPE(0);
        return TD_OK;
    }
    for (unsigned i = 0; i < rank; i++) {
        uint64_t size = td__h5_length(&body);
        body.bad |= size > INT64_MAX;
        shape->dims[i] = (int64_t)size;
    }
    return body.bad || version < 1 || version > 2 ? td__h5_damaged(file, "a dataspace", error)
                                                  : TD_OK;
}

bool td__h5_type_is_native(const td__h5_type *type) {
    return type->size == td_dtype_size(type->dtype) && (type->size == 1 || !type->big) &&
           (type->sign || type->real || type->dtype == TD_UINT8) &&
           (TD__LITTLE_ENDIAN || type->size == 1);
}

static uint64_t load_number(const td__h5_type *type, const uint8_t *from) {
    uint64_t bits = 0;
    for (uint32_t i = 0; i < type->size; i++) {
        bits = bits << 8 | from[type->big ? i : type->size - 1 - i];
    }
    if (type->sign && type->size < 8 && bits >> (8 * type->size - 1)) {
        bits |= UINT64_MAX << (8 * type->size);
    }
    return bits;
}

bool td__h5_convert(const td__h5_type *type, const uint8_t *from, size_t count, void *to) {
    size_t width = td_dtype_size(type->dtype);
    bool half = type->real && type->size == 2;
    bool may_exceed = !type->real && !type->sign && type->size == 8;
    uint8_t *out = to;
    for (size_t i = 0; i < count; i++, from += type->size, out += width) {
        uint64_t bits = load_number(type, from);
        if (half) {
            bits = td__bits_of(td__from_float16((uint16_t)bits));
        } else if (may_exceed && bits > INT64_MAX) {
            return false;
        }
        uint32_t narrow = (uint32_t)bits;
        if (width == 8) {
            memcpy(out, &bits, 8);
        } else if (width == 4) {
            memcpy(out, &narrow, 4);
        } else {
            *out = (uint8_t)bits;
        }
    }
    return true;
}
