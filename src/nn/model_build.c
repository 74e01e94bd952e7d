/* Making a model: adding layers, planning their shapes, making their parameters.
 *
 * A layer is complete before it joins the model, so an error leaves the model as it was.
 */
#include "base/memory.h"
#include "base/options.h"
#include "nn/model.h"

#include <stdarg.h>
#include <string.h>

#define MAXIMUM_LAYERS 100000
#define MAXIMUM_NAME 256
#define MAXIMUM_DIMENSION 2147483647 /* so that a product of two fits int64_t */

/* --- for the kinds' plans ----------------------------------------------------------------- */

td_status td__layer_error(const td__layer *layer, td_error *error, td_status status,
                          const char *format, ...) {
    char text[TD_ERROR_TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return td_error_set(error, status, "%s%s", layer->where, text);
}

td_status td__layer_need_rank(const td__layer *layer, const td_shape *input, int32_t rank,
                              const char *meaning, td_error *error) {
    if (input->rank == rank) {
        return TD_OK;
    }
    char text[TD_SHAPE_TEXT_SIZE];
    return td__layer_error(layer, error, TD_BAD_SHAPE,
                           "its input is %s, it must be %s (of one example)",
                           td_shape_text(input, text), meaning);
}

td_status td__layer_need_last(const td__layer *layer, const td_shape *input, int64_t *size,
                              td_error *error) {
    if (input->rank >= 1 && input->dims[input->rank - 1] >= 0) {
        *size = input->dims[input->rank - 1];
        return TD_OK;
    }
    char text[TD_SHAPE_TEXT_SIZE];
    return td__layer_error(layer, error, TD_BAD_SHAPE,
                           "its input is %s, the last dimension must be known",
                           td_shape_text(input, text));
}

td__parameter_plan *td__layer_parameter(td__layer *layer, int slot, const char *name,
                                        td_shape shape, td_initializer initializer, double l1,
                                        double l2) {
    td__parameter_plan *plan = &layer->parameters[layer->info.parameter_count++];
    *plan = (td__parameter_plan){
        .name = name, .slot = slot, .shape = shape, .initializer = initializer, .l1 = l1, .l2 = l2};
    return plan;
}

void td__layer_choose_fused(td__layer *layer) {
    bool apart = layer->keep_preactivation || layer->activation == TD_SOFTMAX ||
                 layer->activation == TD_LOG_SOFTMAX;
    layer->fused = apart ? TD_LINEAR : layer->activation;
}

td_status td__layer_write_settings(td__layer *layer, td_error *error) {
    td_setting *settings;
    size_t count;
    td_status status = td__fields_write(layer->kind->fields, layer->kind->field_count,
                                        layer->options, &settings, &count, error);
    if (status) {
        return status;
    }
    td__free(layer->settings);
    layer->settings = settings;
    layer->info.settings = settings;
    layer->info.setting_count = count;
    return TD_OK;
}

/* --- a layer ------------------------------------------------------------------------------ */

static void layer_destroy(td__layer *layer) {
    if (layer) {
        if (layer->kind->release && layer->options) {
            layer->kind->release(layer->options);
        }
        td__free(layer->parameters);
        td__free(layer->slot);
        td__free(layer->settings);
        td__free(layer->texts);
        td__free(layer->options);
        td__free(layer);
    }
}

static td_status out_of_memory(td_error *error) {
    return td_error_set(error, TD_MEMORY, "out of memory while adding a layer");
}

/* The name that was given, or Keras's: the kind's, with a number from the second on that had none
 * given. */
static td_status choose_name(const td_model *model, const td__layer *layer, const char *given,
                             char name[MAXIMUM_NAME], td_error *error) {
    const char *kind_name = td_layer_kind_name(layer->info.kind);
    if (given) {
        if (!*given || strlen(given) >= MAXIMUM_NAME || strcmp(given, "input") == 0) {
            return td_error_set(error, TD_INVALID,
                                "a %s layer cannot be called '%.40s': a name has 1 to %d bytes and "
                                "is not 'input'",
                                kind_name, given, MAXIMUM_NAME - 1);
        }
        if (td_model_find(model, given) >= 0) {
            return td_error_set(error, TD_EXISTS,
                                "there is a layer '%s' already: give this %s layer another name",
                                given, kind_name);
        }
        (void)snprintf(name, MAXIMUM_NAME, "%s", given);
        return TD_OK;
    }
    const char *base = layer->kind->automatic ? layer->kind->automatic : kind_name;
    for (size_t number = model->named[layer->info.kind];; number++) {
        if (number == 0) {
            (void)snprintf(name, MAXIMUM_NAME, "%s", base);
        } else {
            (void)snprintf(name, MAXIMUM_NAME, "%s_%zu", base, number);
        }
        if (td_model_find(model, name) < 0) {
            return TD_OK;
        }
    }
}

static const char *append(char **at, const char *before, const char *name, const char *after) {
    char *text = *at;
    size_t size = strlen(before) + strlen(name) + strlen(after) + 1;
    (void)snprintf(text, size, "%s%s%s", before, name, after);
    *at += size;
    return text;
}

static td_status set_texts(td__layer *layer, const char *name, td_error *error) {
    const char *kind = td_layer_kind_name(layer->info.kind);
    layer->texts = td__calloc(6, strlen(name) + strlen(kind) + 32);
    if (!layer->texts) {
        return out_of_memory(error);
    }
    char *at = layer->texts, after[64];
    (void)snprintf(after, sizeof after, "' (%s): ", kind);
    layer->info.name = append(&at, "", name, "");
    layer->label = append(&at, "layer '", name, "'");
    layer->where = append(&at, "layer '", name, after);
    layer->output_name = append(&at, "", name, ".output");
    layer->error_name = append(&at, "", name, ".error");
    layer->preactivation_name = append(&at, "", name, ".preactivation");
    td_plain_layer *options = layer->options;
    options->name = layer->info.name;
    return TD_OK;
}

/* Turns names into numbers; the options then borrow the model's copies of the names. */
static td_status resolve_inputs(const td_model *model, td__layer *layer, td_error *error) {
    td_plain_layer *options = layer->options;
    size_t count = 0;
    for (; count < TD_MAX_FROM && options->from[count]; count++) {
        ptrdiff_t found = -1;
        if (strcmp(options->from[count], "input") == 0) {
            options->from[count] = "input";
        } else {
            found = td_model_find(model, options->from[count]);
            if (found < 0) {
                return td__layer_error(layer, error, TD_NOT_FOUND,
                                       "it reads '%.200s', but no layer before it has that name",
                                       options->from[count]);
            }
            options->from[count] = model->layers[found]->info.name;
        }
        layer->inputs[count] = (int32_t)found;
    }
    if (count == 0) {
        layer->inputs[count++] = (int32_t)model->layer_count - 1;
    }
    if (count < layer->kind->least_from || count > layer->kind->most_from) {
        return td__layer_error(layer, error, TD_INVALID,
                               "it reads %zu layer%s, it must read %zu%s: say which with 'from'",
                               count, count == 1 ? "" : "s", layer->kind->least_from,
                               layer->kind->most_from > layer->kind->least_from ? " or more" : "");
    }
    layer->info.inputs = layer->inputs;
    layer->info.input_count = count;
    return TD_OK;
}

/* Dimensions so large that later products could overflow are refused here, once. */
static td_status check_size(const td__layer *layer, const td_shape *shape, const char *what,
                            td_error *error) {
    td_shape known = *shape;
    bool fits = shape->rank < TD_MAX_RANK;
    for (int32_t i = 0; i < shape->rank && fits; i++) {
        fits = shape->dims[i] <= MAXIMUM_DIMENSION;
        known.dims[i] = shape->dims[i] < 0 ? 1 : shape->dims[i];
    }
    if (fits && td_shape_check(&known, TD_FLOAT32, NULL, NULL) == TD_OK) {
        return TD_OK;
    }
    char text[TD_SHAPE_TEXT_SIZE];
    return td__layer_error(layer, error, TD_RANGE, "%s %s is too large", what,
                           td_shape_text(shape, text));
}

static td_status plan_layer(const td_model *model, td__layer *layer, td_error *error) {
    td_shape inputs[TD_MAX_FROM];
    for (size_t i = 0; i < layer->info.input_count; i++) {
        int32_t from = layer->inputs[i];
        inputs[i] = from < 0 ? model->input_shape : model->layers[from]->info.output;
    }
    td_status status = layer->kind->plan(layer, inputs, error);
    status = status ? status : check_size(layer, &layer->info.output, "its output", error);
    for (size_t i = 0; i < layer->info.parameter_count && !status; i++) {
        td__parameter_plan *plan = &layer->parameters[i];
        status = check_size(layer, &plan->shape, plan->name, error);
        if (!status && plan->initializer.kind == TD_IDENTITY && plan->shape.rank != 2) {
            char text[TD_SHAPE_TEXT_SIZE];
            status = td__layer_error(layer, error, TD_BAD_SHAPE,
                                     "%s %s is no matrix, it cannot start as the identity",
                                     plan->name, td_shape_text(&plan->shape, text));
        }
        status = status ? status : td_shape_check(&plan->shape, TD_FLOAT32, &plan->count, error);
        if (!status && __builtin_add_overflow(layer->info.parameter_elements, plan->count,
                                              &layer->info.parameter_elements)) {
            status =
                td__layer_error(layer, error, TD_BAD_SHAPE, "more parameters than can be counted");
        }
    }
    return status;
}

static td_status make_room(td__layer *layer, td_error *error) {
    const td__layer_kind *kind = layer->kind;
    size_t room =
        kind->parameter_room ? kind->parameter_room(layer->options) + 1 : TD__LAYER_MOST_PARAMETERS;
    layer->parameters = td__calloc(room, sizeof *layer->parameters);
    layer->slot = td__calloc(room, sizeof *layer->slot);
    return layer->parameters && layer->slot ? TD_OK : out_of_memory(error);
}

/* options are the caller's, copied by now, with defaults filled in. */
static td_status complete_layer(const td_model *model, td__layer *layer, td_error *error) {
    const td_plain_layer *options = layer->options;
    char name[MAXIMUM_NAME];
    td_status status = choose_name(model, layer, options->name, name, error);
    status = status ? status : set_texts(layer, name, error);
    status = status ? status
                    : td__fields_check(layer->kind->fields, layer->kind->field_count, options,
                                       layer->where, error);
    status = status ? status : resolve_inputs(model, layer, error);
    status = status ? status : make_room(layer, error);
    status = status ? status : plan_layer(model, layer, error);
    if (status) {
        return status;
    }
    layer->info.frozen = options->frozen;
    layer->info.type = layer->info.type ? layer->info.type : td_layer_kind_keras(layer->info.kind);
    layer->info.has_activation = layer->kind->has_activation;
    layer->info.dtype = TD_FLOAT32;
    td__layer_choose_fused(layer);
    return td__layer_write_settings(layer, error);
}

static td__layer *layer_create(td_layer_kind kind, td_error *error) {
    td__layer *layer = td__calloc(1, sizeof *layer);
    if (layer) {
        layer->info.kind = kind;
        layer->kind = td__layer_kind_of(kind);
        layer->integer_input = layer->kind->integer_input;
        layer->options = td__calloc(1, layer->kind->size);
    }
    if (!layer || !layer->options) {
        (void)out_of_memory(error);
        layer_destroy(layer);
        return NULL;
    }
    return layer;
}

/* Takes the layer: it joins the model or is gone. */
static td_status add(td_model *model, td__layer *layer, td_error *error) {
    const td_plain_layer *options = layer->options;
    bool unnamed = !options->name;
    td_status status = complete_layer(model, layer, error);
    if (!status && !td__grow(&model->layers, &model->layer_capacity, model->layer_count + 1,
                             MAXIMUM_LAYERS, sizeof *model->layers)) {
        status = out_of_memory(error);
    }
    if (status) {
        layer_destroy(layer);
        return status;
    }
    model->layers[model->layer_count++] = layer;
    if (!td__model_index_last(model)) {
        model->layer_count--;
        layer_destroy(layer);
        return out_of_memory(error);
    }
    model->named[layer->info.kind] += unnamed;
    return TD_OK;
}

static td_status check_open(const td_model *model, td_error *error) {
    if (!model) {
        return td_error_set(error, TD_MEMORY, "out of memory while creating the model");
    }
    if (model->built) {
        return td_error_set(error, TD_STATE, "model '%s' is built: no layer can be added",
                            model->name);
    }
    if (model->error.status) {
        return td_error_set(error, model->error.status, "%s", model->error.text);
    }
    return TD_OK;
}

/* --- the public functions ----------------------------------------------------------------- */

td_model *td_model_create(const char *name, td_shape input) {
    td_model *model = td__calloc(1, sizeof *model);
    if (!model || !(model->name = td__strdup(name ? name : "model"))) {
        td__free(model);
        return NULL;
    }
    bool fits = input.rank >= 0 && input.rank < TD_MAX_RANK;
    for (int32_t i = 0; fits && i < input.rank; i++) {
        fits = input.dims[i] >= -1 && input.dims[i] <= MAXIMUM_DIMENSION;
    }
    if (fits) {
        model->input_shape = input;
    } else {
        (void)td_error_set(&model->error, TD_BAD_SHAPE,
                           "model '%s': the input of one example has 0 to 7 dimensions, each a "
                           "size or -1 for any",
                           model->name);
    }
    return model;
}

static void destroy_parameters(td_model *model) {
    for (size_t i = 0; i < model->parameter_count; i++) {
        td_tensor_destroy(model->parameters[i].info.tensor);
    }
    td__free(model->parameters);
    td__free(model->trainable);
    model->parameters = NULL;
    model->trainable = NULL;
    model->parameter_count = 0;
}

void td_model_destroy(td_model *model) {
    if (!model) {
        return;
    }
    destroy_parameters(model);
    for (size_t i = 0; i < model->layer_count; i++) {
        layer_destroy(model->layers[i]);
    }
    td__free(model->layers);
    td__free(model->slots);
    td__free(model->name);
    td__free(model);
}

/* What a layer that is not added would have owned. */
static void let_go(td_layer_kind kind, const void *options) {
    const td_custom_layer *custom = options;
    if (kind == TD_LAYER_CUSTOM && custom->size >= sizeof *custom && custom->destroy) {
        custom->destroy(custom->user);
    }
}

void td_model_add_layer(td_model *model, td_layer_kind kind, const void *options) {
    td_error error = {0};
    if (!model || model->error.status) {
        let_go(kind, options);
        return;
    }
    const td__layer_kind *description = td__layer_kind_of(kind);
    const td_plain_layer *common = options;
    td_status status = check_open(model, &error);
    if (!status && (!description || common->size < sizeof *common)) {
        status = td_error_set(&error, TD_INVALID,
                              "layer %zu has no valid kind (%d) or options without a size",
                              model->layer_count, (int)kind);
    }
    td__layer *layer = status ? NULL : layer_create(kind, &error);
    if (layer) {
        (void)td__options(layer->options, description->size, options);
        td__fields_fill(description->fields, description->field_count, layer->options, false);
        (void)add(model, layer, &error);
    } else {
        let_go(kind, options);
    }
    model->error = error;
}

td_status td_model_add(td_model *model, const char *kind_name, const td_setting *settings,
                       size_t count, td_error *error) {
    td_layer_kind kind;
    td_status status = check_open(model, error);
    status = status ? status : td_layer_kind_find(kind_name, &kind, error);
    td__layer *layer = status ? NULL : layer_create(kind, error);
    if (!layer) {
        return status ? status : TD_MEMORY;
    }
    char where[MAXIMUM_NAME + 64];
    (void)snprintf(where, sizeof where, "layer %zu (%s): ", model->layer_count, kind_name);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(settings[i].key, "name") == 0 && settings[i].value.kind == TD_VALUE_TEXT) {
            (void)snprintf(where, sizeof where, "layer '%.255s' (%s): ", settings[i].value.text,
                           kind_name);
        }
    }
    const td__layer_kind *description = layer->kind;
    td__fields_fill(description->fields, description->field_count, layer->options, true);
    status = td__fields_set(description->fields, description->field_count, layer->options, settings,
                            count, where, error);
    if (status) {
        layer_destroy(layer);
        return status;
    }
    return add(model, layer, error);
}

/* seed NULL: the values are left to the caller. */
static td_status build_parameter(td_model *model, size_t layer_index,
                                 const td__parameter_plan *plan, const uint64_t *seed,
                                 td_error *error) {
    td__layer *layer = model->layers[layer_index];
    char name[MAXIMUM_NAME + 64];
    (void)snprintf(name, sizeof name, "%s.%s", layer->info.name, plan->name);
    td_tensor *tensor = seed ? td_tensor_create(name, TD_FLOAT32, plan->shape, error)
                             : td__tensor_create_raw(name, TD_FLOAT32, plan->shape, error);
    if (!tensor) {
        return TD_MEMORY;
    }
    model->parameters[model->parameter_count++] =
        (td__parameter){.info = {.name = td_tensor_name(tensor),
                                 .parameter = plan->name,
                                 .layer = layer_index,
                                 .tensor = tensor,
                                 .moving_average = plan->moving_average},
                        .l1 = plan->l1,
                        .l2 = plan->l2};
    layer->slot[plan->slot] = tensor;
    if (!seed) {
        return TD_OK;
    }
    if (plan->values) {
        memcpy(tensor->data, plan->values, (size_t)plan->count * sizeof(float));
        return TD_OK;
    }
    td_status status = td__initialize(tensor, &plan->initializer, *seed, error);
    for (int64_t i = plan->ones_begin; i < plan->ones_end && !status; i++) {
        td__floats(tensor)[i] = 1;
    }
    return status;
}

void td__model_list_trainable(td_model *model) {
    model->trainable_count = 0;
    for (size_t i = 0; i < model->parameter_count; i++) {
        td_parameter_info *info = &model->parameters[i].info;
        info->trainable = !info->moving_average && !model->layers[info->layer]->info.frozen;
        if (info->trainable) {
            model->trainable[model->trainable_count++] = info->tensor;
        }
    }
}

static td_status build(td_model *model, const uint64_t *seed, td_error *error) {
    td_status status = check_open(model, error);
    if (status) {
        return status;
    }
    if (model->layer_count == 0) {
        return td_error_set(error, TD_INVALID, "model '%s' has no layers", model->name);
    }
    size_t count = 0;
    for (size_t i = 0; i < model->layer_count; i++) {
        count += model->layers[i]->info.parameter_count;
    }
    model->parameters = td__calloc(count + 1, sizeof *model->parameters);
    model->trainable = td__calloc(count + 1, sizeof(td_tensor *));
    if (!model->parameters || !model->trainable) {
        status = td_error_set(error, TD_MEMORY, "out of memory for %zu parameters", count);
    }
    for (size_t i = 0; i < model->layer_count && !status; i++) {
        td__layer *layer = model->layers[i];
        layer->info.first_parameter = model->parameter_count;
        for (size_t k = 0; k < layer->info.parameter_count && !status; k++) {
            status = build_parameter(model, i, &layer->parameters[k], seed, error);
        }
    }
    if (status) {
        destroy_parameters(model);
        return status;
    }
    td__model_list_trainable(model);
    model->built = true;
    return TD_OK;
}

td_status td_model_build(td_model *model, uint64_t seed, td_error *error) {
    return build(model, &seed, error);
}

td_status td__model_build_raw(td_model *model, td_error *error) {
    return build(model, NULL, error);
}
