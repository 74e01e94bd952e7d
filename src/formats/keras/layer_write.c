/* Writing a layer's options by the tables; see layer.h. */
#include "base/json.h"
#include "keras/class.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static double setting_number(const td_layer_info *layer, const char *key) {
    const td_value *value = td__layer_setting(layer, key);
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

/* Borders of steps as a list, of an image or a volume as a list of lists. */
static json_t *borders_json(const td_layer_info *layer, const char *first) {
    const char *const *sides = td__keras_sides(first);
    json_t *list = json_array();
    for (size_t i = 0; sides[i]; i += 2) {
        json_t *pair = json_pack("[i, i]", (int)setting_number(layer, sides[i]),
                                 (int)setting_number(layer, sides[i + 1]));
        if (!sides[2]) {
            json_decref(list);
            return pair;
        }
        json_array_append_new(list, pair);
    }
    return list;
}

/* [null, 1, 1, 64]: with the batch in front. */
static json_t *batch_shape_json(const td_value *shape) {
    json_t *list = json_pack("[n]");
    for (size_t i = 0; i < shape->count; i++) {
        json_array_append_new(list, shape->numbers[i] < 0 ? json_null()
                                                          : td__json_number(shape->numbers[i]));
    }
    return list;
}

/* NULL: the option is left to Keras's default. */
static json_t *option_json(const td__keras_option *rule, const td_layer_info *layer, char *reason) {
    const td_value *value = td__layer_setting(layer, rule->ours);
    if (rule->meaning == TD__KERAS_REGULARIZER) {
        return regularizer_json(layer, rule->ours);
    }
    if (rule->meaning == TD__KERAS_BORDERS) {
        return borders_json(layer, rule->ours);
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
        if (!strcmp(value->text, "gelu_tanh") || !strcmp(value->text, "hard_sigmoid_keras2")) {
            (void)snprintf(reason, TD__KERAS_REASON_SIZE, "Keras 3 has no name for %s",
                           value->text);
        }
        return json_string(value->text);
    case TD_VALUE_NUMBERS:
        return rule->meaning == TD__KERAS_BATCH_SHAPE ? batch_shape_json(value)
                                                      : numbers_json(value);
    case TD_VALUE_CHOICE:
        return initializer_json(value);
    case TD_VALUE_TEXTS:
        break;
    }
    return NULL;
}

/* A wrapper and the layer it wraps, whose settings stand among the wrapper's. */
static json_t *wrapper_json(const td_layer_info *layer, char *reason) {
    td_layer_info inner = *layer;
    const td_value *word = td__layer_setting(layer, "layer"),
                   *merge = td__layer_setting(layer, "merge_mode");
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

/* An activation with a number of its own has a class of its own. NULL: it is none. */
static json_t *activation_json(const td_layer_info *layer, const char **class_name) {
    const td_value *function = td__layer_setting(layer, "function");
    const td_value *alpha = td__layer_setting(layer, "alpha");
    if (function && alpha && !strcmp(function->text, "leaky_relu")) {
        *class_name = "LeakyReLU";
        return json_pack("{s:f}", "negative_slope", alpha->number);
    }
    if (function && alpha && !strcmp(function->text, "elu")) {
        *class_name = "ELU";
        return json_pack("{s:f}", "alpha", alpha->number);
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
    *storage = class->kind->keras.storage;
    const td__keras_side *keras = &class->kind->keras;
    json_t *special =
        class->kind->wraps ? wrapper_json(layer, reason) : activation_json(layer, class_name);
    json_t *config = special || class->kind->wraps ? special : json_object();
    for (size_t i = 0; config && !special && i < keras->option_count; i++) {
        json_t *value = option_json(&keras->options[i], layer, reason);
        if (value && json_object_set_new(config, keras->options[i].key, value)) {
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
