/* The classes that are no kind of layer by themselves; see class.h. */
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

static const td__keras_option leaky_relu[] = {{"negative_slope", TD__KERAS_IGNORED, NULL},
                                              {"alpha", TD__KERAS_IGNORED, NULL}};
static const td__keras_option elu[] = {{"alpha", TD__KERAS_IGNORED, NULL}};
static const td__keras_option softmax[] = {{"axis", TD__KERAS_LAST_AXIS, NULL}};
static const td__keras_option layer_scale[] = {{"init_values", TD__KERAS_IGNORED, NULL},
                                               {"projection_dim", TD__KERAS_IGNORED, NULL}};
static const td__keras_option custom_scale[] = {{"scale", TD__KERAS_IGNORED, NULL}};
static const td__keras_option operation[] = {{"function", TD__KERAS_IGNORED, NULL}};

/* --- what tables cannot say --------------------------------------------------------------- */

/* Of the first key that is there; otherwise where that is null or none. */
static double config_number(const json_t *config, const char *key, double fallback) {
    const json_t *value = json_object_get(config, key);
    return json_is_number(value) ? json_number_value(value) : fallback;
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
    double slope = config_number(config, "negative_slope", 0);
    double max = config_number(config, "max_value", INFINITY);
    bool capped = max == 6 && slope == 0;
    if (config_number(config, "threshold", 0) != 0 || !(isinf(max) || capped)) {
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
              config_number(config, "negative_slope", config_number(config, "alpha", 0.3)));
}

static void adapt_elu(const json_t *config, const td_shape *input, td__keras_settings *settings) {
    (void)input;
    add_leaky(settings, "elu", config_number(config, "alpha", 1));
}

static void adapt_softmax(const json_t *config, const td_shape *input,
                          td__keras_settings *settings) {
    (void)config, (void)input;
    td__keras_settings_text(settings, "function", "softmax");
}

/* The layer that a wrapper wraps: its options stand beside the wrapper's own. */
static const td__keras_class *adapt_wrapped(const json_t *config, td__keras_settings *settings) {
    const json_t *layer = json_object_get(config, "layer");
    const char *name = json_string_value(json_object_get(layer, "class_name"));
    const td__keras_class *inner = name ? td__keras_class_find(name) : NULL;
    if (inner && inner->kind->wraps) {
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
    td__keras_layer_read(inner, options, NULL, settings->keras2, &own);
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
            if (settings->used + value.count > TD__KERAS_MAX_NUMBERS) {
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
    if (inner && inner->kind->keras.storage != TD__KERAS_VARS) {
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

#define OWN(member, word, keras, options) {keras, #word, &td__##word##_kind, NULL, 0, NULL},
static const td__keras_class own[] = {TD_LAYER_LIST(OWN)};
#undef OWN

/* Classes that are no kind by themselves, and those of which the kind's options do not say all. */
#define AS(name, word, options, adapt)                                                             \
    { name, #word, &td__##word##_kind, options, TD__COUNT(options), adapt }
#define MORE(name, word, adapt)                                                                    \
    { name, #word, &td__##word##_kind, NULL, 0, adapt }
static const td__keras_class special[] = {
    MORE("TimeDistributed", time_distributed, adapt_time_distributed),
    MORE("Bidirectional", bidirectional, adapt_bidirectional),
    MORE("ReLU", relu, adapt_relu),
    AS("LeakyReLU", activation, leaky_relu, adapt_leaky_relu),
    AS("ELU", activation, elu, adapt_elu),
    AS("Softmax", activation, softmax, adapt_softmax),
    AS("LayerScale", depthwise_conv2d, layer_scale, adapt_layer_scale),
    AS("CustomScaleLayer", add, custom_scale, NULL),
    AS("TFOpLambda", add, operation, adapt_operation),
};

static const td__keras_class *find_class(const td__keras_class *classes, size_t count,
                                         const char *name) {
    for (size_t i = 0; i < count; i++) {
        if (!strcmp(classes[i].name, name) && classes[i].kind->keras.storage != TD__KERAS_NOWHERE) {
            return &classes[i];
        }
    }
    return NULL;
}

const td__keras_class *td__keras_class_find(const char *name) {
    const td__keras_class *found = find_class(special, TD__COUNT(special), name);
    return found ? found : find_class(own, TD__COUNT(own), name);
}

td__keras_storage td__keras_class_storage(const td__keras_class *keras_class) {
    return keras_class->kind->keras.storage;
}

const td__keras_class *td__keras_class_of(td_layer_kind kind) {
    return own[kind].kind->keras.storage == TD__KERAS_NOWHERE ? NULL : &own[kind];
}

const char *const *td__keras_sides(const char *first) {
    static const char *const sides[] = {"before", "after",  NULL,   "front", "back",
                                        "top",    "bottom", "left", "right", NULL};
    const char *const *side = sides;
    while (!*side || strcmp(*side, first) != 0) {
        side++;
    }
    return side;
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
    const td__keras_side *side = &class->kind->keras;
    const td__keras_option *found = class->options
                                        ? find_option(class->options, class->option_count, key)
                                        : find_option(side->options, side->option_count, key);
    return found ? found : find_option(common_options, TD__COUNT(common_options), key);
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
