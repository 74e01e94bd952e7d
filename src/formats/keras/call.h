/* What a layer of a Functional model is called with: each of its `inbound_nodes`. */
#ifndef TAPEDECK_KERAS_CALL_H
#define TAPEDECK_KERAS_CALL_H

#include "keras/layer.h"

typedef struct td__keras_call {
    const char *from[TD_MAX_FROM]; /* names of the layers it reads, borrowed … */
    int64_t uses[TD_MAX_FROM];     /* … which of their calls, from 0 … */
    int64_t outputs[TD_MAX_FROM];  /* … and which output of that: a model may have several */
    size_t count;
    /* `mask`: that of each input, named in the same way; NULL: none. */
    const char *masks[TD_MAX_FROM];
    int64_t mask_uses[TD_MAX_FROM];
    size_t mask_count;
    int32_t mask_inputs[TD_MAX_FROM]; /* for the caller: the same as calls; -1: none */
    int32_t inputs[TD_MAX_FROM];      /* for the caller: the same as entries */
    bool causal;
    bool with_number; /* one argument is a number: x + 3 */
    double number;
    char reason[TD__KERAS_REASON_SIZE]; /* why it cannot be loaded; "" when it can */
} td__keras_call;

/* node, one of inbound_nodes: of Keras 3, {"args": […], "kwargs": {…}}, or of Keras 2, [["a", 0, 0,
 * {…}], …]. */
void td__keras_call_read(const json_t *node, const char *class_name, td__keras_call *call);

#endif
