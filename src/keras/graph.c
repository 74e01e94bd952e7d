/* From a configuration to entries and their order; see graph.h. */
#include "keras/graph.h"

#include "base/memory.h"
#include "keras/call.h"

#include <stdio.h>
#include <string.h>

enum { MOST_LAYERS = 10000, MOST_DEPTH = 16, MOST_NAME = 255 };

static td_status malformed(const td__keras_graph *graph, const char *what, const char *name,
                           td_error *error) {
    return td_error_set(error, TD_FORMAT, "%s: its configuration is malformed: %s%s%.100s%s",
                        graph->origin, what, name ? " '" : "", name ? name : "", name ? "'" : "");
}

static td_status out_of_memory(const td__keras_graph *graph, td_error *error) {
    return td_error_set(error, TD_MEMORY, "%s: out of memory", graph->origin);
}

/* --- refusals ----------------------------------------------------------------------------- */

void td__keras_refuse(td__keras_graph *graph, const td__keras_entry *entry, const char *reason) {
    graph->refused_layers++;
    for (size_t i = 0; i < graph->refused_count; i++) {
        td__keras_refusal *each = &graph->refused[i];
        if (!strcmp(each->class_name, entry->class_name) && !strcmp(each->reason, reason)) {
            each->count++;
            return;
        }
    }
    if (graph->refused_count < TD__KERAS_MOST_REFUSALS) {
        td__keras_refusal *added = &graph->refused[graph->refused_count++];
        (void)snprintf(added->class_name, sizeof added->class_name, "%s", entry->class_name);
        (void)snprintf(added->name, sizeof added->name, "%s", entry->name);
        (void)snprintf(added->reason, sizeof added->reason, "%s", reason);
        added->count = 1;
    }
}

td_status td__keras_graph_refused(const td__keras_graph *graph, td_error *error) {
    if (graph->refused_layers == 0) {
        return TD_OK;
    }
    char text[TD_ERROR_TEXT_SIZE] = "";
    for (size_t i = 0, used = 0; i < graph->refused_count && used < sizeof text; i++) {
        const td__keras_refusal *each = &graph->refused[i];
        char more[32] = "";
        if (each->count > 1) {
            (void)snprintf(more, sizeof more, " and %zu more", each->count - 1);
        }
        int length = snprintf(text + used, sizeof text - used, "%s%s '%s'%s (%s)", i ? "; " : "",
                              each->class_name, each->name, more, each->reason);
        used += length > 0 ? (size_t)length : 0;
    }
    return td_error_set(error, TD_UNSUPPORTED, "%s: %zu layer%s cannot be loaded: %s",
                        graph->origin, graph->refused_layers, graph->refused_layers == 1 ? "" : "s",
                        text);
}

/* --- entries ------------------------------------------------------------------------------ */

static const char *text_of(const json_t *object, const char *key) {
    return json_string_value(json_object_get(object, key));
}

static bool is_model_class(const char *class_name) {
    return !strcmp(class_name, "Sequential") || !strcmp(class_name, "Functional") ||
           !strcmp(class_name, "Model");
}

static bool starts_with(const char *text, const char *start) {
    return !strncmp(text, start, strlen(start));
}

/* Adds an entry for a layer of a list; *index gets its number. */
static td_status add_entry(td__keras_graph *graph, const json_t *json, int32_t parent, bool frozen,
                           int32_t *index, td_error *error) {
    const json_t *config = json_object_get(json, "config");
    const char *class_name = text_of(json, "class_name"), *name = text_of(json, "name");
    name = name ? name : text_of(config, "name");
    if (!class_name || !name) {
        return malformed(graph, "a layer without class_name or name", NULL, error);
    }
    if (strlen(name) > MOST_NAME || strlen(class_name) > MOST_NAME) {
        return malformed(graph, "a name that is too long:", name, error);
    }
    if (!td__grow(&graph->entries, &graph->capacity, graph->count + 1, MOST_LAYERS,
                  sizeof *graph->entries)) {
        return td_error_set(error, TD_RANGE, "%s: no memory for more than %zu layers",
                            graph->origin, graph->count);
    }
    const char *module = text_of(json, "module");
    td__keras_entry *entry = &graph->entries[graph->count];
    *entry =
        (td__keras_entry){.name = td__strdup(name),
                          .class_name = td__strdup(class_name),
                          .parent = parent,
                          .config = config,
                          .frozen = frozen || json_is_false(json_object_get(config, "trainable")),
                          .operation = module && (starts_with(module, "keras.src.ops") ||
                                                  starts_with(module, "keras.ops")),
                          .layer = -1};
    *index = (int32_t)graph->count++;
    if (!entry->name || !entry->class_name) {
        return out_of_memory(graph, error);
    }
    bool ours = !module || starts_with(module, "keras") || starts_with(module, "tf_keras") ||
                starts_with(module, "tensorflow");
    bool merges = !strcmp(class_name, "Add") || !strcmp(class_name, "Multiply");
    if (ours && (merges || !entry->operation)) {
        entry->class = td__keras_class_find(class_name);
    }
    if (!strcmp(class_name, "Lambda")) {
        td__keras_refuse(graph, entry, "it is code, which is never run");
    } else if (!ours) {
        td__keras_refuse(graph, entry, "a class of its own: code, which is never run");
    } else if (!entry->class && !is_model_class(class_name) &&
               strcmp(class_name, "InputLayer") != 0) {
        td__keras_refuse(graph, entry, "there is no such layer here");
    }
    return TD_OK;
}

static td_status append_order(td__keras_graph *graph, int32_t entry, td_error *error) {
    if (!td__grow(&graph->order, &graph->order_capacity, graph->order_count + 1, MOST_LAYERS,
                  sizeof *graph->order)) {
        return out_of_memory(graph, error);
    }
    graph->order[graph->order_count++] = entry;
    return TD_OK;
}

/* --- the input's shape -------------------------------------------------------------------- */

/* [null, 28, 28, 1] without the batch. */
static bool read_shape(const json_t *list, td_shape *shape) {
    size_t rank = json_array_size(list);
    if (rank < 1 || rank > TD_MAX_RANK) {
        return false;
    }
    shape->rank = (int32_t)rank - 1;
    for (int32_t i = 0; i < shape->rank; i++) {
        const json_t *size = json_array_get(list, (size_t)i + 1);
        if (!json_is_null(size) && (!json_is_integer(size) || json_integer_value(size) < 0)) {
            return false;
        }
        shape->dims[i] = json_is_null(size) ? -1 : json_integer_value(size);
    }
    return true;
}

/* Keras 3 says batch_shape, Keras 2 batch_input_shape, on its first layer too. */
static td_status take_input(td__keras_graph *graph, const td__keras_entry *entry, td_error *error) {
    const json_t *shape = json_object_get(entry->config, "batch_shape");
    shape = shape ? shape : json_object_get(entry->config, "batch_input_shape");
    const char *dtype = text_of(entry->config, "dtype");
    if (entry->parent != TD__KERAS_TOP || graph->has_input || !shape) {
        return TD_OK;
    }
    if (!read_shape(shape, &graph->input)) {
        return malformed(graph, "no usable shape for the input", entry->name, error);
    }
    graph->has_input = true;
    if (json_is_true(json_object_get(entry->config, "sparse")) ||
        json_is_true(json_object_get(entry->config, "ragged")) ||
        (dtype && !strcmp(dtype, "string"))) {
        td__keras_refuse(graph, entry, "its input is sparse, ragged or text");
    }
    return TD_OK;
}

/* --- models ------------------------------------------------------------------------------- */

/* A model being read: its place among the entries and what stands for its input. */
typedef struct frame {
    int32_t self;  /* its entry, or TD__KERAS_TOP */
    int32_t input; /* the layer it reads */
    bool frozen;
    int depth;
} frame;

static td_status read_model(td__keras_graph *graph, const char *class_name, const json_t *config,
                            frame at, int32_t *output, td_error *error);

/* Puts a connected entry into the order: a layer as it is, a model as its layers. *output gets the
 * layer that then stands for it. */
static td_status place(td__keras_graph *graph, int32_t index, int depth, int32_t *output,
                       td_error *error) {
    const td__keras_entry *entry = &graph->entries[index];
    if (!is_model_class(entry->class_name)) {
        *output = index;
        return append_order(graph, index, error);
    }
    if (entry->input_count != 1) {
        td__keras_refuse(graph, entry, "a model within the model that has several inputs");
        *output = index;
        return TD_OK;
    }
    frame inner = {index, entry->inputs[0], entry->frozen, depth + 1};
    return read_model(graph, entry->class_name, entry->config, inner, output, error);
}

static td_status read_sequential(td__keras_graph *graph, const json_t *config, frame at,
                                 int32_t *output, td_error *error) {
    const json_t *layers = json_is_array(config) ? config : json_object_get(config, "layers");
    int32_t last = at.input;
    td_status status = TD_OK;
    for (size_t i = 0; i < json_array_size(layers) && !status; i++) {
        int32_t index = 0;
        status = add_entry(graph, json_array_get(layers, i), at.self, at.frozen, &index, error);
        status = status ? status : take_input(graph, &graph->entries[index], error);
        if (!status && strcmp(graph->entries[index].class_name, "InputLayer") != 0) {
            graph->entries[index].inputs[0] = last;
            graph->entries[index].input_count = 1;
            status = place(graph, index, at.depth, &last, error);
        }
    }
    if (!status && at.self == TD__KERAS_TOP && !graph->has_input) {
        graph->has_input = read_shape(json_object_get(config, "build_input_shape"), &graph->input);
    }
    *output = last;
    return status;
}

/* Layers of a Functional model while it is read; indices count from its first entry. */
typedef struct functional {
    int32_t *entry;  /* where each layer of the list is among the entries */
    int32_t *stands; /* the layer that stands for it once it is placed */
    bool *placed;
    td__keras_call *calls; /* what each is called with */
    size_t count;
} functional;

static void functional_release(functional *model) {
    td__free(model->entry);
    td__free(model->stands);
    td__free(model->placed);
    td__free(model->calls);
}

static ptrdiff_t find_layer(const td__keras_graph *graph, const functional *model,
                            const char *name) {
    for (size_t i = 0; i < model->count; i++) {
        if (!strcmp(graph->entries[model->entry[i]].name, name)) {
            return (ptrdiff_t)i;
        }
    }
    return -1;
}

static td_status read_calls(td__keras_graph *graph, const json_t *layers, functional *model,
                            frame at, td_error *error) {
    td_status status = TD_OK;
    for (size_t i = 0; i < json_array_size(layers) && !status; i++) {
        const json_t *json = json_array_get(layers, i);
        status = add_entry(graph, json, at.self, at.frozen, &model->entry[i], error);
        if (status) {
            break;
        }
        model->count = i + 1;
        td__keras_entry *entry = &graph->entries[model->entry[i]];
        if (find_layer(graph, model, entry->name) != (ptrdiff_t)i) {
            return malformed(graph, "two layers are called", entry->name, error);
        }
        status = take_input(graph, entry, error);
        if (!status && strcmp(entry->class_name, "InputLayer") != 0) {
            td__keras_call *call = &model->calls[i];
            td__keras_call_read(json_object_get(json, "inbound_nodes"), entry->class_name, call);
            entry->causal = call->causal;
            entry->with_number = call->with_number;
            entry->number = call->number;
            if (*call->reason) {
                td__keras_refuse(graph, entry, call->reason);
            } else if (call->count == 0) {
                status = malformed(graph, "nothing is connected to", entry->name, error);
            }
        }
    }
    return status;
}

/* Turns names into list indices; -1 stays for an input. */
static td_status connect(const td__keras_graph *graph, functional *model, td_error *error) {
    for (size_t i = 0; i < model->count; i++) {
        td__keras_call *call = &model->calls[i];
        for (size_t k = 0; k < call->count; k++) {
            ptrdiff_t found = find_layer(graph, model, call->from[k]);
            if (found < 0) {
                return malformed(graph, "there is no layer", call->from[k], error);
            }
            call->inputs[k] = (int32_t)found;
        }
    }
    return TD_OK;
}

static bool is_ready(const functional *model, size_t i) {
    for (size_t k = 0; k < model->calls[i].count; k++) {
        if (!model->placed[model->calls[i].inputs[k]]) {
            return false;
        }
    }
    return true;
}

static td_status place_layer(td__keras_graph *graph, functional *model, size_t i, int depth,
                             td_error *error) {
    td__keras_entry *entry = &graph->entries[model->entry[i]];
    const td__keras_call *call = &model->calls[i];
    entry->input_count = call->count;
    for (size_t k = 0; k < call->count; k++) {
        entry->inputs[k] = model->stands[call->inputs[k]];
    }
    model->placed[i] = true;
    return place(graph, model->entry[i], depth, &model->stands[i], error);
}

/* Each layer after those it reads, in the file's order where that is free, the output last. */
static td_status place_all(td__keras_graph *graph, functional *model, size_t output, int depth,
                           td_error *error) {
    td_status status = TD_OK;
    for (bool progress = true; progress && !status;) {
        progress = false;
        for (size_t i = 0; i < model->count && !status; i++) {
            if (!model->placed[i] && i != output && is_ready(model, i)) {
                status = place_layer(graph, model, i, depth, error);
                progress = true;
            }
        }
    }
    if (!status && !model->placed[output]) {
        if (!is_ready(model, output)) {
            return malformed(graph, "layers read each other in a circle before",
                             graph->entries[model->entry[output]].name, error);
        }
        status = place_layer(graph, model, output, depth, error);
    }
    for (size_t i = 0; i < model->count && !status; i++) {
        if (!model->placed[i]) {
            const td__keras_entry *left = &graph->entries[model->entry[i]];
            return td_error_set(error, TD_UNSUPPORTED,
                                "%s: layer '%s' is computed from the model's first output '%s'; a "
                                "model's output must be its last layer here",
                                graph->origin, left->name,
                                graph->entries[model->entry[output]].name);
        }
    }
    return status;
}

/* The first of ["a", 0, 0], [["a", 0, 0], …] or {"x": ["a", 0, 0]}; *count gets how many there are. */
static const json_t *first_reference(const json_t *value, size_t *count, int depth) {
    if (json_is_string(json_array_get(value, 0))) {
        *count += 1;
        return value;
    }
    const json_t *first = NULL;
    size_t index;
    const char *key;
    json_t *item;
    json_array_foreach((json_t *)value, index, item) {
        const json_t *found = depth < 4 ? first_reference(item, count, depth + 1) : NULL;
        first = first ? first : found;
    }
    json_object_foreach((json_t *)value, key, item) {
        const json_t *found = depth < 4 ? first_reference(item, count, depth + 1) : NULL;
        first = first ? first : found;
    }
    return first;
}

static const char *name_at(const json_t *reference) {
    return json_string_value(json_array_get(reference, 0));
}

static td_status order_functional(td__keras_graph *graph, const json_t *config, functional *model,
                                  frame at, int32_t *output, td_error *error) {
    size_t inputs = 0, outputs = 0;
    const json_t *in = first_reference(json_object_get(config, "input_layers"), &inputs, 0);
    const json_t *out = first_reference(json_object_get(config, "output_layers"), &outputs, 0);
    if (inputs > 1) {
        return td_error_set(
            error, TD_UNSUPPORTED, "%s: %s has %zu inputs; models here have one", graph->origin,
            at.self == TD__KERAS_TOP ? "the model" : graph->entries[at.self].name, inputs);
    }
    ptrdiff_t from = in ? find_layer(graph, model, name_at(in)) : -1,
              to = out ? find_layer(graph, model, name_at(out)) : -1;
    if (from < 0 || to < 0 || model->calls[from].count ||
        json_integer_value(json_array_get(out, 2)) != 0) {
        return malformed(graph, "no usable input_layers or output_layers", NULL, error);
    }
    td_status status = connect(graph, model, error);
    for (size_t i = 0; i < model->count && !status; i++) {
        bool is_input = !strcmp(graph->entries[model->entry[i]].class_name, "InputLayer");
        if (is_input && i != (size_t)from) {
            status = malformed(graph, "an input that the model does not name:",
                               graph->entries[model->entry[i]].name, error);
        }
        model->placed[i] = is_input;
        model->stands[i] = at.input;
    }
    status = status ? status : place_all(graph, model, (size_t)to, at.depth, error);
    *output = model->stands[to];
    return status;
}

static td_status read_functional(td__keras_graph *graph, const json_t *config, frame at,
                                 int32_t *output, td_error *error) {
    const json_t *layers = json_object_get(config, "layers");
    size_t count = json_array_size(layers);
    if (count > MOST_LAYERS) {
        return malformed(graph, "too many layers", NULL, error);
    }
    functional model = {.entry = td__calloc(count + 1, sizeof(int32_t)),
                        .stands = td__calloc(count + 1, sizeof(int32_t)),
                        .placed = td__calloc(count + 1, sizeof(bool)),
                        .calls = td__calloc(count + 1, sizeof(td__keras_call))};
    td_status status = model.entry && model.stands && model.placed && model.calls
                           ? TD_OK
                           : out_of_memory(graph, error);
    status = status ? status : read_calls(graph, layers, &model, at, error);
    /* Layers that are refused are not connected: their list is all that is wanted then. */
    if (!status && graph->refused_layers == 0) {
        status = order_functional(graph, config, &model, at, output, error);
    } else if (!status) {
        for (size_t i = 0; i < model.count && !status; i++) {
            const td__keras_entry *entry = &graph->entries[model.entry[i]];
            frame inner = {model.entry[i], TD__KERAS_INPUT, false, at.depth + 1};
            if (is_model_class(entry->class_name)) {
                status = read_model(graph, entry->class_name, entry->config, inner, output, error);
            } else if (strcmp(entry->class_name, "InputLayer") != 0) {
                status = append_order(graph, model.entry[i], error);
            }
        }
    }
    functional_release(&model);
    return status;
}

static td_status read_model(td__keras_graph *graph, const char *class_name, const json_t *config,
                            frame at, int32_t *output, td_error *error) {
    if (at.depth > MOST_DEPTH) {
        return malformed(graph, "models within models are nested too deeply", NULL, error);
    }
    at.frozen = at.frozen || json_is_false(json_object_get(config, "trainable"));
    return strcmp(class_name, "Sequential") == 0
               ? read_sequential(graph, config, at, output, error)
               : read_functional(graph, config, at, output, error);
}

td_status td__keras_graph_read(td__keras_graph *graph, const json_t *config, const char *origin,
                               bool keras2, td_error *error) {
    *graph = (td__keras_graph){.origin = origin, .keras2 = keras2};
    const char *class_name = text_of(config, "class_name");
    const json_t *inside = json_object_get(config, "config");
    if (!class_name || !inside) {
        return malformed(graph, "it has no class_name and config", NULL, error);
    }
    if (!is_model_class(class_name)) {
        return td_error_set(
            error, TD_UNSUPPORTED,
            "%s: a model of class %.100s, whose code is not in the file; save it as "
            "a Sequential or Functional model",
            origin, class_name);
    }
    const char *name = text_of(inside, "name");
    graph->name = td__strdup(name ? name : "model");
    int32_t output = TD__KERAS_INPUT;
    td_status status = graph->name ? TD_OK : out_of_memory(graph, error);
    frame top = {TD__KERAS_TOP, TD__KERAS_INPUT, false, 0};
    status = status ? status : read_model(graph, class_name, inside, top, &output, error);
    if (!status && !graph->has_input) {
        const json_t *built =
            json_object_get(json_object_get(config, "build_config"), "input_shape");
        graph->has_input = read_shape(built, &graph->input);
    }
    if (!status && graph->refused_layers == 0 && graph->order_count > 0 &&
        graph->order[graph->order_count - 1] != output) {
        status = td_error_set(error, TD_UNSUPPORTED,
                              "%s: the model's first output is its input, or that of a model in it",
                              origin);
    }
    if (!status && !graph->has_input) {
        status = td_error_set(error, TD_UNSUPPORTED,
                              "%s: the model has no input shape: it was saved before it was built",
                              origin);
    }
    return status;
}

void td__keras_graph_release(td__keras_graph *graph) {
    for (size_t i = 0; i < graph->count; i++) {
        td__free(graph->entries[i].name);
        td__free(graph->entries[i].class_name);
        td__free(graph->entries[i].given);
    }
    td__free(graph->entries);
    td__free(graph->order);
    td__free(graph->name);
    *graph = (td__keras_graph){0};
}
