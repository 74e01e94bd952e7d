/* AttributeProto. */
#include "onnx/parse.h"

#include <inttypes.h>

enum { NAME = 1, F = 2, I = 3, S = 4, T = 5, G = 6, FLOATS = 7, INTS = 8, STRINGS = 9, TYPE = 20 };

/* AttributeProto's kinds above the lists of numbers and texts are only noted. */
static td__graph_attribute_kind kind_of(uint64_t type) {
    return type >= TD__GRAPH_ATTRIBUTE_FLOAT && type <= TD__GRAPH_ATTRIBUTE_TEXTS
               ? (td__graph_attribute_kind)type
               : TD__GRAPH_ATTRIBUTE_OTHER;
}

/* Files from before the kind was written say it by the field they use. */
static td__graph_attribute_kind kind_by_field(uint32_t number) {
    static const td__graph_attribute_kind kinds[] = {
        [F] = TD__GRAPH_ATTRIBUTE_FLOAT,   [I] = TD__GRAPH_ATTRIBUTE_INT,
        [S] = TD__GRAPH_ATTRIBUTE_TEXT,    [T] = TD__GRAPH_ATTRIBUTE_TENSOR,
        [G] = TD__GRAPH_ATTRIBUTE_GRAPH,   [FLOATS] = TD__GRAPH_ATTRIBUTE_FLOATS,
        [INTS] = TD__GRAPH_ATTRIBUTE_INTS, [STRINGS] = TD__GRAPH_ATTRIBUTE_TEXTS,
    };
    return number < sizeof kinds / sizeof *kinds && kinds[number] ? kinds[number]
                                                                  : TD__GRAPH_ATTRIBUTE_OTHER;
}

/* The wire type of a list's numbers; of texts, TD__BYTES. */
static uint32_t list_wire(td__graph_attribute_kind kind) {
    return kind == TD__GRAPH_ATTRIBUTE_FLOATS ? TD__FIXED32
           : kind == TD__GRAPH_ATTRIBUTE_INTS ? TD__VARINT
                                              : TD__BYTES;
}

static uint32_t list_field(td__graph_attribute_kind kind) {
    return kind == TD__GRAPH_ATTRIBUTE_FLOATS  ? FLOATS
           : kind == TD__GRAPH_ATTRIBUTE_INTS  ? INTS
           : kind == TD__GRAPH_ATTRIBUTE_TEXTS ? STRINGS
                                               : 0;
}

static td_status cut_off(td__onnx_parser *parser, const td__graph_attribute *attribute) {
    return td__onnx_malformed(parser, "attribute '%.200s' is cut off", attribute->name);
}

/* Name, kind, and how many a list has. */
static td_status survey(td__onnx_parser *parser, td__proto message,
                        td__graph_attribute *attribute) {
    td__graph_attribute_kind declared = 0, seen = 0;
    bool bad = false;
    attribute->name = "";
    td__proto rest = message;
    for (td__proto_field field; td__proto_next(&rest, &field);) {
        if (field.number == NAME) {
            attribute->name = td__onnx_copy_text(parser, &field);
            if (!attribute->name) {
                return TD_FORMAT;
            }
        } else if (field.number == TYPE && field.wire == TD__VARINT) {
            declared = kind_of(field.bits);
        } else if (field.number >= F && field.number <= STRINGS && !seen) {
            seen = kind_by_field(field.number);
        }
    }
    attribute->kind = declared ? declared : seen ? seen : TD__GRAPH_ATTRIBUTE_OTHER;
    uint32_t list = list_field(attribute->kind);
    uint32_t wire = list_wire(attribute->kind);
    for (td__proto_field field; list && td__proto_next(&message, &field);) {
        if (field.number == list) {
            attribute->count += wire == TD__BYTES ? 1 : td__onnx_count_numbers(&field, wire, &bad);
        }
    }
    return rest.bad || bad ? cut_off(parser, attribute) : TD_OK;
}

/* The lists of an attribute while they are filled. */
typedef struct attribute_lists {
    float *numbers;
    int64_t *integers;
    const char **texts;
    size_t at;
} attribute_lists;

static void put_number(attribute_lists *lists, uint64_t bits) {
    if (lists->numbers) {
        lists->numbers[lists->at++] = td__float_of((uint32_t)bits);
    } else {
        lists->integers[lists->at++] = (int64_t)bits;
    }
}

static td_status add_to_list(td__onnx_parser *parser, const td__proto_field *field,
                             const td__graph_attribute *attribute, attribute_lists *lists) {
    uint32_t wire = list_wire(attribute->kind);
    if (wire == TD__BYTES) {
        const char *text = td__onnx_copy_text(parser, field);
        lists->texts[lists->at++] = text;
        return text ? TD_OK : TD_FORMAT;
    }
    if (field->wire == wire) {
        put_number(lists, field->bits);
        return TD_OK;
    }
    td__proto packed = td__proto_in(field);
    for (uint64_t bits; td__onnx_next_number(&packed, wire, &bits);) {
        put_number(lists, bits);
    }
    return packed.bad ? cut_off(parser, attribute) : TD_OK;
}

static td_status read_list(td__onnx_parser *parser, td__proto message,
                           td__graph_attribute *attribute) {
    attribute_lists lists = {0};
    size_t size = attribute->kind == TD__GRAPH_ATTRIBUTE_FLOATS ? sizeof(float) : sizeof(int64_t);
    void *memory = td__onnx_alloc(parser, attribute->count, size);
    if (!memory) {
        return TD_RANGE;
    }
    if (attribute->kind == TD__GRAPH_ATTRIBUTE_FLOATS) {
        attribute->numbers = lists.numbers = memory;
    } else if (attribute->kind == TD__GRAPH_ATTRIBUTE_INTS) {
        attribute->integers = lists.integers = memory;
    } else {
        lists.texts = memory;
        attribute->texts = memory;
    }
    td_status status = TD_OK;
    for (td__proto_field field; !status && td__proto_next(&message, &field);) {
        if (field.number == list_field(attribute->kind)) {
            status = add_to_list(parser, &field, attribute, &lists);
        }
    }
    return status;
}

static td_status read_single(td__onnx_parser *parser, const td__proto_field *field,
                             td__graph_attribute *attribute) {
    static const uint32_t wires[] = {
        [F] = TD__FIXED32, [I] = TD__VARINT, [S] = TD__BYTES, [T] = TD__BYTES};
    if (field->number < F || field->number > T || kind_by_field(field->number) != attribute->kind) {
        return TD_OK;
    }
    if (field->wire != wires[field->number]) {
        return cut_off(parser, attribute);
    }
    switch (field->number) {
    case F:
        attribute->number = td__float_of((uint32_t)field->bits);
        return TD_OK;
    case I:
        attribute->integer = (int64_t)field->bits;
        return TD_OK;
    case S:
        attribute->text = td__onnx_copy_text(parser, field);
        return attribute->text ? TD_OK : TD_FORMAT;
    default:
        if (attribute->constant.tensor) {
            return td__onnx_malformed(parser, "attribute '%.200s' has two tensors",
                                      attribute->name);
        }
        return td__onnx_read_tensor(parser, td__proto_in(field), attribute->name,
                                    &attribute->constant);
    }
}

td_status td__onnx_read_attribute(td__onnx_parser *parser, td__proto message,
                                  td__graph_attribute *attribute) {
    td_status status = survey(parser, message, attribute);
    if (!status && list_field(attribute->kind)) {
        return read_list(parser, message, attribute);
    }
    for (td__proto_field field; !status && td__proto_next(&message, &field);) {
        status = read_single(parser, &field, attribute);
    }
    if (!status && attribute->kind == TD__GRAPH_ATTRIBUTE_TENSOR && !attribute->constant.tensor) {
        return td__onnx_malformed(parser, "attribute '%.200s' has no tensor", attribute->name);
    }
    if (!status && attribute->kind == TD__GRAPH_ATTRIBUTE_TEXT && !attribute->text) {
        attribute->text = "";
    }
    return status;
}
