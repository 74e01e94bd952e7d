/* The tables of classes and their options; see class.h. */
#include "keras/class.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

/* --- options ------------------------------------------------------------------------------ */

static const td__keras_option common_options[] = {
    {"name", TD__KERAS_IGNORED, NULL},        {"trainable", TD__KERAS_IGNORED, NULL},
    {"dtype", TD__KERAS_IGNORED, NULL},       {"batch_input_shape", TD__KERAS_IGNORED, NULL},
    {"batch_shape", TD__KERAS_IGNORED, NULL}, {"seed", TD__KERAS_IGNORED, NULL},
    {"autocast", TD__KERAS_IGNORED, NULL},    {"data_format", TD__KERAS_CHANNELS_LAST, NULL},
};

#define KERNEL_AND_BIAS                                                                            \
    {"use_bias", TD__KERAS_SWITCH, "use_bias"},                                                    \
        {"kernel_initializer", TD__KERAS_INITIALIZER, "kernel_initializer"},                       \
        {"bias_initializer", TD__KERAS_INITIALIZER, "bias_initializer"},                           \
        {"kernel_regularizer", TD__KERAS_REGULARIZER, "kernel"}, {                                 \
        "bias_regularizer", TD__KERAS_REGULARIZER, "bias"                                          \
    }
#define WINDOW                                                                                     \
    {"kernel_size", TD__KERAS_NUMBERS, "kernel"}, {"strides", TD__KERAS_NUMBERS, "stride"},        \
        {"dilation_rate", TD__KERAS_NUMBERS, "dilation"},                                          \
        {"padding", TD__KERAS_PADDING, "padding"}, {                                               \
        "activation", TD__KERAS_ACTIVATION, "activation"                                           \
    }

static const td__keras_option dense[] = {{"units", TD__KERAS_NUMBER, "units"},
                                         {"activation", TD__KERAS_ACTIVATION, "activation"},
                                         KERNEL_AND_BIAS};
static const td__keras_option convolution[] = {{"filters", TD__KERAS_NUMBER, "filters"},
                                               {"groups", TD__KERAS_NUMBER, "groups"},
                                               WINDOW,
                                               KERNEL_AND_BIAS};
static const td__keras_option transposed[] = {
    {"filters", TD__KERAS_NUMBER, "filters"},
    {"groups", TD__KERAS_ONE, "groups"},
    {"output_padding", TD__KERAS_NUMBERS, "output_padding"},
    WINDOW,
    KERNEL_AND_BIAS};
static const td__keras_option depthwise[] = {
    {"depth_multiplier", TD__KERAS_NUMBER, "multiplier"},
    {"groups", TD__KERAS_ONE, NULL},
    {"depthwise_initializer", TD__KERAS_INITIALIZER, "kernel_initializer"},
    {"depthwise_regularizer", TD__KERAS_REGULARIZER, "kernel"},
    {"use_bias", TD__KERAS_SWITCH, "use_bias"},
    {"bias_initializer", TD__KERAS_INITIALIZER, "bias_initializer"},
    {"bias_regularizer", TD__KERAS_REGULARIZER, "bias"},
    WINDOW};
static const td__keras_option separable[] = {
    {"filters", TD__KERAS_NUMBER, "filters"},
    {"depth_multiplier", TD__KERAS_NUMBER, "multiplier"},
    {"groups", TD__KERAS_ONE, NULL},
    {"depthwise_initializer", TD__KERAS_INITIALIZER, "kernel_initializer"},
    {"pointwise_initializer", TD__KERAS_INITIALIZER, "pointwise_initializer"},
    {"depthwise_regularizer", TD__KERAS_REGULARIZER, "kernel"},
    {"use_bias", TD__KERAS_SWITCH, "use_bias"},
    {"bias_initializer", TD__KERAS_INITIALIZER, "bias_initializer"},
    {"bias_regularizer", TD__KERAS_REGULARIZER, "bias"},
    WINDOW};
static const td__keras_option dot[] = {{"axes", TD__KERAS_NUMBERS, "axes"},
                                       {"normalize", TD__KERAS_SWITCH, "normalize"}};
static const td__keras_option noise[] = {{"stddev", TD__KERAS_NUMBER, "stddev"}};
static const td__keras_option pool[] = {{"pool_size", TD__KERAS_NUMBERS, "size"},
                                        {"strides", TD__KERAS_NUMBERS, "stride"},
                                        {"padding", TD__KERAS_PADDING, "padding"}};
static const td__keras_option global_pool[] = {{"keepdims", TD__KERAS_SWITCH, "keepdims"}};
static const td__keras_option zero_padding[] = {{"padding", TD__KERAS_IGNORED, NULL}};
static const td__keras_option cropping[] = {{"cropping", TD__KERAS_IGNORED, NULL}};
static const td__keras_option rescaling[] = {{"scale", TD__KERAS_NUMBER, "scale"},
                                             {"offset", TD__KERAS_NUMBER, "offset"}};
static const td__keras_option up[] = {{"size", TD__KERAS_NUMBERS, "size"},
                                      {"interpolation", TD__KERAS_INTERPOLATION, "interpolation"}};
static const td__keras_option reshape[] = {{"target_shape", TD__KERAS_NUMBERS, "shape"}};
static const td__keras_option dropout[] = {{"rate", TD__KERAS_NUMBER, "rate"},
                                           {"noise_shape", TD__KERAS_BATCH_SHAPE, "noise_shape"}};
static const td__keras_option masking[] = {{"mask_value", TD__KERAS_NUMBER, "mask_value"}};
static const td__keras_option normalization[] = {{"axis", TD__KERAS_LAST_AXIS, NULL},
                                                 {"mean", TD__KERAS_IGNORED, NULL},
                                                 {"variance", TD__KERAS_IGNORED, NULL},
                                                 {"invert", TD__KERAS_SWITCH, "invert"}};
static const td__keras_option permute[] = {{"dims", TD__KERAS_NUMBERS, "dims"}};
static const td__keras_option repeat_vector[] = {{"n", TD__KERAS_NUMBER, "n"}};
static const td__keras_option up1d[] = {{"size", TD__KERAS_NUMBER, "size"}};
static const td__keras_option rate[] = {{"rate", TD__KERAS_NUMBER, "rate"},
                                        {"noise_shape", TD__KERAS_IGNORED, NULL}};
static const td__keras_option relu[] = {{"max_value", TD__KERAS_NUMBER, "max_value"},
                                        {"negative_slope", TD__KERAS_NUMBER, "negative_slope"},
                                        {"threshold", TD__KERAS_NUMBER, "threshold"}};
static const td__keras_option prelu[] = {
    {"alpha_initializer", TD__KERAS_INITIALIZER, "alpha_initializer"},
    {"alpha_regularizer", TD__KERAS_REGULARIZER, "alpha"},
    {"shared_axes", TD__KERAS_NUMBERS, "shared_axes"}};
static const td__keras_option unit_normalization[] = {{"axis", TD__KERAS_NUMBERS, "axis"}};
static const td__keras_option rms_normalization[] = {{"axis", TD__KERAS_LAST_AXIS, NULL},
                                                     {"epsilon", TD__KERAS_NUMBER, "epsilon"}};
static const td__keras_option scores[] = {{"use_scale", TD__KERAS_SWITCH, "use_scale"},
                                          {"score_mode", TD__KERAS_WORD, "score_mode"},
                                          {"dropout", TD__KERAS_NUMBER, "dropout"}};
static const td__keras_option up3d[] = {{"size", TD__KERAS_NUMBERS, "size"}};
/* `layer` is read and written by itself. */
static const td__keras_option time_distributed[] = {{"layer", TD__KERAS_IGNORED, NULL}};
static const td__keras_option bidirectional[] = {{"layer", TD__KERAS_IGNORED, NULL},
                                                 {"backward_layer", TD__KERAS_IGNORED, NULL},
                                                 {"merge_mode", TD__KERAS_MERGE, "merge_mode"}};
#define NORMALIZATION                                                                              \
    {"axis", TD__KERAS_LAST_AXIS, NULL}, {"epsilon", TD__KERAS_NUMBER, "epsilon"},                 \
        {"center", TD__KERAS_SWITCH, "center"}, {"scale", TD__KERAS_SWITCH, "scale"},              \
        {"beta_initializer", TD__KERAS_INITIALIZER, "beta_initializer"}, {                         \
        "gamma_initializer", TD__KERAS_INITIALIZER, "gamma_initializer"                            \
    }
static const td__keras_option batch_normalization[] = {
    NORMALIZATION,
    {"momentum", TD__KERAS_NUMBER, "momentum"},
    {"moving_mean_initializer", TD__KERAS_INITIALIZER, "moving_mean_initializer"},
    {"moving_variance_initializer", TD__KERAS_INITIALIZER, "moving_variance_initializer"},
    {"renorm_momentum", TD__KERAS_IGNORED, NULL}}; /* of renorm, which must be off */
static const td__keras_option layer_normalization[] = {NORMALIZATION};
static const td__keras_option group_normalization[] = {{"groups", TD__KERAS_NUMBER, "groups"},
                                                       NORMALIZATION};
static const td__keras_option embedding[] = {
    {"input_dim", TD__KERAS_NUMBER, "vocabulary"},
    {"output_dim", TD__KERAS_NUMBER, "width"},
    {"embeddings_initializer", TD__KERAS_INITIALIZER, "embeddings_initializer"},
    {"mask_zero", TD__KERAS_SWITCH, "mask_zero"},
    {"input_length", TD__KERAS_IGNORED, NULL}};
#define RECURRENT                                                                                  \
    {"units", TD__KERAS_NUMBER, "units"}, {"activation", TD__KERAS_ACTIVATION, "activation"},      \
        {"return_sequences", TD__KERAS_SWITCH, "return_sequences"},                                \
        {"go_backwards", TD__KERAS_SWITCH, "go_backwards"},                                        \
        {"recurrent_initializer", TD__KERAS_INITIALIZER, "recurrent_initializer"},                 \
        {"dropout", TD__KERAS_NUMBER, "dropout"},                                                  \
        {"recurrent_dropout", TD__KERAS_NUMBER, "recurrent_dropout"},                              \
        {"unroll", TD__KERAS_IGNORED, NULL}, {"implementation", TD__KERAS_IGNORED, NULL},          \
        {"use_cudnn", TD__KERAS_IGNORED, NULL}, KERNEL_AND_BIAS
static const td__keras_option simple_rnn[] = {RECURRENT};
static const td__keras_option lstm[] = {
    RECURRENT,
    {"recurrent_activation", TD__KERAS_ACTIVATION, "recurrent_activation"},
    {"unit_forget_bias", TD__KERAS_SWITCH, "unit_forget_bias"}};
static const td__keras_option gru[] = {
    RECURRENT,
    {"recurrent_activation", TD__KERAS_ACTIVATION, "recurrent_activation"},
    {"reset_after", TD__KERAS_SWITCH, "reset_after"}};
static const td__keras_option activation[] = {{"activation", TD__KERAS_ACTIVATION, "function"}};
static const td__keras_option leaky_relu[] = {{"negative_slope", TD__KERAS_IGNORED, NULL},
                                              {"alpha", TD__KERAS_IGNORED, NULL}};
static const td__keras_option elu[] = {{"alpha", TD__KERAS_IGNORED, NULL}};
static const td__keras_option softmax[] = {{"axis", TD__KERAS_LAST_AXIS, NULL}};
static const td__keras_option concatenate[] = {{"axis", TD__KERAS_NUMBER, "axis"}};
static const td__keras_option attention[] = {
    {"num_heads", TD__KERAS_NUMBER, "heads"},     {"key_dim", TD__KERAS_NUMBER, "key_dim"},
    {"value_dim", TD__KERAS_NUMBER, "value_dim"}, {"attention_axes", TD__KERAS_ONE, NULL},
    {"dropout", TD__KERAS_NUMBER, "dropout"},     {"flash_attention", TD__KERAS_IGNORED, NULL},
    {"query_shape", TD__KERAS_IGNORED, NULL},     {"key_shape", TD__KERAS_IGNORED, NULL},
    {"value_shape", TD__KERAS_IGNORED, NULL},     KERNEL_AND_BIAS};
static const td__keras_option layer_scale[] = {{"init_values", TD__KERAS_IGNORED, NULL},
                                               {"projection_dim", TD__KERAS_IGNORED, NULL}};
static const td__keras_option custom_scale[] = {{"scale", TD__KERAS_IGNORED, NULL}};
static const td__keras_option operation[] = {{"function", TD__KERAS_IGNORED, NULL}};

/* --- what tables cannot say --------------------------------------------------------------- */

/* Of the first key that is there; otherwise where that is null or none. */
static double number_of(const json_t *config, const char *key, double otherwise) {
    const json_t *value = json_object_get(config, key);
    return json_is_number(value) ? json_number_value(value) : otherwise;
}

/* A slope of 0 is a relu; our own 0 would mean the default. */
static void add_leaky(td__keras_settings *settings, const char *function, double alpha) {
    td__keras_settings_text(settings, "function", alpha == 0 ? "relu" : function);
    if (alpha < 0) {
        td__keras_settings_refuse(settings, "its slope %.3g is negative", alpha);
    } else if (alpha > 0) {
        td__keras_settings_number(settings, "alpha", alpha);
    }
}

/* What an activation is by itself is read as one. */
static void adapt_relu(const json_t *config, const td_shape *input, td__keras_settings *settings) {
    (void)input;
    double slope = number_of(config, "negative_slope", 0);
    double most = number_of(config, "max_value", INFINITY);
    bool capped = most == 6 && slope == 0;
    if (number_of(config, "threshold", 0) != 0 || !(isinf(most) || capped)) {
        return;
    }
    settings->kind = "activation";
    settings->count = 0;
    if (capped) {
        td__keras_settings_text(settings, "function", "relu6");
    } else {
        add_leaky(settings, "leaky_relu", slope);
    }
}

static void adapt_leaky_relu(const json_t *config, const td_shape *input,
                             td__keras_settings *settings) {
    (void)input;
    add_leaky(settings, "leaky_relu",
              number_of(config, "negative_slope", number_of(config, "alpha", 0.3)));
}

static void adapt_elu(const json_t *config, const td_shape *input, td__keras_settings *settings) {
    (void)input;
    add_leaky(settings, "elu", number_of(config, "alpha", 1));
}

static void adapt_softmax(const json_t *config, const td_shape *input,
                          td__keras_settings *settings) {
    (void)config, (void)input;
    td__keras_settings_text(settings, "function", "softmax");
}

static void adapt_concatenate(const json_t *config, const td_shape *input,
                              td__keras_settings *settings) {
    (void)input;
    if (number_of(config, "axis", -1) == 0) {
        td__keras_settings_refuse(settings, "its axis is the batch");
    }
}

/* n, [height, width] or [[top, bottom], [left, right]] */
static void adapt_borders(const json_t *borders, size_t count, const char *const *sides,
                          td__keras_settings *settings) {
    for (size_t i = 0; i < count; i++) {
        /* Of steps there is one pair, not a list of them. */
        const json_t *axis =
            json_is_array(borders) && count > 2 ? json_array_get(borders, i / 2) : borders;
        const json_t *side = json_is_array(axis) ? json_array_get(axis, i % 2) : axis;
        if (!json_is_integer(side)) {
            td__keras_settings_refuse(settings, "its borders are no numbers of rows and columns");
        }
        td__keras_settings_number(settings, sides[i], json_number_value(side));
    }
}

static const char *const sides_of_image[] = {"top", "bottom", "left", "right"};
static const char *const sides_of_steps[] = {"before", "after"};
static const char *const sides_of_volume[] = {"front", "back", "top", "bottom", "left", "right"};

static void adapt_padding3d(const json_t *config, const td_shape *input,
                            td__keras_settings *settings) {
    (void)input;
    adapt_borders(json_object_get(config, "padding"), 6, sides_of_volume, settings);
}
static void adapt_cropping3d(const json_t *config, const td_shape *input,
                             td__keras_settings *settings) {
    (void)input;
    adapt_borders(json_object_get(config, "cropping"), 6, sides_of_volume, settings);
}

static void adapt_padding2d(const json_t *config, const td_shape *input,
                            td__keras_settings *settings) {
    (void)input;
    adapt_borders(json_object_get(config, "padding"), 4, sides_of_image, settings);
}
static void adapt_padding1d(const json_t *config, const td_shape *input,
                            td__keras_settings *settings) {
    (void)input;
    adapt_borders(json_object_get(config, "padding"), 2, sides_of_steps, settings);
}
static void adapt_cropping2d(const json_t *config, const td_shape *input,
                             td__keras_settings *settings) {
    (void)input;
    adapt_borders(json_object_get(config, "cropping"), 4, sides_of_image, settings);
}
static void adapt_cropping1d(const json_t *config, const td_shape *input,
                             td__keras_settings *settings) {
    (void)input;
    adapt_borders(json_object_get(config, "cropping"), 2, sides_of_steps, settings);
}

/* The layer that a wrapper wraps: its options stand beside the wrapper's own. */
static const td__keras_class *adapt_wrapped(const json_t *config, td__keras_settings *settings) {
    const json_t *layer = json_object_get(config, "layer");
    const char *name = json_string_value(json_object_get(layer, "class_name"));
    const td__keras_class *inner = name ? td__keras_class_find(name) : NULL;
    if (inner &&
        (inner->kind == TD_LAYER_TIME_DISTRIBUTED || inner->kind == TD_LAYER_BIDIRECTIONAL)) {
        td__keras_settings_refuse(settings, "it wraps a %s", name);
        return NULL;
    }
    if (!inner) {
        td__keras_settings_refuse(settings, "it wraps %.60s, which is not here",
                                  name ? name : "no layer");
        return NULL;
    }
    td__keras_settings own;
    json_t *options = json_copy(json_object_get(layer, "config"));
    (void)json_object_del(options,
                          "zero_output_for_mask"); /* bidirectional does, whatever is here */
    td__keras_layer_read(inner, options, NULL, false, &own);
    json_decref(options);
    if (*own.reason) {
        td__keras_settings_refuse(settings, "of its %.40s, %.100s", name, own.reason);
    }
    td__keras_settings_text(settings, "layer", own.kind);
    for (size_t i = 0; i < own.count; i++) {
        td_value value = own.items[i].value;
        if (value.kind == TD_VALUE_CHOICE) {
            continue; /* an initialiser: it changes no loaded weights */
        }
        if (value.kind == TD_VALUE_NUMBERS) {
            if (settings->used + value.count > TD__KERAS_MOST_NUMBERS) {
                td__keras_settings_refuse(settings, "it has too many numbers");
                return inner;
            }
            double *numbers = settings->numbers + settings->used;
            memcpy(numbers, value.numbers, value.count * sizeof *numbers);
            settings->used += value.count;
            value.numbers = numbers;
        }
        td__keras_settings_add(settings, own.items[i].key, value);
    }
    return inner;
}

static void adapt_time_distributed(const json_t *config, const td_shape *input,
                                   td__keras_settings *settings) {
    (void)input;
    const td__keras_class *inner = adapt_wrapped(config, settings);
    if (inner && inner->storage != TD__KERAS_VARS) {
        td__keras_settings_refuse(settings, "it wraps a %s", inner->name);
    }
}

/* The backward layer is the forward one with its own weights, the other way round. */
static void adapt_bidirectional(const json_t *config, const td_shape *input,
                                td__keras_settings *settings) {
    (void)input;
    if (json_is_null(json_object_get(config, "merge_mode"))) {
        td__keras_settings_refuse(settings, "its merge_mode is null: it puts out two tensors");
    }
    (void)adapt_wrapped(config, settings);
    const json_t *backward = json_object_get(json_object_get(config, "backward_layer"), "config");
    const json_t *forward = json_object_get(json_object_get(config, "layer"), "config");
    static const char *const same[] = {"units",    "activation",       "recurrent_activation",
                                       "use_bias", "return_sequences", "reset_after",
                                       "dropout"};
    for (size_t i = 0; backward && i < sizeof same / sizeof *same; i++) {
        const json_t *a = json_object_get(forward, same[i]),
                     *b = json_object_get(backward, same[i]);
        if (a != b && !json_equal(a, b)) {
            td__keras_settings_refuse(settings, "its backward layer has another %s", same[i]);
        }
    }
}

/* What Keras 2 makes of `a + b`. */
static void adapt_operation(const json_t *config, const td_shape *input,
                            td__keras_settings *settings) {
    (void)input;
    static const struct {
        const char *function, *kind;
    } known[] = {{"__operators__.add", "add"},
                 {"math.add", "add"},
                 {"math.multiply", "multiply"},
                 {"__operators__.mul", "multiply"}};
    const char *function = json_string_value(json_object_get(config, "function"));
    settings->kind = NULL;
    for (size_t i = 0; function && i < sizeof known / sizeof *known; i++) {
        settings->kind = strcmp(function, known[i].function) ? settings->kind : known[i].kind;
    }
    if (!settings->kind) {
        td__keras_settings_refuse(settings, "its function is %.60s",
                                  function ? function : "not named");
    }
}

/* keras.applications's ConvNeXt multiplies each channel by a number of its own. */
static void adapt_layer_scale(const json_t *config, const td_shape *input,
                              td__keras_settings *settings) {
    (void)config, (void)input;
    td__keras_settings_number(settings, "kernel", 1);
    td__keras_settings_add(settings, "use_bias", (td_value){.kind = TD_VALUE_BOOL});
}

/* --- classes ------------------------------------------------------------------------------ */

#define CLASS(name, kind, options, storage, adapt)                                                 \
    {                                                                                              \
        name, TD_LAYER_##kind, options, sizeof(options) / sizeof *(options), TD__KERAS_##storage,  \
            adapt                                                                                  \
    }
#define PLAIN(name, kind)                                                                          \
    { name, TD_LAYER_##kind, NULL, 0, TD__KERAS_VARS, NULL }

/* The first of a kind is what is written for it. */
static const td__keras_class classes[] = {
    CLASS("Dense", DENSE, dense, VARS, NULL),
    CLASS("Conv1D", CONV1D, convolution, VARS, NULL),
    CLASS("Conv2D", CONV2D, convolution, VARS, NULL),
    CLASS("Conv2DTranspose", CONV2D_TRANSPOSE, transposed, VARS, NULL),
    CLASS("Conv1DTranspose", CONV1D_TRANSPOSE, transposed, VARS, NULL),
    CLASS("Conv3DTranspose", CONV3D_TRANSPOSE, transposed, VARS, NULL),
    CLASS("DepthwiseConv1D", DEPTHWISE_CONV1D, depthwise, VARS, NULL),
    CLASS("SeparableConv1D", SEPARABLE_CONV1D, separable, VARS, NULL),
    CLASS("DepthwiseConv2D", DEPTHWISE_CONV2D, depthwise, VARS, NULL),
    CLASS("SeparableConv2D", SEPARABLE_CONV2D, separable, VARS, NULL),
    CLASS("MaxPooling2D", MAX_POOL2D, pool, VARS, NULL),
    CLASS("AveragePooling2D", AVERAGE_POOL2D, pool, VARS, NULL),
    CLASS("GlobalAveragePooling2D", GLOBAL_AVERAGE_POOL2D, global_pool, VARS, NULL),
    CLASS("GlobalMaxPooling2D", GLOBAL_MAX_POOL2D, global_pool, VARS, NULL),
    CLASS("MaxPooling1D", MAX_POOL1D, pool, VARS, NULL),
    CLASS("AveragePooling1D", AVERAGE_POOL1D, pool, VARS, NULL),
    CLASS("GlobalAveragePooling1D", GLOBAL_AVERAGE_POOL1D, global_pool, VARS, NULL),
    CLASS("GlobalMaxPooling1D", GLOBAL_MAX_POOL1D, global_pool, VARS, NULL),
    CLASS("ZeroPadding1D", ZERO_PADDING1D, zero_padding, VARS, adapt_padding1d),
    CLASS("ZeroPadding2D", ZERO_PADDING2D, zero_padding, VARS, adapt_padding2d),
    CLASS("Cropping1D", CROPPING1D, cropping, VARS, adapt_cropping1d),
    CLASS("Cropping2D", CROPPING2D, cropping, VARS, adapt_cropping2d),
    CLASS("Conv3D", CONV3D, convolution, VARS, NULL),
    CLASS("MaxPooling3D", MAX_POOL3D, pool, VARS, NULL),
    CLASS("AveragePooling3D", AVERAGE_POOL3D, pool, VARS, NULL),
    CLASS("GlobalAveragePooling3D", GLOBAL_AVERAGE_POOL3D, global_pool, VARS, NULL),
    CLASS("GlobalMaxPooling3D", GLOBAL_MAX_POOL3D, global_pool, VARS, NULL),
    CLASS("ZeroPadding3D", ZERO_PADDING3D, zero_padding, VARS, adapt_padding3d),
    CLASS("Cropping3D", CROPPING3D, cropping, VARS, adapt_cropping3d),
    CLASS("UpSampling3D", UP_SAMPLING3D, up3d, VARS, NULL),
    CLASS("Masking", MASKING, masking, VARS, NULL),
    CLASS("Normalization", NORMALIZATION, normalization, VARS, NULL),
    CLASS("TimeDistributed", TIME_DISTRIBUTED, time_distributed, WRAPPED, adapt_time_distributed),
    CLASS("Bidirectional", BIDIRECTIONAL, bidirectional, BOTH, adapt_bidirectional),
    CLASS("Rescaling", RESCALING, rescaling, VARS, NULL),
    CLASS("UpSampling2D", UP_SAMPLING2D, up, VARS, NULL),
    CLASS("UpSampling1D", UP_SAMPLING1D, up1d, VARS, NULL),
    CLASS("RepeatVector", REPEAT_VECTOR, repeat_vector, VARS, NULL),
    CLASS("Permute", PERMUTE, permute, VARS, NULL),
    CLASS("SpatialDropout1D", SPATIAL_DROPOUT1D, rate, VARS, NULL),
    CLASS("SpatialDropout2D", SPATIAL_DROPOUT2D, rate, VARS, NULL),
    CLASS("SpatialDropout3D", SPATIAL_DROPOUT3D, rate, VARS, NULL),
    CLASS("GaussianDropout", GAUSSIAN_DROPOUT, rate, VARS, NULL),
    CLASS("AlphaDropout", ALPHA_DROPOUT, dropout, VARS, NULL),
    CLASS("PReLU", PRELU, prelu, VARS, NULL),
    CLASS("UnitNormalization", UNIT_NORMALIZATION, unit_normalization, VARS, NULL),
    CLASS("RMSNormalization", RMS_NORMALIZATION, rms_normalization, VARS, NULL),
    CLASS("Attention", ATTENTION, scores, VARS, NULL),
    CLASS("AdditiveAttention", ADDITIVE_ATTENTION, scores, VARS, NULL),
    PLAIN("Identity", IDENTITY),
    PLAIN("Flatten", FLATTEN),
    CLASS("Reshape", RESHAPE, reshape, VARS, NULL),
    CLASS("Dropout", DROPOUT, dropout, VARS, NULL),
    CLASS("BatchNormalization", BATCH_NORMALIZATION, batch_normalization, VARS, NULL),
    CLASS("LayerNormalization", LAYER_NORMALIZATION, layer_normalization, VARS, NULL),
    CLASS("GroupNormalization", GROUP_NORMALIZATION, group_normalization, VARS, NULL),
    CLASS("Embedding", EMBEDDING, embedding, VARS, NULL),
    CLASS("SimpleRNN", SIMPLE_RNN, simple_rnn, CELL, NULL),
    CLASS("LSTM", LSTM, lstm, CELL, NULL),
    CLASS("GRU", GRU, gru, CELL, NULL),
    CLASS("Activation", ACTIVATION, activation, VARS, NULL),
    CLASS("ReLU", RELU, relu, VARS, adapt_relu),
    CLASS("LeakyReLU", ACTIVATION, leaky_relu, VARS, adapt_leaky_relu),
    CLASS("ELU", ACTIVATION, elu, VARS, adapt_elu),
    CLASS("Softmax", ACTIVATION, softmax, VARS, adapt_softmax),
    PLAIN("Add", ADD),
    PLAIN("Subtract", SUBTRACT),
    PLAIN("Multiply", MULTIPLY),
    PLAIN("Average", AVERAGE),
    PLAIN("Maximum", MAXIMUM),
    PLAIN("Minimum", MINIMUM),
    CLASS("Dot", DOT, dot, VARS, NULL),
    CLASS("GaussianNoise", GAUSSIAN_NOISE, noise, VARS, NULL),
    CLASS("LayerScale", DEPTHWISE_CONV2D, layer_scale, VARS, adapt_layer_scale),
    CLASS("CustomScaleLayer", ADD, custom_scale, VARS, NULL),
    CLASS("TFOpLambda", ADD, operation, VARS, adapt_operation),
    CLASS("Concatenate", CONCATENATE, concatenate, VARS, adapt_concatenate),
    CLASS("MultiHeadAttention", MULTI_HEAD_ATTENTION, attention, ATTENTION, NULL),
};
enum { CLASSES = sizeof classes / sizeof *classes };

const td__keras_class *td__keras_class_find(const char *name) {
    for (size_t i = 0; i < CLASSES; i++) {
        if (!strcmp(classes[i].name, name)) {
            return &classes[i];
        }
    }
    return NULL;
}

td__keras_storage td__keras_class_storage(const td__keras_class *of) {
    return of->storage;
}

static const td__keras_option *find_option(const td__keras_option *options, size_t count,
                                           const char *key) {
    for (size_t i = 0; i < count; i++) {
        if (!strcmp(options[i].key, key)) {
            return &options[i];
        }
    }
    return NULL;
}

const td__keras_option *td__keras_option_find(const td__keras_class *class, const char *key) {
    const td__keras_option *found = find_option(class->options, class->count, key);
    size_t common = sizeof common_options / sizeof *common_options;
    return found ? found : find_option(common_options, common, key);
}

const td__keras_class *td__keras_class_of(td_layer_kind kind) {
    for (size_t i = 0; i < CLASSES; i++) {
        if (classes[i].kind == kind) {
            return &classes[i];
        }
    }
    return NULL;
}

td__keras_penalty td__keras_penalty_of(const char *ours) {
    return strcmp(ours, "bias") == 0    ? (td__keras_penalty){"bias_l1", "bias_l2"}
           : strcmp(ours, "alpha") == 0 ? (td__keras_penalty){"alpha_l1", "alpha_l2"}
                                        : (td__keras_penalty){"kernel_l1", "kernel_l2"};
}

void td__keras_snake(const char *class_name, char snake[TD__KERAS_SNAKE_SIZE]) {
    size_t used = 0;
    for (const char *at = class_name; *at && used + 2 < TD__KERAS_SNAKE_SIZE; at++) {
        unsigned char c = (unsigned char)*at;
        bool inside = at > class_name;
        if (isupper(c) && inside &&
            (islower((unsigned char)at[1]) || islower((unsigned char)at[-1]))) {
            snake[used++] = '_';
        }
        if (isalnum(c) || c == '_') {
            snake[used++] = (char)tolower(c);
        }
    }
    snake[used] = 0;
}
