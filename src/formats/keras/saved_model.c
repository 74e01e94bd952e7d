#include "keras/saved_model.h"

#include "base/memory.h"
#include "base/proto.h"
#include "keras/make.h"
#include "keras/weights.h"
#include "tensor/order.h"
#include "tensorflow/bundle.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    MAX_NODES = 1 << 20,
    MAX_STEPS = 1 << 27, /* of searches, so that no file takes minutes */
    NAME_SIZE = 256
};

/* An object that was saved: its message in the graph, and its name if it is a layer. */
typedef struct node {
    td__proto message;
    char *name; /* owned */
} node;

typedef struct saved {
    const char *path;
    td__bundle bundle;
    node *nodes;
    size_t count, capacity, steps;
    td__keras_graph graph;
    td_model *model;
} saved;

static td_status damaged(const saved *s, const char *what, td_error *error) {
    return td_error_set(error, TD_FORMAT, "%s: %s", s->path, what);
}

static td_status no_model(const char *path, td_error *error) {
    const char *slash = strrchr(path, '/');
    int length = slash ? (int)(slash - path) : 1;
    const char *folder = slash ? path : ".";
    return td_error_set(error, TD_NO_MODEL,
                        "%s: a SavedModel whose graph only TensorFlow runs; convert it: python -m "
                        "tf2onnx.convert --saved-model %.*s --output model.onnx; its weights: "
                        "`tapedeck inspect` lists them, `tapedeck weights` converts them",
                        path, length, folder);
}

/* ---- The graph of objects -------------------------------------------------------------------- */

static td_status read_graph(saved *s, td_error *error) {
    enum { NODES = 1 };
    const td__bundle_entry *entry = td__bundle_find(&s->bundle, "_CHECKPOINTABLE_OBJECT_GRAPH");
    const unsigned char *text;
    size_t size;
    if (!entry) {
        return no_model(s->path, error);
    }
    td_status status = td__bundle_text(&s->bundle, entry, &text, &size, error);
    if (status) {
        return status;
    }
    td__proto message = td__proto_of(text, size);
    td__proto_field field;
    while (td__proto_next(&message, &field)) {
        if (field.number != NODES || field.wire != TD__BYTES) {
            continue;
        }
        if (!td__grow(&s->nodes, &s->capacity, s->count + 1, MAX_NODES, sizeof *s->nodes)) {
            return td_error_set(error, TD_MEMORY, "%s: out of memory, or too many objects",
                                s->path);
        }
        s->nodes[s->count++] = (node){.message = td__proto_in(&field)};
    }
    return message.bad || !s->count ? damaged(s, "a damaged graph of objects", error) : TD_OK;
}

static bool is_text(const td__proto_field *field, const char *text) {
    return field->wire == TD__BYTES && field->size == strlen(text) &&
           !memcmp(field->data, text, field->size);
}

/* The next child of an object: its number, and the field with its local name. */
static bool next_child(const saved *s, td__proto *message, size_t *child, td__proto_field *name) {
    enum { CHILDREN = 1, ID = 1, LOCAL_NAME = 2 };
    td__proto_field field, part;
    while (td__proto_next(message, &field)) {
        if (field.number != CHILDREN || field.wire != TD__BYTES) {
            continue;
        }
        td__proto reference = td__proto_in(&field);
        uint64_t id = 0;
        *name = (td__proto_field){.wire = TD__BYTES, .data = (const uint8_t *)""};
        while (td__proto_next(&reference, &part)) {
            if (part.number == ID && part.wire == TD__VARINT) {
                id = part.bits;
            } else if (part.number == LOCAL_NAME && part.wire == TD__BYTES) {
                *name = part;
            }
        }
        if (id < s->count) {
            *child = (size_t)id;
            return true;
        }
    }
    return false;
}

static bool find_child(saved *s, size_t parent, const char *name, size_t *child) {
    td__proto message = s->nodes[parent].message;
    td__proto_field local;
    while (s->steps < MAX_STEPS && next_child(s, &message, child, &local)) {
        s->steps++;
        if (is_text(&local, name)) {
            return true;
        }
    }
    return false;
}

/* A model's layer by its own name; its children are layer-0, layer-1, …. */
static bool find_layer(saved *s, size_t parent, const char *name, size_t *child) {
    td__proto message = s->nodes[parent].message;
    td__proto_field local;
    while (s->steps < MAX_STEPS && next_child(s, &message, child, &local)) {
        s->steps++;
        const char *own = s->nodes[*child].name;
        if (own && local.size > 6 && !memcmp(local.data, "layer-", 6) && !strcmp(own, name)) {
            return true;
        }
    }
    return false;
}

/* The key of a variable's values; false when it has none. */
static bool find_key(const saved *s, size_t variable, char key[NAME_SIZE]) {
    enum { ATTRIBUTES = 2, NAME = 1, KEY = 3 };
    td__proto message = s->nodes[variable].message;
    td__proto_field field, part;
    while (td__proto_next(&message, &field)) {
        bool value = false;
        td__proto attribute = td__proto_of(NULL, 0);
        if (field.number == ATTRIBUTES && field.wire == TD__BYTES) {
            attribute = td__proto_in(&field);
        }
        *key = 0;
        while (td__proto_next(&attribute, &part)) {
            if (part.number == NAME && is_text(&part, "VARIABLE_VALUE")) {
                value = true;
            } else if (part.number == KEY && part.wire == TD__BYTES && part.size < NAME_SIZE) {
                memcpy(key, part.data, part.size);
                key[part.size] = 0;
            }
        }
        if (value && *key) {
            return true;
        }
    }
    return false;
}

/* ---- The architecture ------------------------------------------------------------------------ */

/* Python's tuples, {"class_name": "__tuple__", "items": […]}, as lists. JSON is nested 2048 deep at
 * most. Returns what stands for value, which the caller owns as it did value. */
static json_t *untuple(json_t *value) {
    const char *key;
    json_t *part;
    size_t i;
    const char *class_name = json_string_value(json_object_get(value, "class_name"));
    json_t *items = json_object_get(value, "items");
    if (class_name && json_is_array(items) &&
        (!strcmp(class_name, "__tuple__") || !strcmp(class_name, "TensorShape"))) {
        json_incref(items);
        json_decref(value);
        value = items;
    }
    json_array_foreach(value, i, part) {
        (void)json_array_set_new(value, i, untuple(json_incref(part)));
    }
    void *next;
    json_object_foreach_safe(value, next, key, part) {
        (void)json_object_set_new(value, key, untuple(json_incref(part)));
    }
    return value;
}

/* One object's metadata: a layer's name, and of the root the model's configuration. */
static td_status take_metadata(saved *s, uint64_t id, const td__proto_field *text, size_t size,
                               json_t **config, bool *keras2, td_error *error) {
    json_t *json = td__keras_json(s->path, (const char *)text->data, text->size, size, error);
    const char *name = json_string_value(json_object_get(json, "name"));
    if (!json) {
        return error ? error->status : TD_FORMAT;
    }
    td_status status = TD_OK;
    if (id < s->count && name && !s->nodes[id].name) {
        s->nodes[id].name = td__strdup(name);
        status = s->nodes[id].name ? TD_OK
                                   : td_error_set(error, TD_MEMORY, "%s: out of memory", s->path);
    }
    if (id == 0 && !*config) {
        *keras2 = td__keras_is_version2(json_string_value(json_object_get(json, "keras_version")));
        *config = untuple(json_incref(json_object_get(json, "model_config")));
    }
    json_decref(json);
    return status;
}

/* NULL on failure. */
static json_t *read_metadata(saved *s, const void *bytes, size_t size, bool *keras2,
                             td_error *error) {
    enum { NODES = 1, ID = 2, METADATA = 5 };
    td__proto message = td__proto_of(bytes, size);
    td__proto_field field, part;
    json_t *config = NULL;
    td_status status = TD_OK;
    while (!status && td__proto_next(&message, &field)) {
        if (field.number != NODES || field.wire != TD__BYTES) {
            continue;
        }
        td__proto object = td__proto_in(&field);
        td__proto_field text = {0};
        uint64_t id = 0;
        while (td__proto_next(&object, &part)) {
            if (part.number == ID && part.wire == TD__VARINT) {
                id = part.bits;
            } else if (part.number == METADATA && part.wire == TD__BYTES) {
                text = part;
            }
        }
        if (text.size) {
            status = take_metadata(s, id, &text, size, &config, keras2, error);
        }
    }
    if (!status && message.bad) {
        status = damaged(s, "its keras_metadata.pb is damaged", error);
    }
    if (!status && !config) {
        status = no_model(s->path, error);
    }
    if (status) {
        json_decref(config);
        return NULL;
    }
    return config;
}

/* ---- Weights --------------------------------------------------------------------------------- */

static td_status read_variable(saved *s, const td__keras_entry *entry, size_t list, size_t number,
                               const td_parameter_info *parameter, td_error *error) {
    char digits[24], key[NAME_SIZE];
    size_t variable;
    (void)snprintf(digits, sizeof digits, "%zu", number);
    const td__bundle_entry *values = NULL;
    if (find_child(s, list, digits, &variable) && find_key(s, variable, key)) {
        values = td__bundle_find(&s->bundle, key);
    }
    if (!values) {
        return td_error_set(error, TD_NOT_FOUND, "%s: %s is missing", s->path, parameter->name);
    }
    td_view view;
    td_status status = td__bundle_view(&s->bundle, values, &view, error);
    if (!status) {
        status = td__keras_parameter_set(&s->graph, entry, parameter, &view, key, error);
        td__view_release(&view);
    }
    return status;
}

/* A layer's variables: what it trains, then what it does not. */
static td_status read_layer(saved *s, const td__keras_entry *entry, size_t at, td_error *error) {
    const td_layer_info *info = td_model_layer(s->model, (size_t)entry->layer);
    size_t list = 0, used = 0;
    char digits[24];
    if (entry->given) {
        return TD_OK;
    }
    if (info->parameter_count && !find_child(s, at, "variables", &list)) {
        return td_error_set(error, TD_NOT_FOUND, "%s: layer '%s' has no variables", s->path,
                            entry->name);
    }
    td_status status = TD_OK;
    for (int trained = 1; trained >= 0; trained--) {
        for (size_t i = 0; i < info->parameter_count && !status; i++) {
            const td_parameter_info *parameter =
                td_model_parameter_at(s->model, info->first_parameter + i);
            if (parameter->trainable == (trained == 1)) {
                status = read_variable(s, entry, list, used++, parameter, error);
            }
        }
    }
    /* A Normalization's third variable, how many examples it has seen, is no parameter. */
    (void)snprintf(digits, sizeof digits, "%zu",
                   used + !strcmp(entry->class_name, "Normalization"));
    if (!status && info->parameter_count && find_child(s, list, digits, &list)) {
        status = td_error_set(error, TD_FORMAT, "%s: layer '%s' has %zu parameters, the file more",
                              s->path, entry->name, used);
    }
    return status;
}

/* A model comes before its layers, so that its object is known when theirs are looked for. */
static td_status read_weights(saved *s, td_error *error) {
    const td__keras_graph *graph = &s->graph;
    size_t *at = td__calloc(graph->count + 1, sizeof *at);
    td_status status = at ? TD_OK : td_error_set(error, TD_MEMORY, "%s: out of memory", s->path);
    for (size_t i = 0; i < graph->count && !status; i++) {
        const td__keras_entry *entry = &graph->entries[i];
        if (entry->layer >= 0 && !td__keras_has_weights(entry)) {
            continue;
        }
        size_t parent = entry->parent == TD__KERAS_TOP ? 0 : at[entry->parent];
        bool found = find_layer(s, parent, entry->name, &at[i]);
        if (found && entry->layer >= 0) {
            status = read_layer(s, entry, at[i], error);
        } else if (!found && entry->layer >= 0 &&
                   td_model_layer(s->model, (size_t)entry->layer)->parameter_count) {
            status =
                td_error_set(error, TD_NOT_FOUND, "%s: the weights of layer '%s' are not in it",
                             s->path, entry->name);
        } else if (!found) {
            at[i] = 0;
        }
    }
    td__free(at);
    return status;
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* s->bundle is open. */
static td_model *load_metadata(saved *s, const void *metadata, size_t size, td_error *error) {
    bool keras2 = true;
    size_t all = size;
    for (uint32_t i = 0; i < s->bundle.shard_count; i++) {
        all += s->bundle.shards[i].size;
    }
    td_status status = read_graph(s, error);
    json_t *config = status ? NULL : read_metadata(s, metadata, size, &keras2, error);
    s->model = config ? td__keras_make(&s->graph, &config, s->path, keras2, all, error) : NULL;
    if (s->model && read_weights(s, error)) {
        td_model_destroy(s->model);
        s->model = NULL;
    }
    td__keras_graph_release(&s->graph);
    for (size_t i = 0; i < s->count; i++) {
        td__free(s->nodes[i].name);
    }
    td__free(s->nodes);
    td__bundle_release(&s->bundle);
    return s->model;
}

td_model *td__keras_saved_parse(const char *path, const void *metadata, size_t metadata_size,
                                const void *index, size_t index_size, const void *data,
                                size_t data_size, td_error *error) {
    saved s = {.path = path};
    if (td__bundle_parse(&s.bundle, path, index, index_size, data, data_size, error)) {
        td__bundle_release(&s.bundle);
        return NULL;
    }
    return load_metadata(&s, metadata, metadata_size, error);
}

/* A file beside saved_model.pb; for td__free. NULL when memory is exhausted. */
static char *beside(const char *path, const char *name, td_error *error) {
    const char *slash = strrchr(path, '/');
    size_t folder = slash ? (size_t)(slash - path) + 1 : 0, room = folder + strlen(name) + 1;
    char *made = td__calloc(room, 1);
    if (made) {
        (void)snprintf(made, room, "%.*s%s", (int)folder, path, name);
    } else {
        td_error_set(error, TD_MEMORY, "%s: out of memory", path);
    }
    return made;
}

td_model *td__keras_saved_load(const char *path, td_error *error) {
    saved s = {.path = path};
    td__bytes metadata = {0};
    td_error reason = {0};
    char *name = beside(path, "keras_metadata.pb", error);
    td_status status = name ? td__bytes_map(&metadata, name, &reason) : TD_MEMORY;
    if (status == TD_NOT_FOUND) {
        (void)no_model(path, error);
    } else if (status && name) {
        td_error_set(error, status, "%s", reason.text);
    }
    td__free(name);
    name = status ? NULL : beside(path, "variables/variables", error);
    if (name) {
        status = td__bundle_open(&s.bundle, name, error);
    }
    td_model *model = NULL;
    if (name && !status) {
        model = load_metadata(&s, metadata.data, metadata.size, error);
    } else {
        td__bundle_release(&s.bundle);
    }
    td__free(name);
    td__bytes_release(&metadata);
    return model;
}

td_status td__keras_saved_tensors(const char *path, td__tensor_list *list, td_error *error) {
    char *name = beside(path, "variables/variables", error);
    td_status status = name ? td__bundle_tensors(name, NULL, list, error) : TD_MEMORY;
    td__free(name);
    if (status == TD_NOT_FOUND) { /* a graph without variables */
        return no_model(path, error);
    }
    if (!status) {
        const char *slash = strrchr(path, '/');
        int length = slash ? (int)(slash - path) : 1;
        const char *folder = slash ? path : ".";
        (void)snprintf(list->remark, sizeof list->remark,
                       "if `tapedeck predict %.*s` does not run its graph: python -m "
                       "tf2onnx.convert --saved-model %.*s --output model.onnx",
                       length, folder, length, folder);
    }
    return status;
}
