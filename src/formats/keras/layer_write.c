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
    if (rule->meaning == TD__KERAS_ONE) {
        if (value->number != 1) {
            (void)snprintf(reason, TD__KERAS_REASON_SIZE, "Keras has no %s there", rule->key);
        }
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

/* Borders of steps as a list, of an image or a volume as a list of lists. */
static json_t *borders_json(const td_layer_info *layer, const char *key, size_t axes) {
    static const char *const steps[] = {"before", "after"};
    static const char *const sides[] = {"front", "back", "top", "bottom", "left", "right"};
    const char *const *first = axes == 1 ? steps : axes == 2 ? sides + 2 : sides;
    json_t *list = json_array();
    for (size_t i = 0; i < axes; i++) {
        json_array_append_new(list, json_pack("[i, i]", (int)setting_number(layer, first[2 * i]),
                                              (int)setting_number(layer, first[2 * i + 1])));
    }
    json_t *value = axes == 1 ? json_incref(json_array_get(list, 0)) : json_incref(list);
    json_decref(list);
    return json_pack("{s:o}", key, value);
}

/* A wrapper and the layer it wraps, whose settings stand among the wrapper's. */
static json_t *wrapper_json(const td_layer_info *layer, char *reason) {
    td_layer_info inner = *layer;
    const td_value *word = find_setting(layer, "layer"), *merge = find_setting(layer, "merge_mode");
    const char *class_name;
    td__keras_storage storage;
    if (td_layer_kind_find(word->text, &inner.kind, NULL)) {
        return NULL;
    }
    json_t *config = td__keras_layer_write(&inner, &class_name, &storage, reason);
    if (!config || storage == TD__KERAS_ATTENTION) {
        json_decref(config);
        return NULL;
    }
    json_object_set_new(config, "name", json_string(word->text));
    json_t *json = json_pack("{s:{s:s, s:s, s:o, s:n}}", "layer", "module", "keras.layers",
                             "class_name", class_name, "config", config, "registered_name");
    if (merge) {
        json_object_set_new(json, "merge_mode", json_string(merge->text));
    }
    return json;
}

/* [null, 1, 1, 64]: with the batch in front. */
static json_t *dropout_json(const td_layer_info *layer, const td_value *shape) {
    json_t *list = json_pack("[n]");
    for (size_t i = 0; i < shape->count; i++) {
        json_array_append_new(list, shape->numbers[i] < 0 ? json_null()
                                                          : td__json_number(shape->numbers[i]));
    }
    return json_pack("{s:f, s:o}", "rate", setting_number(layer, "rate"), "noise_shape", list);
}

/* What the tables do not say: borders, wrapped layers, and an activation with a number of its own,
 * which has a class of its own. NULL: it is in the tables. */
static json_t *special_json(const td_layer_info *layer, const char **class_name, char *reason) {
    static const struct {
        td_layer_kind kind;
        const char *key;
        size_t axes;
    } borders[] = {{TD_LAYER_ZERO_PADDING1D, "padding", 1}, {TD_LAYER_ZERO_PADDING2D, "padding", 2},
                   {TD_LAYER_ZERO_PADDING3D, "padding", 3}, {TD_LAYER_CROPPING1D, "cropping", 1},
                   {TD_LAYER_CROPPING2D, "cropping", 2},    {TD_LAYER_CROPPING3D, "cropping", 3}};
    for (size_t i = 0; i < sizeof borders / sizeof *borders; i++) {
        if (layer->kind == borders[i].kind) {
            return borders_json(layer, borders[i].key, borders[i].axes);
        }
    }
    if (layer->kind == TD_LAYER_TIME_DISTRIBUTED || layer->kind == TD_LAYER_BIDIRECTIONAL) {
        return wrapper_json(layer, reason);
    }
    const td_value *noise = find_setting(layer, "noise_shape");
    if (noise) {
        return dropout_json(layer, noise);
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
    json_t *special = special_json(layer, class_name, reason);
    bool wraps = layer->kind == TD_LAYER_TIME_DISTRIBUTED || layer->kind == TD_LAYER_BIDIRECTIONAL;
    json_t *config = special || wraps ? special : json_object();
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
