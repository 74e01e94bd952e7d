/* Nodes become layers: one for each node that makes floats with the batch in front, with the nodes
 * before it that do not. */
#include "base/memory.h"
#include "graph/source.h"

#include <stdio.h>
#include <string.h>

/* The first output that has the batch in front; -1: none. */
static int32_t batch_output(const td__graph_source *source, size_t node) {
    const td__graph_node *n = &source->graph->nodes[node];
    for (size_t i = 0; i < n->output_count; i++) {
        if (n->outputs[i] >= 0 && source->facts[n->outputs[i]].batch) {
            return n->outputs[i];
        }
    }
    return -1;
}

static bool reads_parameter(const td__graph_source *source, const td__graph_node *node) {
    bool reads = false;
    for (size_t i = 0; i < node->input_count; i++) {
        reads = reads || (node->inputs[i] >= 0 && source->facts[node->inputs[i]].parameter);
    }
    return reads;
}

/* A product whose only user adds a bias to it is one layer with it. */
static bool goes_on(const td__graph_source *source, size_t node, int32_t output) {
    static const char *const products[] = {"MatMul", "Conv", "ConvTranspose"};
    const td__graph *graph = source->graph;
    const td__graph_fact *fact = &source->facts[output];
    bool product = false;
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        product = product || strcmp(graph->nodes[node].op_type, products[i]) == 0;
    }
    if (!product || fact->users != 1 || fact->user >= (int32_t)graph->node_count ||
        !reads_parameter(source, &graph->nodes[node])) {
        return false;
    }
    const td__graph_node *user = &graph->nodes[fact->user];
    if (strcmp(user->op_type, "Add") != 0 || !reads_parameter(source, user)) {
        return false;
    }
    for (size_t i = node + 1; i < (size_t)fact->user; i++) {
        if (!source->skip[i] && batch_output(source, i) >= 0) {
            return false;
        }
    }
    return true;
}

/* --- names -------------------------------------------------------------------------------- */

static bool is_taken(const td__graph_source *source, const char *name) {
    bool taken = strcmp(name, "input") == 0;
    for (size_t i = 0; i < source->layer_count && !taken; i++) {
        taken = strcmp(source->layers[i].name, name) == 0;
    }
    return taken;
}

/* Keras's way: a number from the second on. */
static void make_unique(const td__graph_source *source, char name[TD__GRAPH_NAME_SIZE]) {
    char base[TD__GRAPH_NAME_SIZE];
    (void)snprintf(base, sizeof base, "%.100s", name);
    for (size_t i = 1; is_taken(source, name); i++) {
        (void)snprintf(name, TD__GRAPH_NAME_SIZE, "%s_%zu", base, i);
    }
}

/* After its parameters. */
static void name_by_parameters(const td__graph_source *source, td__graph_layer *layer) {
    char name[TD__GRAPH_NAME_SIZE] = "";
    for (size_t i = 0; i < layer->parameter_count && !*name; i++) {
        int32_t value = source->parameters[layer->first_parameter + i].value;
        td__graph_layer_name(source->graph->values[value].name, true, name);
    }
    if (*name) {
        make_unique(source, name);
        memcpy(layer->name, name, sizeof name);
    }
}

/* After its nodes from the last on, or its operator. */
static void name_by_nodes(const td__graph_source *source, td__graph_layer *layer) {
    const td__graph *graph = source->graph;
    char name[TD__GRAPH_NAME_SIZE] = "";
    for (size_t n = layer->end; n-- > layer->first && !*name;) {
        if (!source->skip[n]) {
            td__graph_layer_name(graph->nodes[n].name, false, name);
        }
    }
    if (!*name) {
        td__graph_operator_name(layer->word, name);
    }
    make_unique(source, name);
    memcpy(layer->name, name, sizeof name);
}

/* --- parameters --------------------------------------------------------------------------- */

static void add_parameter(td__graph_source *source, td__graph_layer *layer,
                          const td__graph_node *node, size_t input) {
    int32_t value = node->inputs[input];
    td__graph_parameter *p = &source->parameters[source->parameter_count++];
    const char *role = td__graph_role(node, input, &p->form, &p->moving_average);
    td_shape shape = source->graph->values[value].constant.tensor->shape;
    p->form = source->facts[value].form;
    p->value = value;
    p->node = node;
    p->given = shape;
    p->shape = td__graph_layout_shape(node, p->form, shape);
    if (role) {
        (void)snprintf(p->name, sizeof p->name, "%s", role);
    } else {
        td__graph_parameter_name(source->graph->values[value].name, node->op_type, p->name);
    }
    char base[TD__GRAPH_NAME_SIZE];
    (void)snprintf(base, sizeof base, "%.100s", p->name);
    for (size_t k = 0, number = 1; k < layer->parameter_count; k++) {
        if (strcmp(source->parameters[layer->first_parameter + k].name, p->name) == 0) {
            (void)snprintf(p->name, sizeof p->name, "%s_%zu", base, number++);
            k = SIZE_MAX; /* from the start */
        }
    }
    layer->parameter_count++;
    source->facts[value].layer = (int32_t)source->layer_count;
}

/* Parameters that no layer before has; the first operator that is known to have some gives the
 * layer's word. */
static void find_parameters(td__graph_source *source, td__graph_layer *layer) {
    const td__graph *graph = source->graph;
    const char *word = NULL;
    layer->first_parameter = source->parameter_count;
    for (size_t n = layer->first; n < layer->end; n++) {
        const td__graph_node *node = &graph->nodes[n];
        if (!word && !source->skip[n] && td__graph_is_layer(node, reads_parameter(source, node))) {
            word = node->op_type;
        }
        for (size_t i = 0; i < node->input_count && !source->skip[n]; i++) {
            int32_t v = node->inputs[i];
            if (v >= 0 && source->facts[v].parameter && source->facts[v].layer < 0) {
                add_parameter(source, layer, node, i);
            }
        }
    }
    layer->word = word ? word : layer->word;
}

/* --- layers ------------------------------------------------------------------------------- */

static td_shape without_batch(const td_shape *shape) {
    td_shape example = {.rank = shape->rank - 1};
    for (int32_t i = 0; i < example.rank; i++) {
        example.dims[i] = shape->dims[i + 1];
    }
    return example;
}

static void add_graph_layer(td__graph_source *source, size_t first, size_t end, int32_t output) {
    const td__graph *graph = source->graph;
    td__graph_layer *layer = &source->layers[source->layer_count];
    *layer = (td__graph_layer){.source = source,
                               .first = first,
                               .end = end,
                               .output = output,
                               .shape = without_batch(&source->facts[output].shape),
                               .word = end > first ? graph->nodes[end - 1].op_type : "Output"};
    find_parameters(source, layer);
    for (size_t n = first; n < end; n++) {
        const td__graph_node *node = &graph->nodes[n];
        for (size_t i = 0; i < node->output_count; i++) {
            if (node->outputs[i] >= 0 && !source->facts[node->outputs[i]].constant) {
                source->facts[node->outputs[i]].layer = (int32_t)source->layer_count;
            }
        }
    }
    source->layer_count++;
}

/* Recurrent networks may end in (time, batch, …): the model turns it round. */
static void put_batch_first(td__graph_source *source, td__graph_fact *result) {
    if (!result->batch && result->batch_second) {
        int64_t time = result->shape.dims[0];
        result->shape.dims[0] = result->shape.dims[1];
        result->shape.dims[1] = time;
        result->batch = source->time_first = true;
    }
}

td_status td__graph_group(td__graph_source *source, td_error *error) {
    const td__graph *graph = source->graph;
    int32_t result = graph->outputs[0];
    put_batch_first(source, &source->facts[result]);
    if (!source->facts[result].batch) {
        char text[TD_SHAPE_TEXT_SIZE];
        return td_error_set(
            error, TD_UNSUPPORTED,
            "its output '%.100s' %s (%s) is not float with the batch in front; "
            "`tapedeck predict MODEL --input NAME=FILE --output NAME=FILE` runs it as it is",
            graph->values[result].name, td_shape_text(&source->facts[result].shape, text),
            td__graph_type_name(source->facts[result].type));
    }
    size_t values = graph->value_count;
    source->layers = td__calloc(graph->node_count + 2, sizeof *source->layers);
    source->parameters = td__calloc(values + 1, sizeof *source->parameters);
    if (!source->layers || !source->parameters) {
        return td_error_set(error, TD_MEMORY, "out of memory for a graph of %zu nodes",
                            graph->node_count);
    }
    size_t first = 0;
    for (size_t n = 0; n < graph->node_count; n++) {
        int32_t output = source->skip[n] ? -1 : batch_output(source, n);
        if (output >= 0 && !goes_on(source, n, output)) {
            add_graph_layer(source, first, n + 1, output);
            first = n + 1;
        }
    }
    if (source->layer_count == 0 || source->layers[source->layer_count - 1].output != result) {
        add_graph_layer(source, first, first, result); /* it stands before others */
    }
    for (size_t i = 0; i < source->layer_count; i++) { /* who has weights chooses first */
        name_by_parameters(source, &source->layers[i]);
    }
    for (size_t i = 0; i < source->layer_count; i++) {
        if (!*source->layers[i].name) {
            name_by_nodes(source, &source->layers[i]);
        }
    }
    return TD_OK;
}
