/* The weights of a Keras file: where each parameter's values stand, in both layouts. */
#ifndef TAPEDECK_KERAS_WEIGHTS_H
#define TAPEDECK_KERAS_WEIGHTS_H

#include "hdf5/hdf5.h"
#include "keras/graph.h"

/* Fills every parameter of a model made from the graph. Each must be there in its shape, and nothing
 * else: TD_NOT_FOUND, TD_BAD_SHAPE, TD_FORMAT, …, naming it. */

/* model.weights.h5 of a .keras: groups named after classes. */
TD_NODISCARD td_status td__keras_weights_read(td_model *model, const td__keras_graph *graph,
                                              td__hdf5 *file, td_error *error);
/* Legacy .h5: groups named after layers, under `weights`. */
TD_NODISCARD td_status td__keras_legacy_weights_read(td_model *model, const td__keras_graph *graph,
                                                     td__hdf5 *file, td__hdf5_object weights,
                                                     td_error *error);

/* One parameter from values of its shape; path is for messages. */
TD_NODISCARD td_status td__keras_parameter_set(const td__keras_graph *graph,
                                               const td__keras_entry *entry,
                                               const td_parameter_info *parameter,
                                               const td_view *values, const char *path,
                                               td_error *error);
/* One parameter from a dataset (0: there is none); path is for messages. */
TD_NODISCARD td_status td__keras_parameter_read(const td__keras_graph *graph,
                                                const td__keras_entry *entry,
                                                const td_parameter_info *parameter, td__hdf5 *file,
                                                td__hdf5_object dataset, const char *path,
                                                td_error *error);

/* The path of parameter number i of a layer below its group: "cell/vars/1". Keras 2 hides an
 * attention's parts behind an underscore. */
/* Whether this count of parameters of an attention, or of both directions, includes biases. */
bool td__keras_has_bias(td__keras_storage storage, size_t parameters);
enum { TD__KERAS_PLACE_SIZE = 48 };
void td__keras_place(td__keras_storage storage, bool use_bias, size_t i, bool keras2,
                     char place[TD__KERAS_PLACE_SIZE]);

#endif
