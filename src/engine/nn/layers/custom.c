/* custom: a layer that the program brings along
 *
 * Names are copied when the layer is added; what the user pointer leads to is handed over with it.
 */
#include "base/memory.h"
#include "nn/model.h"

#include <string.h>

#define MAXIMUM_NAME 128

typedef struct custom_options {
    td_custom_layer given;
    char *texts; /* the word and the parameters' names, one after another */
} custom_options;

static const td__field fields[] = {TD__LAYER_FIELDS};

static size_t parameter_room(const void *options) {
    const custom_options *custom = options;
    return custom->given.parameter_count;
}

static bool is_name(const char *name) {
    return name && *name && strlen(name) < MAXIMUM_NAME;
}

static const char *copy(char **at, const char *text) {
    size_t size = strlen(text) + 1;
    char *to = memcpy(*at, text, size);
    *at += size;
    return to;
}

static td_status check_custom(const td__layer *layer, const td_custom_layer *given,
                              td_error *error) {
    if (!given->forward) {
        return td__layer_error(layer, error, TD_INVALID,
                               "it has no function: a custom layer is added by a C program, with "
                               "td_add_custom");
    }
    if (given->output.rank < 0 || given->output.rank >= TD_MAX_RANK) {
        return td__layer_error(layer, error, TD_BAD_SHAPE, "its output has a rank of %d",
                               (int)given->output.rank);
    }
    for (size_t i = 0; i < given->parameter_count; i++) {
        const td_custom_parameter *each = &given->parameters[i];
        bool fine = is_name(each->name) && (unsigned)each->initializer.kind < TD_INITIALIZER_COUNT;
        for (size_t k = 0; fine && k < i; k++) {
            fine = strcmp(given->parameters[k].name, each->name) != 0;
        }
        if (!fine) {
            return td__layer_error(layer, error, TD_INVALID,
                                   "parameter %zu has no name, one that is too long or that "
                                   "another has, or no valid initialiser",
                                   i);
        }
        td_initializer initializer = each->initializer;
        td__initializer_fill(&initializer, TD_ZEROS, false);
        td_error reason = {0};
        if (td__initializer_check(&initializer, &reason)) {
            return td__layer_error(layer, error, reason.status, "'%s': %s", each->name,
                                   reason.text);
        }
        if (td_shape_check(&each->shape, TD_FLOAT32, NULL, NULL)) {
            char text[TD_SHAPE_TEXT_SIZE];
            return td__layer_error(layer, error, TD_BAD_SHAPE, "%s %s is no shape of a parameter",
                                   each->name, td_shape_text(&each->shape, text));
        }
    }
    return TD_OK;
}

static td_status plan_custom(td__layer *layer, const td_shape *inputs, td_error *error) {
    (void)inputs;
    custom_options *options = layer->options;
    td_custom_layer *given = &options->given;
    td_status status = check_custom(layer, given, error);
    if (status) {
        return status;
    }
    const char *word = given->word && *given->word ? given->word : "Custom";
    size_t bytes = strlen(word) + 1;
    for (size_t i = 0; i < given->parameter_count; i++) {
        bytes += strlen(given->parameters[i].name) + 1;
    }
    char *at = options->texts = td__calloc(bytes, 1);
    if (!at) {
        return td__layer_error(layer, error, TD_MEMORY, "out of memory");
    }
    layer->info.type = copy(&at, word);
    for (size_t i = 0; i < given->parameter_count; i++) {
        const td_custom_parameter *each = &given->parameters[i];
        td_initializer initializer = each->initializer;
        td__initializer_fill(&initializer, TD_ZEROS, false);
        td__parameter_plan *planned = td__layer_parameter(layer, (int)i, copy(&at, each->name),
                                                          each->shape, initializer, 0, 0);
        planned->values = each->values;
        planned->moving_average = each->moving_average;
    }
    given->parameters = NULL; /* borrowed for the call */
    given->word = layer->info.type;
    layer->integer_input = given->integer_input;
    layer->info.output = given->output;
    return TD_OK;
}

static bool has_moving_averages(const td__layer *layer) {
    bool any = false;
    for (size_t i = 0; i < layer->info.parameter_count; i++) {
        any = any || layer->parameters[i].moving_average;
    }
    return any;
}

static td_tensor *forward_custom(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    const custom_options *options = layer->options;
    bool training = td_tape_is_training(tape);
    if (layer->info.frozen && has_moving_averages(layer)) {
        td_tape_set_training(tape, false);
    }
    td_tensor *y = options->given.forward(options->given.user, tape, inputs, layer->slot);
    td_tape_set_training(tape, training);
    if (!y && td_tape_status(tape, NULL) == TD_OK) {
        return td__fail(tape, TD_INVALID, "its function returned nothing");
    }
    return y;
}

static void release_custom(void *options) {
    custom_options *custom = options;
    if (custom->given.destroy) {
        custom->given.destroy(custom->given.user);
    }
    td__free(custom->texts);
}

bool td__model_custom(const td_model *model, size_t layer, td_custom_forward **forward_custom,
                      void **user) {
    if (layer >= model->layer_count || model->layers[layer]->kind != &td__custom_kind) {
        return false;
    }
    const custom_options *options = model->layers[layer]->options;
    *forward_custom = options->given.forward;
    *user = options->given.user;
    return true;
}

const td__layer_kind td__custom_kind = {
    TD__KIND(fields, custom_options, plan_custom, forward_custom),
    TD__IS(CUSTOM, OTHER),
    TD__TORCH(""),
    .keras = {.storage = TD__KERAS_NOWHERE},
    .min_from = 1,
    .max_from = TD_MAX_FROM,
    .parameter_room = parameter_room,
    .release = release_custom};
