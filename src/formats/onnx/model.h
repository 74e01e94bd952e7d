/* Models from ONNX files.
 *
 * The model's layers are custom ones that run the graph's nodes (see source.h). Parameters have
 * Keras's names and layouts. Images are taken with the channels last, whatever the file wants.
 */
#ifndef TAPEDECK_ONNX_MODEL_H
#define TAPEDECK_ONNX_MODEL_H

#include "tapedeck/nn.h"

struct td__model_for;

/* Whether a file begins as an ONNX model does. */
bool td__onnx_recognise(const unsigned char *head, size_t size);
/* A built model with its weights, from the bytes of a file, which may be released afterwards; NULL on
 * failure. path is for messages and says where external data may lie; NULL: nowhere. */
td_model *td__onnx_model(const void *bytes, size_t size, const char *path, td_error *error);
/* The same for the data at hand; NULL is no failure where it waits for that. */
td_model *td__onnx_model_for(const void *bytes, size_t size, const char *path,
                             struct td__model_for *data, td_error *error);

/* What is left of the file a model came from when its parameters' values are taken out: all that is
 * needed to make it again. NULL when it did not come from ONNX. */
const void *td__onnx_stripped(const td_model *model, size_t *size);
/* Makes it again; its parameters have at most so many elements, and have yet to be written. origin is
 * for messages. */
td_model *td__onnx_restore(const void *bytes, size_t size, int64_t most_elements, const char *name,
                           const char *origin, td_error *error);
/* A model that came from ONNX: its file again, with the model's parameters. Another: the operators its
 * layers are made of, with the notes as metadata; TD_UNSUPPORTED lists the layers that ONNX has not. */
TD_NODISCARD td_status td__onnx_save(const td_model *model, const char *path, size_t count,
                                     const td_model_note *notes, td_error *error);

#endif
