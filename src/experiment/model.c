/* The `model:` section: a list of layers, or a file. */
#include "experiment/sections.h"
#include "experiment/settings.h"
#include "tensor/hash.h"

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

/* Layers by the hash of their names: index + 1, or 0; at least half are free. */
typedef struct name_index {
    uint32_t *slots;
    size_t count; /* a power of two */
} name_index;

static bool make_index(td__checker *checker, size_t layers, name_index *made) {
    *made = (name_index){.count = 16};
    while (made->count < 2 * layers) {
        made->count *= 2;
    }
    made->slots = td__check_alloc(checker, made->count, sizeof *made->slots);
    if (made->slots) {
        memset(made->slots, 0, made->count * sizeof *made->slots);
    }
    return made->slots;
}

/* Whether the last layer is one of those before it, used again: its options are that one's. One that
 * is not is put in. */
static bool is_used_again(const td_experiment *experiment, name_index *names) {
    const td__choice *last = &experiment->layers[experiment->layer_count];
    const char *name = name_of(last);
    if (!name) {
        return false;
    }
    size_t at = (size_t)td__xxh64(name, strlen(name), 0) & (names->count - 1);
    for (; names->slots[at]; at = (at + 1) & (names->count - 1)) {
        const td__choice *other = &experiment->layers[names->slots[at] - 1];
        if (!strcmp(name_of(other), name) && !strcmp(other->name, last->name)) {
            return true;
        }
    }
    names->slots[at] = (uint32_t)experiment->layer_count + 1;
    return false;
}

static void read_layers(td__checker *checker, td__yaml_node *node, td_experiment *experiment) {
    name_index names;
    experiment->layers = td__check_alloc(checker, node->count, sizeof(td__choice));
    bool good = experiment->layers && make_index(checker, node->count, &names);
    for (size_t i = 0; good && i < node->count; i++) {
        size_t mark = td__path_enter_index(checker, i);
        td__choice *layer = &experiment->layers[experiment->layer_count];
        if (td__choice_read(checker, node->items[i], "a layer", layer)) {
            if (!is_used_again(experiment, &names)) {
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
