/* TensorProto: the numbers of a constant, from raw bytes, from lists of numbers, or from a file
 * beside the model. Floats, doubles and int64 are copied once; others are converted on the way. */
#include "onnx/parse.h"

#include "base/memory.h"

#include <errno.h>
#include <stdlib.h>

enum { DIMS = 1, DATA_TYPE = 2, SEGMENT = 3, NAME = 8, RAW_DATA = 9, EXTERNAL = 13, LOCATION = 14 };

/* What a first pass over the message finds. */
typedef struct tensor_draft {
    const char *name;
    td__graph_type type;
    td_shape shape;
    int64_t count;
    const uint8_t *raw; /* count elements as they are in memory, or NULL */
    size_t raw_size;
    bool has_raw, is_external;
    const char *location;
    uint64_t offset, length;
    bool has_length;
} tensor_draft;

static td_status out_of_memory(td__onnx_parser *parser) {
    return td_error_set(parser->error, TD_MEMORY, "%s: out of memory", parser->path);
}

static td_status add_dims(td__onnx_parser *parser, const td__proto_field *field,
                          tensor_draft *draft) {
    td__proto packed = td__onnx_numbers_of(field);
    uint64_t bits = field->bits;
    bool alone = field->wire == TD__VARINT;
    while (alone || td__onnx_next_number(&packed, TD__VARINT, &bits)) {
        if (draft->shape.rank == TD_MAX_RANK) {
            return td__onnx_unsupported(parser, "tensor '%.200s' has more than %d dimensions",
                                        draft->name, TD_MAX_RANK);
        }
        draft->shape.dims[draft->shape.rank++] = (int64_t)bits;
        if (alone) {
            return TD_OK;
        }
    }
    return packed.bad || field->wire != TD__BYTES
               ? td__onnx_malformed(parser, "the shape of tensor '%.200s' is cut off", draft->name)
               : TD_OK;
}

/* A whole number in digits, nothing else. */
static bool read_digits(const char *text, uint64_t *value) {
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && !*end && !errno;
}

/* StringStringEntryProto: location, offset, length; others (a checksum) are left alone. */
static td_status read_external(td__onnx_parser *parser, td__proto entry, tensor_draft *draft) {
    const char *key = "", *value = "";
    for (td__proto_field field; td__proto_next(&entry, &field);) {
        const char **text = field.number == 1 ? &key : field.number == 2 ? &value : NULL;
        if (text && !(*text = td__onnx_copy_text(parser, &field))) {
            return TD_FORMAT;
        }
    }
    bool good = !entry.bad;
    if (!strcmp(key, "location")) {
        draft->location = value;
    } else if (!strcmp(key, "offset")) {
        good = good && read_digits(value, &draft->offset);
    } else if (!strcmp(key, "length")) {
        draft->has_length = true;
        good = good && read_digits(value, &draft->length);
    }
    return good ? TD_OK
                : td__onnx_malformed(parser, "external data of tensor '%.200s': %.40s '%.40s'",
                                     draft->name, key, value);
}

static td_status read_field(td__onnx_parser *parser, const td__proto_field *field,
                            tensor_draft *draft) {
    switch (field->number) {
    case DIMS:
        return add_dims(parser, field, draft);
    case DATA_TYPE:
        draft->type = field->wire == TD__VARINT && field->bits <= INT32_MAX
                          ? (td__graph_type)field->bits
                          : TD__GRAPH_UNDEFINED;
        return TD_OK;
    case SEGMENT:
        return td__onnx_unsupported(parser, "tensor '%.200s' is in segments", draft->name);
    case RAW_DATA:
        if (field->wire != TD__BYTES) {
            return td__onnx_malformed(parser, "raw data of tensor '%.200s'", draft->name);
        }
        draft->has_raw = true;
        draft->raw = field->data;
        draft->raw_size = field->size;
        return TD_OK;
    case EXTERNAL:
        return field->wire == TD__BYTES
                   ? read_external(parser, td__proto_in(field), draft)
                   : td__onnx_malformed(parser, "external data of tensor '%.200s'", draft->name);
    case LOCATION:
        draft->is_external = field->wire == TD__VARINT && field->bits == 1;
        return TD_OK;
    default:
        return TD_OK;
    }
}

/* Raw data of a tensor that is in another file. */
static td_status find_external(td__onnx_parser *parser, tensor_draft *draft) {
    size_t needed = td__onnx_raw_size(td__onnx_encoding_of(draft->type), draft->count);
    const uint8_t *data;
    size_t size;
    if (!draft->location) {
        return td__onnx_malformed(parser, "external data of tensor '%.200s' has no location",
                                  draft->name);
    }
    td_status status = td__onnx_external(parser, draft->location, &data, &size);
    if (status) {
        return status;
    }
    uint64_t length = draft->has_length ? draft->length : needed;
    if (draft->offset > size || length > size - draft->offset) {
        return td__onnx_malformed(parser,
                                  "tensor '%.200s' reaches past the end of its file '%.200s'",
                                  draft->name, draft->location);
    }
    draft->has_raw = true;
    draft->raw = data ? data + draft->offset : NULL;
    draft->raw_size = (size_t)length;
    return TD_OK;
}

/* How many numbers the lists of the message hold. One packed list of floats or doubles is what raw
 * data would be. */
static td_status count_listed(td__onnx_parser *parser, td__proto message, tensor_draft *draft) {
    const td__onnx_encoding *encoding = td__onnx_encoding_of(draft->type);
    size_t count = 0, fields = 0;
    bool bad = false;
    td__proto_field list = {0};
    for (td__proto_field field; td__proto_next(&message, &field);) {
        if (field.number == encoding->field) {
            count += td__onnx_count_numbers(&field, encoding->wire, &bad);
            fields++;
            list = field;
        }
    }
    size_t wanted =
        ((size_t)draft->count + td__onnx_sharers(encoding) - 1) / td__onnx_sharers(encoding);
    if (bad || count != wanted) {
        char text[TD_SHAPE_TEXT_SIZE];
        return td__onnx_malformed(parser, "tensor '%.200s' of shape %s has %zu values", draft->name,
                                  td_shape_text(&draft->shape, text), count);
    }
    bool raw = encoding->wire == TD__FIXED32 || encoding->wire == TD__FIXED64;
    if (fields == 1 && list.wire == TD__BYTES && raw) {
        draft->has_raw = true;
        draft->raw = list.data;
        draft->raw_size = list.size;
    }
    return TD_OK;
}

/* Element i of those that are smaller than a byte, the first in the lowest bits. */
static uint64_t bits_at(const uint8_t *bytes, unsigned width, int64_t i) {
    size_t at = (size_t)i * width;
    unsigned shift = at % 8, first = bytes[at / 8];
    unsigned next = shift + width > 8 ? bytes[at / 8 + 1] : 0;
    return (first | next << 8) >> shift & ((1u << width) - 1);
}

static bool decode_raw(const tensor_draft *draft, void *values) {
    size_t width = td__onnx_encoding_of(draft->type)->bits, size = width / 8;
    bool fits = true;
    for (int64_t i = 0; i < draft->count; i++) {
        const uint8_t *at = draft->raw + (size_t)i * size;
        uint64_t bits = 0;
        switch (size) {
        case 0:
            bits = bits_at(draft->raw, (unsigned)width, i);
            break;
        case 1:
            bits = *at;
            break;
        case 2:
            bits = at[0] | (uint64_t)at[1] << 8;
            break;
        case 4:
            bits = td__load32(at);
            break;
        default:
            bits = td__load64(at);
        }
        fits &= td__onnx_decode(draft->type, bits, values, i);
    }
    return fits;
}

/* Texts are copied; the tensor has where they are. */
static td_status read_texts(td__onnx_parser *parser, td__proto message, td_tensor *tensor) {
    int64_t at = 0;
    for (td__proto_field field; td__proto_next(&message, &field);) {
        if (field.number == td__onnx_encoding_of(TD__GRAPH_STRING)->field) {
            const char *text = td__onnx_copy_text(parser, &field);
            if (!text) {
                return TD_FORMAT;
            }
            td__graph_put_text(tensor, at++, text);
        }
    }
    return TD_OK;
}

/* One number of a list: an element, or the byte that several share. */
static bool decode_number(const tensor_draft *draft, uint64_t bits, void *values, int64_t *at) {
    const td__onnx_encoding *encoding = td__onnx_encoding_of(draft->type);
    bool fits = true;
    for (size_t i = 0; i < td__onnx_sharers(encoding) && *at < draft->count; i++) {
        fits &= td__onnx_decode(draft->type, bits >> i * encoding->bits, values, (*at)++);
    }
    return fits;
}

/* The lists have been counted: they hold draft->count numbers unless a varint is cut off. */
static bool decode_listed(td__proto message, const tensor_draft *draft, void *values, bool *bad) {
    const td__onnx_encoding *encoding = td__onnx_encoding_of(draft->type);
    int64_t at = 0;
    bool fits = true;
    for (td__proto_field field; td__proto_next(&message, &field);) {
        if (field.number != encoding->field) {
            continue;
        }
        if (field.wire == encoding->wire) {
            fits &= decode_number(draft, field.bits, values, &at);
            continue;
        }
        td__proto packed = td__proto_in(&field);
        for (uint64_t bits; td__onnx_next_number(&packed, encoding->wire, &bits);) {
            fits &= decode_number(draft, bits, values, &at);
        }
        *bad = *bad || packed.bad;
    }
    return fits;
}

/* Whether raw data needs no conversion. */
static bool is_as_stored(td__graph_type type) {
    return TD__LITTLE_ENDIAN &&
           (type == TD__GRAPH_FLOAT || type == TD__GRAPH_DOUBLE || type == TD__GRAPH_INT64);
}

/* Floats that are large enough to be worth it; those in other files go with the parser. */
static bool is_lent(const td__onnx_parser *parser, const tensor_draft *draft) {
    return parser->lent && draft->has_raw && !draft->is_external &&
           draft->type == TD__GRAPH_FLOAT && is_as_stored(draft->type) && draft->count >= 1024;
}

static td_status make_tensor(td__onnx_parser *parser, td__proto message, const tensor_draft *draft,
                             td_tensor **made) {
    td_dtype dtype = td__graph_storage(draft->type);
    if (is_lent(parser, draft)) {
        *made = td_tensor_borrow(draft->name, dtype, draft->shape, (void *)draft->raw, NULL);
        return *made ? TD_OK : out_of_memory(parser);
    }
    td_status status = td__onnx_charge(parser, (size_t)draft->count * td_dtype_size(dtype) +
                                                   2 * sizeof(draft->shape) + strlen(draft->name));
    if (status) {
        return status;
    }
    bool copied = draft->has_raw && is_as_stored(draft->type);
    td_tensor *tensor = copied ? td_tensor_from(draft->name, dtype, draft->shape, draft->raw, NULL)
                               : td_tensor_create(draft->name, dtype, draft->shape, NULL);
    if (!tensor) {
        return out_of_memory(parser);
    }
    bool bad = false, fits = true;
    if (draft->type == TD__GRAPH_STRING) {
        status = read_texts(parser, message, tensor);
    } else if (!copied) {
        fits = draft->has_raw ? decode_raw(draft, td_tensor_data(tensor))
                              : decode_listed(message, draft, td_tensor_data(tensor), &bad);
    }
    if (status) {
        td_tensor_destroy(tensor);
        return status;
    }
    if (bad) {
        status = td__onnx_malformed(parser, "a number of tensor '%.200s' is cut off", draft->name);
    } else if (!fits) {
        status = td__onnx_unsupported(parser, "tensor '%.200s' has uint64 values above %lld",
                                      draft->name, (long long)INT64_MAX);
    }
    if (status) {
        td_tensor_destroy(tensor);
        return status;
    }
    *made = tensor;
    return TD_OK;
}

/* Floats without a value, of a file that was stripped of them. */
static bool is_stripped(const td__onnx_parser *parser, td__proto message,
                        const tensor_draft *draft) {
    bool listed = draft->has_raw || draft->is_external || draft->type != TD__GRAPH_FLOAT;
    for (td__proto_field field; !listed && td__proto_next(&message, &field);) {
        listed = field.number == td__onnx_encoding_of(draft->type)->field;
    }
    return !listed && parser->weights / sizeof(float) >= (size_t)draft->count;
}

static td_status make_empty(td__onnx_parser *parser, const tensor_draft *draft, td_tensor **made) {
    parser->weights -= (size_t)draft->count * sizeof(float);
    *made = td_tensor_borrow(draft->name, TD_FLOAT32, draft->shape, NULL, NULL);
    return *made ? TD_OK : out_of_memory(parser);
}

td_status td__onnx_read_tensor(td__onnx_parser *parser, td__proto message, const char *name,
                               td__graph_constant *constant) {
    tensor_draft draft = {.name = name};
    td_status status = TD_OK;
    td__proto rest = message;
    for (td__proto_field field; !status && td__proto_next(&rest, &field);) {
        status = read_field(parser, &field, &draft);
    }
    if (status) {
        return status;
    }
    if (rest.bad) {
        return td__onnx_malformed(parser, "tensor '%.200s' is cut off", name);
    }
    const td__onnx_encoding *encoding = td__onnx_encoding_of(draft.type);
    if (!encoding) {
        return td__onnx_unsupported(parser, "tensor '%.200s' has elements of type %s (%d)", name,
                                    td__graph_type_name(draft.type), (int)draft.type);
    }
    if (td_shape_check(&draft.shape, td__graph_storage(draft.type), &draft.count, NULL)) {
        return td__onnx_malformed(parser, "the shape of tensor '%.200s' is out of range", name);
    }
    if (draft.type == TD__GRAPH_STRING && (draft.has_raw || draft.is_external)) {
        return td__onnx_malformed(parser, "the text of tensor '%.200s' is not in it", name);
    }
    bool stripped = parser->weights > 0 && is_stripped(parser, message, &draft);
    if (stripped) {
        status = TD_OK;
    } else if (draft.is_external) {
        status = find_external(parser, &draft);
    } else if (!draft.has_raw) {
        status = count_listed(parser, message, &draft);
    }
    if (!status && draft.has_raw && draft.raw_size != td__onnx_raw_size(encoding, draft.count)) {
        char text[TD_SHAPE_TEXT_SIZE];
        status = td__onnx_malformed(parser, "tensor '%.200s' of shape %s and type %s has %zu bytes",
                                    name, td_shape_text(&draft.shape, text),
                                    td__graph_type_name(draft.type), draft.raw_size);
    }
    td_tensor *tensor = NULL;
    if (!status) {
        status = stripped ? make_empty(parser, &draft, &tensor)
                          : make_tensor(parser, message, &draft, &tensor);
    }
    if (!status) {
        *constant = (td__graph_constant){draft.type, tensor};
    }
    return status;
}

td_status td__onnx_parse_tensor(const void *bytes, size_t size, td__graph_constant *constant,
                                td__chunk **memory, td_error *error) {
    td__onnx_parser parser = td__onnx_parser_of(size, "tensor", NULL, error);
    td_status status = td__onnx_read_tensor(&parser, td__proto_of(bytes, size), "", constant);
    td__onnx_parser_close(&parser);
    *memory = parser.memory.newest;
    return status;
}
