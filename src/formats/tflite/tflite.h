/* Models of TensorFlow Lite: their operators as those of a graph (src/formats/graph).
 *
 * Numbers of few bits are taken for what they stand for: weights become floats, activations stay floats
 * that are rounded where the file has them quantised.
 */
#ifndef TAPEDECK_TFLITE_TFLITE_H
#define TAPEDECK_TFLITE_TFLITE_H

#include "graph/graph.h"
#include "tapedeck/nn.h"

bool td__tflite_recognise(const unsigned char *head, size_t size);
/* A built model with its weights, from the bytes of a file, which may be released afterwards; NULL on
 * failure. path is for messages. */
td_model *td__tflite_model(const void *bytes, size_t size, const char *path, td_error *error);

/* The file's operators as a graph; NULL on failure. bytes may be released afterwards. */
td__graph *td__tflite_graph(const void *bytes, size_t size, const char *path, td_error *error);

#endif
