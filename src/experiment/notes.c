#include "experiment/notes.h"

#include "base/memory.h"

#include <jansson.h>
#include <string.h>

/* Only where it is given: 0 is the default. */
static void put_number(json_t *root, const char *key, float value) {
    if (value > 0) {
        json_object_set_new(root, key, json_real((double)value));
    }
}

static float number_at(const td__notes *notes, const char *key) {
    return (float)json_number_value(json_object_get(notes->json, key));
}

static void put_objective(json_t *root, const td__objective *objective) {
    const td_loss_options *options = &objective->options;
    json_object_set_new(root, "loss", json_string(td_loss_name(objective->loss)));
    json_object_set_new(root, "from_logits", json_boolean(options->from_logits));
    put_number(root, "delta", options->delta);
    put_number(root, "label_smoothing", options->label_smoothing);
    put_number(root, "gamma", options->gamma);
    put_number(root, "alpha", options->alpha);
    if (options->balanced) {
        json_object_set_new(root, "balanced", json_true());
    }
    json_object_set_new(root, "target",
                        json_string(objective->target == TD__TARGET_INPUT ? "input" : "label"));
}

/* Files of before losses were noted have none. */
static bool read_objective(td__notes *notes) {
    td__objective *objective = &notes->objective;
    const char *name = json_string_value(json_object_get(notes->json, "loss"));
    const char *target = json_string_value(json_object_get(notes->json, "target"));
    objective->options =
        (td_loss_options){.size = sizeof objective->options,
                          .from_logits = json_is_true(json_object_get(notes->json, "from_logits")),
                          .delta = number_at(notes, "delta"),
                          .label_smoothing = number_at(notes, "label_smoothing"),
                          .gamma = number_at(notes, "gamma"),
                          .alpha = number_at(notes, "alpha"),
                          .balanced = json_is_true(json_object_get(notes->json, "balanced"))};
    objective->target = target && !strcmp(target, "input") ? TD__TARGET_INPUT : TD__TARGET_LABEL;
    notes->has_loss = name != NULL;
    return !name || !td_loss_find(name, &objective->loss, NULL);
}

char *td__notes_write(const td_experiment *experiment, const td_data_info *info) {
    json_t *root = json_object();
    bool good = root && td__data_notes_write(root, &experiment->data, info);
    put_objective(root, &experiment->train.objective);
    char *text = good ? json_dumps(root, JSON_COMPACT) : NULL;
    char *copy = text ? td__strdup(text) : NULL;
    json_decref(root);
    free(text); // NOLINT: jansson's own
    return copy;
}

td_status td__notes_read(td__notes *notes, const char *text, const char *origin, td_error *error) {
    *notes = (td__notes){.json = json_loads(text, JSON_REJECT_DUPLICATES, NULL)};
    if (!td__data_notes_read(&notes->data, notes->json) || !read_objective(notes)) {
        td__notes_release(notes);
        return td_error_set(error, TD_FORMAT, "%s: what it says of its data is malformed", origin);
    }
    return TD_OK;
}

void td__notes_release(td__notes *notes) {
    json_decref(notes->json);
    td__data_notes_release(&notes->data);
    *notes = (td__notes){0};
}
