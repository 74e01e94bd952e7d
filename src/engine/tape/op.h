/* What an operation's file needs: how to check, allocate, record, and pass gradients back.
 *
 * An operation is a function that checks shapes (td__fail on a mistake), allocates its output
 * (td__output), runs its kernel, and records a node (td__record). Its backward function is called
 * when the gradient of the output is complete; for each input that wants one (td__wants) it writes
 * or adds to the gradient (td__gradient…).
 */
#ifndef TAPEDECK_TAPE_OP_H
#define TAPEDECK_TAPE_OP_H

#include "tapedeck/ops.h"
#include "tensor/tensor.h"

#include <stdatomic.h>

typedef struct td__node td__node;

/* Counted memory inside a recording. While shared (references > 1) it is never written. */
typedef struct td__buffer {
    float *data;
    size_t bytes;
    int32_t references;
    atomic_int
        views; /* that td_tape_view gave of a gradient here; their holders are of any thread */
    struct td__arena *arena; /* that all of it is part of */
} td__buffer;

typedef struct td__op {
    const char *name; /* as in messages: "conv2d" */
    td_status (*backward)(td_tape *tape,
                          td__node *node); /* TD_OK, TD_MEMORY, or another with the tape's error;
                                            * NULL: the output does not change with the inputs */
} td__op;

typedef struct td__edge {
    td_tensor *tensor; /* borrowed; may be NULL for an input that was left out (a bias) */
    int32_t slot;      /* -1 without a tensor, or for one that no gradient can reach (integers) */
} td__edge;

struct td__node {
    const td__op *op;
    td_tensor *output;
    td__edge *inputs;
    int32_t input_count;
    bool needed;       /* of the gradient under way: leads to a target */
    void *saved;       /* the operation's own, in the arena */
    const char *label; /* the layer that ran it, as td__label was given it; or NULL */
};

/* --- forward ------------------------------------------------------------------------------ */

/* Remembers the error (with the layer's name in front, when a layer is running) unless there is one
 * already; returns NULL. */
td_tensor *td__fail(td_tape *tape, td_status status, const char *format, ...) TD_PRINTF(3, 4);
td_tensor *td__fail_memory(td_tape *tape);
/* True when the tape has no error and tensor is not NULL, belongs to this recording or to the heap,
 * and is float32; otherwise remembers why not. role names it in the message: "kernel". */
bool td__check_float(td_tape *tape, const char *op, const char *role, const td_tensor *tensor);
/* The same for any element type. */
bool td__check_usable(td_tape *tape, const char *op, const char *role, const td_tensor *tensor);

/* A tensor of this tape, values not set; NULL (and the tape's error) on failure. */
td_tensor *td__output(td_tape *tape, td_dtype dtype, const td_shape *shape);
/* A tensor of this tape over memory that lives as long as the recording (a view). */
td_tensor *td__output_over(td_tape *tape, td_dtype dtype, const td_shape *shape, void *data);
/* On a tape that runs layers together (tape.h): the tensor is not read any more, others may have its
 * memory. Of any other tape, or of memory that is not its own, nothing happens. */
void td__recycle(td_tape *tape, td_tensor *tensor);
/* Two tensors over the same memory: it is given back when both are recycled. */
void td__share_memory(td_tensor *from, td_tensor *view);
/* Memory that lives until the tape is reset; NULL (and the tape's error) on failure. */
void *td__scratch(td_tape *tape, size_t bytes);
/* Memory for the duration of one kernel, values not set: give it back with td__buffer_drop. NULL
 * (and the tape's error) on failure. */
td__buffer *td__temporary(td_tape *tape, size_t bytes);
void td__buffer_drop(td_tape *tape, td__buffer *buffer);
/* True when a backward pass may come: only then is it worth saving anything. */
bool td__is_recording(const td_tape *tape);

/* Remembers that op made output from inputs. Returns output, or NULL when memory is exhausted.
 * saved comes from td__scratch. inputs may hold NULLs. */
td_tensor *td__record(td_tape *tape, const td__op *op, td_tensor *output, int32_t input_count,
                      td_tensor *const inputs[], void *saved);

/* A key for td__philox that differs for every random operation of a recording. */
uint64_t td__random_key(td_tape *tape);

/* Prefix of messages while a layer runs, e.g. "layer 'conv1'"; NULL ends it. Borrowed. */
void td__label(td_tape *tape, const char *label);

/* td_attention with heads beside each other in a step, as a projection leaves them: q (…, t, heads, d),
 * k (…, s, heads, d), v (…, s, heads, e). The mask is one of scores (…, heads, t, s). */
td_tensor *td__attention_beside(td_tape *tape, td_tensor *q, td_tensor *k, td_tensor *v,
                                const td_attention_options *options);

/* y = erf(x): what others make GELU of. */
td_tensor *td__erf(td_tape *tape, td_tensor *x);
/* y = x where it is positive, else slope x, with broadcasting. */
td_tensor *td__prelu(td_tape *tape, td_tensor *x, td_tensor *slope);
/* y = (x - mean) / sqrt(variance + epsilon) gamma + beta over each example's groups of channels (the last
 * axis); groups divides them. gamma and beta, one for each channel, may be NULL. */
td_tensor *td__group_normalization(td_tape *tape, td_tensor *x, int64_t groups, td_tensor *gamma,
                                   td_tensor *beta, float epsilon);

/* --- backward ----------------------------------------------------------------------------- */

/* Whether the gradient of input i is needed. */
bool td__wants(const td_tape *tape, const td__node *node, int32_t i);
/* The gradient of the node's output, complete. */
const float *td__output_gradient(const td_tape *tape, const td__node *node);

/* Where the gradient of input i goes. *add says whether to add to what is there or to overwrite
 * (the memory is not set). NULL when memory is exhausted. */
float *td__gradient(td_tape *tape, td__node *node, int32_t i, bool *add);
/* The same, to be added to in any case: zero where nothing is there. */
float *td__gradient_to_add(td_tape *tape, td__node *node, int32_t i);
/* The same for kernels that write element k of the input's gradient from elements k of the output's
 * gradient only (shapes equal): may return the output gradient's own memory, to be overwritten. */
float *td__gradient_in_place(td_tape *tape, td__node *node, int32_t i, bool *add);
/* For kernels that can only overwrite: memory for a contribution to the gradient of input i, which
 * _end takes over or adds. Pairs do not nest. */
float *td__gradient_begin(td_tape *tape, td__node *node, int32_t i);
void td__gradient_end(td_tape *tape, td__node *node, int32_t i);
/* The gradient of input i is the output's gradient, element for element (same count): no copy where
 * it can be shared. */
td_status td__gradient_pass(td_tape *tape, td__node *node, int32_t i);

#endif
