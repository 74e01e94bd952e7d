/* The codec of ONNX files: a file as a graph or a model, and back.
 *
 * Models are made by src/formats/graph; this reads and writes bytes.
 */
#ifndef TAPEDECK_ONNX_ONNX_H
#define TAPEDECK_ONNX_ONNX_H

#include "graph/graph.h"
#include "nn/model.h"

/* Whether a file begins as an ONNX model does. */
bool td__onnx_recognise(const unsigned char *head, size_t size);

/* --- reading ------------------------------------------------------------------------------ */

/* bytes may be released afterwards. path is for messages and says where external data may lie:
 * in the folder of the file or beneath it; NULL: nowhere. NULL on failure. */
td__graph *td__onnx_parse(const void *bytes, size_t size, const char *path, td_error *error);
/* A TensorProto by itself, as in the files of ONNX's test data. *memory has its text, if it is such, for
 * td__chunks_free. */
TD_NODISCARD td_status td__onnx_parse_tensor(const void *bytes, size_t size,
                                             td__graph_constant *constant, td__chunk **memory,
                                             td_error *error);
/* A built model with its weights, from the bytes of a file, which may be released afterwards; NULL on
 * failure. data: what it is made for, see td__graph_model; or NULL. */
td_model *td__onnx_model(const void *bytes, size_t size, const char *path, td__model_for *data,
                         td_error *error);
/* Copies of texts that were kept with a model (NULL where there is none), for td_free_text. path is for
 * messages. */
TD_NODISCARD td_status td__onnx_texts(const char *path, const void *bytes, size_t size,
                                      size_t count, const char *const keys[], char *texts[],
                                      td_error *error);

/* --- writing ------------------------------------------------------------------------------ */

/* A model that came from an ONNX file: that file with the model's parameters. Any other: its graph, or the
 * operators that its layers are made of, with the notes as metadata; TD_UNSUPPORTED lists the layers that have
 * no operators. */
TD_NODISCARD td_status td__onnx_save(const td_model *model, const char *path, size_t count,
                                     const td_model_note *notes, td_error *error);

/* The file of a model that was made from a graph without its parameters' values: all that is needed to make it
 * again. For td__free; NULL: memory is exhausted. */
uint8_t *td__onnx_stripped(const td_model *model, size_t *size);
/* Makes it again; its parameters have at most max_elements elements, and have yet to be written. origin is
 * for messages. */
td_model *td__onnx_restore(const void *bytes, size_t size, int64_t max_elements, const char *name,
                           const char *origin, td_error *error);

#endif
