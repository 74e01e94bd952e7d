/* Writing a layer's options by the tables; see layer.h. */
#include "base/json.h"
#include "keras/class.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const td_value *find_setting(const td_layer_info *layer, const char *key) {
    for (size_t i = 0; key && i < layer->setting_count; i++) {
        if (!strcmp(layer->settings[i].key, key)) {
            return &layer->settings[i].value;
        }
    }
    return NULL;
}

static double setting_number(const td_layer_info *layer, const char *key) {
    const td_value *value = find_setting(layer, key);
    return value ? value->number : 0;
}

static json_t *numbers_json(const td_value *value) {
    json_t *list = json_array();
    for (size_t i = 0; i < value->count; i++) {
        json_array_append_new(list, td__json_number(value->numbers[i]));
    }
    return list;
}

static json_t *regularizer_json(const td_layer_info *layer, const char *ours) {
    td__keras_penalty keys = td__keras_penalty_of(ours);
    double l1 = setting_number(layer, keys.l1), l2 = setting_number(layer, keys.l2);
    if (l1 == 0 && l2 == 0) {
        return json_null();
    }
    return json_pack("{s:s, s:s, s:{s:f, s:f}, s:n}", "module", "keras.regularizers", "class_name",
                     "L1L2", "config", "l1", l1, "l2", l2, "registered_name");
}

/* "random_normal" as "RandomNormal" */
static void camel(const char *word, char *class_name, size_t size) {
    size_t used = 0;
    for (bool first = true; *word && used + 1 < size; word++) {
        if (*word != '_') {
            class_name[used++] = first ? (char)toupper((unsigned char)*word) : *word;
        }
        first = *word == '_';
    }
    class_name[used] = 0;
}

static json_t *initializer_json(const td_value *value) {
    char class_name[64];
    camel(value->text, class_name, sizeof class_name);
    json_t *config = json_object();
    for (size_t i = 0; i < value->count; i++) {
        const td_value *option = &value->settings[i].value;
        bool seed = !strcmp(value->settings[i].key, "seed");
        json_object_set_new(config, value->settings[i].key,
                            option->kind == TD_VALUE_TEXT ? json_string(option->text)
                            : seed                        ? td__json_number(option->number)
                                                          : json_real(option->number));
    }
    return json_pack("{s:s, s:s, s:o, s:n}", "module", "keras.initializers", "class_name",
                     class_name, "config", config, "registered_name");
}

/* NULL: the option is left to Keras's default. */
static json_t *option_json(const td__keras_option *rule, const td_layer_info *layer, char *reason) {
    const td_value *value = find_setting(layer, rule->ours);
    if (rule->meaning == TD__KERAS_REGULARIZER) {
        return regularizer_json(layer, rule->ours);
    }
    if (!value) {
        return NULL;
    }
    switch (value->kind) {
    case TD_VALUE_NUMBER:
        return td__json_number(value->number);
    case TD_VALUE_BOOL:
        return json_boolean(value->boolean);
    case TD_VALUE_TEXT:
        if (!strcmp(value->text, "gelu_tanh")) {
            (void)snprintf(reason, TD__KERAS_REASON_SIZE, "Keras has no name for gelu_tanh");
        }
        return json_string(value->text);
    case TD_VALUE_NUMBERS:
        return numbers_json(value);
    case TD_VALUE_CHOICE:
        return initializer_json(value);
    case TD_VALUE_TEXTS:
        break;
    }
    return NULL;
}

/* The borders of an image as a list of lists, those of steps as a list. */
static json_t *borders_json(const td_layer_info *layer, const char *key, bool image) {
    if (image) {
        return json_pack("{s:[[i, i], [i, i]]}", key, (int)setting_number(layer, "top"),
                         (int)setting_number(layer, "bottom"), (int)setting_number(layer, "left"),
                         (int)setting_number(layer, "right"));
    }
    return json_pack("{s:[i, i]}", key, (int)setting_number(layer, "before"),
                     (int)setting_number(layer, "after"));
}

/* What the tables do not say: borders, and an activation with a number of its own, which has a class
 * of its own. NULL: it is in the tables. */
static json_t *special_json(const td_layer_info *layer, const char **class_name) {
    bool image = layer->kind == TD_LAYER_ZERO_PADDING2D || layer->kind == TD_LAYER_CROPPING2D;
    if (layer->kind == TD_LAYER_ZERO_PADDING2D || layer->kind == TD_LAYER_ZERO_PADDING1D) {
        return borders_json(layer, "padding", image);
    }
    if (layer->kind == TD_LAYER_CROPPING2D || layer->kind == TD_LAYER_CROPPING1D) {
        return borders_json(layer, "cropping", image);
    }
    if (layer->kind != TD_LAYER_ACTIVATION || !find_setting(layer, "alpha")) {
        return NULL;
    }
    const td_value *function = find_setting(layer, "function");
    double alpha = setting_number(layer, "alpha");
    if (!strcmp(function->text, "leaky_relu")) {
        *class_name = "LeakyReLU";
        return json_pack("{s:f}", "negative_slope", alpha);
    }
    if (!strcmp(function->text, "elu")) {
        *class_name = "ELU";
        return json_pack("{s:f}", "alpha", alpha);
    }
    return NULL;
}

json_t *td__keras_layer_write(const td_layer_info *layer, const char **class_name,
                              td__keras_storage *storage, char reason[TD__KERAS_REASON_SIZE]) {
    const td__keras_class *class = td__keras_class_of(layer->kind);
    *reason = 0;
    if (!class) {
        (void)snprintf(reason, TD__KERAS_REASON_SIZE, "Keras has no such layer");
        return NULL;
    }
    *class_name = class->name;
    *storage = class->storage;
    json_t *special = special_json(layer, class_name);
    json_t *config = special ? special : json_object();
    for (size_t i = 0; config && !special && i < class->count; i++) {
        json_t *value = option_json(&class->options[i], layer, reason);
        if (value && json_object_set_new(config, class->options[i].key, value)) {
            json_decref(config);
            config = NULL;
        }
    }
    if (!config && !*reason) {
        (void)snprintf(reason, TD__KERAS_REASON_SIZE, "out of memory");
    }
    if (*reason) {
        json_decref(config);
        return NULL;
    }
    return config;
}
