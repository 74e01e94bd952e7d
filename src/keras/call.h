/* What a layer of a Functional model is called with: `inbound_nodes`. */
#ifndef TAPEDECK_KERAS_CALL_H
#define TAPEDECK_KERAS_CALL_H

#include "keras/layer.h"

typedef struct td__keras_call {
    const char *from[TD_MAX_FROM]; /* names of the layers it reads, borrowed */
    size_t count;
    int32_t inputs[TD_MAX_FROM]; /* for the caller: the same as numbers */
    bool causal;
    bool with_number; /* one argument is a number: x + 3 */
    double number;
    char reason[TD__KERAS_REASON_SIZE]; /* why it cannot be had; "" when it can */
} td__keras_call;

/* nodes: of Keras 3, [{"args": […], "kwargs": {…}}], or of Keras 2, [[["a", 0, 0, {…}], …]]. A layer
 * that is called more than once is refused: its weights would be shared. */
void td__keras_call_read(const json_t *nodes, const char *class_name, td__keras_call *call);

#endif
