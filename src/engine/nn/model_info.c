/* What a model consists of, by name and by number. */
#include "nn/model.h"

#include "base/hash.h"
#include "base/memory.h"

#include <string.h>

const char *td_model_name(const td_model *model) {
    return model->name;
}

td_shape td_model_input_shape(const td_model *model) {
    return model->input_shape;
}

size_t td_model_input_count(const td_model *model) {
    return model->input_count;
}

size_t td_model_output_count(const td_model *model) {
    return model->output_count ? model->output_count : model->layer_count > 0;
}

size_t td_model_output_layer(const td_model *model, size_t output) {
    return model->output_count ? (size_t)model->outputs[output] : model->layer_count - 1;
}

td_dtype td_model_input_dtype(const td_model *model) {
    for (size_t i = 0; i < model->layer_count; i++) {
        const td__layer *layer = model->layers[i];
        if (layer->inputs[0] < 0 && layer->integer_input) {
            return TD_INT32;
        }
    }
    return TD_FLOAT32;
}

const td__model_facts *td__model_facts_of(const td_model *model) {
    return &model->facts;
}

const td_layer_info *td__model_reads_ids(const td_model *model) {
    for (size_t i = 0; i < model->layer_count; i++) {
        const td__layer *layer = model->layers[i];
        if (layer->integer_input && layer->inputs[0] < (int32_t)model->input_count) {
            return &layer->info;
        }
    }
    return NULL;
}

bool td__model_is_synced(const td_model *model) {
    bool synced = false;
    for (size_t i = 0; i < model->layer_count; i++) {
        const td_layer_info *info = &model->layers[i]->info;
        const td_value *sync = td__layer_setting(info, TD__SYNC);
        synced = synced || (sync && sync->boolean && !info->frozen);
    }
    return synced;
}

size_t td_model_layer_count(const td_model *model) {
    return model->layer_count;
}

const td_layer_info *td_model_layer(const td_model *model, size_t layer) {
    return layer < model->layer_count ? &model->layers[layer]->info : NULL;
}

/* The slot that has the name, or the free one where it would be. */
static size_t slot_of(const td_model *model, const char *name) {
    size_t at = (size_t)td__hash_text(name) & (model->slot_count - 1);
    while (model->slots[at] && strcmp(model->layers[model->slots[at] - 1]->info.name, name) != 0) {
        at = (at + 1) & (model->slot_count - 1);
    }
    return at;
}

bool td__model_index_last(td_model *model) {
    size_t first = model->layer_count - 1;
    if (2 * model->layer_count > model->slot_count) {
        size_t count = model->slot_count ? 2 * model->slot_count : 16;
        uint32_t *slots = td__calloc(count, sizeof *slots);
        if (!slots) {
            return false;
        }
        td__free(model->slots);
        model->slots = slots;
        model->slot_count = count;
        first = 0;
    }
    for (size_t i = first; i < model->layer_count; i++) {
        model->slots[slot_of(model, model->layers[i]->info.name)] = (uint32_t)i + 1;
    }
    return true;
}

ptrdiff_t td_model_find(const td_model *model, const char *layer) {
    return model->slot_count ? (ptrdiff_t)model->slots[slot_of(model, layer)] - 1 : -1;
}

size_t td_model_parameter_count(const td_model *model) {
    return model->parameter_count;
}

const td_parameter_info *td_model_parameter_at(const td_model *model, size_t index) {
    return index < model->parameter_count ? &model->parameters[index].info : NULL;
}

td_tensor *td_model_parameter(const td_model *model, const char *layer, const char *parameter) {
    ptrdiff_t found = td_model_find(model, layer);
    if (found < 0 || !model->built) {
        return NULL;
    }
    const td_layer_info *info = &model->layers[found]->info;
    for (size_t i = 0; i < info->parameter_count; i++) {
        const td_parameter_info *each = &model->parameters[info->first_parameter + i].info;
        if (strcmp(each->parameter, parameter) == 0) {
            return each->tensor;
        }
    }
    return NULL;
}

size_t td_model_trainable(const td_model *model, td_tensor *const **tensors) {
    *tensors = model->trainable;
    return model->trainable_count;
}

td_status td_model_freeze(td_model *model, const char *layer, bool frozen, td_error *error) {
    ptrdiff_t only = layer ? td_model_find(model, layer) : 0;
    if (only < 0) {
        return td_error_set(error, TD_NOT_FOUND, "model '%s' has no layer '%s'", model->name,
                            layer);
    }
    td_status status = TD_OK;
    for (size_t i = 0; i < model->layer_count && !status; i++) {
        td__layer *each = model->layers[i];
        td_plain_layer *options = each->options;
        if (layer && (ptrdiff_t)i != only && each->info.shares != (int32_t)only) {
            continue;
        }
        bool before = options->frozen;
        options->frozen = frozen;
        status = td__layer_write_settings(each, error);
        options->frozen = status ? before : frozen;
        each->info.frozen = options->frozen;
    }
    td__model_list_trainable(model);
    return status;
}

td_tensor *td_model_output_at(const td_model *model, size_t layer) {
    return layer < model->layer_count ? model->layers[layer]->output : NULL;
}

td_tensor *td_model_preactivation_at(const td_model *model, size_t layer) {
    return layer < model->layer_count ? model->layers[layer]->preactivation : NULL;
}

const td_tensor *td__model_mask(const td_model *model, size_t layer) {
    return layer < model->layer_count ? model->layers[layer]->mask : NULL;
}

td_tensor *td_model_output(const td_model *model, const char *layer) {
    if (strcmp(layer, "input") == 0) {
        return model->input;
    }
    ptrdiff_t found = td_model_find(model, layer);
    return found < 0 ? NULL : model->layers[found]->output;
}

td_tensor *td_model_preactivation(const td_model *model, const char *layer) {
    ptrdiff_t found = td_model_find(model, layer);
    return found < 0 ? NULL : model->layers[found]->preactivation;
}
