/* A file without its parameters' values, to be kept, and with those of a model again.
 *
 * Everything else stays byte for byte as the exporter wrote it. Each message is measured before it is
 * written, because its length comes first.
 */
#include "base/file.h"
#include "base/memory.h"
#include "base/proto.h"
#include "nn/model.h"
#include "nn/operators.h"
#include "onnx/model.h"
#include "onnx/source.h"
#include "tensor/element.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum {
    MODEL_GRAPH = 7,
    GRAPH_NODE = 1,
    GRAPH_INITIALISER = 5,
    NODE_OUTPUT = 2,
    NODE_ATTRIBUTE = 5,
    ATTRIBUTE_TENSOR = 5,
    TENSOR_NAME = 8,
    TENSOR_RAW = 9
};
#define LARGEST ((size_t)INT32_MAX) /* of a message: protocol buffers have no longer ones */

/* Where bytes go; without memory they are only counted. */
typedef struct output {
    uint8_t *memory;
    size_t size;
} output;

typedef struct writing {
    const td__onnx_source *source;
    const td_model *model; /* whose values are written; NULL: none are */
    float *room;           /* for the largest parameter */
    size_t next;           /* the parameter that probably comes next */
} writing;

static void put(output *out, const void *data, size_t size) {
    if (out->memory && size) {
        memcpy(out->memory + out->size, data, size);
    }
    out->size += size;
}

static void put_varint(output *out, uint64_t value) {
    do {
        uint8_t byte = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        put(out, &byte, 1);
        value >>= 7;
    } while (value);
}

/* The beginning of field `number`, of so many bytes. */
static void put_header(output *out, uint32_t number, size_t size) {
    put_varint(out, (uint64_t)number << 3 | TD__BYTES);
    put_varint(out, size);
}

/* float_data, int32_data, string_data, int64_data, raw_data, double_data, uint64_data, and where
 * external data is */
static bool is_data(uint32_t field) {
    return (field >= 4 && field <= 7) || (field >= 9 && field <= 11) || field == 13 || field == 14;
}

/* Field `number` of a message, which is a text; the last, where there are several. */
static td__proto_field text_of(td__proto message, uint32_t number) {
    td__proto_field found = {0};
    for (td__proto_field field; td__proto_next(&message, &field);) {
        if (field.number == number && field.wire == TD__BYTES) {
            found = field;
        }
    }
    return found;
}

/* The parameter of that name; NULL when there is none. */
static const td__onnx_parameter *find_parameter(writing *w, td__proto_field name) {
    const td__onnx_source *source = w->source;
    for (size_t i = 0; name.data && i < source->parameter_count; i++) {
        size_t at = (w->next + i) % source->parameter_count;
        const td__onnx_parameter *p = &source->parameters[at];
        const char *own = source->graph->values[p->value].name;
        if (strlen(own) == name.size && memcmp(own, name.data, name.size) == 0) {
            w->next = at + 1;
            return p;
        }
    }
    return NULL;
}

static void put_values(writing *w, const td__onnx_parameter *p, output *out) {
    size_t bytes = sizeof(float) * (size_t)td__elements_from(&p->given, 0);
    put_header(out, TENSOR_RAW, bytes);
    if (out->memory) {
        td_tensor *tensor =
            td_model_parameter_at(w->model, (size_t)(p - w->source->parameters))->tensor;
        td__onnx_layout_copy(p->node, p->form, &p->given, w->room, true, td_tensor_data(tensor));
        td__little_copy(w->room, w->room, bytes, sizeof(float));
    }
    put(out, w->room, bytes);
}

static void put_tensor(writing *w, const td__onnx_parameter *p, td__proto tensor, output *out) {
    const uint8_t *begin = tensor.p;
    for (td__proto_field field; td__proto_next(&tensor, &field); begin = tensor.p) {
        if (!is_data(field.number)) {
            put(out, begin, (size_t)(tensor.p - begin));
        }
    }
    if (w->model) {
        put_values(w, p, out);
    }
}

/* A message in which the fields along path (0 ends it) lead to the parameter's tensor. */
static void put_along(writing *w, const td__onnx_parameter *p, const uint32_t *path,
                      td__proto message, output *out) {
    const uint8_t *begin = message.p;
    if (!*path) {
        put_tensor(w, p, message, out);
        return;
    }
    for (td__proto_field field; td__proto_next(&message, &field); begin = message.p) {
        if (field.number != *path || field.wire != TD__BYTES) {
            put(out, begin, (size_t)(message.p - begin));
            continue;
        }
        output length = {0};
        put_along(w, p, path + 1, td__proto_in(&field), &length);
        put_header(out, field.number, length.size);
        put_along(w, p, path + 1, td__proto_in(&field), out);
    }
}

/* A parameter is an initialiser, or what a Constant node makes. */
static void put_graph(writing *w, td__proto graph, output *out) {
    static const uint32_t in_initialiser[] = {0}, in_node[] = {NODE_ATTRIBUTE, ATTRIBUTE_TENSOR, 0};
    const uint8_t *begin = graph.p;
    w->next = 0;
    for (td__proto_field field; td__proto_next(&graph, &field); begin = graph.p) {
        const td__onnx_parameter *p = NULL;
        bool node = field.number == GRAPH_NODE;
        if (field.wire == TD__BYTES && (node || field.number == GRAPH_INITIALISER)) {
            p = find_parameter(w, text_of(td__proto_in(&field), node ? NODE_OUTPUT : TENSOR_NAME));
        }
        if (!p) {
            put(out, begin, (size_t)(graph.p - begin));
            continue;
        }
        const uint32_t *path = node ? in_node : in_initialiser;
        output length = {0};
        put_along(w, p, path, td__proto_in(&field), &length);
        put_header(out, field.number, length.size);
        put_along(w, p, path, td__proto_in(&field), out);
    }
}

static void put_model(writing *w, const void *bytes, size_t size, output *out) {
    td__proto message = td__proto_of(bytes, size);
    const uint8_t *begin = message.p;
    for (td__proto_field field; td__proto_next(&message, &field); begin = message.p) {
        if (field.number != MODEL_GRAPH || field.wire != TD__BYTES) {
            put(out, begin, (size_t)(message.p - begin));
            continue;
        }
        output length = {0};
        put_graph(w, td__proto_in(&field), &length);
        put_header(out, field.number, length.size);
        put_graph(w, td__proto_in(&field), out);
    }
}

td_status td__onnx_strip(td__onnx_source *source, const void *bytes, size_t size, td_error *error) {
    writing w = {.source = source};
    output out = {0};
    put_model(&w, bytes, size, &out);
    source->bytes = td__calloc(out.size + 1, 1);
    if (!source->bytes) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    source->size = out.size;
    out = (output){.memory = source->bytes};
    put_model(&w, bytes, size, &out);
    return TD_OK;
}

/* Into the folder of path, or the present one. */
static td_status publish(const char *path, const output *out, td_error *error) {
    const char *slash = strrchr(path, '/');
    char folder[4096] = ".";
    if (slash && (size_t)snprintf(folder, sizeof folder, "%.*s", (int)(slash - path + 1), path) >=
                     sizeof folder) {
        return td_error_set(error, TD_INVALID, "%s: the path is too long", path);
    }
    int open_folder = td__folder_open(folder, error);
    if (open_folder < 0) {
        return TD_IO;
    }
    td_status status = td__file_publish(open_folder, slash ? slash + 1 : path, out->memory,
                                        out->size, false, error);
    close(open_folder);
    return status;
}

/* A model of layers, as the operators they are made of. */
static td_status save_layers(const td_model *model, const char *path, size_t count,
                             const td_model_note *notes, td_error *error) {
    td_error reason = {0};
    output out = {0};
    td_status status = td__operators_write(model, count, notes, &out.memory, &out.size, &reason);
    if (status) {
        return td_error_set(error, status, "%s: %s", path, reason.text);
    }
    status = publish(path, &out, error);
    td__free(out.memory);
    return status;
}

td_status td__onnx_save(const td_model *model, const char *path, size_t note_count,
                        const td_model_note *notes, td_error *error) {
    const td__onnx_source *source = td__onnx_source_of(model);
    if (!source) {
        return save_layers(model, path, note_count, notes, error);
    }
    writing w = {.source = source, .model = model};
    int64_t largest = 1;
    for (size_t i = 0; i < source->parameter_count; i++) {
        int64_t count = td__elements_from(&source->parameters[i].given, 0);
        largest = count > largest ? count : largest;
    }
    output out = {0};
    put_model(&w, source->bytes, source->size, &out);
    if (out.size > LARGEST) {
        return td_error_set(error, TD_UNSUPPORTED, "%s: a file of more than 2 GiB", path);
    }
    w.room = td__calloc((size_t)largest, sizeof *w.room);
    out = (output){.memory = w.room ? td__calloc(out.size + 1, 1) : NULL};
    td_status status = TD_MEMORY;
    if (out.memory) {
        put_model(&w, source->bytes, source->size, &out);
        status = publish(path, &out, error);
    } else {
        (void)td_error_set(error, TD_MEMORY, "%s: out of memory", path);
    }
    td__free(out.memory);
    td__free(w.room);
    return status;
}
