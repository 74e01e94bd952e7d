/* Programs of torch.export (.pt2): an archive with a graph of ATen's operators in JSON and weights as they
 * are in memory. The operators become those of a graph (src/formats/graph); nothing is unpickled. */
#ifndef TAPEDECK_EXPORTED_EXPORTED_H
#define TAPEDECK_EXPORTED_EXPORTED_H

#include "graph/graph.h"
#include "tapedeck/nn.h"

/* A built model with its weights, from the bytes of a file, which may be released afterwards; NULL on
 * failure. path is for messages. */
td_model *td__exported_model(const void *bytes, size_t size, const char *path, td_error *error);

/* The program as a graph; NULL on failure. bytes may be released afterwards. */
td__graph *td__exported_graph(const void *bytes, size_t size, const char *path, td_error *error);

#endif
