/* NodeProto: first everything but what it reads and makes, then those, once all names are known. */
#include "onnx/node.h"

enum { INPUT = 1, OUTPUT, NAME, OPERATOR, ATTRIBUTE, DOMAIN = 7 };

size_t td__onnx_count_outputs(td__proto message) {
    size_t count = 0;
    for (td__proto_field field; td__proto_next(&message, &field);) {
        count += field.number == OUTPUT;
    }
    return count;
}

/* The texts, and how many of the rest there are. */
static td_status survey(td__onnx_parser *parser, td__proto message, size_t index,
                        td__onnx_node *node) {
    for (td__proto_field field; td__proto_next(&message, &field);) {
        const char **text = field.number == NAME       ? &node->name
                            : field.number == OPERATOR ? &node->op_type
                            : field.number == DOMAIN   ? &node->domain
                                                       : NULL;
        if (text && !(*text = td__onnx_copy_text(parser, &field))) {
            return TD_FORMAT;
        }
        bool counted = field.number == INPUT || field.number == OUTPUT || field.number == ATTRIBUTE;
        if (counted && field.wire != TD__BYTES) {
            return td__onnx_malformed(parser, "field %u of node %zu", field.number, index);
        }
        node->input_count += field.number == INPUT;
        node->output_count += field.number == OUTPUT;
        node->attribute_count += field.number == ATTRIBUTE;
    }
    if (message.bad || !node->op_type[0]) {
        return td__onnx_malformed(parser, "node %zu '%.200s' is cut off", index, node->name);
    }
    if (!strcmp(node->domain, "ai.onnx")) {
        node->domain = "";
    }
    return TD_OK;
}

td_status td__onnx_read_node(td__onnx_parser *parser, td__proto message, size_t index,
                             td__onnx_node *node, td__onnx_names *names) {
    *node = (td__onnx_node){.op_type = "", .domain = "", .name = ""};
    td_status status = survey(parser, message, index, node);
    size_t attribute_count = node->attribute_count;
    node->attribute_count = 0; /* until they are there */
    if (status) {
        return status;
    }
    td__onnx_attribute *attributes = td__onnx_alloc(parser, attribute_count, sizeof *attributes);
    node->attributes = attributes;
    node->inputs = td__onnx_alloc(parser, node->input_count, sizeof *node->inputs);
    node->outputs = td__onnx_alloc(parser, node->output_count, sizeof *node->outputs);
    if (!attributes || !node->inputs || !node->outputs) {
        return TD_RANGE;
    }
    for (td__proto_field field; !status && td__proto_next(&message, &field);) {
        if (field.number == ATTRIBUTE) {
            status = td__onnx_read_attribute(parser, td__proto_in(&field),
                                             &attributes[node->attribute_count++]);
        } else if (field.number == OUTPUT && field.size) {
            const char *name = td__onnx_copy_text(parser, &field);
            if (!name) {
                return TD_FORMAT;
            }
            td__onnx_define(names, name, (int64_t)index);
        }
    }
    return status;
}

static td_status refuse_input(td__onnx_parser *parser, const td__onnx_graph *graph, size_t index,
                              const td__proto_field *name, const td__onnx_definition *found) {
    const td__onnx_node *node = &graph->nodes[index];
    int length = name->size < 100 ? (int)name->size : 100;
    char text[64];
    return found ? td__onnx_malformed(parser,
                                      "node %zu (%.60s '%.60s') uses '%s', which only %s makes; "
                                      "nodes must come in the order in which they run",
                                      index, node->op_type, node->name, found->name,
                                      td__onnx_source(text, graph, found->from))
                 : td__onnx_malformed(
                       parser, "node %zu (%.60s '%.60s') uses '%.*s', which nothing makes", index,
                       node->op_type, node->name, length, (const char *)name->data);
}

td_status td__onnx_resolve_node(td__onnx_parser *parser, td__proto message, size_t index,
                                const td__onnx_graph *graph, const td__onnx_names *names) {
    int32_t *inputs = (int32_t *)graph->nodes[index].inputs;
    int32_t *outputs = (int32_t *)graph->nodes[index].outputs;
    for (td__proto_field field; td__proto_next(&message, &field);) {
        if (field.number != INPUT && field.number != OUTPUT) {
            continue;
        }
        int32_t *value = field.number == INPUT ? inputs++ : outputs++;
        *value = -1;
        if (field.size) {
            const td__onnx_definition *found = td__onnx_find_value(names, &field);
            if (!found || (field.number == INPUT && found->from >= (int64_t)index)) {
                return refuse_input(parser, graph, index, &field, found);
            }
            *value = found->value;
        }
    }
    return TD_OK;
}
