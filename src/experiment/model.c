/* The `model:` section: a list of layers, or a file. */
#include "experiment/sections.h"
#include "experiment/settings.h"

#include <string.h>

/* `from: [a, b]` as a layer alone can have it: the model's input, as often. */
static td_setting from_input(const td_setting *from) {
    static const char *const inputs[] = {"input", "input", "input", "input"};
    size_t count = from->value.kind == TD_VALUE_TEXTS ? from->value.count : 1;
    size_t most = TD__COUNT(inputs);
    return (td_setting){
        from->key, {.kind = TD_VALUE_TEXTS, .texts = inputs, .count = count < most ? count : most}};
}

/* Tries the layer alone: what nn says of its kind, keys and values. Shapes, and the names of other
 * layers, come later, when the data is known. */
static void check_layer(td__checker *checker, const td__choice *layer) {
    td_model *alone = td_model_create("", TD_SHAPE(-1));
    td_setting *settings = td__check_alloc(checker, layer->count, sizeof *settings);
    for (size_t i = 0; settings && i < layer->count; i++) {
        const td_setting *setting = &layer->settings[i];
        settings[i] = strcmp(setting->key, "from") ? *setting : from_input(setting);
    }
    td_error error = {0};
    td_status status = settings && alone
                           ? td_model_add(alone, layer->name, settings, layer->count, &error)
                           : TD_OK;
    if (status && status != TD_BAD_SHAPE && status != TD_STATE && status != TD_MEMORY &&
        status != TD_DTYPE) {
        td__choice_problem(checker, layer, &error);
    }
    td_model_destroy(alone);
}

static const char *name_of(const td__choice *layer) {
    for (size_t i = 0; i < layer->count; i++) {
        if (!strcmp(layer->settings[i].key, "name")) {
            return layer->settings[i].value.text;
        }
    }
    return NULL;
}

/* Whether the last layer is one of those before it, used again: its options are that one's. */
static bool is_used_again(const td_experiment *experiment) {
    const td__choice *last = &experiment->layers[experiment->layer_count];
    const char *name = name_of(last);
    for (size_t i = 0; name && i < experiment->layer_count; i++) {
        const char *other = name_of(&experiment->layers[i]);
        if (other && !strcmp(other, name) && !strcmp(experiment->layers[i].name, last->name)) {
            return true;
        }
    }
    return false;
}

static void read_layers(td__checker *checker, td__yaml_node *node, td_experiment *experiment) {
    experiment->layers = td__check_alloc(checker, node->count, sizeof(td__choice));
    for (size_t i = 0; experiment->layers && i < node->count; i++) {
        size_t mark = td__path_enter_index(checker, i);
        td__choice *layer = &experiment->layers[experiment->layer_count];
        if (td__choice_read(checker, node->items[i], "a layer", layer)) {
            if (!is_used_again(experiment)) {
                check_layer(checker, layer);
            }
            experiment->layer_count++;
        }
        td__path_leave(checker, mark);
    }
    if (node->count == 0) {
        td__problem(checker, node, "expected at least one layer");
    }
}

void td__read_model(td__checker *checker, td__yaml_node *node, void *member) {
    static const td__key keys[] = {
        {.field = {.key = "file", .offset = offsetof(td_experiment, model_file)},
         .read = td__read_path,
         .required = true},
        {.field = {.key = "frozen", .offset = offsetof(td_experiment, frozen)},
         .read = td__read_names}};
    if (node->kind == TD__YAML_LIST) {
        read_layers(checker, node, member);
    } else if (node->kind == TD__YAML_MAP) {
        td__check_map(checker, node, keys, TD__COUNT(keys), member);
    } else {
        td__problem(checker, node,
                    "expected a list of layers, or {file: MODEL, frozen: [LAYER, …]}");
    }
}
