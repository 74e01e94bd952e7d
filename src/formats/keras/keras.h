/* Keras's files: .keras (a zip of config.json and model.weights.h5, by Keras 3 and 2.13 to 2.15) and
 * legacy .h5, to an ordinary model; and .keras written from one. What the layers of a file are in
 * ours is in layer.h, how they are connected in graph.h.
 *
 * Nothing of a file is ever run: Lambda layers and custom classes are refused like every layer and
 * option that would give other numbers here. One error lists them all.
 */
#ifndef TAPEDECK_KERAS_H
#define TAPEDECK_KERAS_H

#include "tapedeck/nn.h"

bool td__keras_is_zip(const unsigned char *head, size_t size);
bool td__keras_is_hdf5(const unsigned char *head, size_t size);

/* A built model with its weights, from the bytes of a file; NULL on failure: TD_FORMAT, TD_UNSUPPORTED,
 * TD_BAD_SHAPE, TD_RANGE, TD_MEMORY. path is for messages. */
td_model *td__keras_parse(const char *path, const void *bytes, size_t size, td_error *error);

/* Writes a .keras file that Keras 3 opens, complete or not at all. Keras does not see the notes. */
TD_NODISCARD td_status td__keras_save(const td_model *model, const char *path, size_t count,
                                      const td_model_note *notes, td_error *error);
/* The same as .h5. */
TD_NODISCARD td_status td__keras_save_legacy(const td_model *model, const char *path, size_t count,
                                             const td_model_note *notes, td_error *error);

#endif
