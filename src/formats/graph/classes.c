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

/* Whether the labels of a classifier of ai.onnx.ml are those of the largest score: not so of support vector
 * machines without probabilities, whose scores are decisions between two classes each. */
static bool scores_by_class(const td__graph_node *node) {
    return strcmp(node->op_type, "SVMClassifier") != 0 ||
           find_list(node, "prob", "_a", TD__GRAPH_ATTRIBUTE_FLOATS);
}

static bool is_any(const td__graph_node *node, size_t count, const char *const *names) {
    for (size_t i = 0; i < count; i++) {
        if (!strcmp(node->op_type, names[i])) {
            return true;
        }
    }
    return false;
}

/* Whether the node's output has the values of its first input, with another type or shape. */
static bool keeps_values(const td__graph_node *node) {
    static const char *const same[] = {"Cast",    "Flatten", "Identity",
                                       "Reshape", "Squeeze", "Unsqueeze"};
    return node->input_count > 0 && is_any(node, TD__COUNT(same), same);
}

/* Where a value of labels comes from: the scores of which they are the largest's (-1: unknown), and
 * the constant that has the classes' names in the order of the scores (-1: none). */
typedef struct label_source {
    int32_t scores, names;
} label_source;

static label_source find_label_source(const td__graph *graph, int32_t value) {
    static const char *const picks[] = {"ArrayFeatureExtractor", "Gather"};
    label_source found = {-1, -1};
    for (int depth = 0; depth < 16; depth++) { /* sound graphs have no loops, but this is earlier */
        const td__graph_node *maker = value < 0 ? NULL : maker_of(graph, value);
        if (!maker || maker->input_count == 0) {
            return found;
        }
        bool picked = is_any(maker, TD__COUNT(picks), picks) && maker->input_count == 2;
        if (picked) {
            found.names = maker->inputs[0];
            value = maker->inputs[1];
        } else if (keeps_values(maker)) {
            value = maker->inputs[0];
        } else if (!strcmp(maker->op_type, "ArgMax")) {
            found.scores = maker->inputs[0];
            return found;
        } else {
            bool classifier = !strcmp(maker->domain, "ai.onnx.ml") && maker->output_count == 2 &&
                              maker->outputs[0] == value && scores_by_class(maker);
            found.scores = classifier ? maker->outputs[1] : -1;
            return found;
        }
    }
    return found;
}

/* The first output is labels; these scores are put out instead. */
static void replace_labels(td__graph *graph, int32_t scores) {
    if (scores >= 0) {
        graph->values[scores].kind = TD__GRAPH_KIND_TENSOR;
        graph->values[scores].type = TD__GRAPH_FLOAT;
        graph->outputs[0] = scores;
    }
}

/* The integer of an input that is a constant of one element; -1: it is not. */
static int64_t constant_index(const td__graph *graph, const td__graph_node *node, size_t input) {
    int32_t value = input < node->input_count ? node->inputs[input] : -1;
    const td__graph_constant *constant = value < 0 ? NULL : &graph->values[value].constant;
    bool known = constant && constant->tensor && constant->tensor->count == 1 &&
                 constant->type == TD__GRAPH_INT64;
    return known ? *(const int64_t *)constant->tensor->data : -1;
}

/* The scores of which a value is that column, alone: Slice(scores, [column], [column + 1], [1]). -1: of none. */
static int32_t scores_of_column(const td__graph *graph, int32_t value, int64_t column) {
    const td__graph_node *maker = maker_of(graph, value);
    for (int depth = 0; depth < 16 && maker && keeps_values(maker); depth++) {
        maker = maker->inputs[0] < 0 ? NULL : maker_of(graph, maker->inputs[0]);
    }
    bool cut = maker && !strcmp(maker->op_type, "Slice") && !*maker->domain &&
               maker->input_count == 4 && constant_index(graph, maker, 1) == column &&
               constant_index(graph, maker, 2) == column + 1 &&
               constant_index(graph, maker, 3) == 1;
    return cut ? maker->inputs[0] : -1;
}

/* The scores that the outputs after the labels have, a column each, as skl2onnx writes them for zipmap='columns'; -1:
 * the outputs are something else. */
static int32_t scores_in_columns(const td__graph *graph) {
    int32_t scores = -1;
    for (size_t i = 1; i < graph->output_count; i++) {
        int32_t found = scores_of_column(graph, graph->outputs[i], (int64_t)i - 1);
        if (found < 0 || (i > 1 && found != scores)) {
            return -1;
        }
        scores = found;
    }
    return graph->output_count > 2 ? scores : -1;
}

void td__graph_prefer_scores(td__graph_source *source) {
    td__graph *graph = source->graph;
    if (graph->output_count == 0) {
        return;
    }
    const td__graph_info *first = &graph->values[graph->outputs[0]];
    bool labels = first->kind == TD__GRAPH_KIND_TENSOR &&
                  (first->type == TD__GRAPH_INT64 || first->type == TD__GRAPH_STRING);
    int32_t whole = labels ? scores_in_columns(graph) : -1;
    if (whole >= 0) {
        source->labels = graph->outputs[0];
        source->scores_in_columns = true;
        replace_labels(graph, whole);
        return;
    }
    for (size_t i = 1; labels && i < graph->output_count; i++) {
        if (is_scores(graph, graph->outputs[i])) {
            int32_t scores = graph->outputs[i];
            source->labels = graph->outputs[0];
            graph->outputs[i] = graph->outputs[0];
            graph->outputs[0] = scores;
            source->scores_output = i;
            return;
        }
    }
    bool rows = first->type == TD__GRAPH_STRING || (first->has_shape && first->shape.rank == 1);
    if (labels && rows && graph->output_count == 1) {
        source->labels = graph->outputs[0];
        replace_labels(graph, find_label_source(graph, graph->outputs[0]).scores);
    }
}

/* The names that a constant has. */
static td__graph_labels labels_of_constant(const td__graph *graph, int32_t value, int64_t columns,
                                           const char **texts) {
    const td__graph_constant *names = value < 0 ? NULL : &graph->values[value].constant;
    bool fits = names && names->tensor && names->tensor->count == columns && columns > 1;
    if (fits && names->type == TD__GRAPH_INT64) {
        return (td__graph_labels){.count = (size_t)columns, .numbers = names->tensor->data};
    }
    if (!fits || names->type != TD__GRAPH_STRING) {
        return (td__graph_labels){0};
    }
    for (int64_t i = 0; i < columns; i++) {
        texts[i] = td__graph_text_at(names->tensor, i);
    }
    return (td__graph_labels){.count = (size_t)columns, .texts = texts};
}

/* Those of the last node that has `columns`, if the largest score is the label. */
static td__graph_labels labels_in(const td__graph *graph, int64_t columns) {
    td__graph_labels found = {0};
    for (size_t n = 0; n < graph->node_count; n++) {
        const td__graph_node *node = &graph->nodes[n];
        td__graph_labels labels = td__graph_labels_of(node, "classlabels");
        bool classifies = !strcmp(node->domain, "ai.onnx.ml") && labels.count > 1;
        if (classifies && !scores_by_class(node)) {
            return (td__graph_labels){0};
        }
        found = classifies && (int64_t)labels.count == columns ? labels : found;
    }
    return found;
}

/* What the outputs are called that have a column each. */
static td__graph_labels labels_of_outputs(const td__graph *graph, int64_t columns,
                                          const char **texts) {
    if ((int64_t)graph->output_count != columns + 1) {
        return (td__graph_labels){0};
    }
    for (int64_t i = 0; i < columns; i++) {
        texts[i] = graph->values[graph->outputs[i + 1]].name;
    }
    return (td__graph_labels){.count = (size_t)columns, .texts = texts};
}

td_status td__graph_name_classes(td__graph_source *source, td_error *error) {
    enum { ROOM = 24 /* of a number */, MAX_CLASSES = 1 << 20 };
    const td_shape *shape = &source->facts[source->graph->outputs[0]].shape;
    int64_t columns = shape->rank == 2 ? shape->dims[1] : -1;
    if (columns < 2 || columns > MAX_CLASSES) {
        return TD_OK;
    }
    source->classes = td__calloc((size_t)columns, sizeof *source->classes);
    source->class_texts = td__calloc((size_t)columns, ROOM);
    if (!source->classes || !source->class_texts) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    int32_t names =
        source->labels < 0 ? -1 : find_label_source(source->graph, source->labels).names;
    td__graph_labels labels = labels_of_constant(source->graph, names, columns, source->classes);
    labels = labels.count ? labels : labels_in(source->graph, columns);
    if (!labels.count && source->scores_in_columns) {
        labels = labels_of_outputs(source->graph, columns, source->classes);
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
