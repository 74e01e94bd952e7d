/* The tape's insides, shared by tape.c (recording) and gradient.c (the backward walk).
 *
 * Every tensor the tape knows has a slot: those its operations made, and the heap tensors given to
 * them (leaves), which are found through a hash table because they may be on several tapes.
 * Invariants: nodes are in execution order, so an input's producer always precedes its user;
 * slots[node.output->slot].producer is that node; a leaf has producer -1.
 */
#ifndef TAPEDECK_TAPE_TAPE_H
#define TAPEDECK_TAPE_TAPE_H

#include "base/arena.h"
#include "tape/op.h"
#include "tape/prepared.h"

typedef struct td__slot {
    td_tensor *tensor;
    int32_t producer;   /* node, or -1 for a leaf */
    int32_t first_user; /* first node that reads it: when the walk has passed that one, the gradient
                           is complete; -1 until used */
    /* Of the gradient under way. */
    bool needed;          /* a target depends on it, or it is one */
    bool is_target;       /* its gradient is kept */
    bool is_target_twice; /* … and wanted under several numbers */
    bool awaits_notice;   /* … until `ready` has been called with it */
    size_t target;        /* the lowest of them */
    td__buffer *gradient; /* sum of the contributions so far; NULL: none yet */
    td__buffer *pending;  /* a contribution between td__gradient_begin and _end */
    td_tensor *result;    /* what the caller gets, once complete */
} td__slot;

typedef struct td__leaf {
    const td_tensor *tensor;
    uint64_t recording; /* of another recording: the entry is free */
    int32_t slot;
} td__leaf;

/* Sees the operations of each recording that a gradient is taken of. */
typedef struct td__tape_watch {
    /* Before the walk: every node has its output, and parameters are what they were. */
    void (*forward)(void *user, const td_tape *tape);
    /* The node has added to the gradients of its inputs (td__gradient_of). */
    void (*backward)(void *user, const td_tape *tape, int32_t node);
    void *user;
} td__tape_watch;

/* Where the batch is cut into parts, each on a tape of its own: adds values up over all parts. */
typedef struct td__tape_sync {
    td_status (*add)(void *user, double *values, size_t count);
    void *user;
} td__tape_sync;

struct td_tape {
    td__arena *arena;   /* of this recording */
    td__arena **arenas; /* all, the current one included */
    size_t arena_count, arena_capacity;
    size_t spare_bytes; /* how much memory views may keep alive before td_tape_view stops sharing */
    uint64_t recording; /* serial number, unique in the process */

    td__node *nodes;
    size_t node_count, node_capacity;
    td__slot *slots;
    size_t slot_count, slot_capacity;
    td__leaf *leaves; /* open addressing, a power of two */
    size_t leaf_count, leaf_capacity;
    td__buffer **free_buffers; /* memory of this recording that nobody uses any more */
    size_t free_count, free_capacity;

    td_error error;    /* the first since the last reset */
    const char *label; /* the layer that is running, or NULL */
    uint64_t seed, step, random_count;
    td__prepared_table prepared;
    const td__tape_watch *watch; /* borrowed; NULL: nobody */
    const td__tape_sync *sync;   /* borrowed; NULL: the batch is whole */
    bool no_history;
    bool inference; /* what td_tape_options promises of it */
    /* While a model runs of which only the outputs are asked for: memory goes round. */
    bool together;
    bool training;
    bool keeps_entropy; /* attention keeps the entropy of its rows, which views read */
};

/* The tape's present memory does not grow beyond this: what needs more fails with TD_MEMORY. */
void td__tape_limit(td_tape *tape, size_t bytes);
/* During the walk: the gradient of a node's input so far; NULL where it has none. */
const float *td__gradient_of(const td_tape *tape, const td__node *node, int32_t input);
/* The slot of a tensor this tape knows, or -1. */
int32_t td__slot_of(const td_tape *tape, const td_tensor *tensor);
/* A buffer with one reference, values not set; NULL when memory is exhausted. */
td__buffer *td__buffer_take(td_tape *tape, size_t bytes);

#endif
