/* Fingerprints of every tensor that the operations of a step make, in the order of their execution, so that the
 * steps of two runs can be compared operation by operation. */
#ifndef TAPEDECK_REPLAY_TRACE_H
#define TAPEDECK_REPLAY_TRACE_H

#include "replay/operation.h"
#include "replay/player.h"

typedef struct td__trace_entry {
    uint64_t key; /* the same for the same tensor of the other run */
    uint64_t hash;
    td__made made;
} td__trace_entry;

/* The tensor of one step that is wanted whole, and what is known of it then. */
typedef struct td__capture {
    size_t entry;             /* of the step */
    const bool *node_matched; /* by node: the other run has the operation too */
    td_operation *operation;
    td_view view;  /* in the trace's arena */
    int64_t each;  /* elements of one example; 0: it has none */
    int64_t *rows; /* of the examples, in the data set */
    bool foreign;  /* it was made of what an operation made that the other run has not */
} td__capture;

/* One of two runs, while steps of it are executed. Zero at first. */
typedef struct td__trace {
    td__player player;
    td__tape_watch watch;
    int32_t *layer_ids;   /* by layer: the same number for the same layer of the other run */
    td__arena *arena;     /* borrowed */
    bool on;              /* steps are traced; without capture */
    td__capture *capture; /* NULL: none; then only that is looked for */

    td__trace_entry *entries;
    size_t count, capacity;
    size_t *ends; /* of each step's entries */
    size_t step_count, step_capacity;
    size_t node_count; /* of the last step */
    size_t seen;       /* entries of the step so far */
    bool no_memory;
} td__trace;

/* Connects the trace with its player, before that is started. */
void td__trace_connect(td__trace *trace);
void td__trace_clear(td__trace *trace);
void td__trace_release(td__trace *trace);
/* Entries of a step of the trace, by its number from 0. */
const td__trace_entry *td__trace_step(const td__trace *trace, size_t step, size_t *count);

#endif
