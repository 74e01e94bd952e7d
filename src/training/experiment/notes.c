#include "experiment/notes.h"

#include "base/memory.h"

#include <jansson.h>
#include <string.h>

static void put_number(json_t *root, const char *key, td_number number) {
    if (number.set) {
        json_object_set_new(root, key, json_real(number.value));
    }
}

static td_number number_at(const json_t *json, const char *key) {
    const json_t *number = json_object_get(json, key);
    return json_is_number(number) ? TD_SET(json_number_value(number)) : TD_DEFAULT;
}

static void put_objective(json_t *root, const td__objective *objective) {
    const td_loss_options *options = &objective->options;
    json_object_set_new(root, "loss", json_string(td_loss_name(objective->loss)));
    json_object_set_new(root, "from_logits", json_boolean(options->from_logits));
    put_number(root, "delta", options->delta);
    if (options->label_smoothing > 0) {
        json_object_set_new(root, "label_smoothing", json_real(options->label_smoothing));
    }
    put_number(root, "gamma", options->gamma);
    put_number(root, "alpha", options->alpha);
    if (options->balanced) {
        json_object_set_new(root, "balanced", json_true());
    }
    json_object_set_new(root, "target",
                        json_string(objective->target == TD__TARGET_INPUT ? "input" : "label"));
}

/* False when it names a loss that there is not. */
static bool read_objective(const json_t *json, td__objective *objective) {
    const char *name = json_string_value(json_object_get(json, "loss"));
    const char *target = json_string_value(json_object_get(json, "target"));
    objective->options =
        (td_loss_options){.size = sizeof objective->options,
                          .from_logits = json_is_true(json_object_get(json, "from_logits")),
                          .delta = number_at(json, "delta"),
                          .label_smoothing = number_at(json, "label_smoothing").value,
                          .gamma = number_at(json, "gamma"),
                          .alpha = number_at(json, "alpha"),
                          .balanced = json_is_true(json_object_get(json, "balanced"))};
    objective->target = target && !strcmp(target, "input") ? TD__TARGET_INPUT : TD__TARGET_LABEL;
    return !name || !td_loss_find(name, &objective->loss, NULL);
}

/* Files of before losses were noted have none. */
static bool read_objectives(td__notes *notes) {
    const json_t *outputs = json_object_get(notes->json, "outputs");
    size_t count = json_array_size(outputs);
    notes->has_loss = json_object_get(notes->json, "loss");
    notes->objective_count = count;
    bool good = count <= TD_MAX_OUTPUTS && read_objective(notes->json, &notes->objective);
    for (size_t i = 0; good && i < count; i++) {
        const json_t *one = json_array_get(outputs, i), *weight = json_object_get(one, "weight");
        good = read_objective(one, &notes->objectives[i]);
        notes->weights[i] = weight ? json_number_value(weight) : 1;
    }
    return good;
}

char *td__notes_write(const td_experiment *experiment, const td_data_info *info,
                      const td__head *heads, size_t head_count) {
    json_t *root = json_object(), *outputs = head_count > 1 ? json_array() : NULL;
    bool good = root && td__data_notes_write(root, &experiment->data, info);
    put_objective(root, head_count ? &heads[0].objective : &experiment->train.objective);
    for (size_t i = 0; outputs && i < head_count; i++) {
        json_t *one = json_object();
        put_objective(one, &heads[i].objective);
        json_object_set_new(one, "weight", json_real(heads[i].weight));
        good = good && json_array_append_new(outputs, one) == 0;
    }
    good = good && (head_count < 2 || json_object_set_new(root, "outputs", outputs) == 0);
    char *text = good ? json_dumps(root, JSON_COMPACT) : NULL;
    char *copy = text ? td__strdup(text) : NULL;
    json_decref(root);
    free(text); // NOLINT: jansson's own
    return copy;
}

td_status td__notes_read(td__notes *notes, const char *text, const char *origin, td_error *error) {
    *notes = (td__notes){.json = json_loads(text, JSON_REJECT_DUPLICATES, NULL)};
    if (!td__data_notes_read(&notes->data, notes->json) || !read_objectives(notes)) {
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
