/* What recurrent operators share: weights of one direction in Keras's layout. */
#ifndef TAPEDECK_GRAPH_OPS_RECURRENT_H
#define TAPEDECK_GRAPH_OPS_RECURRENT_H

#include "graph/ops/common.h"

typedef enum td__graph_cell { TD__GRAPH_RNN, TD__GRAPH_GRU, TD__GRAPH_LSTM } td__graph_cell;

enum { TD__GRAPH_MAX_ACTIVATIONS = 3 };

/* One direction. Gates in Keras's order: lstm i, f, c, o; gru z, r, h. */
typedef struct td__graph_direction {
    td__graph_cell cell;
    int64_t batch, time, units, gates;
    bool reverse, reset_after, input_forget;
    float clip;                                         /* 0: none */
    const char *activations[TD__GRAPH_MAX_ACTIVATIONS]; /* of the gates, the input, the cell */
    float alphas[TD__GRAPH_MAX_ACTIVATIONS], betas[TD__GRAPH_MAX_ACTIVATIONS]; /* their numbers */
    td_tensor *x;                         /* (batch, time, in) */
    td_tensor *kernel, *recurrent, *bias; /* bias (gates * units) or NULL; of a gru
                                                            that resets after (2, gates * units) */
    td_tensor *peepholes;                 /* lstm: (3 * units), i, o, f; or NULL */
    td_tensor *state, *cell_state;        /* (batch, units); NULL: zeros */
    const int64_t *lengths;               /* of each example's sequence, or NULL */
} td__graph_direction;

typedef struct td__graph_sequence {
    td_tensor *all;          /* (batch, time, units), in the order of the input */
    td_tensor *state, *cell; /* (batch, units), after the last step */
} td__graph_sequence;

/* Step by step, from basic operations: whatever the tape's recurrent layers cannot do. */
bool td__graph_run_steps(td__graph_call *call, const td__graph_direction *direction,
                         td__graph_sequence *result);

#endif
