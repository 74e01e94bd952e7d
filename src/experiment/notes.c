#include "experiment/notes.h"

#include "base/memory.h"

#include <jansson.h>
#include <string.h>

enum { MAX_ITEMS = 1 << 24 };

static json_t *texts_json(const char *const *items, size_t count) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        json_array_append_new(list, json_string(items[i]));
    }
    return list;
}

static json_t *floats_json(const float *values, int64_t count) {
    json_t *list = json_array();
    for (int64_t i = 0; i < count; i++) {
        json_array_append_new(list, json_real((double)values[i]));
    }
    return list;
}

static void put_loss(json_t *root, const td__train_spec *train) {
    const td_loss_options *options = &train->loss_options;
    json_object_set_new(root, "loss", json_string(td_loss_name(train->loss)));
    json_object_set_new(root, "from_logits", json_boolean(options->from_logits));
    if (options->delta > 0) {
        json_object_set_new(root, "delta", json_real((double)options->delta));
    }
    if (options->label_smoothing > 0) {
        json_object_set_new(root, "label_smoothing", json_real((double)options->label_smoothing));
    }
    json_object_set_new(root, "target",
                        json_string(train->target == TD__TARGET_INPUT ? "input" : "label"));
}

/* Files of before losses were noted have none. */
static bool read_loss(td__notes *notes) {
    const char *name = json_string_value(json_object_get(notes->json, "loss"));
    const char *target = json_string_value(json_object_get(notes->json, "target"));
    notes->loss_options =
        (td_loss_options){.size = sizeof notes->loss_options,
                          .from_logits = json_is_true(json_object_get(notes->json, "from_logits")),
                          .delta = (float)json_number_value(json_object_get(notes->json, "delta")),
                          .label_smoothing = (float)json_number_value(
                              json_object_get(notes->json, "label_smoothing"))};
    notes->target = target && !strcmp(target, "input") ? TD__TARGET_INPUT : TD__TARGET_LABEL;
    notes->has_loss = name != NULL;
    return !name || !td_loss_find(name, &notes->loss, NULL);
}

char *td__notes_write(const td_experiment *experiment, const td_data_info *info) {
    const td_data_options *data = &experiment->data;
    json_t *root = json_object();
    json_object_set_new(root, "scale", json_real(data->scale != 0 ? data->scale : 1));
    if (data->label.count) {
        json_object_set_new(root, "label", texts_json(data->label.items, data->label.count));
    }
    if (data->ignore.count) {
        json_object_set_new(root, "ignore", texts_json(data->ignore.items, data->ignore.count));
    }
    if (info->class_names) {
        json_object_set_new(root, "classes", texts_json(info->class_names, (size_t)info->classes));
    }
    if (data->x) {
        json_object_set_new(root, "x", json_string(data->x));
    }
    if (data->y) {
        json_object_set_new(root, "y", json_string(data->y));
    }
    if (info->mean) {
        json_object_set_new(root, "mean", floats_json(info->mean, info->normal_count));
        json_object_set_new(root, "deviation", floats_json(info->deviation, info->normal_count));
    }
    put_loss(root, &experiment->train);
    char *text = json_dumps(root, JSON_COMPACT);
    char *copy = text ? td__strdup(text) : NULL;
    json_decref(root);
    free(text); // NOLINT: jansson's own
    return copy;
}

static size_t size_of(const json_t *list) {
    return json_is_array(list) ? json_array_size(list) : 0;
}

static bool read_texts(const json_t *list, td_names *names, const char ***next) {
    *names = (td_names){*next, size_of(list)};
    for (size_t i = 0; i < names->count; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        if (!text) {
            return false;
        }
        *(*next)++ = text;
    }
    return true;
}

static bool read_floats(const json_t *list, float **values) {
    *values = td__calloc(size_of(list) + 1, sizeof **values);
    for (size_t i = 0; *values && i < size_of(list); i++) {
        if (!json_is_number(json_array_get(list, i))) {
            return false;
        }
        (*values)[i] = (float)json_number_value(json_array_get(list, i));
    }
    return *values;
}

td_status td__notes_read(td__notes *notes, const char *text, const char *origin, td_error *error) {
    *notes = (td__notes){.json = json_loads(text, JSON_REJECT_DUPLICATES, NULL)};
    const json_t *label = json_object_get(notes->json, "label");
    const json_t *ignore = json_object_get(notes->json, "ignore");
    const json_t *classes = json_object_get(notes->json, "classes");
    const json_t *mean = json_object_get(notes->json, "mean");
    const json_t *deviation = json_object_get(notes->json, "deviation");
    size_t most = size_of(label) + size_of(ignore) + size_of(classes);
    notes->texts = td__calloc(most + 1, sizeof *notes->texts);
    const char **next = notes->texts;
    bool good = json_is_object(notes->json) && next && most < MAX_ITEMS &&
                size_of(mean) == size_of(deviation) && size_of(mean) < MAX_ITEMS &&
                read_texts(label, &notes->label, &next) &&
                read_texts(ignore, &notes->ignore, &next) &&
                read_texts(classes, &notes->classes, &next) && read_loss(notes);
    if (good && size_of(mean)) {
        good = read_floats(mean, &notes->mean) && read_floats(deviation, &notes->deviation);
        notes->normal_count = (int64_t)size_of(mean);
    }
    notes->scale = json_number_value(json_object_get(notes->json, "scale"));
    notes->x = json_string_value(json_object_get(notes->json, "x"));
    notes->y = json_string_value(json_object_get(notes->json, "y"));
    if (!good) {
        td__notes_release(notes);
        return td_error_set(error, TD_FORMAT, "%s: what it says of its data is malformed", origin);
    }
    return TD_OK;
}

void td__notes_release(td__notes *notes) {
    json_decref(notes->json);
    td__free(notes->texts);
    td__free(notes->mean);
    td__free(notes->deviation);
    *notes = (td__notes){0};
}
