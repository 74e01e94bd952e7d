/* Running a model: the forward pass, its watcher, and the penalties of regularisers. Nothing here
 * allocates; tensors are the tape's. */
#include "nn/model.h"
#include "tape/tape.h"

#include <string.h>

/* Whether a batch is of examples of a shape. */
static bool shape_fits(const td_shape *wanted, const td_shape *batch) {
    bool same = batch->rank == wanted->rank + 1;
    for (int32_t i = 0; same && i < wanted->rank; i++) {
        same = wanted->dims[i] < 0 || wanted->dims[i] == batch->dims[i + 1];
    }
    return same;
}

static td_tensor *refuse_input(const td_model *model, td_tape *tape, const td_shape *shape,
                               const char *name, const td_tensor *input) {
    char got[TD_SHAPE_TEXT_SIZE], text[TD_SHAPE_TEXT_SIZE];
    const char *wanted = td_shape_text(shape, text) + 1; /* without "(" */
    return td__fail(tape, TD_BAD_SHAPE, "model '%s' takes input%s%s (batch%s%s, got %s",
                    model->name, name ? " " : "", name ? name : "", shape->rank ? ", " : "", wanted,
                    td_shape_text(&input->shape, got));
}

/* Elements of one example, open dimensions as 1; *open counts those. */
static int64_t elements_of(const td_shape *shape, size_t *open) {
    int64_t elements = 1;
    for (int32_t i = 0; i < shape->rank; i++) {
        *open += shape->dims[i] < 0;
        elements *= shape->dims[i] < 0 ? 1 : shape->dims[i];
    }
    return elements;
}

void td__model_set_input_parts(td_model *model, const td_shape *shapes) {
    for (size_t i = 0; i < model->input_count; i++) {
        model->input_parts[i] = shapes[i];
    }
    model->has_input_parts = true;
}

/* A row's part where the data says how large all are; false when that is not the row's size. */
static bool take_part(const td_model *model, size_t index, int64_t width, td_shape *shape,
                      int64_t *begin) {
    int64_t all = 0;
    size_t open = 0;
    for (size_t i = 0; i < model->input_count; i++) {
        const td_shape *own = &model->layers[i]->info.output;
        td_shape part = model->input_parts[i];
        int64_t elements = elements_of(&part, &open), known = elements_of(own, &(size_t){0});
        bool fixed = true;
        for (int32_t k = 0; k < own->rank; k++) {
            fixed = fixed && own->dims[k] >= 0;
        }
        if (fixed) {
            part = *own; /* the numbers are what they are; the model says their shape */
        }
        if ((fixed && known != elements) ||
            !shape_fits(
                own, &(td_shape){.rank = part.rank + 1,
                                 .dims = {1, part.dims[0], part.dims[1], part.dims[2], part.dims[3],
                                          part.dims[4], part.dims[5], part.dims[6]}})) {
            return false;
        }
        *begin = i == index ? all : *begin;
        *shape = i == index ? part : *shape;
        all += elements;
    }
    return all == width && open == 0;
}

/* Which part of a row of `width` elements an input is. One open dimension among all inputs takes what
 * the others leave; false when that does not come out. */
static bool find_part(const td_model *model, size_t index, int64_t width, td_shape *shape,
                      int64_t *begin) {
    int64_t known = 0, flexible = 0;
    size_t open = 0;
    for (size_t i = 0; i < model->input_count; i++) {
        size_t own = 0;
        int64_t elements = elements_of(&model->layers[i]->info.output, &own);
        known += own ? 0 : elements;
        flexible = own ? elements : flexible;
        open += own;
    }
    int64_t rest = width - known;
    if (open > 1 || rest < 0 || (flexible > 0 ? rest % flexible != 0 : rest != 0)) {
        return false;
    }
    *begin = 0;
    for (size_t i = 0; i <= index; i++) {
        size_t own = 0;
        *shape = model->layers[i]->info.output;
        int64_t elements = elements_of(shape, &own);
        *begin += i == index ? 0 : own ? rest : elements;
    }
    for (int32_t i = 0; i < shape->rank; i++) {
        shape->dims[i] = shape->dims[i] < 0 ? rest / flexible : shape->dims[i];
    }
    return true;
}

/* One of several inputs: given by itself, or its part of the example's row. */
static td_tensor *run_input(const td_model *model, td_tape *tape, size_t index) {
    const td_layer_info *info = &model->layers[index]->info;
    if (model->given) {
        td_tensor *given = model->given[index];
        return !given || shape_fits(&info->output, &given->shape)
                   ? given
                   : refuse_input(model, tape, &info->output, info->name, given);
    }
    int64_t rows = model->input->shape.dims[0], width = model->input->shape.dims[1];
    td_shape shape = {0};
    int64_t begin[2] = {0};
    size_t open = 0;
    bool found = model->has_input_parts ? take_part(model, index, width, &shape, &begin[1])
                                        : find_part(model, index, width, &shape, &begin[1]);
    if (!found) {
        return td__fail(tape, TD_BAD_SHAPE,
                        "a row of %lld elements does not say how large input '%s' is: give each "
                        "input by itself",
                        (long long)width, info->name);
    }
    td_tensor *part =
        td_slice(tape, model->input, begin, (const int64_t[]){rows, elements_of(&shape, &open)});
    td_shape whole = {.rank = shape.rank + 1, .dims = {rows}};
    for (int32_t i = 0; i < shape.rank; i++) {
        whole.dims[i + 1] = shape.dims[i];
    }
    return td_reshape(tape, part, whole);
}

/* Borrows the name; a tensor that a layer only passes on keeps its own. */
static void name_tensor(td_tensor *tensor, td_tensor *const *inputs, const char *name,
                        const char *gradient) {
    if (tensor != inputs[0] && tensor->recording) {
        tensor->name = name;
        tensor->gradient_name = gradient;
    }
}

static void notify_watcher(const td_model *model, size_t layer, td_layer_signal signal,
                           td_tensor *tensor) {
    if (model->watcher) {
        model->watcher(model->watcher_user, layer, signal, tensor);
    }
}

/* The mask of a layer's output, once that is there. */
static td_tensor *run_mask(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    return layer->masked && layer->kind->mask ? layer->kind->mask(layer, tape, inputs) : NULL;
}

static td_tensor *run_layer(const td_model *model, td_tape *tape, size_t index) {
    td__layer *layer = model->layers[index];
    td_tensor *inputs[TD_MAX_FROM];
    for (size_t i = 0; i < layer->info.input_count; i++) {
        int32_t from = layer->inputs[i];
        inputs[i] = from < 0 ? model->input : model->layers[from]->output;
        layer->masks[i] = from < 0 ? NULL : model->layers[from]->mask;
    }
    td_tensor *y = index < model->input_count ? run_input(model, tape, index)
                                              : layer->kind->forward(layer, tape, inputs);
    if (!y) {
        return NULL;
    }
    if (layer->keep_preactivation) {
        layer->preactivation = y;
        name_tensor(y, inputs, layer->preactivation_name, NULL);
        notify_watcher(model, index, TD_LAYER_PREACTIVATION, y);
    }
    if (layer->activation != layer->fused) {
        y = td_activate(tape, y, layer->activation, TD_DEFAULT);
    }
    if (y) {
        layer->output = y;
        layer->mask = run_mask(layer, tape, inputs);
        name_tensor(y, inputs, layer->output_name, layer->error_name);
        notify_watcher(model, index, TD_LAYER_OUTPUT, y);
    }
    return y;
}

/* Whether only the outputs are asked for. */
static bool may_run_together(const td_model *model, const td_tape *tape) {
    bool may = tape->inference && tape->no_history && !tape->training && !model->watcher;
    for (size_t i = 0; i < model->layer_count; i++) {
        may = may && !model->layers[i]->keep_preactivation;
    }
    return may;
}

/* What is between may not have been made, and its memory be others'. */
static void forget_layers(td_model *model) {
    for (size_t i = 0; i < model->layer_count; i++) {
        bool output = false;
        for (size_t k = 0; k < td_model_output_count(model); k++) {
            output = output || td_model_output_layer(model, k) == i;
        }
        if (!output) {
            model->layers[i]->output = NULL;
        }
    }
}

static td_tensor *run_layers(td_model *model, td_tape *tape) {
    td_tensor *output = NULL;
    tape->together = may_run_together(model, tape);
    for (size_t i = 0; i < model->layer_count && (i == 0 || output); i++) {
        td__label(tape, model->layers[i]->label);
        output = run_layer(model, tape, i);
    }
    td__label(tape, NULL);
    if (tape->together) {
        forget_layers(model);
        tape->together = false;
    }
    return output ? model->layers[td_model_output_layer(model, 0)]->output : NULL;
}

/* False (and the tape's error) when it cannot run. */
static bool begin_pass(td_model *model, td_tape *tape) {
    for (size_t i = 0; i < model->layer_count; i++) {
        td__layer *layer = model->layers[i];
        layer->output = layer->preactivation = layer->mask = NULL;
    }
    model->input = NULL;
    model->given = NULL;
    if (!model->built) {
        (void)td__fail(tape, TD_STATE, "model '%s' is not built: call td_model_build first",
                       model->name);
    }
    return model->built;
}

td_tensor *td_model_forward(td_model *model, td_tape *tape, td_tensor *input) {
    if (!begin_pass(model, tape) || !input) {
        return NULL;
    }
    model->input = input;
    if (!shape_fits(&model->input_shape, &input->shape)) {
        return refuse_input(model, tape, &model->input_shape, NULL, input);
    }
    return run_layers(model, tape);
}

td_tensor *td_model_forward_inputs(td_model *model, td_tape *tape, size_t count,
                                   td_tensor *const inputs[]) {
    if (model->input_count == 0 && count == 1) {
        return td_model_forward(model, tape, inputs[0]);
    }
    if (!begin_pass(model, tape)) {
        return NULL;
    }
    if (count != model->input_count) {
        return td__fail(tape, TD_INVALID, "model '%s' has %zu inputs, %zu are given", model->name,
                        model->input_count ? model->input_count : 1, count);
    }
    model->given = inputs;
    td_tensor *output = run_layers(model, tape);
    model->given = NULL;
    return output;
}

/* ---- Taking turns ----------------------------------------------------------------------------- */

/* Of the model; behind it one of layer_state for each layer. */
typedef struct model_state {
    td_model_watcher *watcher;
    void *watcher_user;
    td_tensor *input;
    td_tensor *const *given;
} model_state;
typedef struct layer_state {
    td_tensor *output, *preactivation, *mask, *masks[TD_MAX_FROM];
} layer_state;

size_t td__model_state_size(const td_model *model) {
    return sizeof(model_state) + model->layer_count * sizeof(layer_state);
}

void td__model_state_save(const td_model *model, void *state) {
    model_state *own = state;
    layer_state *layers = (layer_state *)(own + 1);
    *own = (model_state){model->watcher, model->watcher_user, model->input, model->given};
    for (size_t i = 0; i < model->layer_count; i++) {
        const td__layer *layer = model->layers[i];
        layers[i].output = layer->output;
        layers[i].preactivation = layer->preactivation;
        layers[i].mask = layer->mask;
        memcpy(layers[i].masks, layer->masks, sizeof layer->masks);
    }
}

void td__model_state_restore(td_model *model, const void *state) {
    const model_state *own = state;
    const layer_state *layers = (const layer_state *)(own + 1);
    model->watcher = own->watcher;
    model->watcher_user = own->watcher_user;
    model->input = own->input;
    model->given = own->given;
    for (size_t i = 0; i < model->layer_count; i++) {
        td__layer *layer = model->layers[i];
        layer->output = layers[i].output;
        layer->preactivation = layers[i].preactivation;
        layer->mask = layers[i].mask;
        memcpy(layer->masks, layers[i].masks, sizeof layer->masks);
    }
}

/* ---- Penalties -------------------------------------------------------------------------------- */

td_tensor *td_model_regularize(td_model *model, td_tape *tape, td_tensor *loss) {
    for (size_t i = 0; i < model->parameter_count; i++) {
        const td__parameter *parameter = &model->parameters[i];
        td_tensor *w = parameter->info.tensor;
        if (!parameter->info.trainable) {
            continue;
        }
        if (parameter->l1 > 0) {
            td_tensor *sum = td_sum(tape, td_absolute(tape, w), NULL);
            loss = td_add(tape, loss, td_affine(tape, sum, (float)parameter->l1, 0));
        }
        if (parameter->l2 > 0) {
            td_tensor *sum = td_sum(tape, td_square(tape, w), NULL);
            loss = td_add(tape, loss, td_affine(tape, sum, (float)parameter->l2, 0));
        }
    }
    return loss;
}

td_status td_model_keep_preactivation(td_model *model, const char *layer, bool keep,
                                      td_error *error) {
    ptrdiff_t only = layer ? td_model_find(model, layer) : 0;
    if (only < 0) {
        return td_error_set(error, TD_NOT_FOUND, "model '%s' has no layer '%s'", model->name,
                            layer);
    }
    if (layer && !model->layers[only]->info.has_activation) {
        return td_error_set(error, TD_UNSUPPORTED,
                            "layer '%s' (%s) has no activation of its own, so no pre-activation",
                            layer, td_layer_kind_name(model->layers[only]->info.kind));
    }
    size_t end = layer ? (size_t)only + 1 : model->layer_count;
    for (size_t i = (size_t)only; i < end; i++) {
        td__layer *each = model->layers[i];
        if (each->info.has_activation) {
            each->keep_preactivation = keep;
            td__layer_choose_fused(each);
        }
    }
    return TD_OK;
}

void td_model_watch(td_model *model, td_model_watcher *watcher, void *user) {
    model->watcher = watcher;
    model->watcher_user = user;
}
