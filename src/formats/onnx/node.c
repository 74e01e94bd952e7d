/* NodeProto: first everything but what it reads and makes, then those, once all names are known. */
#include "onnx/node.h"

enum { INPUT = 1, OUTPUT, NAME, OPERATOR, ATTRIBUTE, DOMAIN = 7 };
enum { ATTRIBUTE_GRAPH = 6 }; /* of AttributeProto */

size_t td__onnx_count_outputs(td__proto message) {
    size_t count = 0;
    for (td__proto_field field; td__proto_next(&message, &field);) {
        count += field.number == OUTPUT;
    }
    return count;
}

/* The texts, and how many of the rest there are. */
static td_status survey(td__onnx_parser *parser, td__proto message, size_t index,
                        td__graph_node *node) {
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
                             td__graph_node *node, td__onnx_names *names) {
    *node = (td__graph_node){.op_type = "", .domain = "", .name = ""};
    td_status status = survey(parser, message, index, node);
    size_t attribute_count = node->attribute_count;
    node->attribute_count = 0; /* until they are there */
    if (status) {
        return status;
    }
    td__graph_attribute *attributes = td__onnx_alloc(parser, attribute_count, sizeof *attributes);
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

static td_status refuse_input(td__onnx_parser *parser, const td__graph *graph, size_t index,
                              const td__proto_field *name, const td__onnx_definition *found) {
    const td__graph_node *node = &graph->nodes[index];
    int length = name->size < 100 ? (int)name->size : 100;
    char text[64];
    return found ? td__onnx_malformed(parser,
                                      "node %zu (%.60s '%.60s') uses '%s', which only %s makes; "
                                      "nodes must come in the order in which they run",
                                      index, node->op_type, node->name, found->name,
                                      td__onnx_origin_text(text, graph, found->from))
                 : td__onnx_malformed(
                       parser, "node %zu (%.60s '%.60s') uses '%.*s', which nothing makes", index,
                       node->op_type, node->name, length, (const char *)name->data);
}

/* --- graphs inside a node ----------------------------------------------------------------- */

/* The next GraphProto in a node's attributes; *attribute counts those gone over. */
static bool next_graph(td__proto *message, size_t *attribute, td__proto *graph) {
    for (td__proto_field field; td__proto_next(message, &field);) {
        if (field.number != ATTRIBUTE || field.wire != TD__BYTES) {
            continue;
        }
        ++*attribute;
        td__proto inside = td__proto_in(&field);
        for (td__proto_field part; td__proto_next(&inside, &part);) {
            if (part.number == ATTRIBUTE_GRAPH && part.wire == TD__BYTES) {
                *graph = td__proto_in(&part);
                return true;
            }
        }
    }
    return false;
}

size_t td__onnx_count_uses(td__proto message, int depth) {
    size_t count = 0, attribute = 0;
    td__proto rest = message, graph;
    for (td__proto_field field; td__proto_next(&rest, &field);) {
        count += field.number == INPUT;
    }
    while (depth < TD__ONNX_MAX_DEPTH && next_graph(&message, &attribute, &graph)) {
        count += td__onnx_count_graph_uses(graph, depth + 1);
    }
    return count;
}

td_status td__onnx_define_uses(td__onnx_parser *parser, td__proto message, int depth,
                               td__onnx_names *names) {
    td__proto rest = message, graph;
    size_t attribute = 0;
    td_status status = TD_OK;
    for (td__proto_field field; td__proto_next(&rest, &field);) {
        const char *name =
            field.number == INPUT && field.size ? td__onnx_copy_text(parser, &field) : "";
        if (!name) {
            return TD_FORMAT;
        }
        if (*name) {
            td__onnx_define(names, name, TD__FROM_AROUND);
        }
    }
    while (!status && depth < TD__ONNX_MAX_DEPTH && next_graph(&message, &attribute, &graph)) {
        status = td__onnx_define_graph_uses(parser, graph, depth + 1, names);
    }
    return status;
}

/* Reads the graphs and puts what they capture behind the node's own inputs. */
static td_status resolve_graphs(td__onnx_parser *parser, td__proto message,
                                const td__onnx_scope *scope, td__graph *graph) {
    td__graph_node *node = &graph->nodes[scope->index];
    td__proto inside;
    for (size_t k = 0; next_graph(&message, &k, &inside);) {
        td__graph_attribute *attribute = (td__graph_attribute *)&node->attributes[k - 1];
        int32_t *outer = NULL;
        if (attribute->kind != TD__GRAPH_ATTRIBUTE_GRAPH) {
            continue;
        }
        td_status status = td__onnx_read_inner(parser, inside, scope, &attribute->graph, &outer);
        if (status) {
            return status;
        }
        size_t own = node->input_count, more = attribute->graph->capture_count;
        int32_t *inputs = td__onnx_alloc(parser, own + more, sizeof *inputs);
        if (!inputs) {
            return TD_RANGE;
        }
        memcpy(inputs, node->inputs, own * sizeof *inputs);
        memcpy(inputs + own, outer, more * sizeof *inputs);
        attribute->first_capture = own;
        attribute->inner = graph->inner_count++;
        node->inputs = inputs;
        node->input_count += more;
        node->capture_count += more;
    }
    return TD_OK;
}

td_status td__onnx_resolve_node(td__onnx_parser *parser, td__proto message,
                                const td__onnx_scope *scope, td__graph *graph) {
    size_t index = scope->index;
    const td__onnx_names *names = scope->names;
    td__proto whole = message;
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
    return resolve_graphs(parser, whole, scope, graph);
}
