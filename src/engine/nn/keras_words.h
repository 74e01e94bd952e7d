/* Names that Keras has and that are others here. */
#ifndef TAPEDECK_NN_KERAS_WORDS_H
#define TAPEDECK_NN_KERAS_WORDS_H

#include "nn/field.h"

/* How an option of Keras's is expressed with these fields; NULL when it is none that is known. */
const char *td__keras_option_hint(const char *word, const td__field *fields, size_t count);

#endif
