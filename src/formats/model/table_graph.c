/* Tensors of graphs: the constants of an ONNX file, or of what becomes one, as the file calls them. What a
 * graph takes and puts out is the list's remark. */
#include "graph/graph.h"
#include "model/format.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

enum { NAME_SIZE = 1024 };

static void destroy_graph(void *owner) {
    td__graph_destroy(owner);
}

static td_status add_named_tensor(td__tensor_list *list, const char *prefix, const char *name,
                                  const td__graph_constant *constant, const char *path,
                                  td_error *error) {
    char whole[NAME_SIZE];
    if (!constant->tensor || constant->type == TD__GRAPH_STRING) {
        return TD_OK;
    }
    (void)snprintf(whole, sizeof whole, "%s%s", prefix, name);
    return td__tensor_list_add(list, whole, td_view_of(constant->tensor), path, error);
}

/* Whole numbers in Constant nodes are sizes and indices, dozens of them, and no weights. */
static bool may_be_weights(const td__graph_constant *constant) {
    return constant->tensor && constant->tensor->dtype == TD_FLOAT32;
}

/* Initialisers and what Constant nodes hold; of graphs inside of nodes behind the names of these. */
static td_status add_constants(td__tensor_list *list, const td__graph *graph, const char *prefix,
                               const char *path, td_error *error) {
    td_status status = TD_OK;
    for (size_t i = 0; !status && i < graph->value_count; i++) {
        const td__graph_info *value = &graph->values[i];
        status = add_named_tensor(list, prefix, value->name, &value->constant, path, error);
    }
    for (size_t i = 0; !status && i < graph->node_count; i++) {
        const td__graph_node *node = &graph->nodes[i];
        bool constant =
            !strcmp(node->op_type, "Constant") && node->output_count == 1 && node->outputs[0] >= 0;
        for (size_t k = 0; !status && k < node->attribute_count; k++) {
            const td__graph_attribute *attribute = &node->attributes[k];
            char inner[NAME_SIZE];
            if (attribute->graph) {
                (void)snprintf(inner, sizeof inner, "%s%s/%s/", prefix, node->name,
                               attribute->name);
                status = add_constants(list, attribute->graph, inner, path, error);
            } else if (constant && may_be_weights(&attribute->constant)) {
                status = add_named_tensor(list, prefix, graph->values[node->outputs[0]].name,
                                          &attribute->constant, path, error);
            }
        }
    }
    return status;
}

/* "(None, 4)": None where any size will do, as Keras writes it. */
static void shape_text(const td__graph_info *info, char *text, size_t size) {
    size_t used = (size_t)snprintf(text, size, "%s", info->has_shape ? "(" : "of any shape");
    for (int32_t i = 0; info->has_shape && i < info->shape.rank && used < size; i++) {
        long long dim = (long long)info->shape.dims[i];
        used += (size_t)snprintf(text + used, size - used, dim < 0 ? "%sNone" : "%s%lld",
                                 i ? ", " : "", dim);
    }
    if (info->has_shape && used < size) {
        (void)snprintf(text + used, size - used, info->shape.rank == 1 ? ",)" : ")");
    }
}

/* Appends "x float (None, 4), …" as far as there is room. */
static void describe_tensor(char *text, size_t size, const char *what, const td__graph *graph,
                            const int32_t *values, size_t count) {
    size_t used = strlen(text);
    used += (size_t)snprintf(text + used, size - used, "; %s", what);
    for (size_t i = 0; i < count && used < size; i++) {
        const td__graph_info *info = &graph->values[values[i]];
        char shape[TD_SHAPE_TEXT_SIZE];
        shape_text(info, shape, sizeof shape);
        used += (size_t)snprintf(text + used, size - used, "%s %.60s %s %s", i ? "," : "",
                                 info->name, td__graph_type_name(info->type), shape);
    }
    if (used >= size) {
        memcpy(text + size - sizeof "…", "…", sizeof "…");
    }
}

td_status td__graph_tensors(td__model_file *file, td__tensor_list *list, td_error *error) {
    const char *path = file->path;
    td__graph *graph = file->format->graph(file, error);
    td_status status =
        graph ? td__tensor_list_keep(list, destroy_graph, graph, path, error) : TD_FORMAT;
    if (!status) {
        (void)snprintf(list->remark, sizeof list->remark, "a graph of %zu node%s",
                       graph->node_count, graph->node_count == 1 ? "" : "s");
        describe_tensor(list->remark, sizeof list->remark, "inputs", graph, graph->inputs,
                        graph->input_count);
        describe_tensor(list->remark, sizeof list->remark, "outputs", graph, graph->outputs,
                        graph->output_count);
        status = add_constants(list, graph, "", path, error);
    }
    return status;
}
