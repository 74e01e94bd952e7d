/* From a configuration to entries and their order; see graph.h. */
#include "keras/graph.h"

#include "base/memory.h"
#include "keras/call.h"
#include "keras/masks.h"

#include <stdio.h>
#include <string.h>

enum { MAX_LAYERS = 10000, MAX_DEPTH = 16, MAX_NAME = 255 };

static td_status keras_malformed(const td__keras_graph *graph, const char *what, const char *name,
                                 td_error *error) {
    return td_error_set(error, TD_FORMAT, "%s: its configuration is malformed: %s%s%.100s%s",
                        graph->origin, what, name ? " '" : "", name ? name : "", name ? "'" : "");
}

static td_status out_of_memory(const td__keras_graph *graph, td_error *error) {
    return td_error_set(error, TD_MEMORY, "%s: out of memory", graph->origin);
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
        return keras_malformed(graph, "a layer without class_name or name", NULL, error);
    }
    if (strlen(name) > MAX_NAME || strlen(class_name) > MAX_NAME) {
        return keras_malformed(graph, "a name that is too long:", name, error);
    }
    if (!td__grow(&graph->entries, &graph->capacity, graph->count + 1, MAX_LAYERS,
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
                          .again = -1,
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
    entry->mask_operation = ours && entry->operation && td__keras_is_mask_operation(class_name);
    if (!strcmp(class_name, "Lambda")) {
        td__keras_refuse(graph, entry, "it is code, which is never run");
    } else if (!ours) {
        td__keras_refuse(graph, entry, "a class of its own: code, which is never run");
    } else if (!entry->class && !entry->mask_operation && !is_model_class(class_name) &&
               strcmp(class_name, "InputLayer") != 0) {
        td__keras_refuse(graph, entry, "there is no such layer here");
    }
    return TD_OK;
}

static td_status append_order(td__keras_graph *graph, int32_t entry, td_error *error) {
    if (!td__grow(&graph->order, &graph->order_capacity, graph->order_count + 1, MAX_LAYERS,
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

bool td__keras_input_shape(const td__keras_entry *entry, td_shape *shape) {
    const json_t *list = json_object_get(entry->config, "batch_shape");
    return read_shape(list ? list : json_object_get(entry->config, "batch_input_shape"), shape);
}

/* Keras 3 says batch_shape, Keras 2 batch_input_shape, on its first layer too. */
static td_status take_input(td__keras_graph *graph, const td__keras_entry *entry, td_error *error) {
    const json_t *shape = json_object_get(entry->config, "batch_shape");
    shape = shape ? shape : json_object_get(entry->config, "batch_input_shape");
    const char *dtype = text_of(entry->config, "dtype");
    if (entry->parent != TD__KERAS_TOP || (graph->has_input && !graph->several) || !shape) {
        return TD_OK;
    }
    if (!read_shape(shape, &graph->input)) {
        return keras_malformed(graph, "no usable shape for the input", entry->name, error);
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

/* A model being read: its place among the entries and what stands for its inputs. */
typedef struct frame {
    int32_t self;                /* its entry, or TD__KERAS_TOP */
    int32_t inputs[TD_MAX_FROM]; /* the layers it reads */
    size_t input_count;
    bool frozen;
    int depth;
} frame;

/* The layers that stand for what a layer or model puts out. */
typedef struct result {
    int32_t layers[TD_MAX_OUTPUTS];
    size_t count;
} result;

static td_status read_model(td__keras_graph *graph, const char *class_name, const json_t *config,
                            const frame *at, result *out, td_error *error);

static bool is_input_layer(const td__keras_entry *entry) {
    return !strcmp(entry->class_name, "InputLayer");
}

/* A layer used again is an entry of its own that says whose weights it has. */
static td_status repeat_entry(td__keras_graph *graph, int32_t *index, td_error *error) {
    if (!td__grow(&graph->entries, &graph->capacity, graph->count + 1, MAX_LAYERS,
                  sizeof *graph->entries)) {
        return out_of_memory(graph, error);
    }
    td__keras_entry *again = &graph->entries[graph->count];
    *again = graph->entries[*index];
    again->again = *index;
    again->given = NULL;
    again->name = td__strdup(again->name);
    again->class_name = td__strdup(again->class_name);
    *index = (int32_t)graph->count++;
    return again->name && again->class_name ? TD_OK : out_of_memory(graph, error);
}

/* A model called again: its layers are those of the first call, which were read in the same order. */
static td_status place_model(td__keras_graph *graph, int32_t index, const int32_t *inputs,
                             size_t count, int depth, result *out, td_error *error) {
    const td__keras_entry *entry = &graph->entries[index];
    frame inner = {
        .self = index, .input_count = count, .frozen = entry->frozen, .depth = depth + 1};
    memcpy(inner.inputs, inputs, count * sizeof *inputs);
    size_t begin = graph->count, first = (size_t)entry->inner;
    graph->entries[index].inner = first ? (int32_t)first : (int32_t)begin;
    td_status status = read_model(graph, entry->class_name, entry->config, &inner, out, error);
    for (size_t i = begin; first && !status && i < graph->count; i++) {
        const td__keras_entry *own = &graph->entries[first + i - begin];
        graph->entries[i].again = own->again >= 0 ? own->again : (int32_t)(first + i - begin);
    }
    return status;
}

/* Puts a connected entry into the order: a layer as it is, a model as its layers. */
static td_status place_entry(td__keras_graph *graph, int32_t index, size_t use,
                             const int32_t *inputs, size_t count, int depth, result *out,
                             td_error *error) {
    if (is_model_class(graph->entries[index].class_name)) {
        return place_model(graph, index, inputs, count, depth, out, error);
    }
    td_status status = use ? repeat_entry(graph, &index, error) : TD_OK;
    if (status) {
        return status;
    }
    memcpy(graph->entries[index].inputs, inputs, count * sizeof *inputs);
    graph->entries[index].input_count = count;
    *out = (result){{index}, 1};
    return append_order(graph, index, error);
}

static td_status read_sequential(td__keras_graph *graph, const json_t *config, const frame *at,
                                 result *out, td_error *error) {
    const json_t *layers = json_is_array(config) ? config : json_object_get(config, "layers");
    *out = (result){{at->inputs[0]}, 1};
    if (at->input_count != 1) {
        td__keras_refuse(graph, &graph->entries[at->self], "a Sequential model of several inputs");
    }
    td_status status = TD_OK;
    for (size_t i = 0; i < json_array_size(layers) && !status; i++) {
        int32_t index = 0;
        status = add_entry(graph, json_array_get(layers, i), at->self, at->frozen, &index, error);
        if (!status && graph->entries[index].mask_operation) {
            td__keras_refuse(graph, &graph->entries[index], "there is no such layer here");
        }
        status = status ? status : take_input(graph, &graph->entries[index], error);
        if (!status && !is_input_layer(&graph->entries[index])) {
            int32_t last = out->layers[0];
            status = place_entry(graph, index, 0, &last, 1, at->depth, out, error);
            out->count = 1;
        }
    }
    if (!status && at->self == TD__KERAS_TOP && !graph->has_input) {
        graph->has_input = read_shape(json_object_get(config, "build_input_shape"), &graph->input);
    }
    return status;
}

/* One call of a layer of a Functional model. */
typedef struct use {
    size_t layer;  /* in the list */
    size_t number; /* of this call of it, from 0 */
    td__keras_call call;
    bool placed;
    result stands; /* once it is placed */
} use;

/* Layers of a Functional model while it is read. */
typedef struct functional {
    int32_t *entry; /* where each layer of the list is among the entries */
    size_t *first;  /* of its uses */
    bool *from_one; /* its calls count from 1 */
    size_t count;
    use *uses; /* in the order of the list */
    size_t use_count, use_capacity;
} functional;

static void functional_release(functional *model) {
    td__free(model->entry);
    td__free(model->first);
    td__free(model->from_one);
    td__free(model->uses);
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

static ptrdiff_t find_use(const td__keras_graph *graph, const functional *model, const char *name,
                          int64_t number) {
    ptrdiff_t layer = find_layer(graph, model, name);
    number -= layer >= 0 && model->from_one[layer];
    size_t at = layer >= 0 && number >= 0 ? model->first[layer] + (size_t)number : SIZE_MAX;
    return at < model->use_count && model->uses[at].layer == (size_t)layer ? (ptrdiff_t)at : -1;
}

/* The calls of a layer; an input is one that reads nothing. */
static td_status read_uses(td__keras_graph *graph, const json_t *json, functional *model,
                           size_t layer, td_error *error) {
    td__keras_entry *entry = &graph->entries[model->entry[layer]];
    const json_t *nodes = json_object_get(json, "inbound_nodes");
    size_t count = is_input_layer(entry) ? 1 : json_array_size(nodes);
    model->first[layer] = model->use_count;
    for (size_t k = 0; k < count; k++) {
        if (!td__grow(&model->uses, &model->use_capacity, model->use_count + 1, MAX_LAYERS,
                      sizeof *model->uses)) {
            return out_of_memory(graph, error);
        }
        use *one = &model->uses[model->use_count++];
        *one = (use){.layer = layer, .number = k};
        if (is_input_layer(entry)) {
            continue;
        }
        td__keras_call_read(json_array_get(nodes, k), entry->class_name, &one->call);
        bool changed =
            k && (entry->causal != one->call.causal || one->call.with_number || entry->with_number);
        entry->causal = one->call.causal;
        entry->with_number = one->call.with_number;
        entry->number = one->call.number;
        if (*one->call.reason || changed) {
            td__keras_refuse(graph, entry,
                             changed ? "its calls differ in more than what they read"
                                     : one->call.reason);
        } else if (one->call.count == 0) {
            return keras_malformed(graph, "nothing is connected to", entry->name, error);
        }
    }
    return count ? TD_OK : keras_malformed(graph, "nothing is connected to", entry->name, error);
}

static td_status read_calls(td__keras_graph *graph, const json_t *layers, functional *model,
                            const frame *at, td_error *error) {
    td_status status = TD_OK;
    for (size_t i = 0; i < json_array_size(layers) && !status; i++) {
        const json_t *json = json_array_get(layers, i);
        status = add_entry(graph, json, at->self, at->frozen, &model->entry[i], error);
        if (status) {
            break;
        }
        model->count = i + 1;
        const td__keras_entry *entry = &graph->entries[model->entry[i]];
        if (find_layer(graph, model, entry->name) != (ptrdiff_t)i) {
            return keras_malformed(graph, "two layers are called", entry->name, error);
        }
        status = take_input(graph, entry, error);
        status = status ? status : read_uses(graph, json, model, i, error);
    }
    return status;
}

/* In files of Keras 2 the calls of a model within the model count from 1: the first is its making. A
 * call that would be one too many reports it. */
static void count_from_one(const td__keras_graph *graph, functional *model) {
    for (size_t i = 0; graph->keras2 && i < model->use_count; i++) {
        const td__keras_call *call = &model->uses[i].call;
        for (size_t k = 0; k < call->count; k++) {
            ptrdiff_t layer = find_layer(graph, model, call->from[k]);
            bool inner =
                layer >= 0 && is_model_class(graph->entries[model->entry[layer]].class_name);
            if (inner && call->uses[k] > 0 &&
                find_use(graph, model, call->from[k], call->uses[k]) < 0) {
                model->from_one[layer] = true;
            }
        }
    }
}

/* Turns names into uses. */
static td_status connect(const td__keras_graph *graph, functional *model, td_error *error) {
    for (size_t i = 0; i < model->use_count; i++) {
        td__keras_call *call = &model->uses[i].call;
        for (size_t k = 0; k < call->count; k++) {
            ptrdiff_t found = find_use(graph, model, call->from[k], call->uses[k]);
            if (found < 0) {
                return keras_malformed(graph, "there is no layer", call->from[k], error);
            }
            call->inputs[k] = (int32_t)found;
        }
        for (size_t k = 0; k < call->mask_count; k++) {
            ptrdiff_t found =
                call->masks[k] ? find_use(graph, model, call->masks[k], call->mask_uses[k]) : -1;
            if (call->masks[k] && found < 0) {
                return keras_malformed(graph, "there is no layer", call->masks[k], error);
            }
            call->mask_inputs[k] = (int32_t)found;
        }
    }
    return TD_OK;
}

/* Masks are made and passed on by our layers themselves: what makes them is left out. */
static td_status settle_masks(td__keras_graph *graph, functional *model, td_error *error) {
    td__keras_masked *calls = td__calloc(model->use_count + 1, sizeof *calls);
    if (!calls) {
        return out_of_memory(graph, error);
    }
    for (size_t i = 0; i < model->use_count; i++) {
        use *one = &model->uses[i];
        calls[i].entry = &graph->entries[model->entry[one->layer]];
        calls[i].call = &one->call;
        one->placed = calls[i].entry->mask_operation;
    }
    td_status status = td__keras_masks_check(calls, model->use_count, graph->origin, error);
    for (size_t i = 0; i < model->use_count && !status; i++) {
        if (calls[i].reason) {
            td__keras_refuse(graph, calls[i].entry, calls[i].reason);
        }
    }
    td__free(calls);
    return status;
}

static bool is_ready(const functional *model, size_t i) {
    for (size_t k = 0; k < model->uses[i].call.count; k++) {
        if (!model->uses[model->uses[i].call.inputs[k]].placed) {
            return false;
        }
    }
    return true;
}

static td_status place_use(td__keras_graph *graph, functional *model, size_t i, int depth,
                           td_error *error) {
    use *one = &model->uses[i];
    int32_t inputs[TD_MAX_FROM] = {0};
    for (size_t k = 0; k < one->call.count; k++) {
        const result *from = &model->uses[one->call.inputs[k]].stands;
        int64_t output = one->call.outputs[k];
        if (output < 0 || (size_t)output >= from->count) {
            return td_error_set(error, TD_UNSUPPORTED,
                                "%s: layer '%s' reads output %lld of '%s', which has none here",
                                graph->origin, graph->entries[model->entry[one->layer]].name,
                                (long long)output + 1, one->call.from[k]);
        }
        inputs[k] = from->layers[output];
    }
    one->placed = true;
    return place_entry(graph, model->entry[one->layer], one->number, inputs, one->call.count, depth,
                       &one->stands, error);
}

/* Each use after those it reads, in the file's order where that is free; last, where that can be, comes
 * last. */
static td_status place_all(td__keras_graph *graph, functional *model, size_t last, int depth,
                           td_error *error) {
    td_status status = TD_OK;
    for (bool progress = true, wait = true; progress && !status;) {
        progress = false;
        for (size_t i = 0; i < model->use_count && !status; i++) {
            if (!model->uses[i].placed && !(wait && i == last) && is_ready(model, i)) {
                status = place_use(graph, model, i, depth, error);
                progress = true;
            }
        }
        if (!progress && wait) {
            wait = false;
            progress = true;
        }
    }
    for (size_t i = 0; i < model->use_count && !status; i++) {
        if (!model->uses[i].placed) {
            return keras_malformed(graph, "layers read each other in a circle before",
                                   graph->entries[model->entry[model->uses[i].layer]].name, error);
        }
    }
    return status;
}

/* References ["a", 0, 0] in [["a", 0, 0], …] or {"x": ["a", 0, 0]}, most at most; returns how many there
 * are. */
static size_t references(const json_t *value, const json_t **found, size_t max, size_t count,
                         int depth) {
    if (json_is_string(json_array_get(value, 0))) {
        if (count < max) {
            found[count] = value;
        }
        return count + 1;
    }
    size_t index;
    const char *key;
    json_t *item;
    json_array_foreach((json_t *)value, index, item) {
        count = depth < 4 ? references(item, found, max, count, depth + 1) : count;
    }
    json_object_foreach((json_t *)value, key, item) {
        count = depth < 4 ? references(item, found, max, count, depth + 1) : count;
    }
    return count;
}

/* Of an input or output of the model. Those count the calls of a Functional model from 1, as its making is
 * one, which calls of layers do not; in files of Keras 2 Sequential models may count so as well. */
static ptrdiff_t use_of(const td__keras_graph *graph, const functional *model,
                        const json_t *reference) {
    const char *name = json_string_value(json_array_get(reference, 0));
    int64_t number = json_integer_value(json_array_get(reference, 1));
    ptrdiff_t layer = name ? find_layer(graph, model, name) : -1;
    if (layer < 0) {
        return -1;
    }
    const char *class_name = graph->entries[model->entry[layer]].class_name;
    bool made = is_model_class(class_name) && strcmp(class_name, "Sequential") != 0;
    if (made && !graph->keras2) {
        number--;
    }
    ptrdiff_t found = find_use(graph, model, name, number);
    return found < 0 && graph->keras2 ? find_use(graph, model, name, number - 1) : found;
}

/* Inputs stand for what the model reads; several of the outermost model are layers of their own. */
static td_status place_inputs(td__keras_graph *graph, const json_t *config, functional *model,
                              const frame *at, td_error *error) {
    const json_t *found[TD_MAX_FROM] = {0};
    size_t count = references(json_object_get(config, "input_layers"), found, TD_MAX_FROM, 0, 0);
    bool top = at->self == TD__KERAS_TOP;
    if (count > TD_MAX_FROM || (!top && count != at->input_count)) {
        return td_error_set(error, TD_UNSUPPORTED, "%s: %s has %zu inputs; %s", graph->origin,
                            top ? "the model" : graph->entries[at->self].name, count,
                            top ? "models here have at most 16" : "it is called with others");
    }
    graph->several = top && count > 1;
    td_status status = TD_OK;
    for (size_t i = 0; i < count && !status; i++) {
        ptrdiff_t from = use_of(graph, model, found[i]);
        if (from < 0 || model->uses[from].call.count || model->uses[from].placed) {
            return keras_malformed(graph, "no usable input_layers or output_layers", NULL, error);
        }
        int32_t entry = model->entry[model->uses[from].layer];
        model->uses[from].placed = true;
        model->uses[from].stands = (result){{graph->several ? entry : at->inputs[i]}, 1};
        status = graph->several ? append_order(graph, entry, error) : TD_OK;
    }
    for (size_t i = 0; i < model->use_count && !status; i++) {
        const td__keras_entry *entry = &graph->entries[model->entry[model->uses[i].layer]];
        if (is_input_layer(entry) && !model->uses[i].placed) {
            status = keras_malformed(graph, "an input that the model does not name:", entry->name,
                                     error);
        }
    }
    return count || status
               ? status
               : keras_malformed(graph, "no usable input_layers or output_layers", NULL, error);
}

static td_status order_functional(td__keras_graph *graph, const json_t *config, functional *model,
                                  const frame *at, result *out, td_error *error) {
    const json_t *found[TD_MAX_OUTPUTS] = {0};
    size_t count =
        references(json_object_get(config, "output_layers"), found, TD_MAX_OUTPUTS, 0, 0);
    ptrdiff_t first = count ? use_of(graph, model, found[0]) : -1;
    if (first < 0 || count > TD_MAX_OUTPUTS) {
        return keras_malformed(graph, "no usable input_layers or output_layers", NULL, error);
    }
    td_status status = place_inputs(graph, config, model, at, error);
    status = status ? status : place_all(graph, model, (size_t)first, at->depth, error);
    out->count = 0;
    for (size_t i = 0; i < count && !status; i++) {
        ptrdiff_t from = use_of(graph, model, found[i]);
        int64_t which = json_integer_value(json_array_get(found[i], 2));
        const result *stands = from < 0 ? NULL : &model->uses[from].stands;
        if (!stands || which < 0 || (size_t)which >= stands->count) {
            return keras_malformed(graph, "no usable input_layers or output_layers", NULL, error);
        }
        out->layers[out->count++] = stands->layers[which];
    }
    return status;
}

/* Layers that are refused are not connected: their list is all that is wanted then. */
static td_status list_layers(td__keras_graph *graph, const functional *model, const frame *at,
                             result *out, td_error *error) {
    td_status status = TD_OK;
    for (size_t i = 0; i < model->count && !status; i++) {
        const td__keras_entry *entry = &graph->entries[model->entry[i]];
        frame inner = {.self = model->entry[i],
                       .inputs = {TD__KERAS_INPUT},
                       .input_count = 1,
                       .depth = at->depth + 1};
        if (is_model_class(entry->class_name)) {
            status = read_model(graph, entry->class_name, entry->config, &inner, out, error);
        } else if (!is_input_layer(entry)) {
            status = append_order(graph, model->entry[i], error);
        }
    }
    return status;
}

static td_status read_functional(td__keras_graph *graph, const json_t *config, const frame *at,
                                 result *out, td_error *error) {
    const json_t *layers = json_object_get(config, "layers");
    size_t count = json_array_size(layers);
    if (count > MAX_LAYERS) {
        return keras_malformed(graph, "too many layers", NULL, error);
    }
    functional model = {.entry = td__calloc(count + 1, sizeof *model.entry),
                        .first = td__calloc(count + 1, sizeof *model.first),
                        .from_one = td__calloc(count + 1, sizeof *model.from_one)};
    td_status status =
        model.entry && model.first && model.from_one ? TD_OK : out_of_memory(graph, error);
    status = status ? status : read_calls(graph, layers, &model, at, error);
    if (!status && graph->refused_layers == 0) {
        count_from_one(graph, &model);
        status = connect(graph, &model, error);
        status = status ? status : settle_masks(graph, &model, error);
    }
    if (!status) {
        status = graph->refused_layers == 0
                     ? order_functional(graph, config, &model, at, out, error)
                     : list_layers(graph, &model, at, out, error);
    }
    functional_release(&model);
    return status;
}

static td_status read_model(td__keras_graph *graph, const char *class_name, const json_t *config,
                            const frame *outer, result *out, td_error *error) {
    frame at = *outer;
    if (at.depth > MAX_DEPTH) {
        return keras_malformed(graph, "models within models are nested too deeply", NULL, error);
    }
    at.frozen = at.frozen || json_is_false(json_object_get(config, "trainable"));
    return strcmp(class_name, "Sequential") == 0 ? read_sequential(graph, config, &at, out, error)
                                                 : read_functional(graph, config, &at, out, error);
}

td_status td__keras_graph_read(td__keras_graph *graph, const json_t *config, const char *origin,
                               bool keras2, td_error *error) {
    *graph = (td__keras_graph){.origin = origin, .keras2 = keras2};
    const char *class_name = text_of(config, "class_name");
    const json_t *inside = json_object_get(config, "config");
    if (!class_name || !inside) {
        return keras_malformed(graph, "it has no class_name and config", NULL, error);
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
    result out = {{TD__KERAS_INPUT}, 1};
    td_status status = graph->name ? TD_OK : out_of_memory(graph, error);
    const frame top = {.self = TD__KERAS_TOP, .inputs = {TD__KERAS_INPUT}, .input_count = 1};
    status = status ? status : read_model(graph, class_name, inside, &top, &out, error);
    if (!status && !graph->has_input) {
        const json_t *built =
            json_object_get(json_object_get(config, "build_config"), "input_shape");
        graph->has_input = read_shape(built, &graph->input);
    }
    if (!status && !graph->has_input) {
        status = td_error_set(error, TD_UNSUPPORTED,
                              "%s: the model has no input shape: it was saved before it was built",
                              origin);
    }
    for (size_t i = 0; i < out.count && !status && graph->refused_layers == 0; i++) {
        graph->outputs[graph->output_count++] = out.layers[i];
        if (out.layers[i] == TD__KERAS_INPUT || is_input_layer(&graph->entries[out.layers[i]])) {
            status = td_error_set(
                error, TD_UNSUPPORTED,
                "%s: an output of the model is its input, or that of a model in it", origin);
        }
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
