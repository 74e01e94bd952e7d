/* Texts kept with a model in an ONNX file. */
#ifndef TAPEDECK_MODEL_ONNX_NOTES_H
#define TAPEDECK_MODEL_ONNX_NOTES_H

#include "tapedeck/base.h"

/* Copies of the texts (NULL where there is none), for td_free_text. path is for messages. */
TD_NODISCARD td_status td__onnx_texts(const char *path, const void *bytes, size_t size,
                                      size_t count, const char *const keys[], char *texts[],
                                      td_error *error);

#endif
