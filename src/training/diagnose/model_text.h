/* Experiments' models with other layers, as edits. */
#ifndef TAPEDECK_DIAGNOSE_MODEL_TEXT_H
#define TAPEDECK_DIAGNOSE_MODEL_TEXT_H

#include "diagnose/rule.h"

/* "model=[…]" with batch normalisation between each hidden layer and its activation. */
const char *td__model_normalized(td__case *c);
/* Only the first two hidden dense layers and the last; NULL when the model is no stack of them. */
const char *td__model_shallow(td__case *c);

#endif
