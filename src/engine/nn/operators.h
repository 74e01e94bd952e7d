/* A network as a list of operators, and what a layer says of itself for that. The list is in memory: who reads
 * it (src/formats/graph) makes a graph of it, which a codec may write.
 *
 * Operators have the names, inputs and attributes of ONNX's operator set. Parameters keep their names, layouts
 * and bits; what an operator wants otherwise is an operator before it (Transpose, Reshape), which runtimes fold.
 * Numbers that are no parameters are never float tensors of the list, so that a reader does not take them for
 * parameters: they are scalars, or made by operators.
 */
#ifndef TAPEDECK_NN_OPERATORS_H
#define TAPEDECK_NN_OPERATORS_H

#include "base/chunks.h"
#include "nn/layer.h"

/* An attribute of a node: which member counts follows from type. */
typedef struct td__attribute {
    const char *name;
    enum {
        TD__INT,
        TD__REAL,
        TD__STRING,
        TD__INTS,
        TD__REALS,
        TD__STRINGS,
        TD__TENSOR,
        TD__DTYPE
    } type;
    int64_t integer;
    float number;   /* of TENSOR: its only element */
    td_dtype dtype; /* of DTYPE: an element type */
    const char *text;
    const int64_t *integers;
    const float *numbers;
    const char *const *texts;
    size_t count;
} td__attribute;

/* An attribute by its name and value. */
#define TD__NAMED_INT(key, value)                                                                  \
    (td__attribute) {                                                                              \
        .name = (key), .type = TD__INT, .integer = (value)                                         \
    }
#define TD__NAMED_INTS(key, values, n)                                                             \
    (td__attribute) {                                                                              \
        .name = (key), .type = TD__INTS, .integers = (values), .count = (n)                        \
    }
#define TD__NAMED_REAL(key, value)                                                                 \
    (td__attribute) {                                                                              \
        .name = (key), .type = TD__REAL, .number = (float)(value)                                  \
    }
#define TD__NAMED_TEXT(key, value)                                                                 \
    (td__attribute) {                                                                              \
        .name = (key), .type = TD__STRING, .text = (value)                                         \
    }

/* Everything below belongs to the list. */
typedef struct td__operator_node {
    const char *type;
    const char *const *inputs, *const
                                   *outputs; /* names of values; "" is an input that is left out */
    size_t input_count, output_count;
    const td__attribute *attributes;
    size_t attribute_count;
} td__operator_node;

typedef struct td__operator_constant {
    const char *name;
    td_dtype dtype;    /* what its elements are */
    td_tensor *tensor; /* they, as float32 or int64 */
} td__operator_constant;

/* An input or output of the network; sizes below 0 are open. */
typedef struct td__operator_port {
    const char *name;
    bool output;
    td_dtype dtype;
    td_shape shape;
} td__operator_port;

/* Names that are given are copied; names that are returned are the list's, until it is destroyed. Once something
 * failed, NULL goes in and comes out. */
typedef struct td__operators {
    td__operator_node *nodes;
    td__operator_constant *constants;
    td__operator_port *ports;
    size_t node_count, constant_count, port_count;
    size_t node_capacity, constant_capacity, port_capacity;
    td__chunks memory;  /* names, attributes and lists */
    const char *prefix; /* of the names of what is made */
    size_t made;        /* nodes and constants so far */
    bool exhausted;
    char reason[160];
} td__operators;

/* NULL when memory is exhausted; destroy accepts NULL. */
td__operators *td__operators_create(void);
void td__operators_destroy(td__operators *to);
/* What is made from here on has names that begin so; prefix is borrowed. Forgets the last refusal. */
void td__operators_begin(td__operators *to, const char *prefix);
/* Why something was refused; "" when nothing was. */
const char *td__operators_reason(const td__operators *to);
/* Whether memory did not suffice. */
bool td__operators_exhausted(const td__operators *to);
/* A constant of that element type, as float32 or int64; returns its name. Takes the tensor, also on failure;
 * NULL: memory did not suffice for it. */
const char *td__operators_tensor(td__operators *to, const char *called, td_dtype dtype,
                                 td_tensor *tensor);
/* A copy that lives as long as the list. */
const char *td__operators_name(td__operators *to, const char *text);
/* An input or output of the network, sizes below 0 open. */
void td__operators_port(td__operators *to, bool output, const char *called, td_dtype dtype,
                        const td_shape *shape);
/* The same value under another name. */
void td__operators_rename(td__operators *to, const char *from, const char *called);

/* A node with one output, whose name is returned. "" stands for an input that is left out. */
const char *td__operator(td__operators *to, const char *type, size_t input_count,
                         const char *const *inputs, size_t attribute_count,
                         const td__attribute *attributes);
/* A node without attributes. */
#define TD__OPERATOR(to, type, ...)                                                                \
    td__operator(to, type, sizeof((const char *[]){__VA_ARGS__}) / sizeof(const char *),           \
                 (const char *const[]){__VA_ARGS__}, 0, NULL)
/* A node of several outputs; the names are put at outputs. */
void td__operator_outputs(td__operators *to, const char *type, size_t input_count,
                          const char *const *inputs, size_t attribute_count,
                          const td__attribute *attributes, size_t output_count,
                          const char **outputs);
/* A parameter of the layer, as it is; NULL when the layer has none there. */
const char *td__operator_parameter(td__operators *to, const td__layer *layer, int slot);
/* int64 numbers; one float; float numbers that are all the same, as a vector. */
const char *td__operator_integers(td__operators *to, size_t count, const int64_t *values);
const char *td__operator_number(td__operators *to, double value);
const char *td__operator_filled(td__operators *to, int64_t count, float value);
const char *td__operator_transpose(td__operators *to, const char *x, size_t rank,
                                   const int64_t *order);
const char *td__operator_reshape(td__operators *to, const char *x, size_t rank,
                                 const int64_t *shape);
/* x (batch, …spatial, channels) with the channels behind the batch, and back. */
const char *td__operator_channels_first(td__operators *to, const char *x, int spatial);
const char *td__operator_channels_last(td__operators *to, const char *x, int spatial);
const char *td__operator_activation(td__operators *to, const char *x, td_activation activation,
                                    td_number alpha);
/* A window that moves over the spatial axes of an image, as attributes of Conv, MaxPool, …. */
typedef struct td__window {
    int spatial;
    int64_t kernel[3], stride[3], dilation[3];
    td_padding padding;
    int64_t pads[6];             /* filled in */
    td__attribute attributes[6]; /* filled in */
} td__window;
/* Fills in the attributes, for an input of one example with this shape; returns how many. */
size_t td__operator_window(td__window *window, const td_shape *input);
/* x convolved by the layer's kernel (slot 0; …spatial, then the two axes of channels) plus its bias
 * (slot 1), channels first in between: Conv or ConvTranspose with the first `used` attributes. */
const char *td__operator_convolve(td__operators *to, const char *type, const td__layer *layer,
                                  const char *x, td__window *window, size_t used, int64_t groups);
/* Scores (…, steps, steps) of that rank, minus infinity for positions after a row's own. */
const char *td__operator_causal(td__operators *to, const char *scores, int64_t rank);
/* Remembers why the layer has no operators; returns NULL. */
const char *td__operator_refuse(td__operators *to, const char *format, ...) TD_PRINTF(2, 3);

/* All layers of a model; the caller destroys the list. NULL on failure; TD_UNSUPPORTED names every layer that has
 * no operators. The constants are the model's own memory. */
td__operators *td__operators_of_model(const td_model *model, td_error *error);

/* --- windows (layers/window.c) ------------------------------------------------------------- */

/* Over `spatial` axes; dilation NULL: 1 along all. */
td__window td__window_of(int spatial, const int64_t *kernel, const int64_t *stride,
                         const int64_t *dilation, td_padding padding);
/* The sizes of the output, with as many channels as the input; what: "window of". */
td_status td__window_plan(td__layer *layer, const td_shape *input, const td__window *window,
                          const char *what, td_error *error);
/* TD_BAD_SHAPE unless an example has this number of axes and channels. */
td_status td__layer_need_map(const td__layer *layer, const td_shape *input, int spatial,
                             td_error *error);
/* TD_BAD_SHAPE unless groups divide both. */
td_status td__layer_need_groups(const td__layer *layer, int64_t groups, int64_t in, int64_t filters,
                                td_error *error);

#endif
