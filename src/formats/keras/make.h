/* From a configuration to a model whose parameters are still to be filled: what all of Keras's
 * formats have in common. */
#ifndef TAPEDECK_KERAS_MAKE_H
#define TAPEDECK_KERAS_MAKE_H

#include "keras/graph.h"

/* JSON as Python writes it, with NaN and Infinity. NULL on failure. */
json_t *td__keras_json(const char *origin, const char *text, size_t length, size_t file_size,
                       td_error *error);
/* *config is taken, and gone before there are parameters, of which there may be as many as a file of
 * file_size bytes can have. NULL on failure. The graph is the caller's to release. */
td_model *td__keras_make(td__keras_graph *graph, json_t **config, const char *path, bool keras2,
                         size_t file_size, td_error *error);
/* Whether a version is Keras 2's; NULL is not. */
bool td__keras_is_version2(const char *version);

#endif
