/* What was made in a step that is executed again, described for people: by which operation of which layer, an
 * element of it, the example that the element is of, and what the operation read. */
#ifndef TAPEDECK_REPLAY_OPERATION_H
#define TAPEDECK_REPLAY_OPERATION_H

#include "base/arena.h"
#include "tape/tape.h"
#include "tapedeck/replay.h"
#include "train/trainer.h"

typedef enum td__made_in {
    TD__MADE_BEFORE, /* an input of a node that no node made: data, a parameter, a constant */
    TD__MADE_FORWARD,
    TD__MADE_BACKWARD, /* the gradient of an input of a node, when the walk has passed the node */
    TD__MADE_UPDATE,   /* a parameter after its update */
} td__made_in;

/* One tensor of a step. */
typedef struct td__made {
    td__made_in in;
    int32_t node, input; /* input: before and backward */
    size_t parameter;    /* update: of the model's */
} td__made;

/* The layer that ran a node; -1: none, as of the loss. */
int32_t td__node_layer(const td_model *model, const td__node *node);
/* The parameter that a tensor is; -1: none. */
ptrdiff_t td__tensor_parameter(const td_model *model, const td_tensor *tensor);
/* Whether an input of a node was there before: no node made it. */
bool td__input_is_leaf(const td_tape *tape, const td__edge *edge);
/* Its values, while the tape has them: before and forward, whenever the pass is open, but parameters only until
 * the update; backward, while the walk is at the node. Data NULL where there are none. */
td_view td__made_view(const td_trainer *trainer, const td__made *made);
bool td__all_finite(const td_view *view);
/* The example of the batch that an element is of; -1: of none. */
int64_t td__made_example(const td_trainer *trainer, const td__made *made, const td_view *view,
                         int64_t element);

/* All in arena; NULL when memory is exhausted. element: of the view. */
td_operation *td__operation_describe(td__arena *arena, const td_trainer *trainer,
                                     const td__made *made, int64_t element);
/* A copy in the arena, as of snprintf; "" when memory is exhausted. */
const char *td__arena_text(td__arena *arena, const char *format, ...) TD_PRINTF(2, 3);

#endif
