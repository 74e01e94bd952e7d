/* What follows of values from a graph alone, without running it: types, ranks, sizes of axes, and of
 * small tensors that say shapes the numbers in them.
 *
 * Each operator has a function for it in its row of the table; what that leaves open may be known from
 * the file. It says too which form a value is made in, so that layers of a model whose shapes were
 * inferred are like those of one that was run.
 */
#ifndef TAPEDECK_GRAPH_INFER_H
#define TAPEDECK_GRAPH_INFER_H

#include "graph/graph.h"
#include "graph/sizes.h"

enum { TD__GRAPH_MAX_NUMBERS = 2 * TD_MAX_RANK };

typedef struct td__graph_numbers {
    size_t count;
    td__graph_size all[TD__GRAPH_MAX_NUMBERS];
} td__graph_numbers;

/* What is known of a value. */
typedef struct td__graph_extent {
    bool known;          /* its rank, and so its dims */
    bool last;           /* it is made with the channels last; dims are as ONNX has them */
    td__graph_type type; /* UNDEFINED: not known */
    int32_t rank;
    td__graph_size dims[TD_MAX_RANK];
    td__graph_numbers *numbers; /* of rank 0 and 1, where they are known; owned */
} td__graph_extent;

struct td__graph_source;

/* One node. */
typedef struct td__graph_inference {
    const struct td__graph_source *source;
    const td__graph_node *node;
    int64_t opset;
    td__graph_sizes *sizes;
    td__graph_extent *extents; /* of each value */
    td__graph_extent unread;   /* an output that nobody reads */
    td__graph_size batch;      /* of the input's first axis */
    int64_t declared;          /* the same as the file has it; -1: any */
    bool trusting;             /* the file, of an output's first axis */
} td__graph_inference;

/* Sets what it can of the outputs; false: the inputs do not fit each other, whatever is open. */
typedef bool td__graph_infer_function(td__graph_inference *node);

/* Input i; NULL when it was left out or its rank is not known. */
const td__graph_extent *td__graph_extent_in(const td__graph_inference *node, size_t i);
/* Its type; UNDEFINED when it is not known. */
td__graph_type td__graph_type_in(const td__graph_inference *node, size_t i);
/* Output i, of that type and rank, its dims to be set; rank -1, or one that is too large: not known. */
td__graph_extent *td__graph_extent_out(td__graph_inference *node, size_t i, td__graph_type type,
                                       int64_t rank);
/* The numbers of an input that says shapes, axes, …; any sizes where only their count is known. False
 * when it is left out or not even that is. */
bool td__graph_numbers_in(td__graph_inference *node, size_t i, td__graph_numbers *numbers);
/* The same where all are numbers indeed. */
bool td__graph_constants_in(td__graph_inference *node, size_t i, int64_t *out, size_t room,
                            size_t *count);
/* The tensor of a value that is constant and no parameter; NULL: it is none. */
const td_tensor *td__graph_known_tensor(const td__graph_inference *node, int32_t value);
/* Gives an output of rank 0 or 1 its numbers; short of memory they stay unknown. */
void td__graph_put_numbers(td__graph_extent *out, const td__graph_numbers *numbers);
/* What two axes become together; false when they never fit. */
bool td__graph_broadcast_sizes(td__graph_inference *node, td__graph_size a, td__graph_size b,
                               td__graph_size *out);
/* dims of `out` from those of a and b, broadcast, in out's rank. */
bool td__graph_broadcast_dims(td__graph_inference *node, const td__graph_extent *a,
                              const td__graph_extent *b, td__graph_extent *out);

/* Infers the facts of a source whose open sizes are not known; *complete says whether that was enough
 * to make a model of it. trusting: a first axis that a graph leaves to be found is the batch, as is
 * that of an output that is open in the file. */
TD_NODISCARD td_status td__graph_infer(struct td__graph_source *source, bool trusting,
                                       bool *complete, td_error *error);

/* Families (infer_*.c). */
#define TD__GRAPH_INFER(X)                                                                         \
    X(same)   /* as input 0; other outputs are not known */                                        \
    X(passed) /* the same, numbers too */                                                          \
    X(images) /* as input 0, with the channels last */                                             \
    X(dropout)                                                                                     \
    X(arithmetic) /* broadcast, and of numbers what they make */                                   \
    X(broadcast)                                                                                   \
    X(compared) /* broadcast, bool */                                                              \
    X(boolean)  /* as input 0, bool */                                                             \
    X(cast)                                                                                        \
    X(where)                                                                                       \
    X(reduced)                                                                                     \
    X(softmax)                                                                                     \
    X(arg)                                                                                         \
    X(top_k)                                                                                       \
    X(conv)                                                                                        \
    X(qlinear_conv)                                                                                \
    X(conv_transpose)                                                                              \
    X(pool)                                                                                        \
    X(global_pool)                                                                                 \
    X(resize)                                                                                      \
    X(matmul)                                                                                      \
    X(qlinear_matmul)                                                                              \
    X(float_matmul)                                                                                \
    X(gemm)                                                                                        \
    X(recurrent)                                                                                   \
    X(quantized)                                                                                   \
    X(dequantized)                                                                                 \
    X(dynamic_quantized)                                                                           \
    X(shape)                                                                                       \
    X(size)                                                                                        \
    X(constant_of_shape)                                                                           \
    X(reshape)                                                                                     \
    X(flatten)                                                                                     \
    X(squeeze)                                                                                     \
    X(unsqueeze)                                                                                   \
    X(transpose)                                                                                   \
    X(depth_to_space)                                                                              \
    X(space_to_depth)                                                                              \
    X(concat)                                                                                      \
    X(expand)                                                                                      \
    X(pad)                                                                                         \
    X(slice)                                                                                       \
    X(split)                                                                                       \
    X(tile)                                                                                        \
    X(gather)                                                                                      \
    X(gather_elements)                                                                             \
    X(gather_nd)                                                                                   \
    X(one_hot)                                                                                     \
    X(range)                                                                                       \
    X(non_zero)
#define TD__GRAPH_INFER_FUNCTION(name) td__graph_infer_function td__graph_infer_##name;
TD__GRAPH_INFER(TD__GRAPH_INFER_FUNCTION)
#undef TD__GRAPH_INFER_FUNCTION

#endif
