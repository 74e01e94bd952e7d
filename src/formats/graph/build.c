/* A list of operators as a graph: names become numbers. Values are numbered as a file of them would have it:
 * inputs, constants, what nodes make. */
#include "graph/build.h"

#include "base/memory.h"
#include "tensor/tensor.h"

#include <stdlib.h>
#include <string.h>

enum { OPSET = 17 }; /* that the list's operators are of */

typedef struct definition {
    const char *name;
    int32_t value;
    size_t made; /* before this node it is not there */
} definition;

typedef struct building {
    td__operators *list;
    td__graph *graph;
    definition *definitions; /* sorted by name once all are there */
    td_error *error;
} building;

static const td__graph_type types[TD_DTYPE_COUNT] = {
    [TD_FLOAT32] = TD__GRAPH_FLOAT,     [TD_INT32] = TD__GRAPH_INT32,
    [TD_INT64] = TD__GRAPH_INT64,       [TD_UINT8] = TD__GRAPH_UINT8,
    [TD_FLOAT64] = TD__GRAPH_DOUBLE,    [TD_FLOAT16] = TD__GRAPH_FLOAT16,
    [TD_BFLOAT16] = TD__GRAPH_BFLOAT16, [TD_BOOL] = TD__GRAPH_BOOL,
    [TD_INT8] = TD__GRAPH_INT8,         [TD_INT16] = TD__GRAPH_INT16,
    [TD_UINT16] = TD__GRAPH_UINT16,     [TD_UINT32] = TD__GRAPH_UINT32,
    [TD_UINT64] = TD__GRAPH_UINT64,
};

static td_status out_of_memory(building *b) {
    return td_error_set(b->error, TD_MEMORY, "out of memory");
}

static void *take_array(building *b, size_t count, size_t size) {
    td_status reason;
    return td__chunks_take(&b->list->memory, count, size, sizeof(void *), &reason);
}

/* --- values ------------------------------------------------------------------------------- */

static td__graph_info *define(building *b, const char *name, size_t made) {
    size_t value = b->graph->value_count++;
    b->definitions[value] = (definition){name, (int32_t)value, made};
    b->graph->values[value].name = name;
    return &b->graph->values[value];
}

static void set_type(td__graph_info *info, td_dtype dtype, const td_shape *shape) {
    info->kind = TD__GRAPH_KIND_TENSOR;
    info->type = types[dtype];
    info->has_shape = true;
    info->shape = *shape;
}

static int compare_definitions(const void *left, const void *right) {
    const definition *a = left, *b = right;
    int order = strcmp(a->name, b->name);
    return order ? order : (a->value > b->value) - (a->value < b->value);
}

static const definition *find_definition(const building *b, const char *name) {
    size_t low = 0, high = b->graph->value_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(b->definitions[middle].name, name);
        if (!order) {
            return &b->definitions[middle];
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return NULL;
}

/* All that is defined, in order; then sorted, so that what is there twice is found. */
static td_status define_values(building *b) {
    td__operators *list = b->list;
    td__graph *graph = b->graph;
    for (size_t i = 0; i < list->port_count; i++) {
        const td__operator_port *port = &list->ports[i];
        if (!port->output) {
            graph->inputs[graph->input_count++] = (int32_t)graph->value_count;
            set_type(define(b, port->name, 0), port->dtype, &port->shape);
        }
    }
    for (size_t i = 0; i < list->constant_count; i++) {
        td__operator_constant *constant = &list->constants[i];
        td__graph_info *info = define(b, constant->name, 0);
        set_type(info, constant->dtype, &constant->tensor->shape);
        info->constant = (td__graph_constant){types[constant->dtype], constant->tensor};
        if (constant->dtype != TD_FLOAT32) { /* those may be another's memory, and need not */
            td__graph_settle(info->type, constant->tensor->count, constant->tensor->data);
        }
        constant->tensor = NULL;
    }
    for (size_t n = 0; n < list->node_count; n++) {
        for (size_t i = 0; i < list->nodes[n].output_count; i++) {
            (void)define(b, list->nodes[n].outputs[i], n + 1);
        }
    }
    qsort(b->definitions, graph->value_count, sizeof *b->definitions, compare_definitions);
    for (size_t i = 1; i < graph->value_count; i++) {
        if (!strcmp(b->definitions[i - 1].name, b->definitions[i].name)) {
            return td_error_set(b->error, TD_FORMAT, "value '%.200s' is made twice",
                                b->definitions[i].name);
        }
    }
    return TD_OK;
}

static td_status set_outputs(building *b) {
    for (size_t i = 0; i < b->list->port_count; i++) {
        const td__operator_port *port = &b->list->ports[i];
        const definition *found = port->output ? find_definition(b, port->name) : NULL;
        if (found) {
            td__graph_info *info = &b->graph->values[found->value];
            set_type(info, port->dtype, &port->shape);
            b->graph->outputs[b->graph->output_count++] = found->value;
        } else if (port->output) {
            return td_error_set(b->error, TD_FORMAT, "nothing makes output '%.200s'", port->name);
        }
    }
    return TD_OK;
}

/* --- nodes -------------------------------------------------------------------------------- */

static td_status set_attribute(building *b, const td__attribute *from, td__graph_attribute *to) {
    static const td__graph_attribute_kind kinds[] = {
        [TD__INT] = TD__GRAPH_ATTRIBUTE_INT,       [TD__REAL] = TD__GRAPH_ATTRIBUTE_FLOAT,
        [TD__STRING] = TD__GRAPH_ATTRIBUTE_TEXT,   [TD__INTS] = TD__GRAPH_ATTRIBUTE_INTS,
        [TD__REALS] = TD__GRAPH_ATTRIBUTE_FLOATS,  [TD__STRINGS] = TD__GRAPH_ATTRIBUTE_TEXTS,
        [TD__TENSOR] = TD__GRAPH_ATTRIBUTE_TENSOR, [TD__DTYPE] = TD__GRAPH_ATTRIBUTE_INT};
    *to = (td__graph_attribute){.name = from->name,
                                .kind = kinds[from->type],
                                .number = from->number,
                                .integer = from->type == TD__DTYPE ? (int64_t)types[from->dtype]
                                                                   : from->integer,
                                .text = from->text,
                                .count = from->count,
                                .numbers = from->numbers,
                                .integers = from->integers,
                                .texts = from->texts};
    if (from->type == TD__TENSOR) {
        td_tensor *tensor =
            td_tensor_from(from->name, TD_FLOAT32, TD_SHAPE(1), &from->number, b->error);
        to->constant = (td__graph_constant){TD__GRAPH_FLOAT, tensor};
        return tensor ? TD_OK : TD_MEMORY;
    }
    return TD_OK;
}

static td_status set_node(building *b, size_t n) {
    const td__operator_node *from = &b->list->nodes[n];
    td__graph_node *to = &b->graph->nodes[n];
    int32_t *inputs = take_array(b, from->input_count, sizeof *inputs);
    int32_t *outputs = take_array(b, from->output_count, sizeof *outputs);
    td__graph_attribute *attributes = take_array(b, from->attribute_count, sizeof *attributes);
    if (!inputs || !outputs || !attributes) {
        return out_of_memory(b);
    }
    *to = (td__graph_node){.op_type = from->type,
                           .domain = "",
                           .name = from->outputs[0],
                           .inputs = inputs,
                           .input_count = from->input_count,
                           .outputs = outputs,
                           .output_count = from->output_count,
                           .attributes = attributes,
                           .attribute_count = from->attribute_count};
    for (size_t i = 0; i < from->input_count; i++) {
        const definition *found = *from->inputs[i] ? find_definition(b, from->inputs[i]) : NULL;
        if (*from->inputs[i] && (!found || found->made > n)) {
            return td_error_set(b->error, TD_FORMAT, "nothing makes value '%.200s' before %s",
                                from->inputs[i], from->outputs[0]);
        }
        inputs[i] = found ? found->value : -1;
    }
    for (size_t i = 0; i < from->output_count; i++) {
        outputs[i] = find_definition(b, from->outputs[i])->value;
    }
    td_status status = TD_OK;
    for (size_t i = 0; !status && i < from->attribute_count; i++) {
        status = set_attribute(b, &from->attributes[i], &attributes[i]);
    }
    return status;
}

/* --- the graph ---------------------------------------------------------------------------- */

static td_status make_value_room(building *b, const char *name) {
    const td__operators *list = b->list;
    td__graph *graph = b->graph;
    size_t values = list->port_count + list->constant_count;
    for (size_t n = 0; n < list->node_count; n++) {
        values += list->nodes[n].output_count;
    }
    size_t length = strlen(name) + 1;
    char *called = take_array(b, length, 1);
    graph->values = take_array(b, values, sizeof *graph->values);
    graph->nodes = take_array(b, list->node_count, sizeof *graph->nodes);
    graph->inputs = take_array(b, list->port_count, sizeof *graph->inputs);
    graph->outputs = take_array(b, list->port_count, sizeof *graph->outputs);
    b->definitions = td__calloc(values + 1, sizeof *b->definitions);
    if (!called || !graph->values || !graph->nodes || !graph->inputs || !graph->outputs ||
        !b->definitions || values > INT32_MAX) {
        return out_of_memory(b);
    }
    memcpy(called, name, length);
    graph->name = called;
    graph->opset = OPSET;
    return TD_OK;
}

td__graph *td__graph_build(td__operators *list, const char *name, td_error *error) {
    building b = {.list = list, .graph = td__calloc(1, sizeof *b.graph), .error = error};
    if (list->exhausted || !b.graph) {
        td__free(b.graph);
        (void)td_error_set(error, TD_MEMORY, "out of memory");
        return NULL;
    }
    td_status status = make_value_room(&b, name);
    status = status ? status : define_values(&b);
    for (size_t n = 0; !status && n < list->node_count; n++) {
        b.graph->node_count = n + 1;
        status = set_node(&b, n);
    }
    status = status ? status : set_outputs(&b);
    td__free(b.definitions);
    b.graph->memory = list->memory.newest;
    list->memory.newest = NULL;
    if (status) {
        td__graph_destroy(b.graph);
        return NULL;
    }
    return b.graph;
}

td_model *td__graph_model_built(td__graph *graph, const char *path, td_error *error) {
    td__graph_origin origin = {.path = path};
    for (size_t v = 0; v < graph->value_count; v++) {
        const td_tensor *tensor = graph->values[v].constant.tensor;
        origin.bytes += tensor ? (size_t)tensor->count * td_dtype_size(tensor->dtype) : 0;
    }
    return td__graph_model(graph, &origin, NULL, error);
}
