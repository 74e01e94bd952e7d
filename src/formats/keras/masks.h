/* Masks of a Functional model's file. Keras 3 writes how it made a mask, as operations in the list of
 * layers (NotEqual, Any, …), and calls layers with the result. Layers here make and pass on masks by
 * themselves: an operation whose result is the mask that a layer's input has anyway is left out, and
 * any other mask is refused. */
#ifndef TAPEDECK_KERAS_MASKS_H
#define TAPEDECK_KERAS_MASKS_H

#include "keras/call.h"
#include "keras/graph.h"

/* Whether a class of operations may be part of a mask. */
bool td__keras_is_mask_operation(const char *class_name);

/* One call of a layer or operation. */
typedef struct td__keras_masked {
    const td__keras_entry *entry;
    const td__keras_call *call; /* inputs and mask_inputs are numbers of calls */
    const char *reason;         /* found: why it cannot be loaded; NULL when it can */
} td__keras_masked;

/* Finds what each call's mask is, and a reason for each that is not the one it has here. TD_MEMORY. */
TD_NODISCARD td_status td__keras_masks_check(td__keras_masked *calls, size_t count,
                                             const char *origin, td_error *error);

#endif
