/* A model as a list of operators: the walk over its layers; see operators.h. */
#include "nn/operators.h"

#include "nn/model.h"

#include <stdio.h>

enum { MAX_REASONS = 400 };

static const char *write_layer(td__operators *to, const td_model *model, const td__layer *layer,
                               const char *const *outputs) {
    const char *inputs[TD_MAX_FROM];
    td_shape shapes[TD_MAX_FROM];
    for (size_t i = 0; i < layer->info.input_count; i++) {
        int32_t from = layer->inputs[i];
        inputs[i] = from < 0 ? "input" : outputs[from];
        shapes[i] = from < 0 ? model->input_shape : model->layers[from]->info.output;
    }
    td__operators_begin(to, layer->info.name);
    if (!layer->kind->operators) {
        return td__operator_refuse(to, "no operators for it");
    }
    if (layer->masked) {
        return td__operator_refuse(to, "a mask of steps, for which there is no operator");
    }
    const char *y = layer->kind->operators(layer, to, inputs, shapes);
    return y && layer->kind->has_activation
               ? td__operator_activation(to, y, layer->activation, TD_DEFAULT)
               : y;
}

/* All layers; TD_UNSUPPORTED lists those that have no operators. */
static td_status write_layers(td__operators *to, const td_model *model, const char **outputs,
                              td_error *error) {
    char reasons[MAX_REASONS] = "";
    size_t refused = 0, length = 0;
    if (td_model_output_count(model) > 1 ||
        td_model_output_layer(model, 0) + 1 != model->layer_count) {
        return td_error_set(error, TD_UNSUPPORTED,
                            "a model whose only output is not its last layer cannot be written as "
                            "a graph of operators");
    }
    for (size_t i = 0; i < model->layer_count && !td__operators_exhausted(to); i++) {
        const td__layer *layer = model->layers[i];
        outputs[i] = write_layer(to, model, layer, outputs);
        if (!outputs[i] && *td__operators_reason(to)) {
            length += (size_t)snprintf(reasons + length, sizeof reasons - length, "%s%s '%s' (%s)",
                                       refused ? ", " : "", layer->info.type, layer->info.name,
                                       td__operators_reason(to));
            length = length < sizeof reasons ? length : sizeof reasons - 1;
            refused++;
        }
        outputs[i] = outputs[i] ? outputs[i] : "input"; /* to go on, for further reasons */
    }
    if (refused) {
        return td_error_set(error, TD_UNSUPPORTED, "%zu layer%s cannot be written as operators: %s",
                            refused, refused == 1 ? "" : "s", reasons);
    }
    return TD_OK;
}

/* (batch, …shape) */
static td_shape with_batch(const td_shape *shape) {
    td_shape all = {.rank = shape->rank + 1, .dims = {-1}};
    for (int32_t i = 0; i < shape->rank; i++) {
        all.dims[i + 1] = shape->dims[i];
    }
    return all;
}

static void write_ports(td__operators *to, const td_model *model, const char *last) {
    const td__layer *layer = model->layers[model->layer_count - 1];
    td_shape input = with_batch(&model->input_shape), output = with_batch(&layer->info.output);
    td__operators_rename(to, last, layer->info.name); /* so that the output has the layer's name */
    td__operators_port(to, false, "input", td_model_input_dtype(model), &input);
    td__operators_port(to, true, layer->info.name, TD_FLOAT32, &output);
}

td__operators *td__operators_of_model(const td_model *model, td_error *error) {
    td__operators *to = td__operators_create();
    const char **outputs = td__calloc(model->layer_count + 1, sizeof *outputs);
    td_status status = to && outputs ? write_layers(to, model, outputs, error)
                                     : td_error_set(error, TD_MEMORY, "out of memory");
    if (!status) {
        write_ports(to, model, outputs[model->layer_count - 1]);
    }
    td__free(outputs);
    if (status) {
        td__operators_destroy(to);
        return NULL;
    }
    return to;
}
