/* SavedModels as graphs: what TensorFlow's functions compute, as Keras 3's model.export writes them.
 *
 * The signature serving_default names inputs and outputs and calls a function. Its nodes, and those of the
 * functions that it calls, become operators. A loop is unrolled: its number of steps must follow from the
 * shapes that the file declares.
 */
#ifndef TAPEDECK_TENSORFLOW_SAVED_GRAPH_H
#define TAPEDECK_TENSORFLOW_SAVED_GRAPH_H

#include "graph/graph.h"
#include "tensorflow/bundle.h"

/* bytes: saved_model.pb; bundle: its variables. NULL on failure; TD_UNSUPPORTED names the operators that are
 * not supported. */
td__graph *td__saved_graph(const char *path, const void *bytes, size_t size,
                           const td__bundle *bundle, td_error *error);
/* With the variables in the folder variables/ beside path. */
td__graph *td__saved_graph_open(const char *path, const void *bytes, size_t size, td_error *error);

#endif
