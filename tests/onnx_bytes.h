/* Writing ONNX models byte by byte, sound ones and others. */
#ifndef TAPEDECK_TESTS_ONNX_BYTES_H
#define TAPEDECK_TESTS_ONNX_BYTES_H

#include "base/little.h"
#include "onnx/parse.h"

#include <stdlib.h>
#include <string.h>

/* A message that grows. */
typedef struct proto_bytes {
    uint8_t *data;
    size_t size, capacity;
} proto_bytes;

static inline void put_raw(proto_bytes *to, const void *data, size_t size) {
    if (to->size + size > to->capacity) {
        to->capacity = 2 * (to->size + size);
        to->data = realloc(to->data, to->capacity);
    }
    if (size) {
        memcpy(to->data + to->size, data, size);
    }
    to->size += size;
}

static inline void put_varint(proto_bytes *to, uint64_t value) {
    do {
        uint8_t byte = (uint8_t)(value & 0x7f) | (value > 0x7f ? 0x80 : 0);
        put_raw(to, &byte, 1);
        value >>= 7;
    } while (value);
}

static inline void put_int(proto_bytes *to, uint32_t field, int64_t value) {
    put_varint(to, field << 3);
    put_varint(to, (uint64_t)value);
}

static inline void put_float(proto_bytes *to, uint32_t field, float value) {
    put_varint(to, field << 3 | 5);
    td__little_copy(&value, &value, sizeof value, sizeof value);
    put_raw(to, &value, sizeof value);
}

static inline void put_bytes(proto_bytes *to, uint32_t field, const void *data, size_t size) {
    put_varint(to, field << 3 | 2);
    put_varint(to, size);
    put_raw(to, data, size);
}

static inline void put_text(proto_bytes *to, uint32_t field, const char *text) {
    put_bytes(to, field, text, strlen(text));
}

/* A message inside another; it is used up. */
static inline void put_message(proto_bytes *to, uint32_t field, proto_bytes inside) {
    put_bytes(to, field, inside.data, inside.size);
    free(inside.data);
}

/* --- the messages of ONNX ----------------------------------------------------------------- */

/* TensorProto with raw data. */
static inline proto_bytes tensor_of(const char *name, td__graph_type type, int32_t rank,
                                    const int64_t *dims, const void *data, size_t size) {
    proto_bytes tensor = {0};
    for (int32_t i = 0; i < rank; i++) {
        put_int(&tensor, 1, dims[i]);
    }
    put_int(&tensor, 2, type);
    put_text(&tensor, 8, name);
    put_bytes(&tensor, 9, data, size);
    const td__onnx_encoding *encoding = td__onnx_encoding_of(type);
    size_t width = encoding && encoding->bits > 8 ? encoding->bits / 8u : 1;
    uint8_t *raw = tensor.data + tensor.size - size;
    td__little_copy(raw, raw, size / width * width, width);
    return tensor;
}

static inline proto_bytes floats_of(const char *name, int64_t count, const float *values) {
    return tensor_of(name, TD__GRAPH_FLOAT, 1, &count, values, (size_t)count * sizeof *values);
}

/* ValueInfoProto of a tensor; a dimension of -1 has no size. */
static inline proto_bytes info_of(const char *name, td__graph_type type, int32_t rank,
                                  const int64_t *dims) {
    proto_bytes info = {0}, what = {0}, tensor = {0}, shape = {0};
    for (int32_t i = 0; i < rank; i++) {
        proto_bytes dim = {0};
        if (dims[i] >= 0) {
            put_int(&dim, 1, dims[i]);
        } else {
            put_text(&dim, 2, "batch");
        }
        put_message(&shape, 1, dim);
    }
    put_int(&tensor, 1, type);
    put_message(&tensor, 2, shape);
    put_message(&what, 1, tensor);
    put_text(&info, 1, name);
    put_message(&info, 2, what);
    return info;
}

/* NodeProto; inputs and outputs are names with spaces between, "-" for one left out. */
static inline void put_names(proto_bytes *node, uint32_t field, const char *names) {
    while (*names) {
        size_t length = strcspn(names, " ");
        bool none = length == 1 && *names == '-';
        put_bytes(node, field, names, none ? 0 : length);
        names += length + (names[length] == ' ');
    }
}

static inline proto_bytes node_of(const char *operator, const char * inputs, const char *outputs) {
    proto_bytes node = {0};
    put_names(&node, 1, inputs);
    put_names(&node, 2, outputs);
    put_text(&node, 4, operator);
    return node;
}

static inline void put_int_attribute(proto_bytes *node, const char *name, int64_t value) {
    proto_bytes attribute = {0};
    put_text(&attribute, 1, name);
    put_int(&attribute, 3, value);
    put_int(&attribute, 20, TD__GRAPH_ATTRIBUTE_INT);
    put_message(node, 5, attribute);
}

static inline void put_text_attribute(proto_bytes *node, const char *name, const char *value) {
    proto_bytes attribute = {0};
    put_text(&attribute, 1, name);
    put_text(&attribute, 4, value);
    put_int(&attribute, 20, TD__GRAPH_ATTRIBUTE_TEXT);
    put_message(node, 5, attribute);
}

static inline void put_ints_attribute(proto_bytes *node, const char *name, size_t count,
                                      const int64_t *values) {
    proto_bytes attribute = {0};
    put_text(&attribute, 1, name);
    for (size_t i = 0; i < count; i++) {
        put_int(&attribute, 8, values[i]);
    }
    put_int(&attribute, 20, TD__GRAPH_ATTRIBUTE_INTS);
    put_message(node, 5, attribute);
}

static inline void put_floats_attribute(proto_bytes *node, const char *name, size_t count,
                                        const float *values) {
    proto_bytes attribute = {0};
    put_text(&attribute, 1, name);
    for (size_t i = 0; i < count; i++) {
        put_float(&attribute, 7, values[i]);
    }
    put_int(&attribute, 20, TD__GRAPH_ATTRIBUTE_FLOATS);
    put_message(node, 5, attribute);
}

/* Texts with spaces between. */
static inline void put_texts_attribute(proto_bytes *node, const char *name, const char *texts) {
    proto_bytes attribute = {0};
    put_text(&attribute, 1, name);
    put_names(&attribute, 9, texts);
    put_int(&attribute, 20, TD__GRAPH_ATTRIBUTE_TEXTS);
    put_message(node, 5, attribute);
}

/* ModelProto around a graph. */
static inline proto_bytes model_of(proto_bytes graph, int64_t opset) {
    proto_bytes model = {0}, set = {0};
    put_int(&model, 1, 8);
    put_int(&set, 2, opset);
    put_message(&model, 8, set);
    put_message(&model, 7, graph);
    return model;
}

#endif
