/* A model as operators of ONNX, and what a layer says of itself for that.
 *
 * Parameters keep their names, layouts and bits; what an operator wants otherwise is an operator before
 * it (Transpose, Reshape), which runtimes fold. Numbers that are no parameters are never float tensors
 * of the file, so that a reader does not take them for parameters: they are scalars, or made by
 * operators.
 */
#ifndef TAPEDECK_NN_OPERATORS_H
#define TAPEDECK_NN_OPERATORS_H

#include "nn/layer.h"

/* An attribute of a node: which member counts follows from type. */
typedef struct td__attribute {
    const char *name;
    enum { TD__INT, TD__REAL, TD__STRING, TD__INTS, TD__REALS, TD__STRINGS, TD__TENSOR } type;
    int64_t integer;
    float number; /* of TENSOR: its only element */
    const char *text;
    const int64_t *integers;
    const float *numbers;
    const char *const *texts;
    size_t count;
} td__attribute;

/* The names of values are the list's, until it is released. Once something failed, NULL goes in and
 * comes out. */
typedef struct td__operators td__operators;

/* NULL when memory is exhausted; destroy accepts NULL. */
td__operators *td__operators_create(void);
void td__operators_destroy(td__operators *to);
/* What is made from here on has names that begin so; prefix is borrowed. Forgets the last refusal. */
void td__operators_begin(td__operators *to, const char *prefix);
/* Why something was refused; "" when nothing was. */
const char *td__operators_reason(const td__operators *to);
/* Whether memory, or the 2 GiB of a file, did not suffice. */
bool td__operators_exhausted(const td__operators *to);
/* A tensor of the file, of an element type of ONNX's, with raw data; returns called. */
const char *td__operators_tensor(td__operators *to, const char *called, int type, size_t rank,
                                 const int64_t *dims, const void *data, size_t size);
/* A copy that lives as long as the list. */
const char *td__operators_name(td__operators *to, const char *text);
/* An input or output of the graph, sizes below 0 open. */
void td__operators_value(td__operators *to, bool output, const char *called, int type,
                         const td_shape *shape);
/* The same value under another name. */
void td__operators_rename(td__operators *to, const char *from, const char *called);
void td__operators_note(td__operators *to, const char *key, const char *value);
/* The file, for td__free. */
TD_NODISCARD td_status td__operators_finish(td__operators *to, const char *called, uint8_t **bytes,
                                            size_t *size, td_error *error);

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
                                    double alpha);
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
/* Says why the layer cannot be had; returns NULL. */
const char *td__operator_refuse(td__operators *to, const char *format, ...) TD_PRINTF(2, 3);

/* The model's file, for td__free; TD_UNSUPPORTED names every layer that ONNX has not. */
TD_NODISCARD td_status td__operators_write(const td_model *model, size_t note_count,
                                           const td_model_note *notes, uint8_t **bytes,
                                           size_t *size, td_error *error);

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
