/* A file with the values of a model's parameters, or without them. Everything else stays byte for byte as the
 * exporter wrote it. */
#include "base/proto.h"
#include "onnx/write.h"

enum {
    MODEL_GRAPH = 7,
    GRAPH_NODE = 1,
    GRAPH_INITIALISER = 5,
    NODE_OUTPUT = 2,
    NODE_ATTRIBUTE = 5,
    ATTRIBUTE_TENSOR = 5,
    TENSOR_NAME = 8
};

/* A message in which the fields along path (0 ends it) lead to the parameter's tensor. */
typedef struct route {
    td__proto message;
    const td__graph_parameter *parameter;
    const uint32_t *path;
} route;

/* float_data, int32_data, string_data, int64_data, raw_data, double_data, uint64_data, and where
 * external data is */
static bool is_data(uint32_t field) {
    return (field >= 4 && field <= 7) || (field >= 9 && field <= 11) || field == 13 || field == 14;
}

/* Field `number` of a message, which is a text; the last, where there are several. */
static td__proto_field find_text(td__proto message, uint32_t number) {
    td__proto_field found = {0};
    for (td__proto_field field; td__proto_next(&message, &field);) {
        if (field.number == number && field.wire == TD__BYTES) {
            found = field;
        }
    }
    return found;
}

/* The parameter of that name; NULL when there is none. */
static const td__graph_parameter *find_parameter(td__onnx_writing *w, td__proto_field name) {
    const td__graph_source *source = w->source;
    for (size_t i = 0; name.data && i < source->parameter_count; i++) {
        size_t at = (w->next + i) % source->parameter_count;
        const td__graph_parameter *p = &source->parameters[at];
        const char *own = source->graph->values[p->value].name;
        if (strlen(own) == name.size && memcmp(own, name.data, name.size) == 0) {
            w->next = at + 1;
            return p;
        }
    }
    return NULL;
}

static void put_tensor(td__onnx_writing *w, const route *r, td__onnx_output *out) {
    td__proto tensor = r->message;
    const uint8_t *begin = tensor.p;
    for (td__proto_field field; td__proto_next(&tensor, &field); begin = tensor.p) {
        if (!is_data(field.number)) {
            td__onnx_put(out, begin, (size_t)(tensor.p - begin));
        }
    }
    if (w->model) {
        td__onnx_put_parameter(w, r->parameter, out);
    }
}

static void put_along(td__onnx_writing *w, const void *subject, td__onnx_output *out) {
    const route *r = subject;
    td__proto message = r->message;
    const uint8_t *begin = message.p;
    if (!*r->path) {
        put_tensor(w, r, out);
        return;
    }
    for (td__proto_field field; td__proto_next(&message, &field); begin = message.p) {
        if (field.number != *r->path || field.wire != TD__BYTES) {
            td__onnx_put(out, begin, (size_t)(message.p - begin));
            continue;
        }
        const route inside = {td__proto_in(&field), r->parameter, r->path + 1};
        td__onnx_put_message(w, field.number, put_along, &inside, out);
    }
}

/* A parameter is an initialiser, or what a Constant node makes. */
static void put_graph(td__onnx_writing *w, const void *subject, td__onnx_output *out) {
    static const uint32_t in_initialiser[] = {0}, in_node[] = {NODE_ATTRIBUTE, ATTRIBUTE_TENSOR, 0};
    td__proto graph = *(const td__proto *)subject;
    const uint8_t *begin = graph.p;
    w->next = 0;
    for (td__proto_field field; td__proto_next(&graph, &field); begin = graph.p) {
        const td__graph_parameter *p = NULL;
        bool node = field.number == GRAPH_NODE;
        if (field.wire == TD__BYTES && (node || field.number == GRAPH_INITIALISER)) {
            p = find_parameter(w,
                               find_text(td__proto_in(&field), node ? NODE_OUTPUT : TENSOR_NAME));
        }
        if (!p) {
            td__onnx_put(out, begin, (size_t)(graph.p - begin));
            continue;
        }
        const route inside = {td__proto_in(&field), p, node ? in_node : in_initialiser};
        td__onnx_put_message(w, field.number, put_along, &inside, out);
    }
}

void td__onnx_put_source_file(td__onnx_writing *w, const void *bytes, size_t size,
                              td__onnx_output *out) {
    td__proto message = td__proto_of(bytes, size);
    const uint8_t *begin = message.p;
    for (td__proto_field field; td__proto_next(&message, &field); begin = message.p) {
        if (field.number != MODEL_GRAPH || field.wire != TD__BYTES) {
            td__onnx_put(out, begin, (size_t)(message.p - begin));
            continue;
        }
        const td__proto graph = td__proto_in(&field);
        td__onnx_put_message(w, field.number, put_graph, &graph, out);
    }
}
