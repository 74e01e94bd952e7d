/* Models from graphs.
 *
 * The model's layers are custom ones that run the graph's nodes (see source.h). Parameters have
 * Keras's names and layouts. Images are taken with the channels last, whatever the graph wants.
 */
#ifndef TAPEDECK_GRAPH_MODEL_H
#define TAPEDECK_GRAPH_MODEL_H

#include "graph/graph.h"
#include "nn/model.h"

/* Where a graph came from. */
typedef struct td__graph_origin {
    const char *path; /* for messages; NULL: none */
    const char *name; /* of the model; NULL: from the path */
    size_t bytes;     /* of its file or constants: running it once may take memory in proportion */
    bool stripped;    /* the parameters' values are missing: the model's are yet to be written */
    td_shape example; /* set by td__graph_model: of the data at hand; of rank 0: not known */
} td__graph_origin;

/* A built model with its weights; NULL on failure. Takes the graph, also on failure. With data NULL is no
 * failure where data->waits says that the model is made when the data is there. */
td_model *td__graph_model(td__graph *graph, const td__graph_origin *origin, td__model_for *data,
                          td_error *error);

#endif
