/* The backward walk.
 *
 * First the needed nodes are marked, forwards: those with an input that is a target or leads to
 * one. Then nodes are visited last to first; when one is reached, every user of its output has been
 * passed, so the output's gradient is complete. Memory of gradients that nobody asked for is used
 * again at once, which keeps the walk's working set small.
 */
#include "tape/kernels.h"
#include "tape/tape.h"

#include <string.h>

static void mark_target(td__slot *slot, size_t number, bool kept) {
    slot->is_target_twice = slot->is_target;
    slot->target = slot->is_target ? slot->target : number;
    slot->awaits_notice = !kept && (slot->awaits_notice || !slot->is_target);
    slot->needed = slot->is_target = true;
}

static td_status mark_targets(td_tape *tape, size_t kept, size_t count, td_tensor *const targets[],
                              td_error *error) {
    for (size_t i = 0; i < tape->slot_count; i++) {
        td__slot *slot = &tape->slots[i];
        slot->needed = slot->is_target = slot->is_target_twice = slot->awaits_notice = false;
        slot->gradient = NULL;
        slot->result = NULL;
    }
    char shape[TD_SHAPE_TEXT_SIZE];
    for (size_t i = 0; i < count; i++) {
        if (!targets[i]) {
            return td_error_set(error, TD_INVALID, "gradient: target %zu is NULL", i);
        }
        int32_t slot = td__slot_of(tape, targets[i]);
        if (targets[i]->dtype != TD_FLOAT32) {
            return td_error_set(error, TD_DTYPE,
                                "gradient: target %zu, '%s', is %s; only float32 has a gradient", i,
                                targets[i]->name, td_dtype_name(targets[i]->dtype));
        }
        if (slot < 0) {
            return td_error_set(
                error, TD_NOT_FOUND,
                "gradient: the tape never saw target %zu, '%s' of shape %s; give it "
                "to an operation on this tape first",
                i, targets[i]->name, td_shape_text(&targets[i]->shape, shape));
        }
        mark_target(&tape->slots[slot], i, i < kept);
    }
    return TD_OK;
}

static void mark_needed(td_tape *tape) {
    for (size_t i = 0; i < tape->node_count; i++) {
        td__node *node = &tape->nodes[i];
        node->needed = false;
        for (int32_t k = 0; k < node->input_count && node->op->backward; k++) {
            int32_t slot = node->inputs[k].slot;
            node->needed = node->needed || (slot >= 0 && tape->slots[slot].needed);
        }
        td__slot *output = &tape->slots[node->output->slot];
        output->needed = output->needed || node->needed;
    }
}

typedef struct backward_walk {
    td_tape *tape;
    size_t count;
    td_tensor *const *targets;
    td_gradient_ready *ready;
    void *user;
} backward_walk;

/* Makes the tensor that the caller gets for a target's slot, and reports it. */
static td_status finish_target(const backward_walk *walk, td__slot *slot) {
    td_tape *tape = walk->tape;
    bool disconnected = !slot->gradient;
    if (disconnected) {
        size_t bytes = (size_t)slot->tensor->count * sizeof(float);
        slot->gradient = td__buffer_take(tape, bytes);
        if (!slot->gradient) {
            return TD_MEMORY;
        }
        memset(slot->gradient->data, 0, bytes);
    }
    slot->result = td__output_over(tape, TD_FLOAT32, &slot->tensor->shape, slot->gradient->data);
    if (!slot->result) {
        return TD_MEMORY;
    }
    slot->result->gradient = true;
    slot->result->disconnected = disconnected;
    slot->result->memory = slot->gradient;
    slot->result->name = slot->tensor->name;
    slot->result->gradient_name = slot->tensor->gradient_name;
    const td_tensor *target = slot->tensor;
    td_tensor *result = slot->result;
    size_t end = !walk->ready ? 0 : slot->is_target_twice ? walk->count : slot->target + 1;
    for (size_t i = slot->target; i < end; i++) {
        if (walk->targets[i] == target) {
            walk->ready(walk->user, i, result);
        }
    }
    /* Acquired: what the last holder of a view read stays before what is written next. */
    if (slot->awaits_notice &&
        atomic_load_explicit(&slot->gradient->views, memory_order_acquire) == 0) {
        slot->is_target = false;
    }
    return TD_OK;
}

/* Memory of a gradient that nobody asks for any more. */
static void release_slot(td_tape *tape, td__slot *slot) {
    if (!slot->is_target) {
        td__buffer_drop(tape, slot->gradient);
        slot->gradient = NULL;
    }
}

/* Leaves whose first user is this node are complete once the walk has passed it. */
static td_status finish_leaves(const backward_walk *walk, const td__node *node, int32_t index) {
    for (int32_t k = 0; k < node->input_count; k++) {
        int32_t number = node->inputs[k].slot;
        td__slot *slot = number >= 0 ? &walk->tape->slots[number] : NULL;
        if (!slot || !slot->is_target || slot->producer >= 0 || slot->first_user != index ||
            slot->result || !slot->gradient) {
            continue;
        }
        if (finish_target(walk, slot)) {
            return TD_MEMORY;
        }
        release_slot(walk->tape, slot);
    }
    return TD_OK;
}

static td_status visit(const backward_walk *walk, int32_t index) {
    td_tape *tape = walk->tape;
    td__node *node = &tape->nodes[index];
    td__slot *output = &tape->slots[node->output->slot];
    if (output->gradient) {
        if (output->is_target && finish_target(walk, output)) {
            return TD_MEMORY;
        }
        td_status status = node->needed ? node->op->backward(tape, node) : TD_OK;
        if (status) {
            return status;
        }
        if (tape->watch && node->needed) {
            tape->watch->backward(tape->watch->user, tape, index);
        }
        release_slot(tape, &tape->slots[node->output->slot]);
    }
    return finish_leaves(walk, node, index);
}

static td_status walk_back(const backward_walk *walk, td__slot *from) {
    td_tape *tape = walk->tape;
    if (from->needed) {
        from->gradient = td__buffer_take(tape, (size_t)from->tensor->count * sizeof(float));
        if (!from->gradient) {
            return TD_MEMORY;
        }
        for (int64_t i = 0; i < from->tensor->count; i++) {
            from->gradient->data[i] = 1.0f;
        }
        for (int32_t i = from->producer; i >= 0; i--) {
            td_status status = visit(walk, i);
            if (status) {
                return status;
            }
        }
    }
    for (size_t i = 0; i < walk->count; i++) {
        td__slot *slot = &tape->slots[td__slot_of(tape, walk->targets[i])];
        if (!slot->result && finish_target(walk, slot)) {
            return TD_MEMORY;
        }
    }
    return TD_OK;
}

td_status td_tape_gradient_keep(td_tape *tape, td_tensor *source, size_t kept, size_t count,
                                td_tensor *const targets[], td_tensor *gradients[],
                                td_gradient_ready *ready, void *user, td_error *error) {
    if (td_tape_status(tape, error)) {
        return tape->error.status;
    }
    int32_t from = source ? td__slot_of(tape, source) : -1;
    if (from < 0) {
        return td_error_set(error, TD_NOT_FOUND,
                            "gradient: the tape never saw '%s', the tensor to "
                            "differentiate",
                            source ? source->name : "NULL");
    }
    td_status status = mark_targets(tape, kept, count, targets, error);
    if (status) {
        return status;
    }
    mark_needed(tape);
    if (tape->watch) {
        tape->watch->forward(tape->watch->user, tape);
    }
    backward_walk walk = {
        .tape = tape, .count = count, .targets = targets, .ready = ready, .user = user};
    status = walk_back(&walk, &tape->slots[from]);
    if (status && status != TD_MEMORY) {
        return td_tape_status(tape, error);
    }
    if (status) {
        return td_error_set(error, TD_MEMORY,
                            "no memory left for the gradients of this step; try a smaller batch");
    }
    for (size_t i = 0; i < kept && i < count; i++) {
        gradients[i] = tape->slots[td__slot_of(tape, targets[i])].result;
    }
    return TD_OK;
}

td_status td_tape_gradient_notify(td_tape *tape, td_tensor *source, size_t count,
                                  td_tensor *const targets[], td_tensor *gradients[],
                                  td_gradient_ready *ready, void *user, td_error *error) {
    return td_tape_gradient_keep(tape, source, count, count, targets, gradients, ready, user,
                                 error);
}

td_status td_tape_gradient(td_tape *tape, td_tensor *source, size_t count,
                           td_tensor *const targets[], td_tensor *gradients[], td_error *error) {
    return td_tape_gradient_notify(tape, source, count, targets, gradients, NULL, NULL, error);
}

bool td_tensor_is_disconnected(const td_tensor *gradient) {
    return gradient->disconnected;
}

/* --- for operations ------------------------------------------------------------------------ */

static td__slot *input(td_tape *tape, const td__node *node, int32_t i) {
    return &tape->slots[node->inputs[i].slot];
}

bool td__wants(const td_tape *tape, const td__node *node, int32_t i) {
    int32_t slot = node->inputs[i].slot;
    return slot >= 0 && tape->slots[slot].needed;
}

const float *td__output_gradient(const td_tape *tape, const td__node *node) {
    return tape->slots[node->output->slot].gradient->data;
}

const float *td__gradient_of(const td_tape *tape, const td__node *node, int32_t i) {
    const td__buffer *gradient =
        td__wants(tape, node, i) ? tape->slots[node->inputs[i].slot].gradient : NULL;
    return gradient ? gradient->data : NULL;
}

float *td__gradient(td_tape *tape, td__node *node, int32_t i, bool *add) {
    td__slot *slot = input(tape, node, i);
    *add = slot->gradient != NULL;
    if (slot->gradient && slot->gradient->references == 1) {
        return slot->gradient->data;
    }
    td__buffer *own = td__buffer_take(tape, (size_t)slot->tensor->count * sizeof(float));
    if (!own) {
        return NULL;
    }
    if (slot->gradient) {
        memcpy(own->data, slot->gradient->data, own->bytes);
        td__buffer_drop(tape, slot->gradient);
    }
    slot->gradient = own;
    return own->data;
}

float *td__gradient_to_add(td_tape *tape, td__node *node, int32_t i) {
    bool add;
    float *to = td__gradient(tape, node, i, &add);
    if (to && !add) {
        memset(to, 0, (size_t)input(tape, node, i)->tensor->count * sizeof *to);
    }
    return to;
}

float *td__gradient_in_place(td_tape *tape, td__node *node, int32_t i, bool *add) {
    td__slot *slot = input(tape, node, i);
    td__slot *output = &tape->slots[node->output->slot];
    if (!slot->gradient && !output->is_target && output->gradient->references == 1 &&
        slot->tensor->count == output->tensor->count) {
        *add = false;
        slot->gradient = output->gradient;
        slot->gradient->references++;
        return slot->gradient->data;
    }
    return td__gradient(tape, node, i, add);
}

float *td__gradient_begin(td_tape *tape, td__node *node, int32_t i) {
    td__slot *slot = input(tape, node, i);
    slot->pending = td__buffer_take(tape, (size_t)slot->tensor->count * sizeof(float));
    return slot->pending ? slot->pending->data : NULL;
}

void td__gradient_end(td_tape *tape, td__node *node, int32_t i) {
    td__slot *slot = input(tape, node, i);
    td__buffer *added = slot->pending;
    slot->pending = NULL;
    if (!slot->gradient) {
        slot->gradient = added;
        return;
    }
    /* The sum goes to the new memory: the old one may be shared. */
    td__kernels()->add(slot->tensor->count, slot->gradient->data, added->data, added->data);
    td__buffer_drop(tape, slot->gradient);
    slot->gradient = added;
}

td_status td__gradient_pass(td_tape *tape, td__node *node, int32_t i) {
    td__slot *slot = input(tape, node, i);
    td__buffer *passed = tape->slots[node->output->slot].gradient;
    if (!slot->gradient) {
        slot->gradient = passed;
        passed->references++;
        return TD_OK;
    }
    bool add;
    float *gradient = td__gradient(tape, node, i, &add);
    if (!gradient) {
        return TD_MEMORY;
    }
    td__kernels()->add(slot->tensor->count, gradient, passed->data, gradient);
    return TD_OK;
}
