/* A model's layers as JSON text, for the metadata of saved weights:
 * {"name": "digits", "input": [8, 8, 1], "layers": [["conv2d", {"name": "conv1", "filters": 32}]]}
 *
 * Of a model that came from an ONNX file, the file without its weights, in base64:
 * {"name": "digits", "onnx": "CAcSB3B5…", "frozen": ["conv1"]}
 */
#ifndef TAPEDECK_MODEL_ARCHITECTURE_H
#define TAPEDECK_MODEL_ARCHITECTURE_H

#include "tapedeck/nn.h"

/* From td__calloc; NULL when memory is exhausted or a name is not UTF-8. */
char *td__architecture_write(const td_model *model);
/* A built model whose parameters have yet to be written; TD_FORMAT when they have more than
 * max_elements together. origin is for messages. NULL on failure. */
td_model *td__architecture_read(const char *text, const char *origin, int64_t max_elements,
                                td_error *error);

#endif
