/* SavedModels, the folders that model.save("folder") wrote before Keras 3: keras_metadata.pb has the
 * architecture, variables/ the weights, and in them a graph of objects which says whose each is.
 *
 * Of every other SavedModel (TensorFlow's functions, Keras 3's export) only the weights are read here; its
 * graph: tensorflow/saved_graph.h.
 */
#ifndef TAPEDECK_KERAS_SAVED_MODEL_H
#define TAPEDECK_KERAS_SAVED_MODEL_H

#include "tapedeck/nn.h"
#include "tensor/list.h"

#define TD__SAVED_MODEL "saved_model.pb"

/* path: FOLDER/saved_model.pb. NULL on failure; TD_NO_MODEL when it is not one of Keras 2's. */
td_model *td__keras_saved_load(const char *path, td_error *error);
/* All variables, under their keys. */
TD_NODISCARD td_status td__keras_saved_tensors(const char *path, td__tensor_list *list,
                                               td_error *error);
/* td__keras_saved_load of the bytes of its three files; path is for messages. */
td_model *td__keras_saved_parse(const char *path, const void *metadata, size_t metadata_size,
                                const void *index, size_t index_size, const void *data,
                                size_t data_size, td_error *error);

#endif
