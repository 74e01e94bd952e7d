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

#endif
