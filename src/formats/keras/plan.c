/* The order that Keras gives a model's layers, and the names of groups that follow from it.
 *
 * Keras names the groups of weights by counting classes in the order of model.layers, which it works
 * out anew when it loads a Functional model: by decreasing depth (the longest way to an output), and
 * where that is equal in the order of a depth-first walk from the outputs to the input. Outputs here
 * are the model's outputs and, so that it keeps them, layers that nothing reads. A layer used again is
 * as deep as its deepest use, and was reached when the first of them was. Where sequences have masks, the
 * operations that Keras makes them with are part of its graph, and make layers deeper.
 */
#include "base/memory.h"
#include "base/reasons.h"
#include "keras/write.h"
#include "nn/layer.h"
#include "nn/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t td__keras_original(const td_model *model, size_t layer) {
    int32_t shares = td_model_layer(model, layer)->shares;
    return shares >= 0 ? (size_t)shares : layer;
}

size_t td__keras_use(const td_model *model, size_t layer) {
    size_t original = td__keras_original(model, layer), use = 0;
    for (size_t i = original; i < layer; i++) {
        use += td__keras_original(model, i) == original;
    }
    return use;
}

static bool is_input(const td_layer_info *layer) {
    return td__layer_kind_of(layer->kind)->role == TD__ROLE_INPUT;
}

/* Called with query, value and key. */
static bool is_attention(const td_layer_info *layer) {
    return td__layer_kind_of(layer->kind)->keras.storage == TD__KERAS_ATTENTION;
}

static bool is_stack(const td_model *model) {
    for (size_t i = 0; i < td_model_layer_count(model); i++) {
        const td_layer_info *layer = td_model_layer(model, i);
        if (layer->input_count != 1 || layer->inputs[0] != (int32_t)i - 1 || layer->shares >= 0 ||
            is_input(layer) || is_attention(layer)) {
            return false;
        }
    }
    return td_model_output_count(model) == 1 &&
           td_model_output_layer(model, 0) + 1 == td_model_layer_count(model);
}

/* --- order -------------------------------------------------------------------------------- */

typedef struct standing {
    size_t layer, depth, visit; /* visit: when the walk reached it, from 1; 0: not yet */
    size_t deepest;             /* of the uses of this layer that were looked at */
    bool read;                  /* by another layer */
    bool operation;             /* not a layer: one of those that Keras makes a mask with */
    size_t next;                /* the input the walk takes next */
    int32_t inputs[TD_MAX_FROM + 1];
    size_t input_count;
} standing;

/* All layers, each followed by the operations that make its mask; in the order of what reads what. */
typedef struct nodes {
    standing *items;
    size_t count;
    int32_t *of_layer; /* where each layer is */
    int32_t *masks;    /* where the mask of each layer's output is; -1: it has none */
} nodes;

static int32_t add_node(nodes *n, bool operation, size_t count, const int32_t *inputs) {
    standing *added = &n->items[n->count];
    *added = (standing){.operation = operation};
    for (size_t i = 0; i < count; i++) {
        if (inputs[i] >= 0) {
            added->inputs[added->input_count++] = inputs[i];
        }
    }
    return (int32_t)n->count++;
}

static int32_t add_operation(nodes *n, int32_t a, int32_t b) {
    return add_node(n, true, 2, (const int32_t[]){a, b});
}

/* Keras's: any(concatenate(ones_like(x) or expand_dims(mask) | zeros_like(x))). */
static int32_t add_joined_mask(nodes *n, size_t count, const int32_t *inputs,
                               const int32_t *masks) {
    int32_t wide[TD_MAX_FROM];
    for (size_t k = 0; k < count; k++) {
        int32_t like = add_operation(n, inputs[k], -1);
        wide[k] = masks[k] < 0 ? like : add_operation(n, add_operation(n, masks[k], -1), like);
    }
    return add_operation(n, add_node(n, true, count, wide), -1);
}

/* The mask of a layer's output: where it is among the nodes. inputs, masks: of its inputs. */
static int32_t add_mask(nodes *n, const td__layer *layer, const int32_t *inputs,
                        const int32_t *masks) {
    size_t count = layer->info.input_count;
    int32_t mask = masks[0];
    switch (layer->kind->mask_from) {
    case TD__MASK_OF_INDICES:
        return add_operation(n, inputs[0], -1);
    case TD__MASK_OF_STEPS:
        return add_operation(n, add_operation(n, inputs[0], -1), -1);
    case TD__MASK_JOINED:
        return add_joined_mask(n, count, inputs, masks);
    case TD__MASK_OF_QUERY:
        return add_operation(n, mask, -1);
    case TD__MASK_OF_ALL:
        for (size_t k = 1; k < count; k++) {
            mask = add_operation(n, mask, masks[k]);
        }
        break;
    case TD__MASK_OF_FIRST:
        break;
    }
    return mask;
}

/* Layers whose call Keras gives the mask of what they read. */
static bool is_given_mask(const td__layer *layer) {
    return layer->kind->keras.storage == TD__KERAS_WRAPPED ||
           (layer->kind->reads_mask && layer->info.input_count == 1 && !is_attention(&layer->info));
}

static void plan_layer(nodes *n, const td_model *model, size_t index) {
    const td__layer *layer = model->layers[index];
    int32_t inputs[TD_MAX_FROM + 1], masks[TD_MAX_FROM];
    size_t count = layer->info.input_count;
    for (size_t k = 0; k < count; k++) {
        int32_t from = layer->inputs[k];
        inputs[k] = from < 0 ? -1 : n->of_layer[from];
        masks[k] = from < 0 ? -1 : n->masks[from];
    }
    inputs[count] = count && is_given_mask(layer) ? masks[0] : -1;
    n->of_layer[index] = add_node(n, false, count + 1, inputs);
    n->items[n->of_layer[index]].layer = index;
    n->masks[index] = layer->masked ? add_mask(n, layer, inputs, masks) : -1;
}

/* The walk from one output; stack has room for all nodes. */
static void walk(standing *all, size_t *stack, size_t output, size_t *visits) {
    size_t depth = 0;
    if (!all[output].visit) {
        all[output].visit = ++*visits;
        stack[depth++] = output;
    }
    while (depth > 0) {
        standing *at = &all[stack[depth - 1]];
        if (at->next == at->input_count) {
            depth--;
            continue;
        }
        size_t from = (size_t)at->inputs[at->next++];
        if (!all[from].visit) {
            all[from].visit = ++*visits;
            stack[depth++] = from;
        }
    }
}

static int by_depth(const void *left, const void *right) {
    const standing *a = left, *b = right;
    if (a->depth != b->depth) {
        return a->depth > b->depth ? -1 : 1;
    }
    return (a->visit > b->visit) - (a->visit < b->visit);
}

static standing *original_of(const td_model *model, const nodes *n, const standing *node) {
    return &n->items[n->of_layer[td__keras_original(model, node->layer)]];
}

/* Depths, and when each was reached. An operation that no layer reads is not in Keras's graph. */
static void order_graph(const td_model *model, nodes *n, size_t *stack) {
    standing *all = n->items;
    size_t visits = 0;
    for (size_t i = n->count; i-- > 0;) { /* nodes only read nodes before them */
        if (all[i].operation && !all[i].read) {
            continue;
        }
        if (!all[i].operation) {
            standing *original = original_of(model, n, &all[i]);
            all[i].depth = all[i].depth > original->deepest ? all[i].depth : original->deepest;
            original->deepest = all[i].depth;
        }
        for (size_t k = 0; k < all[i].input_count; k++) {
            standing *from = &all[all[i].inputs[k]];
            from->read = true;
            from->depth = from->depth > all[i].depth + 1 ? from->depth : all[i].depth + 1;
        }
    }
    for (size_t i = 0; i < td_model_output_count(model); i++) {
        walk(all, stack, (size_t)n->of_layer[td_model_output_layer(model, i)], &visits);
    }
    for (size_t i = 0; i < n->count; i++) {
        if (!all[i].read && !all[i].operation) {
            walk(all, stack, i, &visits);
        }
    }
}

/* Operations and inputs are no layers of the list, and a layer used again is there once; returns how
 * many are left. */
static size_t merge_uses(const td_model *model, nodes *n) {
    standing *all = n->items;
    size_t kept = 0;
    for (size_t i = 0; i < n->count; i++) {
        if (!all[i].operation) {
            standing *original = original_of(model, n, &all[i]);
            original->visit = original->visit < all[i].visit ? original->visit : all[i].visit;
        }
    }
    for (size_t i = 0; i < n->count; i++) {
        if (!all[i].operation && td__keras_original(model, all[i].layer) == all[i].layer &&
            !is_input(td_model_layer(model, all[i].layer))) {
            all[i].depth = all[i].deepest;
            all[kept++] = all[i];
        }
    }
    return kept;
}

static td_status order_layers(td__keras_plan *plan, const char *path, td_error *error) {
    size_t count = td_model_layer_count(plan->model);
    size_t max = 0; /* of each layer itself and its mask's operations */
    for (size_t i = 0; i < count; i++) {
        max += 4 + 3 * td_model_layer(plan->model, i)->input_count;
    }
    nodes n = {.items = td__calloc(max + 1, sizeof *n.items),
               .of_layer = td__calloc(count + 1, sizeof *n.of_layer),
               .masks = td__calloc(count + 1, sizeof *n.masks)};
    size_t *stack = td__calloc(max + 1, sizeof *stack);
    plan->layers = td__calloc(count + 1, sizeof *plan->layers);
    td_status status = TD_OK;
    if (!plan->layers || !n.items || !n.of_layer || !n.masks || !stack) {
        status = td_error_set(error, TD_MEMORY, "%s: out of memory", path);
    } else if (plan->sequential) {
        for (size_t i = 0; i < count; i++) {
            plan->layers[i].layer = i;
        }
        plan->count = count;
    } else {
        for (size_t i = 0; i < count; i++) {
            plan_layer(&n, plan->model, i);
        }
        order_graph(plan->model, &n, stack);
        plan->count = merge_uses(plan->model, &n);
        qsort(n.items, plan->count, sizeof *n.items, by_depth);
        for (size_t i = 0; i < plan->count; i++) {
            plan->layers[i].layer = n.items[i].layer;
        }
    }
    td__free(stack);
    td__free(n.items);
    td__free(n.of_layer);
    td__free(n.masks);
    return status;
}

/* --- names -------------------------------------------------------------------------------- */

static void name_group(td__keras_plan *plan, size_t index) {
    td__keras_plan_layer *layer = &plan->layers[index];
    char snake[TD__KERAS_SNAKE_SIZE], number[24] = "";
    td__keras_snake(layer->class_name, snake);
    size_t before = 0;
    for (size_t i = 0; i < index; i++) {
        before += !strcmp(plan->layers[i].class_name, layer->class_name);
    }
    if (before) {
        (void)snprintf(number, sizeof number, "_%zu", before);
    }
    (void)snprintf(layer->group, sizeof layer->group, "layers/%s%s", snake, number);
}

/* "input_layer", or the first such name that no layer has. */
static void name_input(td__keras_plan *plan) {
    char *name = plan->input_name;
    (void)snprintf(name, sizeof plan->input_name, "input_layer");
    for (size_t i = 1; td_model_find(plan->model, name) >= 0; i++) {
        (void)snprintf(name, sizeof plan->input_name, "input_layer_%zu", i);
    }
}

td_status td__keras_plan_make(td__keras_plan *plan, const td_model *model, const char *path,
                              td_error *error) {
    *plan = (td__keras_plan){.model = model, .sequential = is_stack(model)};
    td_status status = order_layers(plan, path, error);
    td__reasons problems = {0};
    for (size_t i = 0; i < plan->count && !status; i++) {
        td__keras_plan_layer *layer = &plan->layers[i];
        const td_layer_info *info = td_model_layer(model, layer->layer);
        char reason[TD__KERAS_REASON_SIZE];
        layer->config = td__keras_layer_write(info, &layer->class_name, &layer->storage, reason);
        if (!layer->config) {
            layer->class_name = "";
            td__reasons_add(&problems, TD_UNSUPPORTED, "%s layer '%s': %s",
                            td_layer_kind_name(info->kind), info->name, reason);
        }
        if (strchr(info->name, '/')) {
            td__reasons_add(&problems, TD_UNSUPPORTED, "Keras allows no '/' in the name '%s'",
                            info->name);
        }
        name_group(plan, i);
    }
    name_input(plan);
    status = status ? status : td__reasons_report(&problems, path, error);
    if (status) {
        td__keras_plan_release(plan);
    }
    return status;
}

void td__keras_plan_release(td__keras_plan *plan) {
    for (size_t i = 0; i < plan->count; i++) {
        json_decref(plan->layers[i].config);
    }
    td__free(plan->layers);
    *plan = (td__keras_plan){0};
}
