/* Making a model: adding layers, making their parameters. */
#include "base/memory.h"
#include "base/options.h"
#include "base/text.h"
#include "nn/model.h"

#include <string.h>

#define MAXIMUM_LAYERS 100000
#define MAXIMUM_NAME TD__MAXIMUM_LAYER_NAME

static td_status out_of_memory(td_error *error) {
    return td_error_set(error, TD_MEMORY, "out of memory while adding a layer");
}

/* An input makes an example longer: all inputs are one row. */
static td_status join_input(td_model *model, const td__layer *layer, td_error *error) {
    if (model->input_count < model->layer_count) {
        return td__layer_error(layer, error, TD_INVALID, "inputs come before all other layers");
    }
    if (model->input_count == TD_MAX_FROM) {
        return td__layer_error(layer, error, TD_RANGE, "a model has at most %d inputs",
                               TD_MAX_FROM);
    }
    const td_shape *shape = &layer->info.output;
    int64_t elements = model->input_count ? model->input_shape.dims[0] : 0;
    for (int64_t i = 0, each = 1; i <= shape->rank && elements >= 0; i++) {
        if (i == shape->rank) {
            elements += each;
        } else if (shape->dims[i] < 0) {
            elements = -1;
        } else if (!td__multiply(each, shape->dims[i], &each)) {
            return td__layer_error(layer, error, TD_RANGE, "'shape' is too large");
        }
    }
    if (elements > TD__MAXIMUM_DIMENSION) {
        return td__layer_error(layer, error, TD_RANGE, "the model's inputs are too large");
    }
    model->input_shape = TD_SHAPE(elements);
    model->input_count++;
    return TD_OK;
}

/* Takes the layer: it joins the model or is gone. */
static td_status add_planned_layer(td_model *model, td__layer *layer, td_error *error) {
    const td_plain_layer *options = layer->options;
    bool unnamed = !options->name;
    td_status status = td__layer_complete(model, layer, error);
    if (!status && !td__grow(&model->layers, &model->layer_capacity, model->layer_count + 1,
                             MAXIMUM_LAYERS, sizeof *model->layers)) {
        status = out_of_memory(error);
    }
    status =
        status || layer->info.kind != TD_LAYER_INPUT ? status : join_input(model, layer, error);
    if (status) {
        td__layer_destroy(layer);
        return status;
    }
    model->layers[model->layer_count++] = layer;
    if (!td__model_index_last(model)) {
        model->layer_count--;
        td__layer_destroy(layer);
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
        fits = input.dims[i] >= -1 && input.dims[i] <= TD__MAXIMUM_DIMENSION;
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
        td__layer_destroy(model->layers[i]);
    }
    td__free(model->layers);
    td__free(model->slots);
    td__free(model->name);
    td__free(model);
}

/* What a layer that is not added would have owned. */
static void release_options(td_layer_kind kind, const void *options) {
    const td_custom_layer *custom = options;
    if (kind == TD_LAYER_CUSTOM && custom->size >= sizeof *custom && custom->destroy) {
        custom->destroy(custom->user);
    }
}

void td_model_add_layer(td_model *model, td_layer_kind kind, const void *options) {
    td_error error = {0};
    if (!model || model->error.status) {
        release_options(kind, options);
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
    td__layer *layer = status ? NULL : td__layer_create(kind, &error);
    if (layer) {
        (void)td__options(layer->options, description->size, options);
        td__fields_fill(description->fields, description->field_count, layer->options, false);
        status = description->wraps ? td__layer_wrap(layer, &error) : TD_OK;
        if (status) {
            td__layer_destroy(layer);
        } else {
            (void)add_planned_layer(model, layer, &error);
        }
    } else {
        release_options(kind, options);
    }
    model->error = error;
}

td_status td_model_add(td_model *model, const char *kind_name, const td_setting *settings,
                       size_t count, td_error *error) {
    td_layer_kind kind;
    td_status status = check_open(model, error);
    status = status ? status : td_layer_kind_find(kind_name, &kind, error);
    td__layer *layer = status ? NULL : td__layer_create(kind, error);
    if (!layer) {
        return status ? status : TD_MEMORY;
    }
    char where[MAXIMUM_NAME + 64];
    const td_setting *name = td__setting_find(settings, count, "name");
    if (name && name->value.kind == TD_VALUE_TEXT) {
        (void)snprintf(where, sizeof where, "layer '%.255s' (%s): ", name->value.text, kind_name);
    } else {
        (void)snprintf(where, sizeof where, "layer %zu (%s): ", model->layer_count, kind_name);
    }
    status = td__layer_set(model, layer, settings, count, where, error);
    if (status) {
        td__layer_destroy(layer);
        return status;
    }
    return add_planned_layer(model, layer, error);
}

td_status td_model_set_outputs(td_model *model, size_t count, const char *const layers[],
                               td_error *error) {
    int32_t outputs[TD_MAX_OUTPUTS];
    if (!model || count < 1 || count > TD_MAX_OUTPUTS) {
        return td_error_set(error, TD_RANGE, "a model has 1 to %d outputs, not %zu", TD_MAX_OUTPUTS,
                            count);
    }
    for (size_t i = 0; i < count; i++) {
        outputs[i] = (int32_t)td_model_find(model, layers[i]);
        if (outputs[i] < 0) {
            return td_error_set(error, TD_NOT_FOUND, "output '%.200s': there is no such layer",
                                layers[i]);
        }
        for (size_t k = 0; k < i; k++) {
            if (outputs[k] == outputs[i]) {
                return td_error_set(error, TD_EXISTS, "output '%.200s' is named twice", layers[i]);
            }
        }
    }
    memcpy(model->outputs, outputs, count * sizeof *outputs);
    model->output_count = count;
    return TD_OK;
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
    tensor->weight = true;
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

static void share_parameters(td__layer *layer, const td__layer *first) {
    const td__layer_kind *kind = layer->kind;
    size_t room =
        kind->parameter_room ? kind->parameter_room(layer->options) : TD__LAYER_MAX_PARAMETERS;
    memcpy(layer->slot, first->slot, room * sizeof(td_tensor *));
    layer->info.first_parameter = first->info.first_parameter;
}

/* Before anything is allocated: a size that is a slip of the keyboard would take the machine down. */
static td_status check_memory(const td_model *model, td_error *error) {
    const td__layer *largest = model->layers[0];
    double all = 0, limit = (double)td__memory_limit();
    for (size_t i = 0; i < model->layer_count; i++) {
        const td__layer *layer = model->layers[i];
        all += layer->info.shares < 0 ? (double)layer->info.parameter_elements * sizeof(float) : 0;
        largest =
            layer->info.parameter_elements > largest->info.parameter_elements ? layer : largest;
    }
    if (all <= limit) {
        return TD_OK;
    }
    char own[TD__BYTES_ROOM], total[TD__BYTES_ROOM], has[TD__BYTES_ROOM];
    return td__layer_error(
        largest, error, TD_MEMORY,
        "its parameters take %s of the model's %s, and this process may take %s",
        td__bytes_text(own, (double)largest->info.parameter_elements * sizeof(float)),
        td__bytes_text(total, all), td__bytes_text(has, limit));
}

static td_status build(td_model *model, const uint64_t *seed, td_error *error) {
    td_status status = check_open(model, error);
    if (status) {
        return status;
    }
    if (model->layer_count == 0) {
        return td_error_set(error, TD_INVALID, "model '%s' has no layers", model->name);
    }
    status = check_memory(model, error);
    if (status) {
        return status;
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
        if (layer->info.shares >= 0) {
            share_parameters(layer, model->layers[layer->info.shares]);
            continue;
        }
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
