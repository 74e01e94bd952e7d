/* Weights of legacy .h5 files: a group for each layer (or model) of the outermost list, with the
 * names of its weights in the order that layer.weights has. */
#include "base/memory.h"
#include "keras/weights.h"

#include <stdio.h>
#include <string.h>

enum { PATH_SIZE = 2048, MAX_PARTS = 64 };

typedef struct weights_reader {
    td_model *model;
    const td__keras_graph *graph;
    td__hdf5 *file;
    td__hdf5_object weights; /* the group with layer_names */
} weights_reader;

/* --- lists of names ----------------------------------------------------------------------- */

/* An attribute that is a list of texts, or several where it was too long for one: NAME0, NAME1, … */
typedef struct texts {
    char **part[MAX_PARTS]; /* each one block */
    size_t count[MAX_PARTS];
    size_t parts, total;
} texts;

static void texts_release(texts *list) {
    for (size_t i = 0; i < list->parts; i++) {
        td__free(list->part[i]);
    }
}

static const char *text_at(const texts *list, size_t index) {
    for (size_t i = 0; i < list->parts; i++) {
        if (index < list->count[i]) {
            return list->part[i][index];
        }
        index -= list->count[i];
    }
    return NULL;
}

static td_status read_part(const weights_reader *reader, td__hdf5_object object, const char *name,
                           texts *list, td_error *error) {
    td_status status = td__hdf5_texts(reader->file, object, name, &list->part[list->parts],
                                      &list->count[list->parts], error);
    if (!status && list->part[list->parts]) {
        list->total += list->count[list->parts++];
    }
    return status;
}

static td_status read_texts(const weights_reader *reader, td__hdf5_object object, const char *name,
                            texts *list, td_error *error) {
    *list = (texts){0};
    td_status status = read_part(reader, object, name, list, error);
    if (status || list->parts) {
        return status;
    }
    for (size_t i = 0; i < MAX_PARTS && list->parts == i && !status; i++) {
        char numbered[64];
        (void)snprintf(numbered, sizeof numbered, "%s%zu", name, i);
        status = read_part(reader, object, numbered, list, error);
    }
    return status;
}

/* --- layers ------------------------------------------------------------------------------- */

/* The names that a layer's or model's weights have, in order, and how many have been read. */
typedef struct cursor {
    td__hdf5_object group;
    texts names;
    size_t used;
} cursor;

static td_status read_parameters(const weights_reader *reader, const td__keras_entry *entry,
                                 bool trained, cursor *at, td_error *error) {
    const td_layer_info *info = td_model_layer(reader->model, (size_t)entry->layer);
    td_status status = TD_OK;
    for (size_t i = 0; i < info->parameter_count && !status && !entry->given; i++) {
        const td_parameter_info *parameter =
            td_model_parameter_at(reader->model, info->first_parameter + i);
        if (parameter->trainable != trained) {
            continue;
        }
        const char *name = text_at(&at->names, at->used++);
        td__hdf5_object found = 0;
        if (name) {
            status = td__hdf5_find(reader->file, at->group, name, &found, error);
        }
        status = status ? status
                        : td__keras_parameter_read(reader->graph, entry, parameter, reader->file,
                                                   found, name ? name : "weight_names", error);
    }
    /* How many examples a Normalization has seen is no parameter. */
    const char *next = text_at(&at->names, at->used);
    if (!trained && next && !strcmp(entry->class_name, "Normalization") && strstr(next, "count")) {
        at->used++;
    }
    return status;
}

/* One pass over a layer, or over a model's layers: a model's weights are what it trains, then what
 * it does not. Models are nested 16 deep at most. */
static td_status read_pass(const weights_reader *reader, size_t index, bool trained, cursor *at,
                           td_error *error) {
    const td__keras_graph *graph = reader->graph;
    if (graph->entries[index].layer >= 0) {
        return read_parameters(reader, &graph->entries[index], trained, at, error);
    }
    td_status status = TD_OK;
    for (size_t i = index + 1; i < graph->count && !status; i++) {
        if (graph->entries[i].parent == (int32_t)index && graph->entries[i].again < 0) {
            status = read_pass(reader, i, trained, at, error);
        }
    }
    return status;
}

static td_status read_layer(const weights_reader *reader, size_t index, td_error *error) {
    const td__keras_graph *graph = reader->graph;
    const td__keras_entry *entry = &graph->entries[index];
    cursor at = {0};
    td_status status = td__hdf5_find(reader->file, reader->weights, entry->name, &at.group, error);
    if (!status && at.group) {
        status = read_texts(reader, at.group, "weight_names", &at.names, error);
    }
    status = status ? status : read_pass(reader, index, true, &at, error);
    status = status ? status : read_pass(reader, index, false, &at, error);
    if (!status && at.used < at.names.total) {
        status = td_error_set(
            error, TD_FORMAT,
            "%s: layer '%s' has %zu parameters, the file %zu: '%.100s' is too much", graph->origin,
            entry->name, at.used, at.names.total, text_at(&at.names, at.used));
    }
    texts_release(&at.names);
    return status;
}

/* Every group that is listed belongs to a layer. */
static td_status check_names(const weights_reader *reader, td_error *error) {
    const td__keras_graph *graph = reader->graph;
    texts names;
    td_status status = read_texts(reader, reader->weights, "layer_names", &names, error);
    for (size_t i = 0; i < names.total && !status; i++) {
        const char *name = text_at(&names, i);
        bool known = false;
        for (size_t k = 0; k < graph->count && !known; k++) {
            const td__keras_entry *entry = &graph->entries[k];
            known = entry->parent == TD__KERAS_TOP && !strcmp(entry->name, name);
        }
        if (!known) {
            status = td_error_set(error, TD_FORMAT,
                                  "%s: it has weights of a layer '%.100s' that its configuration "
                                  "lacks",
                                  graph->origin, name);
        }
    }
    texts_release(&names);
    return status;
}

td_status td__keras_legacy_weights_read(td_model *model, const td__keras_graph *graph,
                                        td__hdf5 *file, td__hdf5_object weights, td_error *error) {
    weights_reader reader = {.model = model, .graph = graph, .file = file, .weights = weights};
    td_status status = check_names(&reader, error);
    for (size_t i = 0; i < graph->count && !status; i++) {
        if (graph->entries[i].parent == TD__KERAS_TOP && graph->entries[i].again < 0) {
            status = read_layer(&reader, i, error);
        }
    }
    return status;
}
