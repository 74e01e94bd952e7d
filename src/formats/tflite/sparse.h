/* Constants that keep only some of their elements. */
#ifndef TAPEDECK_TFLITE_SPARSE_H
#define TAPEDECK_TFLITE_SPARSE_H

#include "tflite/convert.h"

/* Puts all elements, 0 where the file has none, in the tensor's place of its own (whole). sparsity: the
 * tensor's table; count, bytes: of elements. Returns what is wrong, or NULL. */
const char *td__lite_densify(td__lite *lite, size_t sparsity, int64_t count, size_t bytes,
                             td__lite_tensor *t);

#endif
