/* Running a model: the forward pass, its watcher, and the penalties of regularisers. Nothing here
 * allocates; tensors are the tape's. */
#include "nn/model.h"

static bool fits(const td_model *model, const td_shape *shape) {
    const td_shape *wanted = &model->input_shape;
    bool same = shape->rank == wanted->rank + 1;
    for (int32_t i = 0; same && i < wanted->rank; i++) {
        same = wanted->dims[i] < 0 || wanted->dims[i] == shape->dims[i + 1];
    }
    return same;
}

static td_tensor *refuse_input(const td_model *model, td_tape *tape, const td_tensor *input) {
    char got[TD_SHAPE_TEXT_SIZE], text[TD_SHAPE_TEXT_SIZE];
    const char *wanted = td_shape_text(&model->input_shape, text) + 1; /* without "(" */
    return td__fail(tape, TD_BAD_SHAPE, "model '%s' takes input (batch%s%s, got %s", model->name,
                    model->input_shape.rank ? ", " : "", wanted, td_shape_text(&input->shape, got));
}

/* Borrows the name; a tensor that a layer only passes on keeps its own. */
static void name_tensor(td_tensor *tensor, td_tensor *const *inputs, const char *name,
                        const char *gradient) {
    if (tensor != inputs[0] && tensor->recording) {
        tensor->name = name;
        tensor->gradient_name = gradient;
    }
}

static void tell(const td_model *model, size_t layer, td_layer_signal signal, td_tensor *tensor) {
    if (model->watcher) {
        model->watcher(model->watcher_user, layer, signal, tensor);
    }
}

static td_tensor *run_layer(const td_model *model, td_tape *tape, size_t index) {
    td__layer *layer = model->layers[index];
    td_tensor *inputs[TD_MAX_FROM];
    for (size_t i = 0; i < layer->info.input_count; i++) {
        int32_t from = layer->inputs[i];
        inputs[i] = from < 0 ? model->input : model->layers[from]->output;
    }
    td_tensor *y = layer->kind->forward(layer, tape, inputs);
    if (!y) {
        return NULL;
    }
    if (layer->keep_preactivation) {
        layer->preactivation = y;
        name_tensor(y, inputs, layer->preactivation_name, NULL);
        tell(model, index, TD_LAYER_PREACTIVATION, y);
    }
    if (layer->activation != layer->fused) {
        y = td_activate(tape, y, layer->activation, 0);
    }
    if (y) {
        layer->output = y;
        name_tensor(y, inputs, layer->output_name, layer->error_name);
        tell(model, index, TD_LAYER_OUTPUT, y);
    }
    return y;
}

td_tensor *td_model_forward(td_model *model, td_tape *tape, td_tensor *input) {
    if (!model->built) {
        return td__fail(tape, TD_STATE, "model '%s' is not built: call td_model_build first",
                        model->name);
    }
    for (size_t i = 0; i < model->layer_count; i++) {
        model->layers[i]->output = NULL;
        model->layers[i]->preactivation = NULL;
    }
    model->input = input;
    if (!input) {
        return NULL;
    }
    if (!fits(model, &input->shape)) {
        return refuse_input(model, tape, input);
    }
    td_tensor *output = input;
    for (size_t i = 0; i < model->layer_count && output; i++) {
        td__label(tape, model->layers[i]->label);
        output = run_layer(model, tape, i);
    }
    td__label(tape, NULL);
    return output;
}

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
    for (size_t i = 0; i < model->layer_count; i++) {
        td__layer *each = model->layers[i];
        if (each->info.has_activation && (!layer || (ptrdiff_t)i == only)) {
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
