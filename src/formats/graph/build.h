/* Graphs from lists of operators. */
#ifndef TAPEDECK_GRAPH_BUILD_H
#define TAPEDECK_GRAPH_BUILD_H

#include "graph/model.h"
#include "nn/operators.h"

/* A graph of the list's nodes, constants and memory, which are taken: the list may only be destroyed afterwards,
 * also on failure. NULL on failure. */
td__graph *td__graph_build(td__operators *list, const char *name, td_error *error);
/* The model of a graph that was built so; takes it. NULL on failure. */
td_model *td__graph_model_built(td__graph *graph, const char *path, td_error *error);

#endif
