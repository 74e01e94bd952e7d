/* ModelProto and GraphProto: goes over the graph's fields a few times, each time for one thing, so
 * that all is counted before it is allocated and all names are known before they are used. */
#include "onnx/node.h"

#include "base/memory.h"

/* ModelProto, GraphProto, ValueInfoProto, OperatorSetIdProto. */
enum { MODEL_IR = 1, MODEL_GRAPH = 7, MODEL_OPSET = 8 };
enum {
    GRAPH_NODE = 1,
    GRAPH_NAME = 2,
    GRAPH_INITIALISER = 5,
    GRAPH_INPUT = 11,
    GRAPH_OUTPUT = 12,
    GRAPH_VALUE = 13,
    GRAPH_SPARSE = 15,
    GRAPH_FIELDS
};
enum { TENSOR_NAME = 8, INFO_NAME = 1, INFO_TYPE = 2 };

typedef struct graph_builder {
    td__onnx_parser *parser;
    td__graph *graph;
    td__proto message; /* GraphProto */
    td__onnx_names names;
    const td__onnx_scope *around; /* of a graph inside a node */
} graph_builder;

/* Of graphs within graphs: the outermost is at 0. */
static int depth_of(const graph_builder *builder) {
    return builder->around ? builder->around->depth + 1 : 0;
}

/* The text in one field of a message; empty when it has none. */
static td__proto_field name_in(td__proto message, uint32_t number) {
    td__proto_field name = {.wire = TD__BYTES};
    for (td__proto_field field; td__proto_next(&message, &field);) {
        if (field.number == number && field.wire == TD__BYTES) {
            name = field;
        }
    }
    return name;
}

/* Calls visit for each field of that number, with its place among them. */
typedef td_status visitor(graph_builder *builder, td__proto message, size_t index);

static td_status for_each(graph_builder *builder, uint32_t number, visitor *visit) {
    td__proto rest = builder->message;
    td_status status = TD_OK;
    size_t index = 0;
    for (td__proto_field field; !status && td__proto_next(&rest, &field);) {
        if (field.number == number) {
            status = visit(builder, td__proto_in(&field), index++);
        }
    }
    return status;
}

/* --- definitions -------------------------------------------------------------------------- */

static td_status define(graph_builder *builder, td__proto message, uint32_t number, int64_t from) {
    td__proto_field field = name_in(message, number);
    const char *name = td__onnx_copy_text(builder->parser, &field);
    if (!name) {
        return TD_FORMAT;
    }
    if (!name[0]) {
        return td__onnx_malformed(builder->parser, "%s without a name",
                                  from == TD__FROM_INPUT ? "an input" : "an initialiser");
    }
    td__onnx_define(&builder->names, name, from);
    return TD_OK;
}

static td_status define_input(graph_builder *builder, td__proto message, size_t index) {
    (void)index;
    return define(builder, message, INFO_NAME, TD__FROM_INPUT);
}

static td_status define_initialiser(graph_builder *builder, td__proto message, size_t index) {
    (void)index;
    return define(builder, message, TENSOR_NAME, TD__FROM_INITIALISER);
}

static td_status read_node(graph_builder *builder, td__proto message, size_t index) {
    builder->graph->node_count = index + 1;
    return td__onnx_read_node(builder->parser, message, index, &builder->graph->nodes[index],
                              &builder->names);
}

/* --- contents ----------------------------------------------------------------------------- */

static td_status resolve_node(graph_builder *builder, td__proto message, size_t index) {
    td__onnx_scope scope = {&builder->names, index, builder->graph->opset, depth_of(builder)};
    return td__onnx_resolve_node(builder->parser, message, &scope, builder->graph);
}

static td_status read_initialiser(graph_builder *builder, td__proto message, size_t index) {
    (void)index;
    td__proto_field name = name_in(message, TENSOR_NAME);
    const td__onnx_definition *found = td__onnx_find_value(&builder->names, &name);
    td__graph_info *info = &builder->graph->values[found->value];
    td_status status = td__onnx_read_tensor(builder->parser, message, info->name, &info->constant);
    if (!status) {
        info->type = info->constant.type;
        info->has_shape = true;
        info->shape = td_tensor_shape(info->constant.tensor);
    }
    return status;
}

/* What a ValueInfoProto says of a value; an initialiser knows better. *found is NULL when nothing
 * makes the value. */
static td_status read_info(graph_builder *builder, td__proto message,
                           const td__onnx_definition **found) {
    td__proto_field name = name_in(message, INFO_NAME);
    *found = td__onnx_find_value(&builder->names, &name);
    td__graph_info declared = {0};
    for (td__proto_field field; td__proto_next(&message, &field);) {
        if (field.number == INFO_TYPE && field.wire == TD__BYTES) {
            td__onnx_read_type(td__proto_in(&field), &declared);
        }
    }
    if (message.bad) {
        return td__onnx_malformed(builder->parser, "the type of a value is cut off");
    }
    td__graph_info *info = *found ? &builder->graph->values[(*found)->value] : NULL;
    if (info && !info->constant.tensor) {
        declared.name = info->name;
        *info = declared;
    }
    return TD_OK;
}

static td_status read_value(graph_builder *builder, td__proto message, size_t index) {
    const td__onnx_definition *found;
    (void)index;
    return read_info(builder, message, &found);
}

static td_status read_input(graph_builder *builder, td__proto message, size_t index) {
    const td__onnx_definition *found;
    (void)index;
    td_status status = read_info(builder, message, &found);
    if (status) {
        return status;
    }
    if (found->from == TD__FROM_INPUT) {
        builder->graph->inputs[builder->graph->input_count++] = found->value;
    }
    return TD_OK;
}

static td_status read_output(graph_builder *builder, td__proto message, size_t index) {
    const td__onnx_definition *found;
    td_status status = read_info(builder, message, &found);
    if (status) {
        return status;
    }
    if (!found) {
        return td__onnx_malformed(builder->parser, "nothing makes output %zu", index);
    }
    builder->graph->outputs[builder->graph->output_count++] = found->value;
    return TD_OK;
}

/* --- what is used ------------------------------------------------------------------------- */

size_t td__onnx_count_graph_uses(td__proto message, int depth) {
    size_t count = 0;
    for (td__proto_field field; td__proto_next(&message, &field);) {
        count += field.number == GRAPH_OUTPUT;
        count += field.number == GRAPH_NODE && field.wire == TD__BYTES
                     ? td__onnx_count_uses(td__proto_in(&field), depth)
                     : 0;
    }
    return count;
}

td_status td__onnx_define_graph_uses(td__onnx_parser *parser, td__proto message, int depth,
                                     td__onnx_names *names) {
    td_status status = TD_OK;
    for (td__proto_field field; !status && td__proto_next(&message, &field);) {
        if (field.wire != TD__BYTES) {
            continue;
        }
        if (field.number == GRAPH_NODE) {
            status = td__onnx_define_uses(parser, td__proto_in(&field), depth, names);
        } else if (field.number == GRAPH_OUTPUT) {
            td__proto_field name = name_in(td__proto_in(&field), INFO_NAME);
            const char *text = td__onnx_copy_text(parser, &name);
            status = text ? TD_OK : TD_FORMAT;
            if (text && *text) {
                td__onnx_define(names, text, TD__FROM_AROUND);
            }
        }
    }
    return status;
}

/* --- the graph ---------------------------------------------------------------------------- */

/* Counts, and makes room for, what the graph has. */
static td_status survey(graph_builder *builder) {
    td__onnx_parser *parser = builder->parser;
    td__graph *graph = builder->graph;
    size_t counts[GRAPH_FIELDS] = {0}, outputs = 0;
    td__proto rest = builder->message;
    for (td__proto_field field; td__proto_next(&rest, &field);) {
        if (field.number < GRAPH_FIELDS) {
            if (field.wire != TD__BYTES) {
                return td__onnx_malformed(parser, "field %u of the graph", field.number);
            }
            counts[field.number]++;
            outputs +=
                field.number == GRAPH_NODE ? td__onnx_count_outputs(td__proto_in(&field)) : 0;
        }
    }
    if (rest.bad) {
        return td__onnx_malformed(parser, "the graph is cut off");
    }
    if (counts[GRAPH_SPARSE]) {
        return td__onnx_unsupported(parser, "sparse initialisers");
    }
    if (!counts[GRAPH_OUTPUT]) {
        return td__onnx_malformed(parser, "the graph has no outputs");
    }
    graph->nodes = td__onnx_alloc(parser, counts[GRAPH_NODE], sizeof *graph->nodes);
    graph->inputs = td__onnx_alloc(parser, counts[GRAPH_INPUT], sizeof *graph->inputs);
    graph->outputs = td__onnx_alloc(parser, counts[GRAPH_OUTPUT], sizeof *graph->outputs);
    size_t uses =
        builder->around ? td__onnx_count_graph_uses(builder->message, depth_of(builder)) : 0;
    builder->names.items =
        td__onnx_alloc(parser, outputs + counts[GRAPH_INPUT] + counts[GRAPH_INITIALISER] + uses,
                       sizeof *builder->names.items);
    return graph->nodes && graph->inputs && graph->outputs && builder->names.items ? TD_OK
                                                                                   : TD_RANGE;
}

typedef struct pass {
    uint32_t field;
    visitor *visit;
} pass;

static td_status run_passes(graph_builder *builder, const pass *passes, size_t count) {
    td_status status = TD_OK;
    for (size_t i = 0; !status && i < count; i++) {
        status = for_each(builder, passes[i].field, passes[i].visit);
    }
    return status;
}

/* *outer: what its captures are in the graph around it. */
static td_status build(graph_builder *builder, int32_t **outer) {
    static const pass definitions[] = {{GRAPH_INPUT, define_input},
                                       {GRAPH_INITIALISER, define_initialiser},
                                       {GRAPH_NODE, read_node}};
    static const pass contents[] = {{GRAPH_NODE, resolve_node},
                                    {GRAPH_INITIALISER, read_initialiser},
                                    {GRAPH_VALUE, read_value},
                                    {GRAPH_INPUT, read_input},
                                    {GRAPH_OUTPUT, read_output}};
    td__proto_field name = name_in(builder->message, GRAPH_NAME);
    builder->graph->name = td__onnx_copy_text(builder->parser, &name);
    if (!builder->graph->name) {
        return TD_FORMAT;
    }
    td_status status = survey(builder);
    if (!status) {
        status = run_passes(builder, definitions, sizeof definitions / sizeof *definitions);
    }
    if (!status && builder->around) {
        status = td__onnx_define_graph_uses(builder->parser, builder->message, depth_of(builder),
                                            &builder->names);
    }
    if (!status) {
        status = td__onnx_number(builder->parser, &builder->names, builder->graph);
    }
    if (!status && builder->around) {
        status = td__onnx_capture(builder->parser, &builder->names, builder->around, builder->graph,
                                  outer);
    }
    return status ? status : run_passes(builder, contents, sizeof contents / sizeof *contents);
}

td_status td__onnx_read_inner(td__onnx_parser *parser, td__proto message,
                              const td__onnx_scope *scope, td__graph **made, int32_t **outer) {
    if (scope->depth >= TD__ONNX_MAX_DEPTH) {
        return td__onnx_unsupported(parser, "graphs within graphs, more than %d deep",
                                    TD__ONNX_MAX_DEPTH);
    }
    td__graph *graph = td__onnx_alloc(parser, 1, sizeof *graph);
    if (!graph) {
        return TD_RANGE;
    }
    *made = graph;
    graph->opset = scope->opset;
    graph_builder builder = {.parser = parser, .graph = graph, .message = message, .around = scope};
    /* Its constants stay constants: none is lent, none is without values. */
    bool lent = parser->lent;
    size_t weights = parser->weights;
    parser->lent = false;
    parser->weights = 0;
    td_status status = build(&builder, outer);
    parser->lent = lent;
    parser->weights = weights;
    return status;
}

/* OperatorSetIdProto: the version of ONNX's own operators; others matter only to nodes that use
 * them. */
static void read_opset(td__proto message, int64_t *opset) {
    td__proto_field domain = name_in(message, 1);
    bool own = domain.size == 0 || (domain.size == 7 && !memcmp(domain.data, "ai.onnx", 7));
    for (td__proto_field field; own && td__proto_next(&message, &field);) {
        if (field.number == 2 && field.wire == TD__VARINT) {
            *opset = (int64_t)field.bits;
        }
    }
}

/* ModelProto: where the graph is. */
static td_status find_graph(td__onnx_parser *parser, td__proto message, td__proto *graph,
                            int64_t *opset) {
    size_t graphs = 0;
    bool has_version = false;
    for (td__proto_field field; td__proto_next(&message, &field);) {
        if (field.number == MODEL_IR && field.wire == TD__VARINT) {
            has_version = true;
        } else if (field.number == MODEL_OPSET && field.wire == TD__BYTES) {
            read_opset(td__proto_in(&field), opset);
        } else if (field.number == MODEL_GRAPH && field.wire == TD__BYTES) {
            *graph = td__proto_in(&field);
            graphs++;
        }
    }
    if (message.bad || !has_version || graphs != 1) {
        return td__onnx_malformed(parser, "%s",
                                  message.bad    ? "it is cut off"
                                  : !has_version ? "it has no version"
                                  : graphs == 0  ? "it has no graph"
                                                 : "it has several graphs");
    }
    return TD_OK;
}

static td__graph *parse(const void *bytes, size_t size, td__onnx_parser parser, td_error *error) {
    td__graph *graph = td__calloc(1, sizeof *graph);
    graph_builder builder = {.parser = &parser, .graph = graph};
    if (!graph) {
        td_error_set(error, TD_MEMORY, "%s: out of memory", parser.path);
        return NULL;
    }
    graph->opset = 1; /* of models from before there were sets */
    td_status status =
        find_graph(&parser, td__proto_of(bytes, size), &builder.message, &graph->opset);
    if (!status) {
        status = build(&builder, NULL);
    }
    td__onnx_parser_close(&parser);
    graph->memory = parser.memory.newest;
    if (status) {
        td__graph_destroy(graph);
        return NULL;
    }
    return graph;
}

td__graph *td__onnx_parse(const void *bytes, size_t size, const char *path, td_error *error) {
    return parse(bytes, size, td__onnx_parser_of(size, path, path, error), error);
}

td__graph *td__onnx_parse_lent(const void *bytes, size_t size, const char *path, td_error *error) {
    td__onnx_parser parser = td__onnx_parser_of(size, path, path, error);
    parser.lent = true;
    return parse(bytes, size, parser, error);
}

td__graph *td__onnx_parse_stripped(const void *bytes, size_t size, size_t weights, const char *path,
                                   td_error *error) {
    td__onnx_parser parser = td__onnx_parser_of(size, path, NULL, error);
    parser.weights = weights;
    return parse(bytes, size, parser, error);
}
