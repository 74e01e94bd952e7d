/* Classifiers of ai.onnx.ml: which of their outputs are scores, and of which classes. */
#include "graph/classes.h"

#include "base/memory.h"
#include "graph/source.h"

#include <stdio.h>
#include <string.h>

/* Attribute PREFIXENDING of that kind; NULL where the node has none, or an empty one. */
static const td__graph_attribute *find_list(const td__graph_node *node, const char *prefix,
                                            const char *ending, td__graph_attribute_kind kind) {
    char name[80];
    (void)snprintf(name, sizeof name, "%s%s", prefix, ending);
    const td__graph_attribute *found = td__graph_attribute_of(node, name);
    return found && found->kind == kind && found->count ? found : NULL;
}

td__graph_labels td__graph_labels_of(const td__graph_node *node, const char *prefix) {
    const td__graph_attribute *ints = find_list(node, prefix, "_ints", TD__GRAPH_ATTRIBUTE_INTS);
    ints = ints ? ints : find_list(node, prefix, "_int64s", TD__GRAPH_ATTRIBUTE_INTS);
    const td__graph_attribute *texts =
        find_list(node, prefix, "_strings", TD__GRAPH_ATTRIBUTE_TEXTS);
    return texts  ? (td__graph_labels){.count = texts->count, .texts = texts->texts}
           : ints ? (td__graph_labels){.count = ints->count, .numbers = ints->integers}
                  : (td__graph_labels){0};
}

/* The node that makes a value; NULL: none does. */
static const td__graph_node *maker_of(const td__graph *graph, int32_t value) {
    for (size_t n = 0; n < graph->node_count; n++) {
        for (size_t i = 0; i < graph->nodes[n].output_count; i++) {
            if (graph->nodes[n].outputs[i] == value) {
                return &graph->nodes[n];
            }
        }
    }
    return NULL;
}

static bool is_scores(const td__graph *graph, int32_t value) {
    const td__graph_info *info = &graph->values[value];
    const td__graph_node *maker = maker_of(graph, value);
    bool zipped = maker && !strcmp(maker->op_type, "ZipMap");
    return zipped || (info->kind == TD__GRAPH_KIND_TENSOR && info->type == TD__GRAPH_FLOAT);
}

void td__graph_prefer_scores(td__graph_source *source) {
    td__graph *graph = source->graph;
    const td__graph_info *first = &graph->values[graph->outputs[0]];
    bool labels = first->kind == TD__GRAPH_KIND_TENSOR &&
                  (first->type == TD__GRAPH_INT64 || first->type == TD__GRAPH_STRING);
    for (size_t i = 1; labels && i < graph->output_count; i++) {
        if (is_scores(graph, graph->outputs[i])) {
            int32_t scores = graph->outputs[i];
            graph->outputs[i] = graph->outputs[0];
            graph->outputs[0] = scores;
            source->scores_output = i;
            return;
        }
    }
}

/* Those of the last node that has `columns`. */
static td__graph_labels labels_in(const td__graph *graph, int64_t columns) {
    td__graph_labels found = {0};
    for (size_t n = 0; n < graph->node_count; n++) {
        td__graph_labels labels = td__graph_labels_of(&graph->nodes[n], "classlabels");
        bool ours = !strcmp(graph->nodes[n].domain, "ai.onnx.ml");
        found = ours && labels.count > 1 && (int64_t)labels.count == columns ? labels : found;
    }
    return found;
}

td_status td__graph_name_classes(td__graph_source *source, td_error *error) {
    enum { ROOM = 24 }; /* of a number */
    const td_shape *shape = &source->facts[source->graph->outputs[0]].shape;
    int64_t columns = shape->rank == 2 ? shape->dims[1] : -1;
    td__graph_labels labels = labels_in(source->graph, columns);
    if (labels.count == 0) {
        return TD_OK;
    }
    source->classes = td__calloc(labels.count, sizeof *source->classes);
    source->class_texts = labels.texts ? NULL : td__calloc(labels.count, ROOM);
    if (!source->classes || (!labels.texts && !source->class_texts)) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    source->class_count = labels.count;
    for (size_t i = 0; i < labels.count; i++) {
        if (labels.texts) {
            source->classes[i] = labels.texts[i];
            continue;
        }
        char *text = source->class_texts + i * ROOM;
        (void)snprintf(text, ROOM, "%lld", (long long)labels.numbers[i]);
        source->classes[i] = text;
    }
    return TD_OK;
}
