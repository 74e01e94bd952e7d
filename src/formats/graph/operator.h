/* What an operator's function needs, and the tables of operators.
 *
 * An operator is a function that reads the values of its inputs and sets those of its outputs. In
 * float32 it calls the tape's operations, so that gradients flow; in other types, and where ONNX
 * defines no gradient (comparisons, indices, shapes), it computes at once into a tensor of the tape.
 */
#ifndef TAPEDECK_GRAPH_OPERATOR_H
#define TAPEDECK_GRAPH_OPERATOR_H

#include "graph/infer.h"
#include "graph/plan.h"
#include "tape/linear.h"

/* A value while the graph runs, in several forms; each is made from another when somebody asks
 * for it, and kept. The form it was made in is on every path to its users, so that gradients of it
 * are complete. In types other than float there is only the plain one. */
typedef struct td__graph_list td__graph_list;

typedef struct td__graph_value {
    td__graph_type type;
    td_tensor *plain;         /* as ONNX has it */
    td_tensor *channels_last; /* images and sequences (rank 3 and up): (n, c, …) as (n, …, c) */
    td_tensor *kernel;        /* weights: (out, in, …) as (…, in, out), Keras's layout */
    td_tensor *gates; /* of a recurrent layer's weights: Keras's layout, and no other form */
    td_tensor *real;  /* of what was quantised: the floats before, where gradients go on */
    const td__graph_list *list; /* instead: a sequence */
    bool none;                  /* instead: an optional value that is not there */
} td__graph_value;

/* A sequence; never changed once it is made. */
struct td__graph_list {
    int64_t count;
    td__graph_value items[];
};

typedef struct td__graph_run td__graph_run;

/* One call of an operator. */
typedef struct td__graph_call {
    td__graph_run *run;
    td_tape *tape;
    const td__graph_node *node;
    int64_t opset;
    const td__graph_step *step;     /* what else is to be done with it; NULL: nothing */
    bool biased, summed, activated; /* what of that the operator has done itself */
} td__graph_call;

/* Success, or false with the tape's error set (by td__graph_fail or an operation). */
typedef bool td__graph_function(td__graph_call *call);

typedef struct td__graph_operator {
    const char *name;
    td__graph_function *function;
    uint8_t min_inputs, max_inputs; /* 255: any number */
    uint8_t max_outputs;
    uint8_t since, until;            /* opsets it is written for; 0: 1 and no end */
    td__graph_infer_function *infer; /* what follows of its outputs; NULL: nothing */
} td__graph_operator;

/* How many inputs the node has, without what its graphs capture. */
static inline size_t td__graph_input_count(const td__graph_call *call) {
    return call->node->input_count - call->node->capture_count;
}
/* Input number i: NULL when it was left out. */
td__graph_value *td__graph_input(td__graph_call *call, size_t i);
/* Its tensor in ONNX's layout; NULL when it was left out, or (tape's error) when memory is short. */
td_tensor *td__graph_plain(td__graph_call *call, size_t i);
/* A value of its own, in ONNX's layout; NULL when it is no tensor. */
td_tensor *td__graph_value_plain(td__graph_call *call, td__graph_value *value);
/* With the channels last; of float values of rank 3 and up. */
td_tensor *td__graph_channels_last(td__graph_call *call, size_t i);
/* As a kernel; of float values of rank 2 and up. */
td_tensor *td__graph_kernel(td__graph_call *call, size_t i);
/* Its shape in ONNX's layout, whatever form it is in: makes none. Not of one left out. */
td_shape td__graph_shape(td__graph_call *call, size_t i);
/* Whether it is there and its values are kept as float32. */
bool td__graph_is_float(td__graph_call *call, size_t i);
/* Whether it is there with the channels last and not as ONNX has it. */
bool td__graph_is_last(td__graph_call *call, size_t i);
/* The integers of an input that says shapes, axes, …; false and the tape's error when it has another
 * type or more than room. A missing input gives *count = 0. */
bool td__graph_input_ints(td__graph_call *call, size_t i, int64_t *out, size_t room, size_t *count);
/* Whether the graph is a trainable model's: then the tape says whether it is training, not the
 * graph. */
bool td__graph_is_model(const td__graph_call *call);
/* Whether only shapes and types are asked for: then products may leave out the work and give zeros. */
bool td__graph_is_probing(const td__graph_call *call);
/* Such zeros, which take no memory and cannot be written. */
td_tensor *td__graph_zeros(td__graph_call *call, td_shape shape);
/* A batch as the file says it, in a constant, is the one that is given: for graphs that were
 * exported with a fixed one. Other sizes stay. */
int64_t td__graph_batch_for(const td__graph_call *call, int64_t size);
/* What output i was set to; NULL when nobody reads it. */
td__graph_value *td__graph_made(td__graph_call *call, size_t i);
/* Whether output i is there and anybody reads it. */
bool td__graph_wants(const td__graph_call *call, size_t i);
/* Sets output i; tensor NULL means failure: returns false. */
bool td__graph_output(td__graph_call *call, size_t i, td__graph_type type, td_tensor *tensor);
/* The same of a result that changes with the inputs in a way whose gradient is not known: who asks for one
 * that goes through it gets an error. The operator has read its inputs in their plain form. */
bool td__graph_output_opaque(td__graph_call *call, size_t i, td__graph_type type,
                             td_tensor *tensor);
bool td__graph_output_last(td__graph_call *call, size_t i, td__graph_type type, td_tensor *tensor);
/* Sets output i to a value of any kind, in all its forms. */
bool td__graph_output_value(td__graph_call *call, size_t i, td__graph_value value);
/* Output i is input j, in all its forms. */
bool td__graph_pass(td__graph_call *call, size_t i, size_t j);
/* "Conv: …" into the tape's error, after the name of the node or layer; returns false. */
bool td__graph_fail(td__graph_call *call, td_status status, const char *format, ...)
    TD_PRINTF(3, 4);

/* --- nodes that run as one (together.c) ---------------------------------------------------- */

/* How a product of this shape, with the channels last or not, is to end. It says in the call what that
 * covers; what is left td__graph_output does. */
td__ending td__graph_ending(td__graph_call *call, const td_shape *shape, bool last);
/* The bias that the step adds to a product of `columns` columns; NULL: none. */
td_tensor *td__graph_step_bias(td__graph_call *call, int64_t columns);
/* Does what of the step is left to do; false on failure. */
bool td__graph_end_step(td__graph_call *call, td__graph_value *value);
/* After a node: memory that outputs share with inputs is held by both, and values that are read for the
 * last time released theirs. */
void td__graph_release_inputs(td__graph_call *call, const td__graph_plan *plan,
                              const td__graph_step *step);

/* --- graphs inside a node ----------------------------------------------------------------- */

/* The graph in an attribute; NULL (and the tape's error) when there is none, or it does not have so
 * many inputs or fewer than so many outputs. */
const td__graph *td__graph_inner(td__graph_call *call, const char *attribute, size_t inputs,
                                 size_t outputs);
/* Runs it once on these inputs and gives its outputs. */
bool td__graph_run_inner(td__graph_call *call, const char *attribute, const td__graph_value *inputs,
                         td__graph_value *outputs);

/* Families of operators: one table in ops/ each, ending in a row without a name. */
#define TD__GRAPH_FAMILIES(X)                                                                      \
    X(arithmetic)                                                                                  \
    X(attentions)                                                                                  \
    X(comparisons)                                                                                 \
    X(control)                                                                                     \
    X(einsums)                                                                                     \
    X(functions)                                                                                   \
    X(generators)                                                                                  \
    X(images)                                                                                      \
    X(indexing)                                                                                    \
    X(layers)                                                                                      \
    X(normalizations)                                                                              \
    X(normalization_forms)                                                                         \
    X(numeric)                                                                                     \
    X(orders)                                                                                      \
    X(pools)                                                                                       \
    X(quantized)                                                                                   \
    X(random)                                                                                      \
    X(recurrent)                                                                                   \
    X(reductions)                                                                                  \
    X(resizes)                                                                                     \
    X(rotations)                                                                                   \
    X(samplers)                                                                                    \
    X(sequences)                                                                                   \
    X(shapes)                                                                                      \
    X(slices)                                                                                      \
    X(vision)
#define TD__GRAPH_FAMILY(name) extern const td__graph_operator td__graph_##name[];
TD__GRAPH_FAMILIES(TD__GRAPH_FAMILY)
#undef TD__GRAPH_FAMILY
/* A table of operators and their domain; "" is ONNX's own. */
typedef struct td__graph_family {
    const char *domain;
    const td__graph_operator *operators;
} td__graph_family;

/* NULL when there is none for that opset. What the library does not have is looked for in the plugin
 * (plugin.h), which is loaded by that. */
const td__graph_operator *td__graph_find_operator(const char *domain, const char *name,
                                                  int64_t opset);
/* Whether an operator takes text, or values that are no tensors. Others never see such. */
bool td__graph_takes_text(const td__graph_node *node);
bool td__graph_takes_lists(const td__graph_node *node);
/* Whether it, or a node of its graphs, draws random numbers. */
bool td__graph_is_random(const td__graph_node *node);

#endif
