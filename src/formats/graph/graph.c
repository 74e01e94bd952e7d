/* A graph's end, and attributes by name. */
#include "graph/graph.h"

#include "base/memory.h"

#include <string.h>

/* Destroys the tensors, not the graph's memory. */
static void release_tensors(td__graph *graph) {
    for (size_t i = 0; i < graph->value_count; i++) {
        td_tensor_destroy(graph->values[i].constant.tensor);
    }
    for (size_t i = 0; i < graph->node_count; i++) {
        const td__graph_node *node = &graph->nodes[i];
        for (size_t k = 0; k < node->attribute_count; k++) {
            td_tensor_destroy(node->attributes[k].constant.tensor);
            if (node->attributes[k].graph) {
                release_tensors(node->attributes[k].graph);
            }
        }
    }
}

void td__graph_destroy(td__graph *graph) {
    if (graph) {
        release_tensors(graph);
        td__chunks_free(graph->memory);
        td__free(graph);
    }
}

const td__graph_attribute *td__graph_attribute_of(const td__graph_node *node, const char *name) {
    for (size_t i = 0; i < node->attribute_count; i++) {
        if (!strcmp(node->attributes[i].name, name)) {
            return &node->attributes[i];
        }
    }
    return NULL;
}

static const td__graph_attribute *of_kind(const td__graph_node *node, const char *name,
                                          td__graph_attribute_kind kind) {
    const td__graph_attribute *attribute = td__graph_attribute_of(node, name);
    return attribute && attribute->kind == kind ? attribute : NULL;
}

int64_t td__graph_int(const td__graph_node *node, const char *name, int64_t fallback) {
    const td__graph_attribute *found = of_kind(node, name, TD__GRAPH_ATTRIBUTE_INT);
    return found ? found->integer : fallback;
}

float td__graph_float(const td__graph_node *node, const char *name, float fallback) {
    const td__graph_attribute *found = of_kind(node, name, TD__GRAPH_ATTRIBUTE_FLOAT);
    return found ? found->number : fallback;
}

const char *td__graph_text(const td__graph_node *node, const char *name, const char *fallback) {
    const td__graph_attribute *found = of_kind(node, name, TD__GRAPH_ATTRIBUTE_TEXT);
    return found ? found->text : fallback;
}

size_t td__graph_ints(const td__graph_node *node, const char *name, const int64_t **integers) {
    const td__graph_attribute *found = of_kind(node, name, TD__GRAPH_ATTRIBUTE_INTS);
    static const int64_t none;
    *integers = found && found->count ? found->integers : &none;
    return found ? found->count : 0;
}

int64_t td__graph_listed(const td__graph_node *node, const char *name, size_t i, int64_t fallback) {
    const int64_t *list;
    return i < td__graph_ints(node, name, &list) ? list[i] : fallback;
}
