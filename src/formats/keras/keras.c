/* Loading Keras's files; see keras.h.
 *
 * The configuration becomes layers, is released, and only then the parameters are made and filled, so
 * that a load needs 64 MiB and four times the file at most: what the configuration takes is bounded
 * by td__json_budget, unpacked weights and parameters by BASE + 2 files each.
 */
#include "keras/keras.h"

#include "base/json.h"
#include "base/memory.h"
#include "keras/class.h"
#include "keras/graph.h"
#include "keras/make.h"
#include "keras/notes.h"
#include "keras/weights.h"
#include "nn/model.h"
#include "zip/zip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BASE ((size_t)24 << 20)
#define MAX_TEXT ((size_t)8 << 20) /* of a packed configuration, and half the file */

bool td__keras_is_zip(const unsigned char *head, size_t size) {
    return size >= 4 && !memcmp(head, "PK\x03\x04", 4);
}

bool td__keras_is_hdf5(const unsigned char *head, size_t size) {
    return size >= 8 && !memcmp(head, "\x89HDF\r\n\x1a\n", 8);
}

static size_t max_bytes(size_t file_size) {
    return file_size < SIZE_MAX / 4 ? BASE + 2 * file_size : file_size;
}

/* --- the configuration -------------------------------------------------------------------- */

/* The length of a number of Python's that JSON does not have, at text; 0 when it is none. */
static size_t odd_number(const char *text, size_t length) {
    static const char *const odd[] = {"NaN", "Infinity", "-Infinity"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        size_t size = strlen(odd[i]);
        if (length >= size && !memcmp(text, odd[i], size)) {
            return size;
        }
    }
    return 0;
}

/* Python writes NaN and Infinity as such: they become texts, which no option takes for a number.
 * Returns the size of the text with them quoted, and writes it to out unless that is NULL. */
static size_t quote_odd_numbers(const char *text, size_t length, char *out) {
    size_t used = 0;
    bool inside = false;
    for (size_t i = 0, step; i < length; i += step, used += step) {
        size_t odd = inside ? 0 : odd_number(text + i, length - i);
        step = odd ? odd : inside && text[i] == '\\' && i + 1 < length ? 2 : 1;
        inside = text[i] == '"' ? !inside : inside;
        if (out) {
            out[used] = '"';
            memcpy(out + used + (odd > 0), text + i, step);
            out[used + step + (odd > 0)] = '"';
        }
        used += odd ? 2 : 0;
    }
    return used;
}

json_t *td__keras_json(const char *origin, const char *text, size_t length, size_t file_size,
                       td_error *error) {
    size_t budget = td__json_budget(file_size), size = quote_odd_numbers(text, length, NULL);
    if (size == length) {
        return td__json_read(origin, text, length, budget, error);
    }
    char *quoted = td__calloc(size + 2, 1);
    if (!quoted) {
        td_error_set(error, TD_MEMORY, "%s: out of memory", origin);
        return NULL;
    }
    (void)quote_odd_numbers(text, length, quoted);
    json_t *json = td__json_read(origin, quoted, size, budget, error);
    td__free(quoted);
    return json;
}

/* --- layers ------------------------------------------------------------------------------- */

/* All layers with options that we lack are found before the first is added. */
static void check_layers(td__keras_graph *graph) {
    td__keras_settings settings;
    for (size_t i = 0; i < graph->order_count; i++) {
        const td__keras_entry *entry = &graph->entries[graph->order[i]];
        if (entry->class) {
            td__keras_layer_read(entry->class, entry->config, NULL, graph->keras2, &settings);
            if (*settings.reason) {
                td__keras_refuse(graph, entry, settings.reason);
            }
        }
    }
}

static const char *layer_name(const td_model *model, const td__keras_graph *graph, int32_t entry) {
    return entry == TD__KERAS_INPUT
               ? "input"
               : td_model_layer(model, (size_t)graph->entries[entry].layer)->name;
}

/* Whether a layer of the outermost model has the name. */
static bool is_outer_name(const td__keras_graph *graph, const char *name) {
    for (size_t i = 0; i < graph->count; i++) {
        const td__keras_entry *entry = &graph->entries[i];
        if (entry->parent == TD__KERAS_TOP && entry->class && !strcmp(entry->name, name)) {
            return true;
        }
    }
    return false;
}

/* A layer of a model within the model may have a name that another has: it then has its model's name
 * too, whichever of them comes first. */
static td_status choose_name(const td_model *model, const td__keras_graph *graph,
                             const td__keras_entry *entry, char *name, size_t size,
                             td_error *error) {
    int length = snprintf(name, size, "%s", entry->name);
    if (entry->parent != TD__KERAS_TOP &&
        (td_model_find(model, name) >= 0 || is_outer_name(graph, name))) {
        length = snprintf(name, size, "%s_%s", graph->entries[entry->parent].name, entry->name);
    }
    if ((size_t)length >= size) {
        return td_error_set(error, TD_RANGE, "%s: the name of a layer is too long: %.60s…",
                            graph->origin, name);
    }
    return TD_OK;
}

/* x + 3 and x * 3 are rescalings. */
static void take_number(const td__keras_entry *entry, td__keras_settings *settings) {
    bool product = !strcmp(settings->kind, "multiply");
    settings->kind = "rescaling";
    if (product && entry->number == 0) {
        td__keras_settings_refuse(settings, "it multiplies by 0");
    }
    td__keras_settings_number(settings, product ? "scale" : "offset", entry->number);
}

/* keras.applications's InceptionResNetV2 adds a multiple of its second input: a rescaling of its own,
 * which the layer reads instead. */
static td_status add_scaled(td_model *model, const td__keras_graph *graph,
                            const td__keras_entry *entry, const char *name, const char **second,
                            td_error *error) {
    char scaled[300];
    td_error reason = {0};
    double scale = json_number_value(json_object_get(entry->config, "scale"));
    (void)snprintf(scaled, sizeof scaled, "%s_scaled", name);
    const td_setting settings[] = {
        {.key = "name", .value = {.kind = TD_VALUE_TEXT, .text = scaled}},
        {.key = "from", .value = {.kind = TD_VALUE_TEXTS, .texts = second, .count = 1}},
        {.key = "scale", .value = {.kind = TD_VALUE_NUMBER, .number = scale}},
    };
    if (scale == 0 || entry->input_count != 2 ||
        td_model_add(model, "rescaling", settings, 3, &reason)) {
        return td_error_set(error, TD_UNSUPPORTED, "%s: layer '%s' %s", graph->origin, name,
                            *reason.text ? reason.text : "has no scale, or not two inputs");
    }
    *second = td_model_layer(model, td_model_layer_count(model) - 1)->name;
    return TD_OK;
}

/* A list of numbers, or one. */
static size_t numbers_in(const json_t *value, float *numbers) {
    size_t count = json_is_array(value) ? json_array_size(value) : json_is_number(value);
    for (size_t i = 0; i < count; i++) {
        const json_t *number = json_is_array(value) ? json_array_get(value, i) : value;
        if (!json_is_number(number)) {
            return 0;
        }
        if (numbers) {
            numbers[i] = (float)json_number_value(number);
        }
    }
    return count;
}

/* A Normalization that was given its mean and variance has them in its configuration alone. */
static td_status take_given(const td__keras_graph *graph, td__keras_entry *entry, td_error *error) {
    const json_t *mean = json_object_get(entry->config, "mean"),
                 *variance = json_object_get(entry->config, "variance");
    if (strcmp(entry->class_name, "Normalization") != 0 || !mean || json_is_null(mean)) {
        return TD_OK;
    }
    size_t count = numbers_in(mean, NULL);
    if (!count || numbers_in(variance, NULL) != count) {
        return td_error_set(error, TD_UNSUPPORTED,
                            "%s: layer '%s': its mean and variance are no lists of as many numbers",
                            graph->origin, entry->name);
    }
    entry->given = td__calloc(2 * count, sizeof *entry->given);
    if (!entry->given) {
        return td_error_set(error, TD_MEMORY, "%s: out of memory", graph->origin);
    }
    entry->given_count = 2 * count;
    (void)numbers_in(mean, entry->given);
    (void)numbers_in(variance, entry->given + count);
    return TD_OK;
}

/* Parameters whose values are given: one for each element, or one for all. */
static td_status fill_given(const td_model *model, const td__keras_graph *graph,
                            const td__keras_entry *entry, td_error *error) {
    const td_layer_info *info = td_model_layer(model, (size_t)entry->layer);
    size_t count = entry->given_count / 2;
    for (size_t i = 0; i < info->parameter_count; i++) {
        const td_tensor *tensor = td_model_parameter_at(model, info->first_parameter + i)->tensor;
        float *values = td_tensor_data(tensor);
        int64_t elements = td_tensor_count(tensor);
        if (info->parameter_count != 2 || (count != 1 && (int64_t)count != elements)) {
            return td_error_set(error, TD_BAD_SHAPE,
                                "%s: layer '%s' has a mean of %zu numbers for %lld channels",
                                graph->origin, entry->name, count, (long long)elements);
        }
        for (int64_t k = 0; k < elements; k++) {
            values[k] = entry->given[i * count + (count == 1 ? 0 : (size_t)k)];
        }
    }
    return TD_OK;
}

/* One of several inputs. */
static td_status add_input(td_model *model, const td__keras_graph *graph, td__keras_entry *entry,
                           td_error *error) {
    td_shape shape = {0};
    double sizes[TD_MAX_RANK] = {0};
    td_error reason = {0};
    if (!td__keras_input_shape(entry, &shape)) {
        return td_error_set(error, TD_FORMAT, "%s: no usable shape for the input '%s'",
                            graph->origin, entry->name);
    }
    for (int32_t i = 0; i < shape.rank; i++) {
        sizes[i] = (double)shape.dims[i];
    }
    const td_setting settings[] = {
        {.key = "name", .value = {.kind = TD_VALUE_TEXT, .text = entry->name}},
        {.key = "shape",
         .value = {.kind = TD_VALUE_NUMBERS, .numbers = sizes, .count = (size_t)shape.rank}},
    };
    entry->layer = (int32_t)td_model_layer_count(model);
    return td_model_add(model, "input", settings, 2, &reason)
               ? td_error_set(error, reason.status, "%s: %s", graph->origin, reason.text)
               : TD_OK;
}

/* A layer used again: by its name alone, and what it reads. */
static td_status add_again(td_model *model, const td__keras_graph *graph, td__keras_entry *entry,
                           td_error *error) {
    const char *from[TD_MAX_FROM];
    size_t first = (size_t)graph->entries[entry->again].layer;
    const td_layer_info *layer = td_model_layer(model, first);
    td_error reason = {0};
    for (size_t i = 0; i < entry->input_count; i++) {
        from[i] = layer_name(model, graph, entry->inputs[i]);
    }
    const td_setting settings[] = {
        {.key = "name", .value = {.kind = TD_VALUE_TEXT, .text = layer->name}},
        {.key = "from",
         .value = {.kind = TD_VALUE_TEXTS, .texts = from, .count = entry->input_count}},
    };
    entry->layer = (int32_t)td_model_layer_count(model);
    return td_model_add(model, td_layer_kind_name(layer->kind), settings, 2, &reason)
               ? td_error_set(error, reason.status, "%s: %s", graph->origin, reason.text)
               : TD_OK;
}

static td_status add_keras_layer(td_model *model, td__keras_graph *graph, td__keras_entry *entry,
                                 td_error *error) {
    if (entry->again >= 0) {
        return add_again(model, graph, entry, error);
    }
    if (!entry->class) {
        return add_input(model, graph, entry, error);
    }
    td__keras_settings settings;
    const char *from[TD_MAX_FROM];
    char name[256];
    td_shape input = graph->input;
    if (entry->inputs[0] != TD__KERAS_INPUT) {
        input = td_model_layer(model, (size_t)graph->entries[entry->inputs[0]].layer)->output;
    }
    td__keras_layer_read(entry->class, entry->config, &input, graph->keras2, &settings);
    if (entry->with_number) {
        take_number(entry, &settings);
    }
    if (*settings.reason) {
        td__keras_refuse(graph, entry, settings.reason);
        return td__keras_graph_refused(graph, error);
    }
    td_status status = choose_name(model, graph, entry, name, sizeof name, error);
    status = status ? status : take_given(graph, entry, error);
    for (size_t i = 0; i < entry->input_count; i++) {
        from[i] = layer_name(model, graph, entry->inputs[i]);
    }
    if (!status && !strcmp(entry->class_name, "CustomScaleLayer")) {
        status = add_scaled(model, graph, entry, name, &from[1], error);
    }
    td__keras_settings_add(&settings, "name", (td_value){.kind = TD_VALUE_TEXT, .text = name});
    td__keras_settings_add(
        &settings, "from",
        (td_value){.kind = TD_VALUE_TEXTS, .texts = from, .count = entry->input_count});
    td__keras_settings_add(&settings, "frozen",
                           (td_value){.kind = TD_VALUE_BOOL, .boolean = entry->frozen});
    if (entry->causal) {
        td__keras_settings_add(&settings, "causal",
                               (td_value){.kind = TD_VALUE_BOOL, .boolean = true});
    }
    td_error reason = {0};
    if (!status && td_model_add(model, settings.kind, settings.items, settings.count, &reason)) {
        status = td_error_set(error, reason.status, "%s: %s", graph->origin, reason.text);
    }
    entry->layer = (int32_t)td_model_layer_count(model) - 1;
    return status;
}

/* Several outputs, or one that is not the last layer, are named. */
static td_status name_outputs(td_model *model, const td__keras_graph *graph, td_error *error) {
    const char *names[TD_MAX_OUTPUTS] = {0};
    td_error reason = {0};
    for (size_t i = 0; i < graph->output_count; i++) {
        names[i] = layer_name(model, graph, graph->outputs[i]);
    }
    size_t last = td_model_layer_count(model) - 1;
    bool plain =
        graph->output_count == 1 && graph->entries[graph->outputs[0]].layer == (int32_t)last;
    return !plain && td_model_set_outputs(model, graph->output_count, names, &reason)
               ? td_error_set(error, reason.status, "%s: %s", graph->origin, reason.text)
               : TD_OK;
}

/* The model's layers, without parameters yet. NULL on failure. */
static td_model *make_layers(td__keras_graph *graph, td_error *error) {
    check_layers(graph);
    if (td__keras_graph_refused(graph, error)) {
        return NULL;
    }
    td_model *model = td_model_create(graph->name, graph->several ? TD_SHAPE(0) : graph->input);
    td_status status =
        model ? TD_OK : td_error_set(error, TD_MEMORY, "%s: out of memory", graph->origin);
    for (size_t i = 0; i < graph->order_count && !status; i++) {
        status = add_keras_layer(model, graph, &graph->entries[graph->order[i]], error);
    }
    status = status ? status : name_outputs(model, graph, error);
    if (status) {
        td_model_destroy(model);
        return NULL;
    }
    return model;
}

/* Makes the parameters, unless the file is too small to have them. */
static td_status make_parameters(td_model *model, const td__keras_graph *graph, size_t file_size,
                                 td_error *error) {
    size_t max = max_bytes(file_size) / sizeof(float), elements = 0;
    for (size_t i = 0; i < td_model_layer_count(model); i++) {
        size_t more = (size_t)td_model_layer(model, i)->parameter_elements;
        if (more > max - elements) {
            return td_error_set(error, TD_RANGE,
                                "%s: layer '%s' needs more parameters than a file of %zu bytes has",
                                graph->origin, td_model_layer(model, i)->name, file_size);
        }
        elements += more;
    }
    td_status status = td__model_build_raw(model, error);
    for (size_t i = 0; i < graph->count && !status; i++) {
        if (graph->entries[i].given && graph->entries[i].layer >= 0) {
            status = fill_given(model, graph, &graph->entries[i], error);
        }
    }
    return status;
}

/* --- containers --------------------------------------------------------------------------- */

td_model *td__keras_make(td__keras_graph *graph, json_t **config, const char *path, bool keras2,
                         size_t file_size, td_error *error) {
    td_status status = td__keras_graph_read(graph, *config, path, keras2, error);
    td_model *model = status ? NULL : make_layers(graph, error);
    json_decref(*config);
    *config = NULL;
    if (model && make_parameters(model, graph, file_size, error)) {
        td_model_destroy(model);
        model = NULL;
    }
    return model;
}

static td_model *keep_if(td_model *model, td_status status) {
    if (!status) {
        return model;
    }
    td_model_destroy(model);
    return NULL;
}

bool td__keras_is_version2(const char *version) {
    return version && strtol(version, NULL, 10) < 3;
}

/* {"keras_version": "2.15.0", …}; a file without is taken for Keras 3's. */
static td_status read_metadata(const td__zip *zip, bool *keras2, td_error *error) {
    const size_t max = TD__KERAS_METADATA_MAXIMUM;
    td__zip_member member = {0};
    *keras2 = false;
    if (!td__zip_find(zip, TD__KERAS_METADATA)) {
        return TD_OK;
    }
    td_status status = td__zip_read(zip, TD__KERAS_METADATA, max, true, &member, error);
    if (status || member.size > max) {
        return status ? status
                      : td_error_set(error, TD_RANGE, "%s: its metadata.json is too large",
                                     zip->origin);
    }
    json_t *json = td__json_read(zip->origin, (const char *)member.data, member.size,
                                 td__json_budget(zip->size), error);
    *keras2 = td__keras_is_version2(json_string_value(json_object_get(json, "keras_version")));
    status = json ? TD_OK : TD_FORMAT;
    json_decref(json);
    td__zip_member_release(&member);
    return status;
}

static json_t *read_config(const td__zip *zip, td_error *error) {
    td__zip_member member = {0};
    bool has_config = td__zip_find(zip, "config.json");
    if (!has_config || !td__zip_find(zip, "model.weights.h5")) {
        td_error_set(error, TD_FORMAT, "%s: a zip archive, but no Keras model: it has no %s",
                     zip->origin, has_config ? "model.weights.h5" : "config.json");
        return NULL;
    }
    if (td__zip_read(zip, "config.json", MAX_TEXT + zip->size / 2, true, &member, error)) {
        return NULL;
    }
    json_t *config =
        td__keras_json(zip->origin, (const char *)member.data, member.size, zip->size, error);
    td__zip_member_release(&member);
    return config;
}

static td_model *parse_zip(const char *path, const void *bytes, size_t size, td_error *error) {
    td__zip zip;
    if (td__zip_open(&zip, bytes, size, path, error)) {
        return NULL;
    }
    td__keras_graph graph = {0};
    td__zip_member member = {0};
    bool keras2 = false;
    td_status unread = read_metadata(&zip, &keras2, error);
    json_t *config = unread ? NULL : read_config(&zip, error);
    td_model *model = config ? td__keras_make(&graph, &config, path, keras2, size, error) : NULL;
    if (model) {
        td_status status =
            td__zip_read(&zip, "model.weights.h5", max_bytes(size), false, &member, error);
        td__hdf5 *file = status ? NULL : td__hdf5_open(member.data, member.size, path, error);
        status = file ? td__keras_weights_read(model, &graph, file, error) : TD_FORMAT;
        td__hdf5_close(file);
        td__zip_member_release(&member);
        model = keep_if(model, status);
    }
    td__keras_graph_release(&graph);
    td__zip_release(&zip);
    return model;
}

/* The text that an attribute of the root is; *text NULL when it has none. td__free(*block). */
static td_status root_text(td__hdf5 *file, const char *name, char ***block, const char **text,
                           td_error *error) {
    size_t count = 0;
    td_status status = td__hdf5_texts(file, td__hdf5_root(file), name, block, &count, error);
    *text = !status && count == 1 ? (*block)[0] : NULL;
    return status;
}

static json_t *read_attributes(td__hdf5 *file, const char *path, size_t size, bool *keras2,
                               td_error *error) {
    char **config_block = NULL, **version_block = NULL;
    const char *text = NULL, *version = NULL;
    json_t *config = NULL;
    if (!root_text(file, "model_config", &config_block, &text, error) &&
        !root_text(file, "keras_version", &version_block, &version, error)) {
        *keras2 = td__keras_is_version2(version);
        if (text) {
            config = td__keras_json(path, text, strlen(text), size, error);
        } else {
            td_error_set(
                error, TD_NO_MODEL,
                "%s: an HDF5 file without a model's configuration: weights alone; "
                "`tapedeck inspect` lists them, `tapedeck weights` converts them; save the "
                "whole model with model.save(\"model.keras\")",
                path);
        }
    }
    td__free(config_block);
    td__free(version_block);
    return config;
}

static td_model *parse_hdf5(const char *path, const void *bytes, size_t size, td_error *error) {
    td__hdf5 *file = td__hdf5_open(bytes, size, path, error);
    if (!file) {
        return NULL;
    }
    td__keras_graph graph = {0};
    bool keras2 = false;
    json_t *config = read_attributes(file, path, size, &keras2, error);
    td_model *model = config ? td__keras_make(&graph, &config, path, keras2, size, error) : NULL;
    if (model) {
        td__hdf5_object weights = 0;
        td_status status =
            td__hdf5_find(file, td__hdf5_root(file), "model_weights", &weights, error);
        if (!status && !weights) {
            status = td_error_set(error, TD_FORMAT, "%s: it has no model_weights", path);
        }
        status =
            status ? status : td__keras_legacy_weights_read(model, &graph, file, weights, error);
        model = keep_if(model, status);
    }
    td__keras_graph_release(&graph);
    td__hdf5_close(file);
    return model;
}

td_model *td__keras_parse(const char *path, const void *bytes, size_t size, td_error *error) {
    return td__keras_is_hdf5(bytes, size) ? parse_hdf5(path, bytes, size, error)
                                          : parse_zip(path, bytes, size, error);
}
