#include "replay/operation.h"

#include "nn/model.h"
#include "tensor/element.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAX_OPERANDS = 16, PLACE_SIZE = 400 };

const char *td__arena_text(td__arena *arena, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *text = length < 0 ? NULL : td__arena_alloc(arena, (size_t)length + 1);
    if (text) {
        (void)vsnprintf(text, (size_t)length + 1, format, again);
    }
    va_end(again);
    return text ? text : "";
}

/* ---- What it is ------------------------------------------------------------------------------ */

int32_t td__node_layer(const td_model *model, const td__node *node) {
    for (size_t i = 0; node->label && i < model->layer_count; i++) {
        if (model->layers[i]->label == node->label) {
            return (int32_t)i;
        }
    }
    return -1;
}

ptrdiff_t td__tensor_parameter(const td_model *model, const td_tensor *tensor) {
    for (size_t i = 0; !tensor->recording && i < model->parameter_count; i++) {
        if (model->parameters[i].info.tensor == tensor) {
            return (ptrdiff_t)i;
        }
    }
    return -1;
}

bool td__input_is_leaf(const td_tape *tape, const td__edge *edge) {
    return edge->tensor && (edge->slot < 0 || tape->slots[edge->slot].producer < 0);
}

static const td__node *node_of(const td_trainer *trainer, const td__made *made) {
    return &trainer->pass.tape->nodes[made->node];
}

td_view td__made_view(const td_trainer *trainer, const td__made *made) {
    const td_tape *tape = trainer->pass.tape;
    if (made->in == TD__MADE_UPDATE) {
        return td_view_of(td_model_parameter_at(trainer->model, made->parameter)->tensor);
    }
    const td__node *node = node_of(trainer, made);
    if (made->in == TD__MADE_FORWARD) {
        return td_view_of(node->output);
    }
    td_view view = td_view_of(node->inputs[made->input].tensor);
    if (made->in == TD__MADE_BACKWARD) {
        view.data = td__gradient_of(tape, node, made->input);
    }
    return view;
}

bool td__all_finite(const td_view *view) {
    if (view->dtype != TD_FLOAT32 || !view->data) {
        return true;
    }
    const float *values = view->data;
    int64_t count = td__elements_from(&view->shape, 0);
    bool bad = false;
    for (int64_t i = 0; i < count; i++) {
        bad |= !(fabsf(values[i]) < INFINITY);
    }
    return !bad;
}

int64_t td__made_example(const td_trainer *trainer, const td__made *made, const td_view *view,
                         int64_t element) {
    const td_batch *batch = trainer->pass.batch;
    bool parameter = made->in == TD__MADE_UPDATE;
    if (made->in == TD__MADE_BEFORE || made->in == TD__MADE_BACKWARD) {
        const td_tensor *tensor = node_of(trainer, made)->inputs[made->input].tensor;
        parameter = td__tensor_parameter(trainer->model, tensor) >= 0;
    }
    if (parameter || view->shape.rank < 1 || view->shape.dims[0] != batch->count) {
        return -1;
    }
    return element / td__elements_from(&view->shape, 1);
}

/* ---- Describing ------------------------------------------------------------------------------ */

typedef struct describing {
    td__arena *arena;
    const td_trainer *trainer;
    const td_tape *tape;
    const td__made *made;
    td_operand *operands;
    size_t operand_count;
} describing;

static const char *layer_name(const describing *d, int32_t layer) {
    return layer < 0 ? "" : td_model_layer(d->trainer->model, (size_t)layer)->name;
}

/* Of a tensor on the tape: its own name, or that of the operation that made it. */
static const char *tensor_name(const describing *d, const td_tensor *tensor) {
    int32_t slot = td__slot_of(d->tape, tensor);
    int32_t producer = slot < 0 ? -1 : d->tape->slots[slot].producer;
    if (*tensor->name) {
        return tensor->name;
    }
    if (producer < 0) {
        return "a constant";
    }
    const td__node *node = &d->tape->nodes[producer];
    int32_t layer = td__node_layer(d->trainer->model, node);
    return layer < 0 ? td__arena_text(d->arena, "%s", node->op->name)
                     : td__arena_text(d->arena, "%s: %s", layer_name(d, layer), node->op->name);
}

static const char *gradient_name(const describing *d, const td_tensor *tensor) {
    if (td__tensor_parameter(d->trainer->model, tensor) >= 0) {
        return td__arena_text(d->arena, "%s.gradient", tensor->name);
    }
    if (tensor->gradient_name && *tensor->gradient_name) {
        return tensor->gradient_name;
    }
    return td__arena_text(d->arena, "gradient of %s", tensor_name(d, tensor));
}

static void add_operand(describing *d, const char *name, td_view view) {
    if (d->operands && d->operand_count < MAX_OPERANDS && view.data) {
        td_operand *operand = &d->operands[d->operand_count];
        *operand = (td_operand){.name = name, .shape = view.shape};
        d->operand_count += td_stats_of(&view, &operand->stats, NULL) == TD_OK;
    }
}

static void add_inputs(describing *d, const td__node *node) {
    for (int32_t i = 0; i < node->input_count; i++) {
        const td_tensor *tensor = node->inputs[i].tensor;
        if (tensor) {
            add_operand(d, tensor_name(d, tensor), td_view_of(tensor));
        }
    }
}

/* The output's gradient, unless the operation has written over it. */
static void add_output_gradient(describing *d, const td__node *node) {
    const td__buffer *gradient = d->tape->slots[node->output->slot].gradient;
    for (int32_t i = 0; gradient && i < node->input_count; i++) {
        if (td__gradient_of(d->tape, node, i) == gradient->data) {
            gradient = NULL;
        }
    }
    if (gradient) {
        td_view view = td_view_of(node->output);
        view.data = gradient->data;
        add_operand(d, gradient_name(d, node->output), view);
    }
}

static void describe_before(const describing *d, td_operation *operation) {
    const td_tensor *tensor = node_of(d->trainer, d->made)->inputs[d->made->input].tensor;
    ptrdiff_t parameter = td__tensor_parameter(d->trainer->model, tensor);
    operation->phase = parameter < 0 ? "data" : "start";
    operation->tensor = tensor_name(d, tensor);
    if (parameter >= 0) {
        const td_parameter_info *info = td_model_parameter_at(d->trainer->model, (size_t)parameter);
        operation->layer = layer_name(d, (int32_t)info->layer);
    }
}

static void describe_node(describing *d, td_operation *operation) {
    const td__node *node = node_of(d->trainer, d->made);
    bool forward = d->made->in == TD__MADE_FORWARD;
    int64_t count = (int64_t)d->tape->node_count;
    operation->phase = forward ? "forward" : "backward";
    operation->sequence = forward ? d->made->node + 1 : 2 * count - d->made->node;
    operation->layer = layer_name(d, td__node_layer(d->trainer->model, node));
    operation->kind = node->op->name;
    if (forward) {
        operation->tensor = tensor_name(d, node->output);
    } else {
        operation->tensor = gradient_name(d, node->inputs[d->made->input].tensor);
        add_output_gradient(d, node);
    }
    add_inputs(d, node);
}

static void describe_update(describing *d, td_operation *operation) {
    const td_parameter_info *info = td_model_parameter_at(d->trainer->model, d->made->parameter);
    const td__learner *learner = &d->trainer->learner;
    ptrdiff_t weight = learner->weight_of[d->made->parameter];
    operation->phase = "update";
    operation->sequence = 2 * (int64_t)d->tape->node_count + 1 + (int64_t)d->made->parameter;
    operation->layer = layer_name(d, (int32_t)info->layer);
    operation->tensor = info->name;
    operation->kind = weight < 0
                          ? "moving average"
                          : td_optimizer_kind_name(td_optimizer_settled(learner->optimizer)->kind);
    if (weight >= 0 && learner->gradients[weight]) {
        add_operand(d, td__arena_text(d->arena, "%s.gradient", info->name),
                    td_view_of(learner->gradients[weight]));
    }
}

static void find_place(const describing *d, const td_view *view, td_operation *operation) {
    const td_batch *batch = d->trainer->pass.batch;
    int64_t example = td__made_example(d->trainer, d->made, view, operation->element);
    char place[PLACE_SIZE];
    if (example >= 0) {
        operation->row = batch->rows[example];
        td_dataset_place(d->trainer->feed.data, TD_TRAINING, operation->row, place, sizeof place);
        operation->place = td__arena_text(d->arena, "%s", place);
    }
}

td_operation *td__operation_describe(td__arena *arena, const td_trainer *trainer,
                                     const td__made *made, int64_t element) {
    describing d = {.arena = arena, .trainer = trainer, .tape = trainer->pass.tape, .made = made};
    td_view view = td__made_view(trainer, made);
    td_operation *operation = td__arena_alloc(arena, sizeof *operation);
    d.operands = td__arena_alloc(arena, MAX_OPERANDS * sizeof *d.operands);
    if (!operation || !d.operands) {
        return NULL;
    }
    *operation = (td_operation){.step = trainer->at.step + 1,
                                .layer = "",
                                .kind = "",
                                .place = "",
                                .row = -1,
                                .shape = view.shape,
                                .element = element};
    operation->value = view.data ? td_view_element(&view, element) : (double)NAN;
    if (made->in == TD__MADE_BEFORE) {
        describe_before(&d, operation);
    } else if (made->in == TD__MADE_UPDATE) {
        describe_update(&d, operation);
    } else {
        describe_node(&d, operation);
    }
    find_place(&d, &view, operation);
    /* Names of layers and tensors are the model's, which does not last. */
    operation->layer = td__arena_text(arena, "%s", operation->layer);
    operation->tensor = td__arena_text(arena, "%s", operation->tensor);
    for (size_t i = 0; i < d.operand_count; i++) {
        d.operands[i].name = td__arena_text(arena, "%s", d.operands[i].name);
    }
    operation->operands = d.operands;
    operation->operand_count = d.operand_count;
    return operation;
}
