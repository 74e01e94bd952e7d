/* metadata.json of a .keras file: {"keras_version": "3.0.0", "tapedeck.data": "…"}. What a model of
 * ours says of its data stands there because Keras passes over it; a member of our own would make
 * Keras unpack the whole file. */
#ifndef TAPEDECK_KERAS_NOTES_H
#define TAPEDECK_KERAS_NOTES_H

#include "tapedeck/nn.h"
#include "zip/zip.h"

#define TD__KERAS_METADATA "metadata.json"
#define TD__KERAS_METADATA_MAXIMUM ((size_t)16 << 20) /* bytes */

/* Its text with these notes, for td__free; NULL when memory is exhausted or a text is not UTF-8. */
char *td__keras_metadata_write(size_t count, const td_model_note *notes);
/* Copies of the texts (NULL where there is none), for td_free_text. */
TD_NODISCARD td_status td__keras_texts(const td__zip *zip, size_t count, const char *const keys[],
                                       char *texts[], td_error *error);

/* The same of an .h5 file: attributes of its root. path is for messages. */
TD_NODISCARD td_status td__keras_legacy_texts(const char *path, const void *bytes, size_t size,
                                              size_t count, const char *const keys[], char *texts[],
                                              td_error *error);

#endif
