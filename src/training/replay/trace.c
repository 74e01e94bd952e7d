#include "replay/trace.h"

#include "base/memory.h"
#include "nn/model.h"
#include "tensor/element.h"
#include "tensor/hash.h"
#include "tensor/tensor.h"

#include <string.h>

enum { MAX_ENTRIES = 1 << 24 };

/* ---- Keys ------------------------------------------------------------------------------------ */

static uint64_t key_of(const td__made *made, int64_t layer, const char *name, size_t occurrence) {
    const int64_t parts[] = {(int64_t)made->in, layer, (int64_t)made->input, (int64_t)occurrence};
    return td__xxh64(name, strlen(name), td__xxh64(parts, sizeof parts, 0));
}

static int64_t layer_id(const td__trace *trace, int32_t layer) {
    return layer < 0 ? -1 : trace->layer_ids[layer];
}

/* How many nodes of the same layer with the same operation ran before, since the layer began. */
static size_t count_before(const td_tape *tape, int32_t index) {
    size_t count = 0;
    const td__node *node = &tape->nodes[index];
    for (int32_t i = index; i-- > 0 && tape->nodes[i].label == node->label;) {
        count += tape->nodes[i].op == node->op;
    }
    return count;
}

static uint64_t find_key(const td__trace *trace, const td__made *made) {
    const td_trainer *trainer = trace->player.trainer;
    const td_tape *tape = trainer->pass.tape;
    if (made->in == TD__MADE_UPDATE) {
        const td_parameter_info *info = td_model_parameter_at(trainer->model, made->parameter);
        return key_of(made, layer_id(trace, (int32_t)info->layer), info->parameter, 0);
    }
    const td__node *node = &tape->nodes[made->node];
    int64_t layer = layer_id(trace, td__node_layer(trainer->model, node));
    if (made->in == TD__MADE_BEFORE) {
        const td_tensor *tensor = node->inputs[made->input].tensor;
        ptrdiff_t parameter = td__tensor_parameter(trainer->model, tensor);
        if (parameter >= 0) {
            const td_parameter_info *info =
                td_model_parameter_at(trainer->model, (size_t)parameter);
            return key_of(made, layer_id(trace, (int32_t)info->layer), info->parameter, 0);
        }
        if (!tensor->recording) { /* the batch's */
            return key_of(&(td__made){.in = made->in}, -1, tensor->name, 0);
        }
    }
    return key_of(made, layer, node->op->name, count_before(tape, made->node));
}

/* ---- Taking ---------------------------------------------------------------------------------- */

/* The operation that made what this was made of is not in the other run. */
static bool is_foreign(const td__trace *trace, const td__made *made) {
    const td_trainer *trainer = trace->player.trainer;
    const td_tape *tape = trainer->pass.tape;
    const bool *matched = trace->capture->node_matched;
    bool foreign = false;
    if (made->in == TD__MADE_FORWARD) {
        const td__node *node = &tape->nodes[made->node];
        for (int32_t i = 0; i < node->input_count; i++) {
            int32_t slot = node->inputs[i].slot;
            int32_t producer = slot < 0 ? -1 : tape->slots[slot].producer;
            foreign = foreign || (producer >= 0 && !matched[producer]);
        }
        return foreign;
    }
    if (made->in == TD__MADE_BEFORE) {
        return false;
    }
    /* A gradient is made by whoever reads the tensor. */
    const td_tensor *read = made->in == TD__MADE_BACKWARD
                                ? tape->nodes[made->node].output
                                : td_model_parameter_at(trainer->model, made->parameter)->tensor;
    for (size_t n = 0; n < tape->node_count; n++) {
        const td__node *node = &tape->nodes[n];
        for (int32_t i = 0; i < node->input_count; i++) {
            foreign = foreign || (node->inputs[i].tensor == read && node->needed && !matched[n]);
        }
    }
    return foreign;
}

static size_t bytes_of(const td_view *view) {
    return (size_t)td__elements_from(&view->shape, 0) * td_dtype_size(view->dtype);
}

static void capture(td__trace *trace, const td__made *made, td_view view) {
    td__capture *c = trace->capture;
    const td_trainer *trainer = trace->player.trainer;
    const td_batch *batch = trainer->pass.batch;
    void *copy = td__arena_alloc(trace->arena, bytes_of(&view) + 1);
    size_t rows = (size_t)batch->count * sizeof *c->rows;
    c->rows = td__arena_alloc(trace->arena, rows + 1);
    c->operation = td__operation_describe(trace->arena, trainer, made, 0);
    trace->no_memory = trace->no_memory || !copy || !c->operation || !c->rows;
    if (copy && c->rows) {
        memcpy(c->rows, batch->rows, rows);
        bool examples = td__made_example(trainer, made, &view, 0) >= 0;
        c->each = examples ? td__elements_from(&view.shape, 1) : 0;
        memcpy(copy, view.data, bytes_of(&view));
        c->view = (td_view){.dtype = view.dtype, .shape = view.shape, .data = copy};
        c->foreign = is_foreign(trace, made);
    }
}

static void take_made(td__trace *trace, const td__made *made) {
    td_view view = td__made_view(trace->player.trainer, made);
    size_t number = trace->seen++;
    if (!view.data) {
        trace->seen--;
        return;
    }
    if (trace->capture) {
        if (number == trace->capture->entry) {
            capture(trace, made, view);
        }
        return;
    }
    if (!td__grow(&trace->entries, &trace->capacity, trace->count + 1, MAX_ENTRIES,
                  sizeof *trace->entries)) {
        trace->no_memory = true;
        return;
    }
    trace->entries[trace->count++] =
        (td__trace_entry){.key = find_key(trace, made),
                          .hash = td__xxh64(view.data, bytes_of(&view), 0),
                          .made = *made};
}

static void take_forward(void *user, const td_tape *tape) {
    td__trace *trace = user;
    trace->node_count = tape->node_count;
    for (size_t n = 0; trace->on && n < tape->node_count; n++) {
        const td__node *node = &tape->nodes[n];
        for (int32_t i = 0; i < node->input_count; i++) {
            const td__edge *edge = &node->inputs[i];
            if (td__input_is_leaf(tape, edge) &&
                (edge->slot < 0 || tape->slots[edge->slot].first_user == (int32_t)n)) {
                take_made(trace,
                          &(td__made){.in = TD__MADE_BEFORE, .node = (int32_t)n, .input = i});
            }
        }
        take_made(trace, &(td__made){.in = TD__MADE_FORWARD, .node = (int32_t)n});
    }
}

static void take_backward(void *user, const td_tape *tape, int32_t index) {
    td__trace *trace = user;
    const td__node *node = &tape->nodes[index];
    for (int32_t i = 0; trace->on && i < node->input_count; i++) {
        if (node->inputs[i].slot >= 0) {
            take_made(trace, &(td__made){.in = TD__MADE_BACKWARD, .node = index, .input = i});
        }
    }
}

static void take_update(void *user, td_trainer *trainer, bool updated) {
    td__trace *trace = user;
    for (size_t i = 0; trace->on && updated && i < trainer->parameter_count; i++) {
        take_made(trace, &(td__made){.in = TD__MADE_UPDATE, .parameter = i});
    }
    trace->seen = 0; /* and not before a forward pass: each shard of a batch has one */
    if (!trace->on || trace->capture) {
        return;
    }
    if (!td__grow(&trace->ends, &trace->step_capacity, trace->step_count + 1, MAX_ENTRIES,
                  sizeof *trace->ends)) {
        trace->no_memory = true;
        return;
    }
    trace->ends[trace->step_count++] = trace->count;
}

void td__trace_connect(td__trace *trace) {
    trace->watch =
        (td__tape_watch){.forward = take_forward, .backward = take_backward, .user = trace};
    trace->player.watch = &trace->watch;
    trace->player.stepped = take_update;
    trace->player.user = trace;
}

void td__trace_clear(td__trace *trace) {
    trace->count = trace->step_count = trace->seen = 0;
}

void td__trace_release(td__trace *trace) {
    td__player_close(&trace->player);
    td__free(trace->layer_ids);
    td__free(trace->entries);
    td__free(trace->ends);
    *trace = (td__trace){0};
}

const td__trace_entry *td__trace_step(const td__trace *trace, size_t step, size_t *count) {
    size_t begin = step ? trace->ends[step - 1] : 0;
    *count = trace->ends[step] - begin;
    return trace->entries + begin;
}
