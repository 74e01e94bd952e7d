/* The `model:` section: a list of layers, or a file. */
#include "experiment/sections.h"
#include "experiment/settings.h"
#include "tensor/hash.h"

#include <string.h>

/* `from: [a, b]` as a layer alone can have it: the model's input, as often. */
static td_setting from_input(const td_setting *from) {
    static const char *const inputs[] = {"input", "input", "input", "input"};
    size_t count = from->value.kind == TD_VALUE_TEXTS ? from->value.count : 1;
    size_t max = TD__COUNT(inputs);
    return (td_setting){
        from->key, {.kind = TD_VALUE_TEXTS, .texts = inputs, .count = count < max ? count : max}};
}

/* Tries the layer alone: what nn says of its kind, keys and values. Shapes, and the names of other
 * layers, come later, when the data is known. */
static void check_layer(td__checker *checker, const td__choice *layer, const td_texts *texts) {
    td_model *alone = td_model_create("", TD_SHAPE(-1));
    td_setting *settings = td__check_alloc(checker, layer->count + 1, sizeof *settings);
    bool more = settings && td__choice_add_ids(layer, texts, 1, settings);
    for (size_t i = 0; settings && i < layer->count; i++) {
        const td_setting *setting = &layer->settings[i];
        settings[i] = strcmp(setting->key, "from") ? *setting : from_input(setting);
    }
    td_error error = {0};
    td_status status = settings && alone
                           ? td_model_add(alone, layer->name, settings, layer->count + more, &error)
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
                check_layer(checker, layer, &experiment->data.text);
            }
            experiment->layer_count++;
        }
        td__path_leave(checker, mark);
    }
    if (node->count == 0) {
        td__problem(checker, node, "expected at least one layer");
    }
}

/* ---- inputs: [A, B], or {A: SHAPE, B: SHAPE} ------------------------------------------------- */

/* {input: {name: NAME, shape: SHAPE}}; shape may be NULL. Returns NULL when memory is exhausted. */
static td__yaml_node *input_layer(td__yaml *yaml, const td__yaml_node *name, td__yaml_node *shape) {
    td__yaml_node *layer = td__yaml_map(yaml), *options = td__yaml_map(yaml);
    bool good =
        layer && options &&
        !td__yaml_put(yaml, options, "name", td__yaml_scalar(yaml, name->text, name->quoted)) &&
        (!shape || td__yaml_is_null(shape) || !td__yaml_put(yaml, options, "shape", shape)) &&
        !td__yaml_put(yaml, layer, "input", options);
    if (good) {
        layer->file = options->file = name->file;
        layer->line = options->line = name->line;
    }
    return good ? layer : NULL;
}

static void forget_key(td__yaml_node *map, const char *key) {
    size_t kept = 0;
    for (size_t i = 0; i < map->count; i++) {
        if (strcmp(map->keys[i]->text, key) != 0) {
            map->keys[kept] = map->keys[i];
            map->items[kept++] = map->items[i];
        }
    }
    map->count = kept;
}

/* Inputs become layers, the first of all, as the run's own copy of the experiment then has them. */
static void make_input_layers(td__checker *checker, td__yaml_node *model) {
    td__yaml_node *inputs = td__yaml_get(model, "inputs"), *layers = td__yaml_get(model, "layers");
    td__yaml_node *all = td__yaml_list(checker->yaml);
    bool good = all != NULL;
    if (inputs->kind == TD__YAML_SCALAR || layers->kind != TD__YAML_LIST) {
        td__problem(checker, inputs, "inputs: expected [NAME, …] or {NAME: SHAPE, …}");
        return;
    }
    for (size_t i = 0; good && i < inputs->count; i++) {
        bool map = inputs->kind == TD__YAML_MAP;
        const td__yaml_node *name = map ? inputs->keys[i] : inputs->items[i];
        if (name->kind != TD__YAML_SCALAR || td__yaml_is_null(name)) {
            td__problem(checker, name, "inputs: expected the name of an input");
            return;
        }
        good = !td__yaml_append(checker->yaml, all,
                                input_layer(checker->yaml, name, map ? inputs->items[i] : NULL));
    }
    for (size_t i = 0; good && i < layers->count; i++) {
        good = !td__yaml_append(checker->yaml, all, layers->items[i]);
    }
    if (!good) {
        checker->exhausted = TD_MEMORY;
        return;
    }
    all->file = layers->file;
    all->line = layers->line;
    forget_key(model, "inputs");
    good = !td__yaml_put(checker->yaml, model, "layers", all);
    checker->exhausted = good ? checker->exhausted : TD_MEMORY;
}

static void read_layer_list(td__checker *checker, td__yaml_node *node, void *member) {
    if (node->kind == TD__YAML_LIST) {
        read_layers(checker, node, member);
    } else {
        td__problem(checker, node, "expected a list of layers");
    }
}

void td__read_model(td__checker *checker, td__yaml_node *node, void *member) {
    static const td__key keys[] = {
        {.field = {.key = "file", .offset = offsetof(td_experiment, model_file)},
         .read = td__read_path},
        {.field = {.key = "frozen", .offset = offsetof(td_experiment, frozen)},
         .read = td__read_names},
        {.field = {.key = "inputs"}}, /* layers by now */
        {.field = {.key = "layers"}, .read = read_layer_list},
        {.field = {.key = "outputs", .offset = offsetof(td_experiment, outputs)},
         .read = td__read_names},
    };
    if (node->kind == TD__YAML_LIST) {
        read_layers(checker, node, member);
        return;
    }
    bool map = node->kind == TD__YAML_MAP;
    bool file = map && td__yaml_get(node, "file"), layers = map && td__yaml_get(node, "layers");
    if (file == layers || (file && td__yaml_get(node, "inputs"))) {
        td__problem(
            checker, node,
            "expected a list of layers; {layers: […], inputs: […], outputs: […]}; or {file: "
            "MODEL, frozen: [LAYER, …], outputs: [LAYER, …]}");
        return;
    }
    if (td__yaml_get(node, "inputs")) {
        make_input_layers(checker, node);
    }
    if (layers && td__yaml_get(node, "frozen")) {
        td__problem(checker, node, "frozen: is for a model's file; a layer says it by itself");
    }
    td__check_map(checker, node, keys, TD__COUNT(keys), member);
}
