#include "model/architecture.h"

#include "base/base64.h"
#include "base/json.h"
#include "base/memory.h"
#include "graph/source.h"
#include "nn/model.h"
#include "onnx/onnx.h"

#include <string.h>

#define MAX_LAYERS 10000
#define MAX_ITEMS 4096

/* ---- Writing --------------------------------------------------------------------------------- */

static json_t *settings_json(const td_setting *settings, size_t count);

static json_t *value_json(const td_value *value) {
    switch (value->kind) {
    case TD_VALUE_CHOICE:
        return json_pack("{s:o}", value->text, settings_json(value->settings, value->count));
    case TD_VALUE_NUMBER:
        return td__json_number(value->number);
    case TD_VALUE_TEXT:
        return json_string(value->text);
    case TD_VALUE_BOOL:
        return json_boolean(value->boolean);
    case TD_VALUE_NUMBERS:
    case TD_VALUE_TEXTS:
        break;
    }
    json_t *list = json_array();
    for (size_t i = 0; i < value->count; i++) {
        json_array_append_new(list, value->kind == TD_VALUE_NUMBERS
                                        ? td__json_number(value->numbers[i])
                                        : json_string(value->texts[i]));
    }
    return list;
}

static json_t *settings_json(const td_setting *settings, size_t count) {
    json_t *object = json_object();
    for (size_t i = 0; i < count; i++) {
        json_object_set_new(object, settings[i].key, value_json(&settings[i].value));
    }
    return object;
}

static json_t *layer_json(const td_layer_info *layer) {
    return json_pack("[s, o]", td_layer_kind_name(layer->kind),
                     settings_json(layer->settings, layer->setting_count));
}

static json_t *onnx_json(const td_model *model) {
    size_t size;
    uint8_t *bytes = td__onnx_stripped(model, &size);
    char *text = bytes ? td__base64_encode(bytes, size) : NULL;
    td__free(bytes);
    json_t *frozen = json_array();
    for (size_t i = 0; i < td_model_layer_count(model); i++) {
        const td_layer_info *layer = td_model_layer(model, i);
        if (layer->frozen) {
            json_array_append_new(frozen, json_string(layer->name));
        }
    }
    json_t *root = text ? json_pack("{s:s, s:s, s:o}", "name", td_model_name(model), "onnx", text,
                                    "frozen", frozen)
                        : NULL;
    if (!text) {
        json_decref(frozen);
    }
    td__free(text);
    return root;
}

static json_t *layers_json(const td_model *model) {
    json_t *input = json_array(), *layers = json_array();
    td_shape shape = td_model_input_shape(model);
    for (int32_t i = 0; i < shape.rank; i++) {
        json_array_append_new(input, json_integer(shape.dims[i]));
    }
    for (size_t i = 0; i < td_model_layer_count(model); i++) {
        json_array_append_new(layers, layer_json(td_model_layer(model, i)));
    }
    json_t *root = json_pack("{s:s, s:o, s:o}", "name", td_model_name(model), "input", input,
                             "layers", layers);
    size_t outputs = td_model_output_count(model);
    if (root &&
        (outputs > 1 || td_model_output_layer(model, 0) + 1 != td_model_layer_count(model))) {
        json_t *names = json_array();
        for (size_t i = 0; i < outputs; i++) {
            const td_layer_info *layer = td_model_layer(model, td_model_output_layer(model, i));
            json_array_append_new(names, json_string(layer->name));
        }
        json_object_set_new(root, "outputs", names);
    }
    return root;
}

char *td__architecture_write(const td_model *model) {
    json_t *root = td__graph_source_of(model) ? onnx_json(model) : layers_json(model);
    char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    char *copy = text ? td__strdup(text) : NULL;
    json_decref(root);
    free(text); // NOLINT: jansson's own
    return copy;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* The settings of one layer and the arrays they point to. */
typedef struct layer_reader {
    td_setting *settings; /* of the layer, then of choices among its values */
    size_t setting_count;
    double *numbers;
    const char **texts;
    size_t used; /* of numbers and texts */
} layer_reader;

enum { DEEPEST = 8 }; /* of choices inside of choices */

/* How many keys there are in an object and in the objects inside of it. */
static size_t count_keys(json_t *object, int depth) {
    size_t count = json_object_size(object);
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        count += depth < DEEPEST ? count_keys(value, depth + 1) : 0;
    }
    return count;
}

static void release_layer_reader(layer_reader *reader) {
    td__free(reader->settings);
    td__free(reader->numbers);
    td__free(reader->texts);
}

static bool read_list(layer_reader *reader, const json_t *list, td_value *value) {
    size_t count = json_array_size(list);
    if (count > MAX_ITEMS - reader->used) {
        return false;
    }
    double *numbers = reader->numbers + reader->used;
    const char **texts = reader->texts + reader->used;
    reader->used += count;
    size_t numeric = 0, textual = 0;
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(list, i);
        numeric += json_is_number(item);
        textual += json_is_string(item);
        numbers[i] = json_number_value(item);
        texts[i] = json_string_value(item);
    }
    *value = (td_value){.kind = numeric == count ? TD_VALUE_NUMBERS : TD_VALUE_TEXTS,
                        .numbers = numbers,
                        .texts = texts,
                        .count = count};
    return numeric == count || textual == count;
}

static const char *read_settings(layer_reader *reader, json_t *object, int depth,
                                 const td_setting **settings);

/* {NAME: {KEY: VALUE}} */
static bool read_choice(layer_reader *reader, json_t *json, int depth, td_value *value) {
    void *only = json_object_iter(json);
    json_t *inside = json_object_iter_value(only);
    *value = (td_value){.kind = TD_VALUE_CHOICE,
                        .text = json_object_iter_key(only),
                        .count = json_object_size(inside)};
    return json_object_size(json) == 1 && json_is_object(inside) && depth < DEEPEST &&
           !read_settings(reader, inside, depth + 1, &value->settings);
}

static bool read_value(layer_reader *reader, json_t *json, int depth, td_value *value) {
    *value = (td_value){0};
    if (json_is_number(json)) {
        value->kind = TD_VALUE_NUMBER;
        value->number = json_number_value(json);
    } else if (json_is_string(json)) {
        value->kind = TD_VALUE_TEXT;
        value->text = json_string_value(json);
    } else if (json_is_boolean(json)) {
        value->kind = TD_VALUE_BOOL;
        value->boolean = json_is_true(json);
    } else if (json_is_object(json)) {
        return read_choice(reader, json, depth, value);
    } else {
        return json_is_array(json) && read_list(reader, json, value);
    }
    return true;
}

/* Returns the key whose value cannot be used; NULL: all can. */
static const char *read_settings(layer_reader *reader, json_t *object, int depth,
                                 const td_setting **settings) {
    td_setting *own = reader->settings + reader->setting_count;
    reader->setting_count += json_object_size(object);
    *settings = own;
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        own->key = key;
        if (!read_value(reader, value, depth, &own++->value)) {
            return key;
        }
    }
    return NULL;
}

static td_status read_layer(td_model *model, const json_t *layer, const char *origin,
                            td_error *error) {
    const char *kind = json_string_value(json_array_get(layer, 0));
    json_t *object = json_array_get(layer, 1);
    if (!kind || !json_is_object(object) || json_array_size(layer) != 2) {
        return td_error_set(error, TD_FORMAT, "%s: a layer is not [KIND, {…}]", origin);
    }
    layer_reader reader = {.settings = td__calloc(count_keys(object, 0) + 1, sizeof(td_setting)),
                           .numbers = td__calloc(MAX_ITEMS, sizeof(double)),
                           .texts = td__calloc(MAX_ITEMS, sizeof(char *))};
    td_status status = TD_OK;
    if (!reader.settings || !reader.numbers || !reader.texts) {
        status = td_error_set(error, TD_MEMORY, "%s: out of memory", origin);
    }
    const td_setting *settings = NULL;
    const char *bad = status ? NULL : read_settings(&reader, object, 0, &settings);
    if (bad) {
        status =
            td_error_set(error, TD_FORMAT, "%s: %s: %s has no usable value", origin, kind, bad);
    }
    td_error reason = {0};
    if (!status && td_model_add(model, kind, settings, json_object_size(object), &reason)) {
        status = td_error_set(error, reason.status, "%s: %s", origin, reason.text);
    }
    release_layer_reader(&reader);
    return status;
}

static td_status read_input(const json_t *list, td_shape *shape) {
    if (!json_is_array(list) || json_array_size(list) > TD_MAX_RANK - 1) {
        return TD_FORMAT;
    }
    shape->rank = (int32_t)json_array_size(list);
    for (int32_t i = 0; i < shape->rank; i++) {
        const json_t *dimension = json_array_get(list, (size_t)i);
        if (!json_is_integer(dimension)) {
            return TD_FORMAT;
        }
        shape->dims[i] = json_integer_value(dimension);
    }
    return TD_OK;
}

/* Without a list of them, the last layer is the output. */
static td_status read_outputs(td_model *model, const json_t *list, const char *origin,
                              td_error *error) {
    const char *names[TD_MAX_OUTPUTS];
    size_t count = json_array_size(list);
    bool good = !list || (count >= 1 && count <= TD_MAX_OUTPUTS);
    for (size_t i = 0; good && i < count; i++) {
        names[i] = json_string_value(json_array_get(list, i));
        good = names[i] != NULL;
    }
    if (!good) {
        return td_error_set(error, TD_FORMAT, "%s: the architecture is malformed", origin);
    }
    return list ? td_model_set_outputs(model, count, names, error) : TD_OK;
}

/* Before memory is taken for them: what the file cannot fill is not believed. */
static td_status count_parameters(const td_model *model, int64_t *left, const char *origin,
                                  td_error *error) {
    const td_layer_info *last = td_model_layer(model, td_model_layer_count(model) - 1);
    if (last->parameter_elements > *left) {
        return td_error_set(error, TD_FORMAT,
                            "%s: up to layer '%s' the architecture has more parameters than the "
                            "file",
                            origin, last->name);
    }
    *left -= last->parameter_elements;
    return TD_OK;
}

static td_model *read_onnx(const json_t *root, const char *origin, int64_t max_elements,
                           td_error *error) {
    const char *text = json_string_value(json_object_get(root, "onnx"));
    const char *name = json_string_value(json_object_get(root, "name"));
    const json_t *frozen = json_object_get(root, "frozen");
    size_t size = 0;
    void *bytes = text && name ? td__base64_decode(text, &size) : NULL;
    if (!bytes) {
        td_error_set(error, TD_FORMAT, "%s: the architecture is malformed", origin);
        return NULL;
    }
    td_model *model = td__onnx_restore(bytes, size, max_elements, name, origin, error);
    td__free(bytes);
    td_status status = model ? TD_OK : TD_FORMAT;
    for (size_t i = 0; !status && i < json_array_size(frozen); i++) {
        const char *layer = json_string_value(json_array_get(frozen, i));
        status = layer
                     ? td_model_freeze(model, layer, true, error)
                     : td_error_set(error, TD_FORMAT, "%s: the architecture is malformed", origin);
    }
    if (status) {
        td_model_destroy(model);
        return NULL;
    }
    return model;
}

td_model *td__architecture_read(const char *text, const char *origin, int64_t max_elements,
                                td_error *error) {
    json_t *root =
        td__json_read(origin, text, strlen(text), td__json_budget((size_t)max_elements), error);
    if (!root) {
        return NULL;
    }
    if (json_object_get(root, "onnx")) {
        td_model *restored = read_onnx(root, origin, max_elements, error);
        json_decref(root);
        return restored;
    }
    json_t *layers = json_object_get(root, "layers");
    const char *name = json_string_value(json_object_get(root, "name"));
    td_shape input = {0};
    td_status status = TD_OK;
    if (!name || json_array_size(layers) > MAX_LAYERS ||
        read_input(json_object_get(root, "input"), &input)) {
        status = td_error_set(error, TD_FORMAT, "%s: the architecture is malformed", origin);
    }
    td_model *model = status ? NULL : td_model_create(name, input);
    for (size_t i = 0; !status && i < json_array_size(layers); i++) {
        status = read_layer(model, json_array_get(layers, i), origin, error);
        status = status ? status : count_parameters(model, &max_elements, origin, error);
    }
    status = status ? status : read_outputs(model, json_object_get(root, "outputs"), origin, error);
    if (!status) {
        status = td__model_build_raw(model, error);
    }
    json_decref(root);
    if (status) {
        td_model_destroy(model);
        return NULL;
    }
    return model;
}
