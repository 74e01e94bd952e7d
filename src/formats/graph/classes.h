/* What a classifier's node calls its classes. */
#ifndef TAPEDECK_GRAPH_CLASSES_H
#define TAPEDECK_GRAPH_CLASSES_H

#include "graph/graph.h"

/* What a node calls its classes: numbers, or texts. */
typedef struct td__graph_labels {
    size_t count;
    const int64_t *numbers; /* NULL: they are texts */
    const char *const *texts;
} td__graph_labels;

/* From the attributes PREFIX_ints, PREFIX_int64s or PREFIX_strings; none: count 0. */
td__graph_labels td__graph_labels_of(const td__graph_node *node, const char *prefix);
#endif
