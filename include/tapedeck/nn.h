/* Models made of named layers, optimizers, learning-rate schedules, metrics.
 *
 *     td_model *model = td_model_create("classifier", TD_SHAPE(28, 28, 1));    // of one example
 *     td_add_conv2d(model, .name = "conv1", .filters = 32, .kernel = {3}, .activation = TD_RELU);
 *     td_add_max_pool2d(model);
 *     td_add_flatten(model);
 *     td_add_dense(model, .name = "logits", .units = 10);
 *     if (td_model_build(model, 7, &error)) …         // the first thing that was wrong, and where
 *
 *     td_tensor *const *weights;
 *     size_t count = td_model_trainable(model, &weights);
 *     td_optimizer *adam =
 *         td_optimizer_create(TD_OPTIMIZER(.kind = TD_ADAM), count, weights, &error);
 *     td_tensor **gradients = calloc(count, sizeof *gradients);
 *     for (…) {
 *         td_tensor *logits = td_model_forward(model, tape, images);                  // (64, 10)
 *         td_tensor *loss =
 *             td_sparse_categorical_crossentropy(tape, logits, labels, TD_FROM_LOGITS);
 *         if (td_tape_gradient(tape, loss, count, weights, gradients, &error)) …
 *         if (td_optimizer_step(adam, gradients, &error)) …
 *         td_tape_reset(tape);
 *     }
 *
 * Names, defaults, equations and parameter layouts are Keras's. In every option struct zero means
 * the default; where a number's default is not 0, TD_ZERO is a zero that is meant.
 *
 * A model belongs to one thread at a time, and must outlive the recordings it ran on: tensors of a
 * forward pass borrow their names from it.
 */
#ifndef TAPEDECK_NN_H
#define TAPEDECK_NN_H

#include "tapedeck/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TD_ZERO (-0.0)

/* --- settings: options as keys and values ------------------------------------------------- */

typedef enum td_value_kind {
    TD_VALUE_NUMBER,
    TD_VALUE_TEXT,
    TD_VALUE_BOOL,
    TD_VALUE_NUMBERS, /* a list, also of one or none */
    TD_VALUE_TEXTS,
    TD_VALUE_CHOICE /* a name with settings of its own: {random_normal: {stddev: 0.1}} */
} td_value_kind;

struct td_setting;

/* All pointers are borrowed. */
typedef struct td_value {
    td_value_kind kind;
    bool boolean;
    double number;
    const char *text; /* also a choice's name; of numbers and bools: as written, or NULL */
    const double *numbers;
    const char *const *texts;
    size_t count;                      /* of numbers, texts or settings */
    const struct td_setting *settings; /* of a choice */
} td_value;

/* One option of a layer, loss, optimizer or schedule as an experiment file has it: `filters: 32`. */
typedef struct td_setting {
    const char *key;
    td_value value;
} td_setting;

/* --- initialisers ------------------------------------------------------------------------- */

/* Values are part of the binary interface: only ever append. */
#define TD_INITIALIZER_LIST(X)                                                                     \
    X(GLOROT_UNIFORM, "glorot_uniform")                                                            \
    X(GLOROT_NORMAL, "glorot_normal")                                                              \
    X(HE_UNIFORM, "he_uniform")                                                                    \
    X(HE_NORMAL, "he_normal")                                                                      \
    X(LECUN_UNIFORM, "lecun_uniform")                                                              \
    X(LECUN_NORMAL, "lecun_normal")                                                                \
    X(ORTHOGONAL, "orthogonal")                                                                    \
    X(ZEROS, "zeros")                                                                              \
    X(ONES, "ones")                                                                                \
    X(RANDOM_UNIFORM, "random_uniform")     /* in [minval, maxval) */                              \
    X(RANDOM_NORMAL, "random_normal")       /* mean, stddev */                                     \
    X(TRUNCATED_NORMAL, "truncated_normal") /* the same, redrawn beyond two deviations */          \
    X(VARIANCE_SCALING, "variance_scaling") /* of variance scale / fan */                          \
    X(CONSTANT, "constant")                                                                        \
    X(IDENTITY, "identity") /* gain on the diagonal of a matrix */

typedef enum td_initializer_kind {
    TD_INITIALIZER_DEFAULT, /* the layer's own */
#define TD_INITIALIZER_MEMBER(name, text) TD_##name,
    TD_INITIALIZER_LIST(TD_INITIALIZER_MEMBER)
#undef TD_INITIALIZER_MEMBER
        TD_INITIALIZER_COUNT
} td_initializer_kind;

typedef enum td_fan { TD_FAN_IN, TD_FAN_OUT, TD_FAN_AVG } td_fan;
typedef enum td_distribution {
    TD_DISTRIBUTION_TRUNCATED_NORMAL,
    TD_DISTRIBUTION_UNTRUNCATED_NORMAL,
    TD_DISTRIBUTION_UNIFORM
} td_distribution;

/* .kernel_initializer = {.kind = TD_RANDOM_NORMAL, .stddev = 0.02}. Zero is the default,
 * as everywhere, TD_ZERO a zero that is meant. */
typedef struct td_initializer {
    td_initializer_kind kind;
    td_fan mode;                  /* variance_scaling */
    td_distribution distribution; /* variance_scaling */
    double mean, stddev;          /* random_normal, truncated_normal: 0, 0.05 */
    double minval, maxval;        /* random_uniform: -0.05, 0.05 */
    double scale;                 /* variance_scaling: 1 */
    double gain;                  /* orthogonal, identity: 1 */
    double value;                 /* constant: 0 */
    int64_t seed;                 /* of all that are random; equal seeds, equal numbers */
    bool seeded;                  /* there is a seed: the model's and the name do not count */
} td_initializer;

/* "he_normal"; NULL for a value that is no kind. */
TD_API const char *td_initializer_kind_name(td_initializer_kind kind);

/* --- layers ------------------------------------------------------------------------------- */

/* The name in experiment files (its options are td_NAME_layer) and Keras's class. Values are part
 * of the binary interface: only ever append. */
#define TD_LAYER_LIST(X)                                                                           \
    X(DENSE, dense, "Dense")                                                                       \
    X(CONV1D, conv1d, "Conv1D")                                                                    \
    X(CONV2D, conv2d, "Conv2D")                                                                    \
    X(CONV2D_TRANSPOSE, conv2d_transpose, "Conv2DTranspose")                                       \
    X(MAX_POOL2D, max_pool2d, "MaxPooling2D")                                                      \
    X(AVERAGE_POOL2D, average_pool2d, "AveragePooling2D")                                          \
    X(GLOBAL_AVERAGE_POOL2D, global_average_pool2d, "GlobalAveragePooling2D")                      \
    X(GLOBAL_MAX_POOL2D, global_max_pool2d, "GlobalMaxPooling2D")                                  \
    X(UP_SAMPLING2D, up_sampling2d, "UpSampling2D")                                                \
    X(FLATTEN, flatten, "Flatten")                                                                 \
    X(RESHAPE, reshape, "Reshape")                                                                 \
    X(DROPOUT, dropout, "Dropout")                                                                 \
    X(BATCH_NORMALIZATION, batch_normalization, "BatchNormalization")                              \
    X(LAYER_NORMALIZATION, layer_normalization, "LayerNormalization")                              \
    X(EMBEDDING, embedding, "Embedding")                                                           \
    X(SIMPLE_RNN, simple_rnn, "SimpleRNN")                                                         \
    X(LSTM, lstm, "LSTM")                                                                          \
    X(GRU, gru, "GRU")                                                                             \
    X(ACTIVATION, activation, "Activation")                                                        \
    X(ADD, add, "Add")                                                                             \
    X(MULTIPLY, multiply, "Multiply")                                                              \
    X(CONCATENATE, concatenate, "Concatenate")                                                     \
    X(MULTI_HEAD_ATTENTION, multi_head_attention, "MultiHeadAttention")                            \
    X(CUSTOM, custom, "Custom")                                                                    \
    X(MAX_POOL1D, max_pool1d, "MaxPooling1D")                                                      \
    X(AVERAGE_POOL1D, average_pool1d, "AveragePooling1D")                                          \
    X(GLOBAL_AVERAGE_POOL1D, global_average_pool1d, "GlobalAveragePooling1D")                      \
    X(GLOBAL_MAX_POOL1D, global_max_pool1d, "GlobalMaxPooling1D")                                  \
    X(ZERO_PADDING2D, zero_padding2d, "ZeroPadding2D")                                             \
    X(RESCALING, rescaling, "Rescaling")                                                           \
    X(SUBTRACT, subtract, "Subtract")                                                              \
    X(AVERAGE, average, "Average")                                                                 \
    X(MAXIMUM, maximum, "Maximum")                                                                 \
    X(MINIMUM, minimum, "Minimum")                                                                 \
    X(DOT, dot, "Dot")                                                                             \
    X(GAUSSIAN_NOISE, gaussian_noise, "GaussianNoise")                                             \
    X(DEPTHWISE_CONV2D, depthwise_conv2d, "DepthwiseConv2D")                                       \
    X(SEPARABLE_CONV2D, separable_conv2d, "SeparableConv2D")                                       \
    X(GROUP_NORMALIZATION, group_normalization, "GroupNormalization")                              \
    X(ZERO_PADDING1D, zero_padding1d, "ZeroPadding1D")                                             \
    X(CROPPING1D, cropping1d, "Cropping1D")                                                        \
    X(CROPPING2D, cropping2d, "Cropping2D")                                                        \
    X(INPUT, input, "InputLayer")                                                                  \
    X(MASKING, masking, "Masking")                                                                 \
    X(BIDIRECTIONAL, bidirectional, "Bidirectional")                                               \
    X(TIME_DISTRIBUTED, time_distributed, "TimeDistributed")                                       \
    X(NORMALIZATION, normalization, "Normalization")                                               \
    X(CONV3D, conv3d, "Conv3D")                                                                    \
    X(MAX_POOL3D, max_pool3d, "MaxPooling3D")                                                      \
    X(AVERAGE_POOL3D, average_pool3d, "AveragePooling3D")                                          \
    X(GLOBAL_AVERAGE_POOL3D, global_average_pool3d, "GlobalAveragePooling3D")                      \
    X(GLOBAL_MAX_POOL3D, global_max_pool3d, "GlobalMaxPooling3D")                                  \
    X(ZERO_PADDING3D, zero_padding3d, "ZeroPadding3D")                                             \
    X(CROPPING3D, cropping3d, "Cropping3D")                                                        \
    X(UP_SAMPLING3D, up_sampling3d, "UpSampling3D")                                                \
    X(CONV1D_TRANSPOSE, conv1d_transpose, "Conv1DTranspose")                                       \
    X(CONV3D_TRANSPOSE, conv3d_transpose, "Conv3DTranspose")                                       \
    X(DEPTHWISE_CONV1D, depthwise_conv1d, "DepthwiseConv1D")                                       \
    X(SEPARABLE_CONV1D, separable_conv1d, "SeparableConv1D")                                       \
    X(UP_SAMPLING1D, up_sampling1d, "UpSampling1D")                                                \
    X(REPEAT_VECTOR, repeat_vector, "RepeatVector")                                                \
    X(PERMUTE, permute, "Permute")                                                                 \
    X(SPATIAL_DROPOUT1D, spatial_dropout1d, "SpatialDropout1D")                                    \
    X(SPATIAL_DROPOUT2D, spatial_dropout2d, "SpatialDropout2D")                                    \
    X(SPATIAL_DROPOUT3D, spatial_dropout3d, "SpatialDropout3D")                                    \
    X(GAUSSIAN_DROPOUT, gaussian_dropout, "GaussianDropout")                                       \
    X(ALPHA_DROPOUT, alpha_dropout, "AlphaDropout")                                                \
    X(RELU, relu, "ReLU")                                                                          \
    X(PRELU, prelu, "PReLU")                                                                       \
    X(IDENTITY, identity, "Identity")                                                              \
    X(UNIT_NORMALIZATION, unit_normalization, "UnitNormalization")                                 \
    X(RMS_NORMALIZATION, rms_normalization, "RMSNormalization")                                    \
    X(ATTENTION, attention, "Attention")                                                           \
    X(ADDITIVE_ATTENTION, additive_attention, "AdditiveAttention")

typedef enum td_layer_kind {
#define TD_LAYER_MEMBER(name, word, keras) TD_LAYER_##name,
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

/* Where there are two dimensions, {3} is {3, 3}. kernel (height, width, in / groups, filters), bias
 * (filters) */
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
    int64_t output_padding[2]; /* conv2d_transpose */
    bool output_padding_given; /* an output padding of 0, 0 is meant: smaller than without one */
} td_conv2d_layer;
/* kernel (size, in / groups, filters); the second of each pair is not used */
typedef td_conv2d_layer td_conv1d_layer;
/* kernel (height, width, filters / groups, in) */
typedef td_conv2d_layer td_conv2d_transpose_layer;
/* kernel (size, filters / groups, in); the second of each pair is not used */
typedef td_conv2d_layer td_conv1d_transpose_layer;

typedef struct td_max_pool2d_layer {
    TD_LAYER_FIELDS
    int64_t window[2]; /* 2; key `size` */
    int64_t stride[2]; /* as window */
    td_padding padding;
} td_max_pool2d_layer;
typedef td_max_pool2d_layer td_average_pool2d_layer;
/* Over (steps, channels); the second of each pair is not used. */
typedef td_max_pool2d_layer td_max_pool1d_layer;
typedef td_max_pool2d_layer td_average_pool1d_layer;

/* Over all of an image, or all steps: (channels). */
typedef struct td_global_pool_layer {
    TD_LAYER_FIELDS
    bool keepdims; /* the axes that are pooled stay, with size 1 */
} td_global_pool_layer;
typedef td_global_pool_layer td_global_average_pool2d_layer;
typedef td_global_pool_layer td_global_max_pool2d_layer;
typedef td_global_pool_layer td_global_average_pool1d_layer;
typedef td_global_pool_layer td_global_max_pool1d_layer;

/* kernel (height, width, in, multiplier), bias (in * multiplier): each channel by itself */
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
typedef td_depthwise_conv2d_layer td_separable_conv2d_layer;
/* Over (steps, channels): kernels without a width; the second of each pair is not used. */
typedef td_depthwise_conv2d_layer td_depthwise_conv1d_layer;
typedef td_depthwise_conv2d_layer td_separable_conv1d_layer;

/* kernel (depth, height, width, in / groups, filters), bias (filters) */
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
    int64_t output_padding[3]; /* conv3d_transpose */
    bool output_padding_given; /* an output padding of 0, 0, 0 is meant */
} td_conv3d_layer;
/* kernel (depth, height, width, filters / groups, in) */
typedef td_conv3d_layer td_conv3d_transpose_layer;

typedef struct td_max_pool3d_layer {
    TD_LAYER_FIELDS
    int64_t window[3]; /* 2; key `size` */
    int64_t stride[3]; /* as window */
    td_padding padding;
} td_max_pool3d_layer;
typedef td_max_pool3d_layer td_average_pool3d_layer;
typedef td_global_pool_layer td_global_average_pool3d_layer;
typedef td_global_pool_layer td_global_max_pool3d_layer;

/* Each element repeated. */
typedef struct td_up_sampling3d_layer {
    TD_LAYER_FIELDS
    int64_t factor[3]; /* 2; key `size` */
} td_up_sampling3d_layer;

/* Each step repeated; or an example of one axis, as so many steps. */
typedef struct td_repeat_layer {
    TD_LAYER_FIELDS
    int64_t times; /* up_sampling1d: 2, key `size`; repeat_vector: key `n` */
} td_repeat_layer;
typedef td_repeat_layer td_up_sampling1d_layer;
typedef td_repeat_layer td_repeat_vector_layer;

/* The same of a volume (depth, height, width, channels). */
typedef struct td_zero_padding3d_layer {
    TD_LAYER_FIELDS
    int64_t front, back, top, bottom, left, right; /* 0 */
} td_zero_padding3d_layer;
typedef td_zero_padding3d_layer td_cropping3d_layer;

/* Rows and columns of zeros around an image; or as many taken away. */
typedef struct td_zero_padding2d_layer {
    TD_LAYER_FIELDS
    int64_t top, bottom, left, right; /* 0 */
} td_zero_padding2d_layer;
typedef td_zero_padding2d_layer td_cropping2d_layer;
/* Before the first and after the last step. */
typedef struct td_zero_padding1d_layer {
    TD_LAYER_FIELDS
    int64_t before, after; /* 0 */
} td_zero_padding1d_layer;
typedef td_zero_padding1d_layer td_cropping1d_layer;

/* x * scale + offset */
typedef struct td_rescaling_layer {
    TD_LAYER_FIELDS
    double scale; /* 1 */
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
typedef td_wrapper_layer td_bidirectional_layer;
typedef td_wrapper_layer td_time_distributed_layer;

/* A layer without options of its own. */
typedef struct td_plain_layer {
    TD_LAYER_FIELDS
} td_plain_layer;
typedef td_plain_layer td_flatten_layer;
typedef td_plain_layer td_identity_layer;
typedef td_plain_layer td_add_layer;
typedef td_plain_layer td_subtract_layer;
typedef td_plain_layer td_multiply_layer;
typedef td_plain_layer td_average_layer;
typedef td_plain_layer td_maximum_layer;
typedef td_plain_layer td_minimum_layer;

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

typedef struct td_dropout_layer {
    TD_LAYER_FIELDS
    double rate;
    td_shape
        noise_shape; /* of one example: dimensions of 1 are dropped or kept as a whole; -1: as the
                             input's; rank 0: all by itself */
} td_dropout_layer;

/* As dropout, of whole channels: spatial_dropout1d (steps, channels), …2d, …3d. */
typedef struct td_rate_layer {
    TD_LAYER_FIELDS
    double rate;
} td_rate_layer;
typedef td_rate_layer td_spatial_dropout1d_layer;
typedef td_rate_layer td_spatial_dropout2d_layer;
typedef td_rate_layer td_spatial_dropout3d_layer;
/* In training, multiplied by random numbers of mean 1 and variance rate / (1 - rate). */
typedef td_rate_layer td_gaussian_dropout_layer;
/* In training, a share is set to the least value of selu; mean and variance stay. */
typedef td_dropout_layer td_alpha_dropout_layer;

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
    double epsilon; /* 1e-6 */
} td_rms_normalization_layer;

/* gamma, beta, moving_mean, moving_variance (channels). Frozen, it runs as in inference. */
typedef struct td_batch_normalization_layer {
    TD_LAYER_FIELDS
    double momentum;                            /* 0.99 */
    double epsilon;                             /* 1e-3 */
    bool no_scale;                              /* no gamma; key `scale`, the other way round */
    bool no_center;                             /* no beta; key `center` */
    td_initializer gamma_initializer;           /* ones */
    td_initializer beta_initializer;            /* zeros */
    td_initializer moving_mean_initializer;     /* zeros */
    td_initializer moving_variance_initializer; /* ones */
} td_batch_normalization_layer;

/* gamma, beta (channels) */
typedef struct td_layer_normalization_layer {
    TD_LAYER_FIELDS
    double epsilon; /* 1e-3 */
    bool no_scale;
    bool no_center;
    td_initializer gamma_initializer; /* ones */
    td_initializer beta_initializer;  /* zeros */
} td_layer_normalization_layer;

/* gamma, beta (channels): each example's channels in groups, normalized over positions too */
typedef struct td_group_normalization_layer {
    TD_LAYER_FIELDS
    int64_t groups; /* 32; -1: one for each channel */
    double epsilon; /* 1e-3 */
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

/* kernel (in, gates * units), recurrent_kernel (units, gates * units), bias (gates * units) */
typedef struct td_lstm_layer {
    TD_LAYER_FIELDS
    int64_t units;
    bool return_sequences;
    bool go_backwards;
    td_activation activation;           /* tanh */
    td_activation recurrent_activation; /* sigmoid; lstm, gru */
    bool linear;                        /* the activation is linear after all */
    bool no_bias;
    bool no_unit_forget_bias; /* lstm: the forget gate's bias does not start at 1 */
    bool reset_before;        /* gru; key `reset_after`, the other way round */
    td_initializer kernel_initializer;
    td_initializer recurrent_initializer; /* orthogonal */
    td_initializer bias_initializer;
    TD_REGULARIZER_FIELDS
    bool linear_gates;        /* the recurrent activation is linear after all */
    double dropout;           /* in training, of the input: the same features at all steps */
    double recurrent_dropout; /* of the state that the gates read: the same units at all steps */
} td_lstm_layer;
typedef td_lstm_layer td_simple_rnn_layer;
/* bias (2, 3 * units) unless reset_before */
typedef td_lstm_layer td_gru_layer;

typedef struct td_activation_layer {
    TD_LAYER_FIELDS
    td_activation function;
    double alpha;     /* of leaky_relu (0.2) and elu (1) */
    bool alpha_given; /* an alpha of 0 is meant, as with TD_ZERO */
} td_activation_layer;

/* x above the threshold, at most max_value; below it negative_slope * (x - threshold). */
typedef struct td_relu_layer {
    TD_LAYER_FIELDS
    double max_value;
    bool max_given; /* without it there is no maximum */
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
typedef td_attention_layer td_additive_attention_layer;

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
#define TD_ADD_LAYER(kind, word, ...) TD_ADD_LAYER_TO(kind, word, __VA_ARGS__, )
#define TD_ADD_LAYER_TO(kind, word, model, ...)                                                    \
    td_model_add_layer((model), TD_LAYER_##kind, TD_OPTIONS(td_##word##_layer, __VA_ARGS__))

/* td_add_dense(model, .name = "hidden", .units = 128, .activation = TD_RELU) */
#define td_add_dense(...) TD_ADD_LAYER(DENSE, dense, __VA_ARGS__)
#define td_add_conv1d(...) TD_ADD_LAYER(CONV1D, conv1d, __VA_ARGS__)
#define td_add_conv2d(...) TD_ADD_LAYER(CONV2D, conv2d, __VA_ARGS__)
#define td_add_conv2d_transpose(...) TD_ADD_LAYER(CONV2D_TRANSPOSE, conv2d_transpose, __VA_ARGS__)
#define td_add_max_pool2d(...) TD_ADD_LAYER(MAX_POOL2D, max_pool2d, __VA_ARGS__)
#define td_add_average_pool2d(...) TD_ADD_LAYER(AVERAGE_POOL2D, average_pool2d, __VA_ARGS__)
#define td_add_max_pool1d(...) TD_ADD_LAYER(MAX_POOL1D, max_pool1d, __VA_ARGS__)
#define td_add_average_pool1d(...) TD_ADD_LAYER(AVERAGE_POOL1D, average_pool1d, __VA_ARGS__)
#define td_add_global_average_pool1d(...)                                                          \
    TD_ADD_LAYER(GLOBAL_AVERAGE_POOL1D, global_average_pool1d, __VA_ARGS__)
#define td_add_global_max_pool1d(...)                                                              \
    TD_ADD_LAYER(GLOBAL_MAX_POOL1D, global_max_pool1d, __VA_ARGS__)
#define td_add_zero_padding2d(...) TD_ADD_LAYER(ZERO_PADDING2D, zero_padding2d, __VA_ARGS__)
#define td_add_rescaling(...) TD_ADD_LAYER(RESCALING, rescaling, __VA_ARGS__)
#define td_add_global_average_pool2d(...)                                                          \
    TD_ADD_LAYER(GLOBAL_AVERAGE_POOL2D, global_average_pool2d, __VA_ARGS__)
#define td_add_global_max_pool2d(...)                                                              \
    TD_ADD_LAYER(GLOBAL_MAX_POOL2D, global_max_pool2d, __VA_ARGS__)
#define td_add_up_sampling2d(...) TD_ADD_LAYER(UP_SAMPLING2D, up_sampling2d, __VA_ARGS__)
#define td_add_flatten(...) TD_ADD_LAYER(FLATTEN, flatten, __VA_ARGS__)
#define td_add_reshape(...) TD_ADD_LAYER(RESHAPE, reshape, __VA_ARGS__)
#define td_add_dropout(...) TD_ADD_LAYER(DROPOUT, dropout, __VA_ARGS__)
#define td_add_batch_normalization(...)                                                            \
    TD_ADD_LAYER(BATCH_NORMALIZATION, batch_normalization, __VA_ARGS__)
#define td_add_layer_normalization(...)                                                            \
    TD_ADD_LAYER(LAYER_NORMALIZATION, layer_normalization, __VA_ARGS__)
#define td_add_embedding(...) TD_ADD_LAYER(EMBEDDING, embedding, __VA_ARGS__)
#define td_add_simple_rnn(...) TD_ADD_LAYER(SIMPLE_RNN, simple_rnn, __VA_ARGS__)
#define td_add_lstm(...) TD_ADD_LAYER(LSTM, lstm, __VA_ARGS__)
#define td_add_gru(...) TD_ADD_LAYER(GRU, gru, __VA_ARGS__)
#define td_add_activation(...) TD_ADD_LAYER(ACTIVATION, activation, __VA_ARGS__)
#define td_add_add(...) TD_ADD_LAYER(ADD, add, __VA_ARGS__)
#define td_add_multiply(...) TD_ADD_LAYER(MULTIPLY, multiply, __VA_ARGS__)
#define td_add_concatenate(...) TD_ADD_LAYER(CONCATENATE, concatenate, __VA_ARGS__)
#define td_add_subtract(...) TD_ADD_LAYER(SUBTRACT, subtract, __VA_ARGS__)
#define td_add_average(...) TD_ADD_LAYER(AVERAGE, average, __VA_ARGS__)
#define td_add_maximum(...) TD_ADD_LAYER(MAXIMUM, maximum, __VA_ARGS__)
#define td_add_minimum(...) TD_ADD_LAYER(MINIMUM, minimum, __VA_ARGS__)
#define td_add_dot(...) TD_ADD_LAYER(DOT, dot, __VA_ARGS__)
#define td_add_gaussian_noise(...) TD_ADD_LAYER(GAUSSIAN_NOISE, gaussian_noise, __VA_ARGS__)
#define td_add_depthwise_conv2d(...) TD_ADD_LAYER(DEPTHWISE_CONV2D, depthwise_conv2d, __VA_ARGS__)
#define td_add_separable_conv2d(...) TD_ADD_LAYER(SEPARABLE_CONV2D, separable_conv2d, __VA_ARGS__)
#define td_add_group_normalization(...)                                                            \
    TD_ADD_LAYER(GROUP_NORMALIZATION, group_normalization, __VA_ARGS__)
#define td_add_zero_padding1d(...) TD_ADD_LAYER(ZERO_PADDING1D, zero_padding1d, __VA_ARGS__)
#define td_add_cropping1d(...) TD_ADD_LAYER(CROPPING1D, cropping1d, __VA_ARGS__)
#define td_add_cropping2d(...) TD_ADD_LAYER(CROPPING2D, cropping2d, __VA_ARGS__)
#define td_add_input(...) TD_ADD_LAYER(INPUT, input, __VA_ARGS__)
#define td_add_masking(...) TD_ADD_LAYER(MASKING, masking, __VA_ARGS__)
#define td_add_bidirectional(...) TD_ADD_LAYER(BIDIRECTIONAL, bidirectional, __VA_ARGS__)
#define td_add_time_distributed(...) TD_ADD_LAYER(TIME_DISTRIBUTED, time_distributed, __VA_ARGS__)
#define td_add_normalization(...) TD_ADD_LAYER(NORMALIZATION, normalization, __VA_ARGS__)
#define td_add_conv3d(...) TD_ADD_LAYER(CONV3D, conv3d, __VA_ARGS__)
#define td_add_max_pool3d(...) TD_ADD_LAYER(MAX_POOL3D, max_pool3d, __VA_ARGS__)
#define td_add_average_pool3d(...) TD_ADD_LAYER(AVERAGE_POOL3D, average_pool3d, __VA_ARGS__)
#define td_add_global_average_pool3d(...)                                                          \
    TD_ADD_LAYER(GLOBAL_AVERAGE_POOL3D, global_average_pool3d, __VA_ARGS__)
#define td_add_global_max_pool3d(...)                                                              \
    TD_ADD_LAYER(GLOBAL_MAX_POOL3D, global_max_pool3d, __VA_ARGS__)
#define td_add_zero_padding3d(...) TD_ADD_LAYER(ZERO_PADDING3D, zero_padding3d, __VA_ARGS__)
#define td_add_cropping3d(...) TD_ADD_LAYER(CROPPING3D, cropping3d, __VA_ARGS__)
#define td_add_up_sampling3d(...) TD_ADD_LAYER(UP_SAMPLING3D, up_sampling3d, __VA_ARGS__)
#define td_add_conv1d_transpose(...) TD_ADD_LAYER(CONV1D_TRANSPOSE, conv1d_transpose, __VA_ARGS__)
#define td_add_conv3d_transpose(...) TD_ADD_LAYER(CONV3D_TRANSPOSE, conv3d_transpose, __VA_ARGS__)
#define td_add_depthwise_conv1d(...) TD_ADD_LAYER(DEPTHWISE_CONV1D, depthwise_conv1d, __VA_ARGS__)
#define td_add_separable_conv1d(...) TD_ADD_LAYER(SEPARABLE_CONV1D, separable_conv1d, __VA_ARGS__)
#define td_add_up_sampling1d(...) TD_ADD_LAYER(UP_SAMPLING1D, up_sampling1d, __VA_ARGS__)
#define td_add_repeat_vector(...) TD_ADD_LAYER(REPEAT_VECTOR, repeat_vector, __VA_ARGS__)
#define td_add_permute(...) TD_ADD_LAYER(PERMUTE, permute, __VA_ARGS__)
#define td_add_spatial_dropout1d(...)                                                              \
    TD_ADD_LAYER(SPATIAL_DROPOUT1D, spatial_dropout1d, __VA_ARGS__)
#define td_add_spatial_dropout2d(...)                                                              \
    TD_ADD_LAYER(SPATIAL_DROPOUT2D, spatial_dropout2d, __VA_ARGS__)
#define td_add_spatial_dropout3d(...)                                                              \
    TD_ADD_LAYER(SPATIAL_DROPOUT3D, spatial_dropout3d, __VA_ARGS__)
#define td_add_gaussian_dropout(...) TD_ADD_LAYER(GAUSSIAN_DROPOUT, gaussian_dropout, __VA_ARGS__)
#define td_add_alpha_dropout(...) TD_ADD_LAYER(ALPHA_DROPOUT, alpha_dropout, __VA_ARGS__)
#define td_add_relu(...) TD_ADD_LAYER(RELU, relu, __VA_ARGS__)
#define td_add_prelu(...) TD_ADD_LAYER(PRELU, prelu, __VA_ARGS__)
#define td_add_identity(...) TD_ADD_LAYER(IDENTITY, identity, __VA_ARGS__)
#define td_add_unit_normalization(...)                                                             \
    TD_ADD_LAYER(UNIT_NORMALIZATION, unit_normalization, __VA_ARGS__)
#define td_add_rms_normalization(...)                                                              \
    TD_ADD_LAYER(RMS_NORMALIZATION, rms_normalization, __VA_ARGS__)
#define td_add_attention(...) TD_ADD_LAYER(ATTENTION, attention, __VA_ARGS__)
#define td_add_additive_attention(...)                                                             \
    TD_ADD_LAYER(ADDITIVE_ATTENTION, additive_attention, __VA_ARGS__)
#define td_add_multi_head_attention(...)                                                           \
    TD_ADD_LAYER(MULTI_HEAD_ATTENTION, multi_head_attention, __VA_ARGS__)

/* td_add_custom(model, .output = TD_SHAPE(10), .forward = my_layer) */
#define td_add_custom(...) TD_ADD_LAYER(CUSTOM, custom, __VA_ARGS__)

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
    bool has_activation;                     /* a pre-activation can be had */
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
/* The same in a table of at most so many columns, as far as that is possible: long names are cut. */
TD_API td_status td_model_summary_within(const td_model *model, FILE *stream, int columns);

/* --- learning-rate schedules -------------------------------------------------------------- */

/* rate: the optimizer's learning rate, t: steps made so far less warmup, s: steps, a: end.
 *   constant      rate
 *   cosine        rate * ((1 - a) * (1 + cos(pi * min(t, s) / s)) / 2 + a)
 *   exponential   rate * factor^(t / s)
 *   step          rate * factor^floor(t / s)
 *   linear        (rate - a) * (1 - min(t, s) / s) + a
 *   polynomial    (rate - a) * (1 - min(t, s) / s)^power + a
 *   piecewise     values[number of boundaries < t]
 *   inverse_time  rate / (1 + factor * t / s)
 *   cosine_restarts  cosine over and over: the i-th from m_mul^i of the rate in s * t_mul^i steps
 * With staircase t / s is whole; with cycle s is as many times s as t has reached. The first warmup
 * steps rise in a straight line from 0 to where the schedule begins; of cosine with a warmup_target,
 * from the rate to that target, from which it then falls. Keras's names (cosine_decay, decay_rate,
 * …) are understood. */
typedef enum td_schedule_kind {
    TD_SCHEDULE_CONSTANT,
    TD_SCHEDULE_COSINE,
    TD_SCHEDULE_EXPONENTIAL,
    TD_SCHEDULE_STEP,
    TD_SCHEDULE_LINEAR,
    TD_SCHEDULE_POLYNOMIAL,
    TD_SCHEDULE_PIECEWISE,
    TD_SCHEDULE_INVERSE_TIME,
    TD_SCHEDULE_COSINE_RESTARTS,
    TD_SCHEDULE_KIND_COUNT
} td_schedule_kind;

#define TD_MAX_PIECES 32
typedef struct td_schedule {
    td_schedule_kind kind;
    int64_t warmup;
    int64_t steps; /* 0: unknown, the rate stays. Training sets what is left after warmup */
    double end;    /* cosine: a share of the rate; linear, polynomial: a rate (1e-4) */
    double factor; /* exponential 0.96, step 0.1 */
    double power;  /* 1 */
    int64_t boundary_count, value_count; /* of piecewise: one value more than boundaries */
    double boundaries[TD_MAX_PIECES];
    double values[TD_MAX_PIECES + 1];
    bool staircase;       /* exponential, inverse_time */
    bool cycle;           /* polynomial */
    double t_mul, m_mul;  /* cosine_restarts: 2, 1 */
    double initial;       /* the rate instead of the optimizer's; key initial_learning_rate … */
    bool initial_given;   /* … when there is one */
    double warmup_target; /* cosine */
    bool target_given;
} td_schedule;

/* "cosine"; NULL for a value that is no kind. */
TD_API const char *td_schedule_kind_name(td_schedule_kind kind);
/* Fills *schedule from keys and values: "cosine", {warmup: 100}. */
TD_API TD_NODISCARD td_status td_schedule_configure(td_schedule *schedule, const char *kind,
                                                    const td_setting *settings, size_t count,
                                                    td_error *error);
/* The rate of the step after `done` steps; `rate` itself when the schedule is not valid. */
TD_API double td_schedule_rate(const td_schedule *schedule, double rate, uint64_t done);

/* --- losses ------------------------------------------------------------------------------- */

/* Sets the loss and what the keys say ("huber", {delta: 2}); the rest of *options, which has its size,
 * stays as it is. TD_INVALID when an option means nothing for that loss. */
TD_API TD_NODISCARD td_status td_loss_configure(td_loss *loss, td_loss_options *options,
                                                const char *name, const td_setting *settings,
                                                size_t count, td_error *error);

/* --- optimizers --------------------------------------------------------------------------- */

typedef enum td_optimizer_kind {
    TD_SGD,
    TD_ADAM,
    TD_ADAMW,
    TD_RMSPROP,
    TD_ADAGRAD,
    TD_ADADELTA,
    TD_ADAMAX,
    TD_NADAM,
    TD_LION,
    TD_OPTIMIZER_KIND_COUNT
} td_optimizer_kind;

/* Equations and defaults are Keras's (docs/c-api.md). */
typedef struct td_optimizer_options {
    size_t size;
    td_optimizer_kind kind;
    double learning_rate;       /* 0.01 for sgd, 0.001 for the others */
    double momentum;            /* sgd, rmsprop */
    bool nesterov;              /* sgd */
    double beta_1, beta_2;      /* adam, adamw, adamax, nadam: 0.9, 0.999; lion: 0.9, 0.99 */
    double rho;                 /* rmsprop: 0.9; adadelta: 0.95 */
    double epsilon;             /* 1e-7 */
    double weight_decay;        /* w -= rate * weight_decay * w in each step; adamw: 0.004 */
    double initial_accumulator; /* adagrad: 0.1 */
    double clip_norm;           /* scale all gradients together to at most this norm; 0: do not */
    double clip_value;          /* clip each element to [-clip_value, clip_value]; 0: do not */
    td_schedule schedule;
    bool amsgrad;  /* adam, adamw: divide by the root of the largest second moment so far */
    bool centered; /* rmsprop: by that of the gradients' variance */
} td_optimizer_options;
#define TD_OPTIMIZER(...) TD_OPTIONS(td_optimizer_options, __VA_ARGS__)

/* "adam"; NULL for a value that is no kind. */
TD_API const char *td_optimizer_kind_name(td_optimizer_kind kind);
/* Sets the kind and what the keys say ("adam", {learning_rate: 0.001}), the rest to the defaults.
 * Clipping and schedule stay as they are. */
TD_API TD_NODISCARD td_status td_optimizer_configure(td_optimizer_options *options,
                                                     const char *kind, const td_setting *settings,
                                                     size_t count, td_error *error);

typedef struct td_optimizer td_optimizer;

/* parameters: float32 heap tensors, borrowed until td_optimizer_destroy; their names name the
 * state. NULL on failure. */
TD_API td_optimizer *td_optimizer_create(const td_optimizer_options *options, size_t count,
                                         td_tensor *const parameters[], td_error *error);
/* Accepts NULL. */
TD_API void td_optimizer_destroy(td_optimizer *optimizer);
/* Updates the parameters in place from gradients in their order; NULL leaves a parameter alone.
 * The gradients are not changed. Allocates nothing. */
TD_API TD_NODISCARD td_status td_optimizer_step(td_optimizer *optimizer,
                                                td_tensor *const gradients[], td_error *error);

/* What it runs with, defaults filled in; and as keys and values (learning_rate first). */
TD_API const td_optimizer_options *td_optimizer_settled(const td_optimizer *optimizer);
TD_API size_t td_optimizer_settings(const td_optimizer *optimizer, const td_setting **settings);
TD_API size_t td_schedule_settings(const td_optimizer *optimizer, const td_setting **settings);

/* Steps made so far: with the state and the parameters, all there is to resume from. */
TD_API uint64_t td_optimizer_steps(const td_optimizer *optimizer);
TD_API void td_optimizer_set_steps(td_optimizer *optimizer, uint64_t steps);
/* From the next step on this is the rate that schedules start from. TD_RANGE unless finite and 0 or
 * more. */
TD_API td_status td_optimizer_set_learning_rate(td_optimizer *optimizer, double rate,
                                                td_error *error);
/* The learning rate of the last step made (before the first: of the first). */
TD_API double td_optimizer_rate(const td_optimizer *optimizer);
/* The norm of all gradients together in the last step, before clipping; only with clip_norm. */
TD_API double td_optimizer_norm(const td_optimizer *optimizer);

/* State tensors (momenta and the like), named "conv1.kernel.m"; values may be written. */
TD_API size_t td_optimizer_state_count(const td_optimizer *optimizer);
TD_API td_tensor *td_optimizer_state(const td_optimizer *optimizer, size_t index);
/* NULL when there is none of that name. */
TD_API td_tensor *td_optimizer_find_state(const td_optimizer *optimizer, const char *name);

/* From now on keeps what each step added to parameter number index (all: SIZE_MAX). */
TD_API TD_NODISCARD td_status td_optimizer_keep_update(td_optimizer *optimizer, size_t index,
                                                       td_error *error);
/* The last step's change of a parameter, "conv1.kernel.update"; NULL unless kept. */
TD_API td_tensor *td_optimizer_update(const td_optimizer *optimizer, size_t index);

/* --- metrics ------------------------------------------------------------------------------ */

/* Prediction against truth, accumulated over batches. accuracy is the one that fits: sparse for
 * integer truth, binary when there is one output, else categorical; as Keras chooses. */
#define TD_METRIC_LIST(X)                                                                          \
    X(ACCURACY, "accuracy")                                                                        \
    X(SPARSE_CATEGORICAL_ACCURACY, "sparse_categorical_accuracy")                                  \
    X(CATEGORICAL_ACCURACY, "categorical_accuracy")                                                \
    X(BINARY_ACCURACY, "binary_accuracy")                                                          \
    X(TOP_K_ACCURACY, "top_k_accuracy") /* sparse or one-hot truth */                              \
    X(MAE, "mae")                                                                                  \
    X(MSE, "mse")                                                                                  \
    X(R2, "r2") /* mean over outputs of 1 - residual / total sum of squares */                     \
    X(PRECISION, "precision")                                                                      \
    X(RECALL, "recall")                                                                            \
    X(F1, "f1")                                                                                    \
    X(AUC, "auc")                                                                                  \
    X(CONFUSION_MATRIX, "confusion_matrix") /* counts (true class, predicted class) */

typedef enum td_metric_kind {
#define TD_METRIC_MEMBER(name, text) TD_METRIC_##name,
    TD_METRIC_LIST(TD_METRIC_MEMBER)
#undef TD_METRIC_MEMBER
        TD_METRIC_KIND_COUNT
} td_metric_kind;

/* What makes probabilities of predictions: nothing, they are; or they are logits. */
typedef enum td_link { TD_LINK_NONE, TD_LINK_SIGMOID, TD_LINK_SOFTMAX } td_link;
/* Over classes: all counts together; the mean; the mean by how many there are; each by itself. */
typedef enum td_average {
    TD_AVERAGE_DEFAULT, /* micro for precision and recall, macro for f1 */
    TD_AVERAGE_MICRO,
    TD_AVERAGE_MACRO,
    TD_AVERAGE_WEIGHTED,
    TD_AVERAGE_NONE
} td_average;
typedef enum td_curve { TD_CURVE_ROC, TD_CURVE_PR } td_curve;
typedef enum td_summation {
    TD_SUMMATION_INTERPOLATION,
    TD_SUMMATION_MINORING,
    TD_SUMMATION_MAJORING
} td_summation;

/* Thresholds are of probabilities. Zero is the default, as everywhere. */
typedef struct td_metric_options {
    size_t size;
    td_metric_kind kind;
    double threshold; /* above it is class 1 (0.5) */
    int64_t k;        /* top_k: 5; precision, recall: the k largest are predicted, no threshold */
    const char *name; /* what it is called; NULL: as its kind. Borrowed for the call */
    td_link link;
    td_average average;   /* precision, recall, f1 */
    int64_t class_id;     /* precision, recall: of this class alone … */
    bool class_given;     /* … when it is one */
    bool threshold_given; /* f1 with several outputs: by threshold; otherwise the largest counts */
    int64_t thresholds;   /* auc: 200 */
    td_curve curve;       /* auc */
    td_summation summation; /* auc */
} td_metric_options;
#define TD_METRIC(...) TD_OPTIONS(td_metric_options, __VA_ARGS__)

/* "accuracy"; NULL for a value that is no kind. */
TD_API const char *td_metric_kind_name(td_metric_kind kind);
/* Sets the kind and what the keys say ("auc", {curve: PR}), the rest to the defaults. The link
 * stays as it is; texts are borrowed. */
TD_API TD_NODISCARD td_status td_metric_configure(td_metric_options *options, const char *kind,
                                                  const td_setting *settings, size_t count,
                                                  td_error *error);
/* TD_NOT_FOUND names the nearest. Keras's other names (acc, f1_score, …) are found too. */
TD_API TD_NODISCARD td_status td_metric_kind_find(const char *name, td_metric_kind *kind,
                                                  td_error *error);

typedef struct td_metric td_metric;
/* NULL on failure. */
TD_API td_metric *td_metric_create(const td_metric_options *options, td_error *error);
/* Accepts NULL. */
TD_API void td_metric_destroy(td_metric *metric);
/* prediction: float32 (batch, …, outputs); truth: of the same shape in float32, or class numbers
 * (int32, int64, uint8) without the last axis. A truth of one value less axis or one axis of size 1
 * more fits too. */
TD_API TD_NODISCARD td_status td_metric_update(td_metric *metric, const td_tensor *prediction,
                                               const td_tensor *truth, td_error *error);
/* Over what was seen since the last reset; NaN when that is nothing. */
TD_API double td_metric_value(const td_metric *metric);
/* How many values it has of predictions with so many outputs: 1; with `average: none` one for each
 * class; of a confusion matrix classes * classes. And all of them. */
TD_API size_t td_metric_value_count(const td_metric_options *options, int64_t outputs);
TD_API void td_metric_values(const td_metric *metric, double *values);
TD_API void td_metric_reset(td_metric *metric);

/* --- catalogs: what there is, for lists -------------------------------------------------------- */

typedef enum td_catalog {
    TD_CATALOG_LAYERS,
    TD_CATALOG_LOSSES,
    TD_CATALOG_METRICS,
    TD_CATALOG_OPTIMIZERS,
    TD_CATALOG_SCHEDULES,
    TD_CATALOG_INITIALIZERS,
    TD_CATALOG_ACTIVATIONS,
    TD_CATALOG_COUNT
} td_catalog;

/* Names of others are NULL where they have nothing like it. All texts are static. */
typedef struct td_catalog_entry {
    const char *name;          /* "conv2d" */
    const char *keras, *torch; /* "Conv2D", "nn.Conv2d" */
    size_t option_count;
} td_catalog_entry;

typedef struct td_catalog_option {
    const char *key;          /* "kernel" */
    const char *other;        /* another key that is understood, mostly Keras's; or NULL */
    const char *type;         /* "whole number", "number", "true or false", … */
    const char *const *words; /* that it may be; NULL: it is no word. word_count, some NULL */
    size_t word_count;
    bool required;     /* it has no default */
    char standard[40]; /* the default: "1", "glorot_uniform", "-"; "" when required */
} td_catalog_option;

/* "layers". */
TD_API const char *td_catalog_name(td_catalog catalog);
TD_API size_t td_catalog_size(td_catalog catalog);
/* False when there is no such entry or option. */
TD_API bool td_catalog_entry_at(td_catalog catalog, size_t index, td_catalog_entry *entry);
TD_API bool td_catalog_option_at(td_catalog catalog, size_t index, size_t option,
                                 td_catalog_option *info);

/* Facts kept with a saved model: texts by key. */
typedef struct td_model_note {
    const char *key, *value;
} td_model_note;

#ifdef __cplusplus
}
#endif
#endif
