/* From datasets to parameters; see weights.h. Values go straight to where they belong. */
#include "keras/weights.h"

#include "base/memory.h"
#include "tensor/element.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_SIZE = 4096 };

typedef struct weights_reader {
    td_model *model;
    const td__keras_graph *graph;
    td__hdf5 *file;
    bool twice;    /* Keras 2.13 counts layers with weights twice where it names groups */
    bool *weighty; /* whether each entry has weights */
    char **groups; /* the path of each entry */
} weights_reader;

/* --- one parameter ------------------------------------------------------------------------ */

static int64_t elements(const td_shape *shape) {
    int64_t count = 0;
    return td_shape_check(shape, TD_FLOAT32, &count, NULL) ? -1 : count;
}

/* A depthwise kernel (h, w, channels, multiplier) is ours, (h, w, 1, channels * multiplier); the
 * channels of a LayerScale are one of (1, 1, 1, channels). */
static bool shape_fits_entry(const td__keras_entry *entry, const td_shape *have,
                             const td_shape *want) {
    if (td_shape_equal(have, want)) {
        return true;
    }
    if (!strcmp(entry->class_name, "LayerScale")) {
        return have->rank == 1 && elements(have) == elements(want);
    }
    return !strcmp(entry->class_name, "DepthwiseConv2D") && have->rank == 4 && want->rank == 4 &&
           have->dims[0] == want->dims[0] && have->dims[1] == want->dims[1] &&
           elements(have) == elements(want);
}

td_status td__keras_parameter_set(const td__keras_graph *graph, const td__keras_entry *entry,
                                  const td_parameter_info *parameter, const td_view *values,
                                  const char *path, td_error *error) {
    td_shape want = td_tensor_shape(parameter->tensor);
    if (!shape_fits_entry(entry, &values->shape, &want)) {
        char have_text[TD_SHAPE_TEXT_SIZE], want_text[TD_SHAPE_TEXT_SIZE];
        return td_error_set(error, TD_BAD_SHAPE, "%s: %s has shape %s in '%s', the layer needs %s",
                            graph->origin, parameter->name,
                            td_shape_text(&values->shape, have_text), path,
                            td_shape_text(&want, want_text));
    }
    td__copy_floats(td_tensor_data(parameter->tensor), values, 0,
                    td_tensor_count(parameter->tensor));
    return TD_OK;
}

td_status td__keras_parameter_read(const td__keras_graph *graph, const td__keras_entry *entry,
                                   const td_parameter_info *parameter, td__hdf5 *file,
                                   td__hdf5_object dataset, const char *path, td_error *error) {
    const char *origin = graph->origin;
    if (!dataset) {
        return td_error_set(error, TD_NOT_FOUND, "%s: %s is missing: there is no '%s'", origin,
                            parameter->name, path);
    }
    td__hdf5_array array = {0};
    td_status status = td__hdf5_read(file, dataset, path, &array, error);
    if (status) {
        return status;
    }
    status = td__keras_parameter_set(graph, entry, parameter, &array.view, path, error);
    td__hdf5_release(&array);
    return status;
}

static const td_layer_info *info_of(const weights_reader *reader, const td__keras_entry *entry) {
    return entry->layer < 0 ? NULL : td_model_layer(reader->model, (size_t)entry->layer);
}

/* --- .keras ------------------------------------------------------------------------------- */

void td__keras_place(td__keras_storage storage, bool use_bias, size_t i, bool keras2,
                     char place[TD__KERAS_PLACE_SIZE]) {
    static const char *const parts[] = {"query", "key", "value", "output"};
    size_t each = use_bias ? 2 : 1, side = use_bias ? 3 : 2;
    switch (storage) {
    case TD__KERAS_WRAPPED:
        (void)snprintf(place, TD__KERAS_PLACE_SIZE, "layer/vars/%zu", i);
        return;
    case TD__KERAS_BOTH:
        (void)snprintf(place, TD__KERAS_PLACE_SIZE, "%s_layer/cell/vars/%zu",
                       i < side ? "forward" : "backward", i % side);
        return;
    case TD__KERAS_ATTENTION:
        (void)snprintf(place, TD__KERAS_PLACE_SIZE, "%s%s_dense/vars/%zu", keras2 ? "_" : "",
                       parts[i / each % 4], i % each);
        return;
    case TD__KERAS_CELL:
        (void)snprintf(place, TD__KERAS_PLACE_SIZE, "cell/vars/%zu", i);
        return;
    case TD__KERAS_VARS:
    case TD__KERAS_COUNTED:
    case TD__KERAS_NOWHERE:
        (void)snprintf(place, TD__KERAS_PLACE_SIZE, "vars/%zu", i);
        return;
    }
}

bool td__keras_has_bias(td__keras_storage storage, size_t parameters) {
    return parameters == (storage == TD__KERAS_BOTH ? 6 : 8);
}

/* How many groups of variables a layer has, of equally many each. */
static size_t parts_of(td__keras_storage storage) {
    return storage == TD__KERAS_ATTENTION ? 4 : storage == TD__KERAS_BOTH ? 2 : 1;
}

/* Layers with weights, and models that have such. A model comes before its layers. */
static void find_weighty(const weights_reader *reader) {
    const td__keras_graph *graph = reader->graph;
    for (size_t i = graph->count; i-- > 0;) {
        const td__keras_entry *entry = &graph->entries[i];
        const td_layer_info *info = info_of(reader, entry);
        reader->weighty[i] = reader->weighty[i] || (info && info->parameter_count);
        if (reader->weighty[i] && entry->parent != TD__KERAS_TOP) {
            reader->weighty[entry->parent] = true;
        }
    }
}

/* "layers/dense_1": classes are counted among the layers of one model. */
static td_status name_group(weights_reader *reader, size_t index, td_error *error) {
    const td__keras_graph *graph = reader->graph;
    const td__keras_entry *entry = &graph->entries[index];
    char snake[TD__KERAS_SNAKE_SIZE], number[24] = "";
    td__keras_snake(entry->class_name, snake);
    size_t before = 0;
    for (size_t i = 0; i < index; i++) {
        const td__keras_entry *other = &graph->entries[i];
        if (other->parent == entry->parent && !other->operation && other->again < 0 &&
            !strcmp(other->class_name, entry->class_name)) {
            before += reader->twice && reader->weighty[i] ? 2 : 1;
        }
    }
    if (before) {
        (void)snprintf(number, sizeof number, "_%zu", before);
    }
    const char *parent = entry->parent == TD__KERAS_TOP ? "" : reader->groups[entry->parent];
    const char *layers = reader->twice ? "_layer_checkpoint_dependencies" : "layers";
    size_t room = strlen(parent) + strlen(layers) + strlen(snake) + sizeof number + 3;
    char *path = room < PATH_SIZE ? td__calloc(room, 1) : NULL;
    if (!path) {
        return td_error_set(error, TD_MEMORY, "%s: out of memory", graph->origin);
    }
    (void)snprintf(path, room, "%s%s%s/%s%s", parent, *parent ? "/" : "", layers, snake, number);
    reader->groups[index] = path;
    return TD_OK;
}

static td_status read_layer(const weights_reader *reader, size_t index, td_error *error) {
    const td__keras_entry *entry = &reader->graph->entries[index];
    const td_layer_info *info = info_of(reader, entry);
    td__keras_storage storage = td__keras_class_storage(entry->class);
    bool use_bias = td__keras_has_bias(storage, info->parameter_count);
    char path[PATH_SIZE + TD__KERAS_PLACE_SIZE], place[TD__KERAS_PLACE_SIZE];
    td_status status = TD_OK;
    for (size_t i = 0; i < info->parameter_count && !status; i++) {
        td__hdf5_object found = 0;
        for (int hidden = 0; hidden < 2 && !found && !status; hidden++) {
            td__keras_place(storage, use_bias, i, hidden, place);
            (void)snprintf(path, sizeof path, "%s/%s", reader->groups[index], place);
            status = td__hdf5_find(reader->file, td__hdf5_root(reader->file), path, &found, error);
        }
        status = status ? status
                        : td__keras_parameter_read(
                              reader->graph, entry,
                              td_model_parameter_at(reader->model, info->first_parameter + i),
                              reader->file, found, path, error);
    }
    return status;
}

/* What a list of names must hold, and what it holds beyond. */
typedef struct listing {
    const weights_reader *reader;
    int32_t parent; /* of the entries whose groups are listed */
    size_t max;     /* else: vars, as many as parameters */
    const char *path;
} listing;

static td_status check_group(void *user, const char *name, td__hdf5_object object,
                             td_error *error) {
    const listing *list = user;
    const td__keras_graph *graph = list->reader->graph;
    (void)object;
    for (size_t i = 0; i < graph->count; i++) {
        const char *path = list->reader->groups[i];
        if (graph->entries[i].parent == list->parent && !strcmp(strrchr(path, '/') + 1, name)) {
            return TD_OK;
        }
    }
    return td_error_set(error, TD_FORMAT,
                        "%s: it has weights of a layer '%.100s' in '%s' that its "
                        "configuration lacks",
                        graph->origin, name, list->path);
}

static td_status check_var(void *user, const char *name, td__hdf5_object object, td_error *error) {
    const listing *list = user;
    (void)object;
    char *end;
    unsigned long number = strtoul(name, &end, 10);
    if (*end || end == name || number >= list->max) {
        return td_error_set(error, TD_FORMAT,
                            "%s: the layer has %zu parameters in '%s', the file '%.100s' too",
                            list->reader->graph->origin, list->max, list->path, name);
    }
    return TD_OK;
}

static td_status list_group(const weights_reader *reader, const char *path, td__hdf5_each *each,
                            listing *list, td_error *error) {
    td__hdf5_object group = 0;
    td_status status =
        td__hdf5_find(reader->file, td__hdf5_root(reader->file), path, &group, error);
    list->path = path;
    return status || !group ? status : td__hdf5_list(reader->file, group, each, list, error);
}

/* Nothing is left over: no layer of a model, no variable of a layer. */
static td_status check_rest(const weights_reader *reader, size_t index, td_error *error) {
    const td__keras_entry *entry = &reader->graph->entries[index];
    const td_layer_info *info = info_of(reader, entry);
    char path[PATH_SIZE + TD__KERAS_PLACE_SIZE];
    if (info && !td__keras_has_weights(entry)) {
        return TD_OK;
    }
    if (!info) {
        listing list = {.reader = reader, .parent = (int32_t)index};
        (void)snprintf(path, sizeof path, "%s/layers", reader->groups[index]);
        return list_group(reader, path, check_group, &list, error);
    }
    td__keras_storage storage = td__keras_class_storage(entry->class);
    size_t parts = parts_of(storage), each = info->parameter_count / parts;
    bool use_bias = td__keras_has_bias(storage, info->parameter_count);
    listing list = {.reader = reader, .max = each};
    list.max += storage == TD__KERAS_COUNTED; /* how many examples its mean is of */
    td_status status = TD_OK;
    for (size_t part = 0; part < parts && !status; part++) {
        char place[TD__KERAS_PLACE_SIZE];
        td__keras_place(storage, use_bias, part * each, reader->graph->keras2, place);
        *strrchr(place, '/') = 0;
        (void)snprintf(path, sizeof path, "%s/%s", reader->groups[index], place);
        status = list_group(reader, path, check_var, &list, error);
    }
    return status;
}

td_status td__keras_weights_read(td_model *model, const td__keras_graph *graph, td__hdf5 *file,
                                 td_error *error) {
    weights_reader reader = {.model = model, .graph = graph, .file = file};
    td__hdf5_object old = 0, new = 0, root = td__hdf5_root(file);
    td_status status = td__hdf5_find(file, root, "_layer_checkpoint_dependencies", &old, error);
    status = status ? status : td__hdf5_find(file, root, "layers", &new, error);
    reader.twice = old && !new;
    reader.groups = td__calloc(graph->count + 1, sizeof *reader.groups);
    reader.weighty = td__calloc(graph->count + 1, sizeof *reader.weighty);
    if (!status && (!reader.groups || !reader.weighty)) {
        status = td_error_set(error, TD_MEMORY, "%s: out of memory", graph->origin);
    }
    if (!status) {
        find_weighty(&reader);
    }
    for (size_t i = 0; i < graph->count && !status; i++) {
        status = name_group(&reader, i, error);
    }
    for (size_t i = 0; i < graph->count && !status; i++) {
        if (td__keras_has_weights(&graph->entries[i]) && !graph->entries[i].given) {
            status = read_layer(&reader, i, error);
        }
    }
    if (!status && !reader.twice) {
        listing list = {.reader = &reader, .parent = TD__KERAS_TOP};
        status = list_group(&reader, "layers", check_group, &list, error);
    }
    for (size_t i = 0; i < graph->count && !status; i++) {
        status = check_rest(&reader, i, error);
    }
    for (size_t i = 0; reader.groups && i < graph->count; i++) {
        td__free(reader.groups[i]);
    }
    td__free(reader.groups);
    td__free(reader.weighty);
    return status;
}
