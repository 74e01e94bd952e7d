/* Models made of named layers: building one, running it, and what it consists of.
 *
 * A model belongs to one thread at a time, and must outlive the recordings it ran on: tensors of a
 * forward pass borrow their names from it. */
#ifndef TAPEDECK_NETWORK_H
#define TAPEDECK_NETWORK_H

#include "tapedeck/layers.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- building a model --------------------------------------------------------------------- */

typedef struct td_model td_model;

/* input: the shape of one example, without the batch; a dimension of -1 fits any size. A model of
 * several inputs begins with td_add_input instead, whatever input is here. NULL when memory is
 * exhausted, which the functions below accept. */
TD_API td_model *td_model_create(const char *name, td_shape input);
/* Accepts NULL. */
TD_API void td_model_destroy(td_model *model);

/* Adds a layer; options is the td_…_layer of that kind. The first error sticks: nothing is added
 * after it, and td_model_build reports it. */
TD_API void td_model_add_layer(td_model *model, td_layer_kind kind, const void *options);

/* The empty last argument is for layers without options. */
#define TD_ADD_LAYER(word, ...) TD_ADD_LAYER_TO(word, __VA_ARGS__, )
#define TD_ADD_LAYER_TO(word, model, ...)                                                          \
    td_model_add_layer((model), (td_layer_kind)td__##word##_layer_kind,                            \
                       TD_OPTIONS(td_##word##_layer, __VA_ARGS__))

/* td_add_dense(model, .name = "hidden", .units = 128, .activation = TD_RELU) */
#define td_add_dense(...) TD_ADD_LAYER(dense, __VA_ARGS__)
#define td_add_conv1d(...) TD_ADD_LAYER(conv1d, __VA_ARGS__)
#define td_add_conv2d(...) TD_ADD_LAYER(conv2d, __VA_ARGS__)
#define td_add_conv2d_transpose(...) TD_ADD_LAYER(conv2d_transpose, __VA_ARGS__)
#define td_add_max_pool2d(...) TD_ADD_LAYER(max_pool2d, __VA_ARGS__)
#define td_add_average_pool2d(...) TD_ADD_LAYER(average_pool2d, __VA_ARGS__)
#define td_add_max_pool1d(...) TD_ADD_LAYER(max_pool1d, __VA_ARGS__)
#define td_add_average_pool1d(...) TD_ADD_LAYER(average_pool1d, __VA_ARGS__)
#define td_add_global_average_pool1d(...) TD_ADD_LAYER(global_average_pool1d, __VA_ARGS__)
#define td_add_global_max_pool1d(...) TD_ADD_LAYER(global_max_pool1d, __VA_ARGS__)
#define td_add_zero_padding2d(...) TD_ADD_LAYER(zero_padding2d, __VA_ARGS__)
#define td_add_rescaling(...) TD_ADD_LAYER(rescaling, __VA_ARGS__)
#define td_add_global_average_pool2d(...) TD_ADD_LAYER(global_average_pool2d, __VA_ARGS__)
#define td_add_global_max_pool2d(...) TD_ADD_LAYER(global_max_pool2d, __VA_ARGS__)
#define td_add_up_sampling2d(...) TD_ADD_LAYER(up_sampling2d, __VA_ARGS__)
#define td_add_flatten(...) TD_ADD_LAYER(flatten, __VA_ARGS__)
#define td_add_reshape(...) TD_ADD_LAYER(reshape, __VA_ARGS__)
#define td_add_dropout(...) TD_ADD_LAYER(dropout, __VA_ARGS__)
#define td_add_batch_normalization(...) TD_ADD_LAYER(batch_normalization, __VA_ARGS__)
#define td_add_layer_normalization(...) TD_ADD_LAYER(layer_normalization, __VA_ARGS__)
#define td_add_embedding(...) TD_ADD_LAYER(embedding, __VA_ARGS__)
#define td_add_simple_rnn(...) TD_ADD_LAYER(simple_rnn, __VA_ARGS__)
#define td_add_lstm(...) TD_ADD_LAYER(lstm, __VA_ARGS__)
#define td_add_gru(...) TD_ADD_LAYER(gru, __VA_ARGS__)
#define td_add_activation(...) TD_ADD_LAYER(activation, __VA_ARGS__)
#define td_add_add(...) TD_ADD_LAYER(add, __VA_ARGS__)
#define td_add_multiply(...) TD_ADD_LAYER(multiply, __VA_ARGS__)
#define td_add_concatenate(...) TD_ADD_LAYER(concatenate, __VA_ARGS__)
#define td_add_subtract(...) TD_ADD_LAYER(subtract, __VA_ARGS__)
#define td_add_average(...) TD_ADD_LAYER(average, __VA_ARGS__)
#define td_add_maximum(...) TD_ADD_LAYER(maximum, __VA_ARGS__)
#define td_add_minimum(...) TD_ADD_LAYER(minimum, __VA_ARGS__)
#define td_add_dot(...) TD_ADD_LAYER(dot, __VA_ARGS__)
#define td_add_gaussian_noise(...) TD_ADD_LAYER(gaussian_noise, __VA_ARGS__)
#define td_add_depthwise_conv2d(...) TD_ADD_LAYER(depthwise_conv2d, __VA_ARGS__)
#define td_add_separable_conv2d(...) TD_ADD_LAYER(separable_conv2d, __VA_ARGS__)
#define td_add_group_normalization(...) TD_ADD_LAYER(group_normalization, __VA_ARGS__)
#define td_add_zero_padding1d(...) TD_ADD_LAYER(zero_padding1d, __VA_ARGS__)
#define td_add_cropping1d(...) TD_ADD_LAYER(cropping1d, __VA_ARGS__)
#define td_add_cropping2d(...) TD_ADD_LAYER(cropping2d, __VA_ARGS__)
#define td_add_input(...) TD_ADD_LAYER(input, __VA_ARGS__)
#define td_add_masking(...) TD_ADD_LAYER(masking, __VA_ARGS__)
#define td_add_bidirectional(...) TD_ADD_LAYER(bidirectional, __VA_ARGS__)
#define td_add_time_distributed(...) TD_ADD_LAYER(time_distributed, __VA_ARGS__)
#define td_add_normalization(...) TD_ADD_LAYER(normalization, __VA_ARGS__)
#define td_add_conv3d(...) TD_ADD_LAYER(conv3d, __VA_ARGS__)
#define td_add_max_pool3d(...) TD_ADD_LAYER(max_pool3d, __VA_ARGS__)
#define td_add_average_pool3d(...) TD_ADD_LAYER(average_pool3d, __VA_ARGS__)
#define td_add_global_average_pool3d(...) TD_ADD_LAYER(global_average_pool3d, __VA_ARGS__)
#define td_add_global_max_pool3d(...) TD_ADD_LAYER(global_max_pool3d, __VA_ARGS__)
#define td_add_zero_padding3d(...) TD_ADD_LAYER(zero_padding3d, __VA_ARGS__)
#define td_add_cropping3d(...) TD_ADD_LAYER(cropping3d, __VA_ARGS__)
#define td_add_up_sampling3d(...) TD_ADD_LAYER(up_sampling3d, __VA_ARGS__)
#define td_add_conv1d_transpose(...) TD_ADD_LAYER(conv1d_transpose, __VA_ARGS__)
#define td_add_conv3d_transpose(...) TD_ADD_LAYER(conv3d_transpose, __VA_ARGS__)
#define td_add_depthwise_conv1d(...) TD_ADD_LAYER(depthwise_conv1d, __VA_ARGS__)
#define td_add_separable_conv1d(...) TD_ADD_LAYER(separable_conv1d, __VA_ARGS__)
#define td_add_up_sampling1d(...) TD_ADD_LAYER(up_sampling1d, __VA_ARGS__)
#define td_add_repeat_vector(...) TD_ADD_LAYER(repeat_vector, __VA_ARGS__)
#define td_add_permute(...) TD_ADD_LAYER(permute, __VA_ARGS__)
#define td_add_spatial_dropout1d(...) TD_ADD_LAYER(spatial_dropout1d, __VA_ARGS__)
#define td_add_spatial_dropout2d(...) TD_ADD_LAYER(spatial_dropout2d, __VA_ARGS__)
#define td_add_spatial_dropout3d(...) TD_ADD_LAYER(spatial_dropout3d, __VA_ARGS__)
#define td_add_gaussian_dropout(...) TD_ADD_LAYER(gaussian_dropout, __VA_ARGS__)
#define td_add_alpha_dropout(...) TD_ADD_LAYER(alpha_dropout, __VA_ARGS__)
#define td_add_relu(...) TD_ADD_LAYER(relu, __VA_ARGS__)
#define td_add_prelu(...) TD_ADD_LAYER(prelu, __VA_ARGS__)
#define td_add_identity(...) TD_ADD_LAYER(identity, __VA_ARGS__)
#define td_add_unit_normalization(...) TD_ADD_LAYER(unit_normalization, __VA_ARGS__)
#define td_add_rms_normalization(...) TD_ADD_LAYER(rms_normalization, __VA_ARGS__)
#define td_add_attention(...) TD_ADD_LAYER(attention, __VA_ARGS__)
#define td_add_additive_attention(...) TD_ADD_LAYER(additive_attention, __VA_ARGS__)
#define td_add_multi_head_attention(...) TD_ADD_LAYER(multi_head_attention, __VA_ARGS__)

/* td_add_custom(model, .output = TD_SHAPE(10), .forward = my_layer) */
#define td_add_custom(...) TD_ADD_LAYER(custom, __VA_ARGS__)

/* Adds a layer from keys and values, as experiment files and saved models have them: "conv2d",
 * {name: conv1, filters: 32, kernel: 3}. Keys are the options' names; Keras's (kernel_size,
 * strides, pool_size, …) are understood too. An error leaves the model as it was: TD_NOT_FOUND for
 * a kind or key that does not exist (with the nearest that does), TD_INVALID for a value of the
 * wrong type. */
TD_API TD_NODISCARD td_status td_model_add(td_model *model, const char *kind,
                                           const td_setting *settings, size_t count,
                                           td_error *error);

/* Which layers are the model's outputs, in order; without it, the last layer is. TD_NOT_FOUND for a
 * name that no layer has. */
TD_API TD_NODISCARD td_status td_model_set_outputs(td_model *model, size_t count,
                                                   const char *const layers[], td_error *error);

/* Makes and initialises the parameters, or reports the first error of the additions. A parameter's
 * values depend on seed, its name and its shape alone. Layers cannot be added afterwards. */
TD_API TD_NODISCARD td_status td_model_build(td_model *model, uint64_t seed, td_error *error);

/* --- running it --------------------------------------------------------------------------- */

/* Runs the layers in order over input (batch, …), or with several inputs (batch, elements of all);
 * returns the first output. Errors are the tape's: NULL, with the layer's name in the message.
 * Whether it is training, the tape says. */
TD_API td_tensor *td_model_forward(td_model *model, td_tape *tape, td_tensor *input);
/* The same with a tensor for each input. */
TD_API td_tensor *td_model_forward_inputs(td_model *model, td_tape *tape, size_t count,
                                          td_tensor *const inputs[]);
/* loss plus the penalties of the trained layers' regularisers; loss itself when there are none. */
TD_API td_tensor *td_model_regularize(td_model *model, td_tape *tape, td_tensor *loss);

/* Of the last forward pass, by layer ("input" is the model's input); NULL when there is no such
 * layer, no forward pass yet, or no pre-activation, and, on a tape for inference without a watcher, of
 * layers that are no outputs. Its gradient is the layer's error. */
TD_API td_tensor *td_model_output(const td_model *model, const char *layer);
TD_API td_tensor *td_model_preactivation(const td_model *model, const char *layer);
/* The same by number. */
TD_API td_tensor *td_model_output_at(const td_model *model, size_t layer);
TD_API td_tensor *td_model_preactivation_at(const td_model *model, size_t layer);

/* Whether the layers (layer NULL: all that have an activation) compute the pre-activation as a
 * tensor of its own. It costs a pass over the output, so they do not unless asked to. */
TD_API TD_NODISCARD td_status td_model_keep_preactivation(td_model *model, const char *layer,
                                                          bool keep, td_error *error);

typedef enum td_layer_signal { TD_LAYER_OUTPUT, TD_LAYER_PREACTIVATION } td_layer_signal;
/* Called in the forward pass as soon as the tensor exists. */
typedef void td_model_watcher(void *user, size_t layer, td_layer_signal signal, td_tensor *tensor);
/* One at a time; NULL: none. */
TD_API void td_model_watch(td_model *model, td_model_watcher *watcher, void *user);

/* --- what it consists of ------------------------------------------------------------------ */

/* Lives as long as the model; grows at the end. */
typedef struct td_layer_info {
    const char *name; /* "conv1" */
    td_layer_kind kind;
    bool frozen;
    bool has_activation;                     /* a pre-activation is available */
    td_shape output;                         /* of one example; -1: any */
    td_dtype dtype;                          /* of the output */
    int64_t parameter_elements;              /* in all parameters, as the summary counts */
    size_t first_parameter, parameter_count; /* among the model's */
    const int32_t *inputs;                   /* layers it reads; -1: the model's input */
    size_t input_count;
    /* All options with defaults filled in, name first, in the form td_model_add takes. Left out:
     * `from` when it is the layer above, regularisers and `frozen` when there are none. */
    const td_setting *settings;
    size_t setting_count;
    const char *type;  /* "Conv2D": the kind as Keras calls it, or a custom layer's word */
    int32_t shares;    /* the layer whose parameters it uses; -1: its own */
    bool mask_dropped; /* it reads a sequence with a mask (masking, mask_zero), and ignores that */
} td_layer_info;

typedef struct td_parameter_info {
    const char *name;      /* "conv1.kernel", the tensor's name too */
    const char *parameter; /* "kernel" */
    size_t layer;
    td_tensor *tensor;   /* owned by the model; its values may be written between steps */
    bool trainable;      /* neither frozen nor a moving average */
    bool moving_average; /* moving_mean, moving_variance */
} td_parameter_info;

TD_API const char *td_model_name(const td_model *model);
/* Of one example; with several inputs (elements of all). */
TD_API td_shape td_model_input_shape(const td_model *model);
/* Layers of kind input, the model's first; 0 when it has one input, which has no name. */
TD_API size_t td_model_input_count(const td_model *model);
/* At least 1 once there are layers; each one's layer. */
TD_API size_t td_model_output_count(const td_model *model);
TD_API size_t td_model_output_layer(const td_model *model, size_t output);
/* int32 when an embedding reads the input, otherwise float32. */
TD_API td_dtype td_model_input_dtype(const td_model *model);
TD_API size_t td_model_layer_count(const td_model *model);
/* NULL when there is no such layer. */
TD_API const td_layer_info *td_model_layer(const td_model *model, size_t layer);
/* -1 when there is none of that name. */
TD_API ptrdiff_t td_model_find(const td_model *model, const char *layer);

/* Parameters exist once the model is built. */
TD_API size_t td_model_parameter_count(const td_model *model);
TD_API const td_parameter_info *td_model_parameter_at(const td_model *model, size_t index);
/* td_model_parameter(model, "conv1", "kernel"); NULL when there is none of that name. */
TD_API td_tensor *td_model_parameter(const td_model *model, const char *layer,
                                     const char *parameter);
/* The tensors to train, in order; the array is the model's, valid until td_model_freeze. */
TD_API size_t td_model_trainable(const td_model *model, td_tensor *const **tensors);
/* Freezes a layer (NULL: all), or thaws it. An optimizer made before keeps its own list. */
TD_API TD_NODISCARD td_status td_model_freeze(td_model *model, const char *layer, bool frozen,
                                              td_error *error);

/* Layers, output shapes and parameter counts, as Keras prints them. TD_IO when the stream fails. */
TD_API td_status td_model_summary(const td_model *model, FILE *stream);
/* The same in a table of at most `columns` columns, as far as that is possible: long names are cut. */
TD_API td_status td_model_summary_within(const td_model *model, FILE *stream, int columns);

/* Facts kept with a saved model: texts by key. */
typedef struct td_model_note {
    const char *key, *value;
} td_model_note;

#ifdef __cplusplus
}
#endif
#endif
