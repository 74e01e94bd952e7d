/* The table of layer kinds. */
#include "nn/layer.h"

#include <string.h>

#define NAME(member, word, keras, options) #word,
#define KERAS(member, word, keras, options) keras,
#define KIND(member, word, keras, options) &td__##word##_kind,
static const char *const names[] = {TD_LAYER_LIST(NAME)};
static const char *const keras_names[] = {TD_LAYER_LIST(KERAS)};
static const td__layer_kind *const kinds[] = {TD_LAYER_LIST(KIND)};
#undef NAME
#undef KERAS
#undef KIND
static const td__words words = {"layer", names, TD_LAYER_KIND_COUNT, NULL, NULL};

const td__layer_kind *td__layer_kind_of(td_layer_kind kind) {
    return (unsigned)kind < TD_LAYER_KIND_COUNT ? kinds[kind] : NULL;
}

bool td__layer_has_option(const td__layer_kind *kind, const char *key) {
    for (size_t i = 0; i < kind->field_count; i++) {
        if (!strcmp(kind->fields[i].key, key)) {
            return true;
        }
    }
    return false;
}

const td_value *td__layer_setting(const td_layer_info *layer, const char *key) {
    for (size_t i = 0; key && i < layer->setting_count; i++) {
        if (!strcmp(layer->settings[i].key, key)) {
            return &layer->settings[i].value;
        }
    }
    return NULL;
}

const char *td__layer_activation_key(const td__layer_kind *kind) {
    return td__layer_has_option(kind, "function") ? "function" : "activation";
}

td_activation td__layer_activation(const td_layer_info *layer) {
    const td__layer_kind *kind = td__layer_kind_of(layer->kind);
    const td_value *value = td__layer_setting(layer, td__layer_activation_key(kind));
    td_activation activation = kind->acts_as;
    if (value && value->kind == TD_VALUE_TEXT) {
        (void)!td_activation_find(value->text, &activation, NULL);
    }
    return activation;
}

const char *td_layer_kind_name(td_layer_kind kind) {
    return (unsigned)kind < TD_LAYER_KIND_COUNT ? names[kind] : NULL;
}

const char *td_layer_kind_keras(td_layer_kind kind) {
    return (unsigned)kind < TD_LAYER_KIND_COUNT ? keras_names[kind] : NULL;
}

/* Says more of a name that is a class of Keras, or a function of its layer Activation. */
static void explain(const char *name, td_error *error) {
    for (int i = 0; i < TD_LAYER_KIND_COUNT; i++) {
        if (keras_names[i] && !strcmp(name, keras_names[i])) {
            td_error_set(error, TD_NOT_FOUND, "there is no layer '%s': it is '%s'", name, names[i]);
            return;
        }
    }
    if (td__word_find(&td__activation_words, name, "", NULL) >= 0) {
        td_error_set(error, TD_NOT_FOUND,
                     "there is no layer '%s': it is 'activation: {function: %s}'", name, name);
    }
}

td_status td_layer_kind_find(const char *name, td_layer_kind *kind, td_error *error) {
    int found = td__word_find(&words, name, "", error);
    if (found < 0) {
        explain(name, error);
        return TD_NOT_FOUND;
    }
    *kind = (td_layer_kind)found;
    return TD_OK;
}
