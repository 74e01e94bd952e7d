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
/* The same of bytes, which may be let go of afterwards; path is for messages and says where external
 * data may lie; NULL: nowhere. */
td_model *td__onnx_model(const void *bytes, size_t size, const char *path, td_error *error);

/* Whether the file is an ONNX model of one input that has axes of any size; *input is that of one
 * example as the model takes it, *first as in td__onnx_channels_first. What else is wrong with the
 * file td__onnx_load_for says. */
bool td__onnx_is_open(const char *path, td_shape *input, bool *first);
/* A model for examples of that shape, whatever else would fit it. */
td_model *td__onnx_load_for(const char *path, td_shape example, td_error *error);

/* Whether the file has the model's input and output with the channels first; the model has the
 * channels last all the same. */
void td__onnx_channels_first(const td_model *model, bool *input, bool *output);

/* What the file calls the classes that the output scores, and how many; the names live as long as the
 * model. 0: it says nothing. */
size_t td__onnx_classes(const td_model *model, const char *const **names);

/* The only number of examples that the graph runs on at a time; 0: any. */
int64_t td__onnx_fixed_batch(const td_model *model);

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
