/* Layers: their kinds, and the options of each.
 *
 * Names, defaults, equations and parameter layouts are Keras's. A field that is left out (zero, NULL,
 * false) has its default. Where 0 is a possible value and not the default, the field is a td_number:
 * .momentum = TD_SET(0). */
#ifndef TAPEDECK_LAYERS_H
#define TAPEDECK_LAYERS_H

#include "tapedeck/initializers.h"
#include "tapedeck/ops.h"
#include "tapedeck/settings.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The constant, the name in experiment files, Keras's class, and which of the structs below has its
 * options: td_NAME_layer is that struct. Values are part of the binary interface: only ever append. */
#define TD_LAYER_LIST(X)                                                                           \
    X(DENSE, dense, "Dense", dense)                                                                \
    X(CONV1D, conv1d, "Conv1D", conv2d)                                                            \
    X(CONV2D, conv2d, "Conv2D", conv2d)                                                            \
    X(CONV2D_TRANSPOSE, conv2d_transpose, "Conv2DTranspose", conv2d)                               \
    X(MAX_POOL2D, max_pool2d, "MaxPooling2D", max_pool2d)                                          \
    X(AVERAGE_POOL2D, average_pool2d, "AveragePooling2D", max_pool2d)                              \
    X(GLOBAL_AVERAGE_POOL2D, global_average_pool2d, "GlobalAveragePooling2D", global_pool)         \
    X(GLOBAL_MAX_POOL2D, global_max_pool2d, "GlobalMaxPooling2D", global_pool)                     \
    X(UP_SAMPLING2D, up_sampling2d, "UpSampling2D", up_sampling2d)                                 \
    X(FLATTEN, flatten, "Flatten", plain)                                                          \
    X(RESHAPE, reshape, "Reshape", reshape)                                                        \
    X(DROPOUT, dropout, "Dropout", dropout)                                                        \
    X(BATCH_NORMALIZATION, batch_normalization, "BatchNormalization", batch_normalization)         \
    X(LAYER_NORMALIZATION, layer_normalization, "LayerNormalization", layer_normalization)         \
    X(EMBEDDING, embedding, "Embedding", embedding)                                                \
    X(SIMPLE_RNN, simple_rnn, "SimpleRNN", lstm)                                                   \
    X(LSTM, lstm, "LSTM", lstm)                                                                    \
    X(GRU, gru, "GRU", lstm)                                                                       \
    X(ACTIVATION, activation, "Activation", activation)                                            \
    X(ADD, add, "Add", plain)                                                                      \
    X(MULTIPLY, multiply, "Multiply", plain)                                                       \
    X(CONCATENATE, concatenate, "Concatenate", concatenate)                                        \
    X(MULTI_HEAD_ATTENTION, multi_head_attention, "MultiHeadAttention", multi_head_attention)      \
    X(CUSTOM, custom, "Custom", custom)                                                            \
    X(MAX_POOL1D, max_pool1d, "MaxPooling1D", max_pool2d)                                          \
    X(AVERAGE_POOL1D, average_pool1d, "AveragePooling1D", max_pool2d)                              \
    X(GLOBAL_AVERAGE_POOL1D, global_average_pool1d, "GlobalAveragePooling1D", global_pool)         \
    X(GLOBAL_MAX_POOL1D, global_max_pool1d, "GlobalMaxPooling1D", global_pool)                     \
    X(ZERO_PADDING2D, zero_padding2d, "ZeroPadding2D", zero_padding2d)                             \
    X(RESCALING, rescaling, "Rescaling", rescaling)                                                \
    X(SUBTRACT, subtract, "Subtract", plain)                                                       \
    X(AVERAGE, average, "Average", plain)                                                          \
    X(MAXIMUM, maximum, "Maximum", plain)                                                          \
    X(MINIMUM, minimum, "Minimum", plain)                                                          \
    X(DOT, dot, "Dot", dot)                                                                        \
    X(GAUSSIAN_NOISE, gaussian_noise, "GaussianNoise", gaussian_noise)                             \
    X(DEPTHWISE_CONV2D, depthwise_conv2d, "DepthwiseConv2D", depthwise_conv2d)                     \
    X(SEPARABLE_CONV2D, separable_conv2d, "SeparableConv2D", depthwise_conv2d)                     \
    X(GROUP_NORMALIZATION, group_normalization, "GroupNormalization", group_normalization)         \
    X(ZERO_PADDING1D, zero_padding1d, "ZeroPadding1D", zero_padding1d)                             \
    X(CROPPING1D, cropping1d, "Cropping1D", zero_padding1d)                                        \
    X(CROPPING2D, cropping2d, "Cropping2D", zero_padding2d)                                        \
    X(INPUT, input, "InputLayer", input)                                                           \
    X(MASKING, masking, "Masking", masking)                                                        \
    X(BIDIRECTIONAL, bidirectional, "Bidirectional", wrapper)                                      \
    X(TIME_DISTRIBUTED, time_distributed, "TimeDistributed", wrapper)                              \
    X(NORMALIZATION, normalization, "Normalization", normalization)                                \
    X(CONV3D, conv3d, "Conv3D", conv3d)                                                            \
    X(MAX_POOL3D, max_pool3d, "MaxPooling3D", max_pool3d)                                          \
    X(AVERAGE_POOL3D, average_pool3d, "AveragePooling3D", max_pool3d)                              \
    X(GLOBAL_AVERAGE_POOL3D, global_average_pool3d, "GlobalAveragePooling3D", global_pool)         \
    X(GLOBAL_MAX_POOL3D, global_max_pool3d, "GlobalMaxPooling3D", global_pool)                     \
    X(ZERO_PADDING3D, zero_padding3d, "ZeroPadding3D", zero_padding3d)                             \
    X(CROPPING3D, cropping3d, "Cropping3D", zero_padding3d)                                        \
    X(UP_SAMPLING3D, up_sampling3d, "UpSampling3D", up_sampling3d)                                 \
    X(CONV1D_TRANSPOSE, conv1d_transpose, "Conv1DTranspose", conv2d)                               \
    X(CONV3D_TRANSPOSE, conv3d_transpose, "Conv3DTranspose", conv3d)                               \
    X(DEPTHWISE_CONV1D, depthwise_conv1d, "DepthwiseConv1D", depthwise_conv2d)                     \
    X(SEPARABLE_CONV1D, separable_conv1d, "SeparableConv1D", depthwise_conv2d)                     \
    X(UP_SAMPLING1D, up_sampling1d, "UpSampling1D", repeat)                                        \
    X(REPEAT_VECTOR, repeat_vector, "RepeatVector", repeat)                                        \
    X(PERMUTE, permute, "Permute", permute)                                                        \
    X(SPATIAL_DROPOUT1D, spatial_dropout1d, "SpatialDropout1D", rate)                              \
    X(SPATIAL_DROPOUT2D, spatial_dropout2d, "SpatialDropout2D", rate)                              \
    X(SPATIAL_DROPOUT3D, spatial_dropout3d, "SpatialDropout3D", rate)                              \
    X(GAUSSIAN_DROPOUT, gaussian_dropout, "GaussianDropout", rate)                                 \
    X(ALPHA_DROPOUT, alpha_dropout, "AlphaDropout", dropout)                                       \
    X(RELU, relu, "ReLU", relu)                                                                    \
    X(PRELU, prelu, "PReLU", prelu)                                                                \
    X(IDENTITY, identity, "Identity", plain)                                                       \
    X(UNIT_NORMALIZATION, unit_normalization, "UnitNormalization", unit_normalization)             \
    X(RMS_NORMALIZATION, rms_normalization, "RMSNormalization", rms_normalization)                 \
    X(ATTENTION, attention, "Attention", attention)                                                \
    X(ADDITIVE_ATTENTION, additive_attention, "AdditiveAttention", attention)

typedef enum td_layer_kind {
#define TD_LAYER_MEMBER(kind, word, keras, options) TD_LAYER_##kind,
    TD_LAYER_LIST(TD_LAYER_MEMBER)
#undef TD_LAYER_MEMBER
        TD_LAYER_KIND_COUNT
} td_layer_kind;

/* "conv2d", "Conv2D"; NULL for a value that is no kind. */
TD_API const char *td_layer_kind_name(td_layer_kind kind);
TD_API const char *td_layer_kind_keras(td_layer_kind kind);
/* TD_NOT_FOUND names the nearest kind. */
TD_API TD_NODISCARD td_status td_layer_kind_find(const char *name, td_layer_kind *kind,
                                                 td_error *error);

#define TD_MAX_FROM 16
#define TD_MAX_OUTPUTS 16

/* What every layer's options begin with. Pointers are borrowed for the call. A name that a layer of
 * the same kind and options has already is that layer used again, with the same parameters; such a
 * use is called NAME@2, NAME@3, … */
#define TD_LAYER_FIELDS                                                                            \
    size_t size;                   /* of the options; td_add_… fill it in */                     \
    const char *name;              /* NULL: Keras's: dense, dense_1, … */                        \
    const char *from[TD_MAX_FROM]; /* layers it reads, or "input"; none: the layer above */        \
    bool frozen;                   /* its parameters are not trained */

/* Penalties added to the loss: l1 * sum |w| + l2 * sum w^2. */
#define TD_REGULARIZER_FIELDS double kernel_l1, kernel_l2, bias_l1, bias_l2;

/* kernel (in, units), bias (units) */
typedef struct td_dense_layer {
    TD_LAYER_FIELDS
    int64_t units;
    td_activation activation;
    bool no_bias;                      /* key `use_bias`, the other way round */
    td_initializer kernel_initializer; /* glorot_uniform */
    td_initializer bias_initializer;   /* zeros */
    TD_REGULARIZER_FIELDS
} td_dense_layer;

/* Where there are two dimensions, {3} is {3, 3}. bias (filters), and
 * conv2d: kernel (height, width, in / groups, filters)
 * conv2d_transpose: kernel (height, width, filters / groups, in)
 * conv1d: kernel (size, in / groups, filters)
 * conv1d_transpose: kernel (size, filters / groups, in)
 * In one dimension the second of each pair is not used. */
typedef struct td_conv2d_layer {
    TD_LAYER_FIELDS
    int64_t filters;
    int64_t kernel[2];
    int64_t stride[2];   /* 1 */
    int64_t dilation[2]; /* 1 */
    int64_t groups;      /* 1 */
    td_padding padding;  /* valid; causal is for conv1d */
    td_activation activation;
    bool no_bias;
    td_initializer kernel_initializer;
    td_initializer bias_initializer;
    TD_REGULARIZER_FIELDS
    td_number output_padding[2]; /* conv2d_transpose: with {TD_SET(0)} smaller than without one */
} td_conv2d_layer;

/* The maximum or the average of each window. In one dimension the second of each pair is not used. */
typedef struct td_max_pool2d_layer {
    TD_LAYER_FIELDS
    int64_t window[2]; /* 2; key `size` */
    int64_t stride[2]; /* as window */
    td_padding padding;
} td_max_pool2d_layer;

/* Over all of an image, a volume or a sequence: (channels). */
typedef struct td_global_pool_layer {
    TD_LAYER_FIELDS
    bool keepdims; /* the axes that are pooled stay, with size 1 */
} td_global_pool_layer;

/* kernel (height, width, in, multiplier), bias (in * multiplier): each channel by itself. In one
 * dimension kernels have no width, and the second of each pair is not used. */
typedef struct td_depthwise_conv2d_layer {
    TD_LAYER_FIELDS
    int64_t kernel[2];
    int64_t stride[2];   /* 1 */
    int64_t dilation[2]; /* 1 */
    int64_t multiplier;  /* outputs for each channel: 1; Keras's depth_multiplier */
    td_padding padding;
    td_activation activation;
    bool no_bias;
    td_initializer kernel_initializer; /* glorot_uniform; Keras's depthwise_initializer */
    td_initializer bias_initializer;
    TD_REGULARIZER_FIELDS
    /* separable_conv2d: depthwise_kernel (height, width, in, multiplier), then pointwise_kernel
     * (1, 1, in * multiplier, filters), bias (filters) */
    int64_t filters;
    td_initializer pointwise_initializer;
} td_depthwise_conv2d_layer;

/* bias (filters), and
 * conv3d: kernel (depth, height, width, in / groups, filters)
 * conv3d_transpose: kernel (depth, height, width, filters / groups, in) */
typedef struct td_conv3d_layer {
    TD_LAYER_FIELDS
    int64_t filters;
    int64_t kernel[3];   /* {3} is {3, 3, 3} */
    int64_t stride[3];   /* 1 */
    int64_t dilation[3]; /* 1 */
    int64_t groups;      /* 1 */
    td_padding padding;
    td_activation activation;
    bool no_bias;
    td_initializer kernel_initializer;
    td_initializer bias_initializer;
    TD_REGULARIZER_FIELDS
    td_number output_padding[3]; /* conv3d_transpose */
} td_conv3d_layer;

typedef struct td_max_pool3d_layer {
    TD_LAYER_FIELDS
    int64_t window[3]; /* 2; key `size` */
    int64_t stride[3]; /* as window */
    td_padding padding;
} td_max_pool3d_layer;

/* Each element repeated. */
typedef struct td_up_sampling3d_layer {
    TD_LAYER_FIELDS
    int64_t factor[3]; /* 2; key `size` */
} td_up_sampling3d_layer;

/* Repeats each step; or an example of one axis, n times, as a sequence of n steps. */
typedef struct td_repeat_layer {
    TD_LAYER_FIELDS
    int64_t times; /* up_sampling1d: 2, key `size`; repeat_vector: key `n` */
} td_repeat_layer;

/* Zeros around a volume (depth, height, width, channels); cropping3d removes as many elements. */
typedef struct td_zero_padding3d_layer {
    TD_LAYER_FIELDS
    int64_t front, back, top, bottom, left, right; /* 0 */
} td_zero_padding3d_layer;

/* Rows and columns of zeros around an image; cropping2d removes as many. */
typedef struct td_zero_padding2d_layer {
    TD_LAYER_FIELDS
    int64_t top, bottom, left, right; /* 0 */
} td_zero_padding2d_layer;
/* Steps of zeros before the first and after the last step; cropping1d removes as many. */
typedef struct td_zero_padding1d_layer {
    TD_LAYER_FIELDS
    int64_t before, after; /* 0 */
} td_zero_padding1d_layer;

/* x * scale + offset */
typedef struct td_rescaling_layer {
    TD_LAYER_FIELDS
    td_number scale; /* 1 */
    double offset;
} td_rescaling_layer;

/* One of a model's inputs. Such layers come before all others. Of several inputs an example is one
 * row: their elements, one input after the other. */
typedef struct td_input_layer {
    TD_LAYER_FIELDS     /* it reads nothing */
        td_shape shape; /* of one example; -1: any */
} td_input_layer;

/* A step whose features all are mask_value does not count: recurrent layers skip it, losses and
 * metrics leave it out. */
typedef struct td_masking_layer {
    TD_LAYER_FIELDS
    double mask_value; /* 0 */
} td_masking_layer;

/* mean, variance (channels), which no training changes: (x - mean) / max(sqrt(variance), 1e-7) */
typedef struct td_normalization_layer {
    TD_LAYER_FIELDS
    bool invert; /* x * max(sqrt(variance), 1e-7) + mean */
} td_normalization_layer;

/* How bidirectional puts both directions together. */
typedef enum td_merge_mode {
    TD_MERGE_CONCAT,
    TD_MERGE_SUM,
    TD_MERGE_MUL,
    TD_MERGE_AVE,
    TD_MERGE_MODE_COUNT
} td_merge_mode;

/* time_distributed: a layer over each step of a sequence by itself. bidirectional: a recurrent layer
 * over the steps, and one of its own parameters over them the other way round; parameters are called
 * forward_kernel, …, backward_kernel, … As keys and values, those of the layer stand beside `layer`:
 * {layer: lstm, units: 8}. */
typedef struct td_wrapper_layer {
    TD_LAYER_FIELDS
    td_layer_kind layer;      /* dense; bidirectional: lstm, gru, simple_rnn */
    const void *options;      /* the td_…_layer of that kind; its name and from are not used */
    td_merge_mode merge_mode; /* bidirectional */
} td_wrapper_layer;

/* A layer without options of its own. */
typedef struct td_plain_layer {
    TD_LAYER_FIELDS
} td_plain_layer;

/* The sums of products of two layers along an axis of each: of the batch's shape, -1 the last. */
typedef struct td_dot_layer {
    TD_LAYER_FIELDS
    int64_t axes[2]; /* {1} is {1, 1} */
    bool normalize;  /* each along its axis first: the cosine */
} td_dot_layer;

/* In training, random numbers are added. */
typedef struct td_gaussian_noise_layer {
    TD_LAYER_FIELDS
    double stddev;
} td_gaussian_noise_layer;

typedef struct td_up_sampling2d_layer {
    TD_LAYER_FIELDS
    int64_t factor[2]; /* 2; key `size` */
    td_interpolation interpolation;
} td_up_sampling2d_layer;

typedef struct td_reshape_layer {
    TD_LAYER_FIELDS
    td_shape shape; /* of one example; one dimension may be -1 */
} td_reshape_layer;

/* In training, a share `rate` of the elements is set to 0 and the others are divided by 1 - rate.
 * alpha_dropout: it is set to the smallest value of selu; mean and variance stay. */
typedef struct td_dropout_layer {
    TD_LAYER_FIELDS
    double rate;
    /* Of one example: dimensions of 1 are dropped or kept as a whole; -1: as the input's; rank 0:
     * each element by itself. */
    td_shape noise_shape;
} td_dropout_layer;

/* spatial_dropout1d, 2d and 3d: dropout of whole channels. gaussian_dropout: in training, elements are
 * multiplied by random numbers of mean 1 and variance rate / (1 - rate). */
typedef struct td_rate_layer {
    TD_LAYER_FIELDS
    double rate;
} td_rate_layer;

/* The axes of an example in another order, counted from 1: {2, 1} swaps two. */
typedef struct td_permute_layer {
    TD_LAYER_FIELDS
    td_shape order; /* key `dims` */
} td_permute_layer;

/* Divided by the root of the sum of squares along the axes (of the batch's shape, -1 the last). */
typedef struct td_unit_normalization_layer {
    TD_LAYER_FIELDS
    td_shape axis; /* rank 0: the last */
} td_unit_normalization_layer;

/* scale (channels): x * scale / sqrt(mean of x^2 over the last axis + epsilon) */
typedef struct td_rms_normalization_layer {
    TD_LAYER_FIELDS
    td_number epsilon; /* 1e-6 */
} td_rms_normalization_layer;

/* gamma, beta, moving_mean, moving_variance (channels). Frozen, it runs as in inference. */
typedef struct td_batch_normalization_layer {
    TD_LAYER_FIELDS
    td_number momentum;                         /* 0.99 */
    td_number epsilon;                          /* 1e-3 */
    bool no_scale;                              /* no gamma; key `scale`, the other way round */
    bool no_center;                             /* no beta; key `center` */
    td_initializer gamma_initializer;           /* ones */
    td_initializer beta_initializer;            /* zeros */
    td_initializer moving_mean_initializer;     /* zeros */
    td_initializer moving_variance_initializer; /* ones */
    bool sync; /* over all shards of a batch (train.shards), not over each by itself */
} td_batch_normalization_layer;

/* gamma, beta (channels) */
typedef struct td_layer_normalization_layer {
    TD_LAYER_FIELDS
    td_number epsilon; /* 1e-3 */
    bool no_scale;
    bool no_center;
    td_initializer gamma_initializer; /* ones */
    td_initializer beta_initializer;  /* zeros */
} td_layer_normalization_layer;

/* gamma, beta (channels): each example's channels in groups, normalized over positions too */
typedef struct td_group_normalization_layer {
    TD_LAYER_FIELDS
    int64_t groups;    /* 32; -1: one for each channel */
    td_number epsilon; /* 1e-3 */
    bool no_scale;
    bool no_center;
    td_initializer gamma_initializer; /* ones */
    td_initializer beta_initializer;  /* zeros */
} td_group_normalization_layer;

/* embeddings (vocabulary, width). Reads int32 or int64, or float32 that are whole numbers. */
typedef struct td_embedding_layer {
    TD_LAYER_FIELDS
    int64_t vocabulary;                    /* how many different indices; Keras's input_dim */
    int64_t width;                         /* Keras's output_dim */
    td_initializer embeddings_initializer; /* random_uniform */
    bool mask_zero;                        /* a step of index 0 does not count; see masking */
} td_embedding_layer;

/* kernel (in, gates * units), recurrent_kernel (units, gates * units), bias (gates * units);
 * gru: bias (2, 3 * units) unless reset_before */
typedef struct td_lstm_layer {
    TD_LAYER_FIELDS
    int64_t units;
    bool return_sequences;
    bool go_backwards;
    td_number activation;           /* a td_activation: tanh */
    td_number recurrent_activation; /* a td_activation: sigmoid; lstm, gru */
    bool no_bias;
    bool no_unit_forget_bias; /* lstm: the forget gate's bias does not start at 1 */
    bool reset_before;        /* gru; key `reset_after`, the other way round */
    td_initializer kernel_initializer;
    td_initializer recurrent_initializer; /* orthogonal */
    td_initializer bias_initializer;
    TD_REGULARIZER_FIELDS
    double dropout;           /* in training, of the input: the same features at all steps */
    double recurrent_dropout; /* of the state that the gates read: the same units at all steps */
} td_lstm_layer;

typedef struct td_activation_layer {
    TD_LAYER_FIELDS
    td_activation function;
    td_number alpha; /* of leaky_relu (0.2) and elu (1) */
} td_activation_layer;

/* x above the threshold, at most max_value; below it negative_slope * (x - threshold). */
typedef struct td_relu_layer {
    TD_LAYER_FIELDS
    td_number max_value; /* left out: there is no maximum */
    double negative_slope, threshold;
} td_relu_layer;

/* alpha, of an example's shape but 1 along the shared axes: x where it is positive, else alpha x */
typedef struct td_prelu_layer {
    TD_LAYER_FIELDS
    td_shape shared_axes;             /* counted from 1; rank 0: none */
    td_initializer alpha_initializer; /* zeros */
    double alpha_l1, alpha_l2;        /* penalties */
} td_prelu_layer;

typedef struct td_concatenate_layer {
    TD_LAYER_FIELDS
    int64_t axis; /* of the batch's shape, -1 the last (0 is the batch: the default, -1) */
} td_concatenate_layer;

/* from: query; query and value; or query, value and key; Keras's order. One: self-attention.
 * query_kernel, key_kernel (in, heads, key_dim), value_kernel (in, heads, value_dim),
 * attention_output_kernel (heads, value_dim, in of the query), and their biases: query_bias (heads,
 * key_dim), … attention_output_bias (in). */
typedef struct td_multi_head_attention_layer {
    TD_LAYER_FIELDS
    int64_t heads;
    int64_t key_dim;
    int64_t value_dim; /* as key_dim */
    bool causal;       /* a position sees none after it */
    bool no_bias;
    td_initializer kernel_initializer;
    td_initializer bias_initializer;
    TD_REGULARIZER_FIELDS
    double dropout; /* in training, of the attention's weights */
} td_multi_head_attention_layer;

/* How attention scores a query against a key: their product, or a sum of tanh(query + key). */
typedef enum td_score_mode { TD_SCORE_DOT, TD_SCORE_CONCAT, TD_SCORE_MODE_COUNT } td_score_mode;

/* from: query and value; or query, value and key. softmax(score) value, without projections.
 * attention: scale and concat_score_weight, one number each, where use_scale and score_mode say so;
 * additive_attention: the sum of scale * tanh(query + key), scale (features). */
typedef struct td_attention_layer {
    TD_LAYER_FIELDS
    bool use_scale; /* attention */
    bool no_scale;  /* additive_attention: key `use_scale`, the other way round */
    td_score_mode score_mode;
    double dropout; /* in training, of the attention's weights */
    bool causal;    /* a position sees none after it */
} td_attention_layer;

/* A layer of your own: a function that calls operations. It is watched, frozen, summed up, trained
 * and saved (its weights) like any other. */
typedef struct td_custom_parameter {
    const char *name; /* "kernel"; differs from the layer's others */
    td_shape shape;
    td_initializer initializer; /* zeros */
    const float *values;        /* what it starts with instead; read by td_model_build */
    bool moving_average;        /* forward itself moves it, no gradient does */
} td_custom_parameter;

/* inputs: the outputs of the layers in `from`, (batch, …); parameters: in the order given. Returns
 * (batch, output…), or NULL after an operation failed. */
typedef td_tensor *td_custom_forward(void *user, td_tape *tape, td_tensor *const *inputs,
                                     td_tensor *const *parameters);

/* Frozen, a layer with moving averages runs as in inference. */
typedef struct td_custom_layer {
    TD_LAYER_FIELDS
    const char *word;                      /* for summaries; "Custom" */
    td_shape output;                       /* of one example; -1: any */
    const td_custom_parameter *parameters; /* parameter_count of them */
    size_t parameter_count;
    bool integer_input; /* it reads the model's input as int32 */
    td_custom_forward *forward;
    void *user;                  /* forward gets it */
    void (*destroy)(void *user); /* called once, with the model's end or when the layer cannot be
                                    added; may be NULL */
} td_custom_layer;

/* td_NAME_layer of every kind, and its number by name for td_add_NAME. */
#define TD_LAYER_OPTIONS(kind, word, keras, options) typedef td_##options##_layer td_##word##_layer;
TD_LAYER_LIST(TD_LAYER_OPTIONS)
#undef TD_LAYER_OPTIONS
enum {
#define TD_LAYER_NUMBER(kind, word, keras, options) td__##word##_layer_kind = TD_LAYER_##kind,
    TD_LAYER_LIST(TD_LAYER_NUMBER)
#undef TD_LAYER_NUMBER
};

#ifdef __cplusplus
}
#endif
#endif
