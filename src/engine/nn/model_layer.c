/* A layer by itself: its name, what it reads, its shapes and parameters planned. It is complete before
 * it joins a model, so an error leaves the model as it was.
 */
#include "base/memory.h"
#include "base/options.h"
#include "nn/model.h"

#include <stdarg.h>
#include <string.h>

#define MAXIMUM_NAME TD__MAXIMUM_LAYER_NAME

static td_status out_of_memory(td_error *error) {
    return td_error_set(error, TD_MEMORY, "out of memory while adding a layer");
}

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

/* A wrapper's settings, and behind them those of the layer it wraps, as one block. */
static td_status join_settings(const td__layer *layer, td_setting **settings, size_t *count,
                               td_error *error) {
    td__layer *inner = layer->inner;
    td_status status = td__layer_write_settings(inner, error);
    td_setting *all =
        status ? NULL : td__calloc(*count + inner->info.setting_count + 1, sizeof *all);
    if (all) {
        memcpy(all, *settings, *count * sizeof *all);
        for (size_t i = 0; i < inner->info.setting_count; i++) {
            const td_setting *setting = &inner->info.settings[i];
            if (!td__fields_have(layer->kind->fields, layer->kind->field_count, setting->key)) {
                all[(*count)++] = *setting;
            }
        }
    }
    td__free(*settings);
    *settings = all;
    return all ? TD_OK : out_of_memory(error);
}

td_status td__layer_write_settings(td__layer *layer, td_error *error) {
    td_setting *settings;
    size_t count;
    td_status status = td__fields_write(layer->kind->fields, layer->kind->field_count,
                                        layer->options, &settings, &count, error);
    if (!status && layer->inner) {
        status = join_settings(layer, &settings, &count, error);
    }
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

void td__layer_destroy(td__layer *layer) {
    if (layer) {
        if (layer->kind->release && layer->options) {
            layer->kind->release(layer->options);
        }
        td__layer_destroy(layer->inner);
        td__free(layer->parameters);
        td__free(layer->slot);
        td__free(layer->settings);
        td__free(layer->texts);
        td__free(layer->options);
        td__free(layer);
    }
}

/* The layer that a name stands for already, if one of this kind can be used again under it; -1. */
static int32_t used_before(const td_model *model, const td__layer *layer, const char *name) {
    ptrdiff_t found = name ? td_model_find(model, name) : -1;
    bool same = found >= 0 && layer->info.kind == model->layers[found]->info.kind &&
                layer->info.kind != TD_LAYER_CUSTOM && layer->info.kind != TD_LAYER_INPUT;
    return same ? (int32_t)found : -1;
}

/* A layer used again: NAME@2, NAME@3, … */
static td_status name_again(const td_model *model, const char *given, char name[MAXIMUM_NAME],
                            td_error *error) {
    for (int number = 2;; number++) {
        if (snprintf(name, MAXIMUM_NAME, "%s@%d", given, number) >= MAXIMUM_NAME) {
            return td_error_set(error, TD_INVALID, "the name '%.40s…' is too long to be used again",
                                given);
        }
        if (td_model_find(model, name) < 0) {
            return TD_OK;
        }
    }
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
        if (used_before(model, layer, given) >= 0) {
            return name_again(model, given, name, error);
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

static const char *append_name(char **at, const char *before, const char *name, const char *after) {
    char *text = *at;
    size_t size = strlen(before) + strlen(name) + strlen(after) + 1;
    (void)snprintf(text, size, "%s%s%s", before, name, after);
    *at += size;
    return text;
}

static td_status set_texts(td__layer *layer, const char *name, td_error *error) {
    const char *kind = td_layer_kind_name(layer->info.kind);
    layer->texts = td__calloc(7, strlen(name) + strlen(kind) + 32);
    if (!layer->texts) {
        return out_of_memory(error);
    }
    char *at = layer->texts, after[64];
    (void)snprintf(after, sizeof after, "' (%s): ", kind);
    layer->info.name = append_name(&at, "", name, "");
    layer->label = append_name(&at, "layer '", name, "'");
    layer->where = append_name(&at, "layer '", name, after);
    layer->output_name = append_name(&at, "", name, ".output");
    layer->error_name = append_name(&at, "", name, ".error");
    layer->preactivation_name = append_name(&at, "", name, ".preactivation");
    td_plain_layer *options = layer->options;
    options->name =
        layer->info.shares < 0 ? layer->info.name : append_name(&at, "", options->name, "");
    if (layer->inner) {
        layer->inner->info.name = layer->info.name;
        layer->inner->where = layer->where;
        layer->inner->label = layer->label;
    }
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
            if (model->input_count) {
                return td__layer_error(
                    layer, error, TD_NOT_FOUND,
                    "it reads 'input', but the model's inputs have names: '%s', …",
                    model->layers[0]->info.name);
            }
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
    if (count == 0) { /* an input reads the example itself */
        layer->inputs[count++] =
            layer->info.kind == TD_LAYER_INPUT ? -1 : (int32_t)model->layer_count - 1;
    } else if (layer->info.kind == TD_LAYER_INPUT) {
        return td__layer_error(layer, error, TD_INVALID, "an input reads no layer: without 'from'");
    }
    if (count < layer->kind->min_from || count > layer->kind->max_from) {
        return td__layer_error(layer, error, TD_INVALID,
                               "it reads %zu layer%s, it must read %zu%s: say which with 'from'",
                               count, count == 1 ? "" : "s", layer->kind->min_from,
                               layer->kind->max_from > layer->kind->min_from ? " or more" : "");
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
        fits = shape->dims[i] <= TD__MAXIMUM_DIMENSION;
        known.dims[i] = shape->dims[i] < 0 ? 1 : shape->dims[i];
    }
    if (fits && td_shape_check(&known, TD_FLOAT32, NULL, NULL) == TD_OK) {
        return TD_OK;
    }
    char text[TD_SHAPE_TEXT_SIZE];
    return td__layer_error(layer, error, TD_RANGE, "%s %s is too large", what,
                           td_shape_text(shape, text));
}

/* Whether the output has a mask, and whether one is lost here. */
static void plan_mask(const td_model *model, td__layer *layer) {
    const td__layer_kind *kind = layer->kind;
    bool any = false, all = true;
    for (size_t i = 0; i < layer->info.input_count; i++) {
        bool masked = layer->inputs[i] >= 0 && model->layers[layer->inputs[i]]->masked;
        any = any || masked;
        all = all && masked;
    }
    layer->masked = kind->has_mask                       ? kind->has_mask(layer, any)
                    : kind->mask_from == TD__MASK_OF_ALL ? any && all
                                                         : any && kind->mask;
    layer->info.mask_dropped = any && !kind->mask && !kind->reads_mask;
}

static td_status plan_layer(const td_model *model, td__layer *layer, td_error *error) {
    td_shape inputs[TD_MAX_FROM];
    for (size_t i = 0; i < layer->info.input_count; i++) {
        int32_t from = layer->inputs[i];
        inputs[i] = from < 0 ? model->input_shape : model->layers[from]->info.output;
    }
    plan_mask(model, layer);
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

static td_status make_layer_room(td__layer *layer, td_error *error) {
    const td__layer_kind *kind = layer->kind;
    size_t room =
        kind->parameter_room ? kind->parameter_room(layer->options) + 1 : TD__LAYER_MAX_PARAMETERS;
    layer->parameters = td__calloc(room, sizeof *layer->parameters);
    layer->slot = td__calloc(room, sizeof *layer->slot);
    bool good = layer->parameters && layer->slot;
    return good && layer->inner ? make_layer_room(layer->inner, error)
           : good               ? TD_OK
                                : out_of_memory(error);
}

/* A layer used again: what it was before, and so are its parameters. */
static td_status check_shared(const td_model *model, td__layer *layer, td_error *error) {
    const td__layer *first = model->layers[layer->info.shares];
    for (size_t i = 0; i < layer->info.setting_count; i++) {
        const td_setting *setting = &layer->info.settings[i];
        const td_setting *before =
            td__setting_find(first->info.settings, first->info.setting_count, setting->key);
        bool own = !strcmp(setting->key, "name") || !strcmp(setting->key, "from");
        if (!own && (!before || !td__values_equal(&setting->value, &before->value))) {
            return td__layer_error(layer, error, TD_EXISTS,
                                   "there is a layer '%s' already, with another '%s': give this "
                                   "one another name, or the same options to use it again",
                                   first->info.name, setting->key);
        }
    }
    for (size_t i = 0; i < layer->info.parameter_count; i++) {
        const td__parameter_plan *plan = &layer->parameters[i], *before = &first->parameters[i];
        if (!td_shape_equal(&plan->shape, &before->shape)) {
            char a[TD_SHAPE_TEXT_SIZE], b[TD_SHAPE_TEXT_SIZE];
            return td__layer_error(layer, error, TD_BAD_SHAPE,
                                   "it is '%s' used again, but its %s would be %s and not %s",
                                   first->info.name, plan->name, td_shape_text(&plan->shape, a),
                                   td_shape_text(&before->shape, b));
        }
    }
    layer->info.parameter_count = 0;
    layer->info.parameter_elements = 0;
    return TD_OK;
}

td_status td__layer_complete(const td_model *model, td__layer *layer, td_error *error) {
    const td_plain_layer *options = layer->options;
    char name[MAXIMUM_NAME];
    layer->info.shares = used_before(model, layer, options->name);
    td_status status = choose_name(model, layer, options->name, name, error);
    status = status ? status : set_texts(layer, name, error);
    status = status ? status
                    : td__fields_check(layer->kind->fields, layer->kind->field_count, options,
                                       layer->where, error);
    if (!status && layer->inner) {
        const td__layer_kind *inner = layer->inner->kind;
        status = td__fields_check(inner->fields, inner->field_count, layer->inner->options,
                                  layer->where, error);
    }
    status = status ? status : resolve_inputs(model, layer, error);
    status = status ? status : make_layer_room(layer, error);
    status = status ? status : plan_layer(model, layer, error);
    if (status) {
        return status;
    }
    layer->info.frozen = options->frozen;
    layer->info.type = layer->info.type ? layer->info.type : td_layer_kind_keras(layer->info.kind);
    layer->info.has_activation = layer->kind->has_activation;
    layer->info.dtype = TD_FLOAT32;
    td__layer_choose_fused(layer);
    status = td__layer_write_settings(layer, error);
    return status || layer->info.shares < 0 ? status : check_shared(model, layer, error);
}

td__layer *td__layer_create(td_layer_kind kind, td_error *error) {
    td__layer *layer = td__calloc(1, sizeof *layer);
    if (layer) {
        layer->info.kind = kind;
        layer->kind = td__layer_kind_of(kind);
        layer->integer_input = layer->kind->integer_input;
        layer->options = td__calloc(1, layer->kind->size);
    }
    if (!layer || !layer->options) {
        (void)out_of_memory(error);
        td__layer_destroy(layer);
        return NULL;
    }
    return layer;
}

/* --- options -------------------------------------------------------------------------------- */

/* Makes the layer that a wrapper wraps, of the kind its options name. */
static td_status wrap(td__layer *layer, td_error *error) {
    td_wrapper_layer *wrapper = layer->options;
    const td__layer_kind *kind = td__layer_kind_of(wrapper->layer);
    if (!kind || kind->wraps || kind->max_from != 1 || wrapper->layer == TD_LAYER_CUSTOM ||
        wrapper->layer == TD_LAYER_INPUT) {
        return td_error_set(error, TD_UNSUPPORTED, "a %s layer cannot wrap %s",
                            td_layer_kind_name(layer->info.kind),
                            kind ? td_layer_kind_name(wrapper->layer) : "a layer of no kind");
    }
    layer->inner = td__layer_create(wrapper->layer, error);
    return layer->inner ? TD_OK : TD_MEMORY;
}

/* The same from C, with the inner layer's options. */
td_status td__layer_wrap(td__layer *layer, td_error *error) {
    td_wrapper_layer *wrapper = layer->options;
    td_status status = wrap(layer, error);
    if (status) {
        return status;
    }
    const td__layer_kind *kind = layer->inner->kind;
    const td_plain_layer *given = wrapper->options;
    if (given) {
        (void)td__options(layer->inner->options, kind->size, given);
    }
    td_plain_layer *inner = layer->inner->options;
    inner->name = NULL;
    memset(inner->from, 0, sizeof inner->from);
    td__fields_fill(kind->fields, kind->field_count, layer->inner->options, false);
    wrapper->options = NULL;
    return TD_OK;
}

/* Options of a layer used again begin as they were: only what differs need be given, and that is
 * refused later. */
static void begin_as(const td_model *model, td__layer *layer, const td_setting *settings,
                     size_t count) {
    const td_setting *name = td__setting_find(settings, count, "name");
    const char *text = name && name->value.kind == TD_VALUE_TEXT ? name->value.text : NULL;
    int32_t before = used_before(model, layer, text);
    const td__layer_kind *kind = layer->kind;
    if (before < 0) {
        td__fields_fill(kind->fields, kind->field_count, layer->options, true);
        return;
    }
    memcpy(layer->options, model->layers[before]->options, kind->size);
    td_plain_layer *options = layer->options;
    memset(options->from, 0, sizeof options->from);
}

/* Keys that are not the wrapper's own are those of the layer it wraps. */
static td_status set_wrapped(const td_model *model, td__layer *layer, const td_setting *settings,
                             size_t count, const char *where, td_error *error) {
    const td__layer_kind *kind = layer->kind;
    td_setting *sorted = td__calloc(count + 1, sizeof *sorted);
    if (!sorted) {
        return out_of_memory(error);
    }
    size_t own = 0, rest = count;
    for (size_t i = 0; i < count; i++) {
        bool is_own = td__fields_have(kind->fields, kind->field_count, settings[i].key);
        sorted[is_own ? own++ : --rest] = settings[i];
    }
    td_status status =
        td__fields_set(kind->fields, kind->field_count, layer->options, sorted, own, where, error);
    status = status ? status : wrap(layer, error);
    if (!status) {
        const td__layer_kind *inner = layer->inner->kind;
        const td_plain_layer *options = layer->options;
        int32_t before = used_before(model, layer, options->name);
        const td__layer *like = before < 0 ? NULL : model->layers[before]->inner;
        if (like && like->kind == inner) {
            memcpy(layer->inner->options, like->options, inner->size);
        } else {
            td__fields_fill(inner->fields, inner->field_count, layer->inner->options, true);
        }
        status = td__fields_set(inner->fields, inner->field_count, layer->inner->options,
                                sorted + rest, count - rest, where, error);
    }
    td__free(sorted);
    return status;
}

td_status td__layer_set(const td_model *model, td__layer *layer, const td_setting *settings,
                        size_t count, const char *where, td_error *error) {
    const td__layer_kind *kind = layer->kind;
    begin_as(model, layer, settings, count);
    return kind->wraps ? set_wrapped(model, layer, settings, count, where, error)
                       : td__fields_set(kind->fields, kind->field_count, layer->options, settings,
                                        count, where, error);
}
