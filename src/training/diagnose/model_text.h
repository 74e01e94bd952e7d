/* The model of an experiment written anew, as an edit of its file. */
#ifndef TAPEDECK_DIAGNOSE_MODEL_TEXT_H
#define TAPEDECK_DIAGNOSE_MODEL_TEXT_H

#include "diagnose/rule.h"

/* Layers with weights, each reading the one before it: nothing gets past them, and nothing brings signals
 * back to size. */
typedef struct td__chain {
    ptrdiff_t first, last; /* -1: there is none */
    size_t count;          /* of those that have weights, the output's too */
} td__chain;

td__chain td__longest_chain(const td__case *c);
/* Batch normalisation between each hidden layer of the chain and its activation. NULL: out of memory. */
const char *td__model_normalized(td__case *c, td__chain chain);
/* Without the hidden layers of the chain beyond the second. NULL: none can be left out. */
const char *td__model_shallow(td__case *c, td__chain chain);

#endif
