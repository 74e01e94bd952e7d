/* Models from ONNX files.
 *
 * The model's layers are custom ones that run the graph's nodes (see source.h). Parameters have
 * Keras's names and layouts. Images are taken with the channels last, whatever the file wants.
 */
#ifndef TAPEDECK_ONNX_MODEL_H
#define TAPEDECK_ONNX_MODEL_H

#include "tapedeck/nn.h"

/* Whether a file begins as an ONNX model does. */
bool td__onnx_recognise(const unsigned char *head, size_t size);
/* A built model with its weights; NULL on failure. External data may lie beside the file. */
td_model *td__onnx_load(const char *path, td_error *error);
/* The same of bytes, which may be let go of afterwards; path is for messages. */
td_model *td__onnx_model(const void *bytes, size_t size, const char *path, td_error *error);

#endif
