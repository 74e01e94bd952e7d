/* The order that Keras gives a model's layers, and the names of groups that follow from it.
 *
 * Keras names the groups of weights by counting classes in the order of model.layers, which it works
 * out anew when it loads a Functional model: by decreasing depth (the longest way to an output), and
 * where that is equal in the order of a depth-first walk from the outputs to the input. Outputs here
 * are the model's outputs and, so that it keeps them, layers that nothing reads. A layer used again is
 * as deep as its deepest use, and was reached when the first of them was.
 */
#include "base/memory.h"
#include "base/reasons.h"
#include "keras/write.h"

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

static bool is_stack(const td_model *model) {
    for (size_t i = 0; i < td_model_layer_count(model); i++) {
        const td_layer_info *layer = td_model_layer(model, i);
        if (layer->input_count != 1 || layer->inputs[0] != (int32_t)i - 1 || layer->shares >= 0 ||
            layer->kind == TD_LAYER_INPUT || layer->kind == TD_LAYER_MULTI_HEAD_ATTENTION) {
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
    size_t next;                /* the input the walk takes next */
} standing;

/* The walk from one output; stack has room for all layers. */
static void walk(const td_model *model, standing *all, size_t *stack, size_t output,
                 size_t *visits) {
    size_t depth = 0;
    if (!all[output].visit) {
        all[output].visit = ++*visits;
        stack[depth++] = output;
    }
    while (depth > 0) {
        standing *at = &all[stack[depth - 1]];
        const td_layer_info *layer = td_model_layer(model, at->layer);
        if (at->next == layer->input_count) {
            depth--;
            continue;
        }
        int32_t from = layer->inputs[at->next++];
        if (from >= 0 && !all[from].visit) {
            all[from].visit = ++*visits;
            stack[depth++] = (size_t)from;
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

/* Depths, and when each was reached. */
static void order_graph(const td_model *model, standing *all, size_t *stack) {
    size_t count = td_model_layer_count(model), visits = 0;
    for (size_t i = count; i-- > 0;) { /* layers only read layers before them */
        const td_layer_info *layer = td_model_layer(model, i);
        standing *original = &all[td__keras_original(model, i)];
        all[i].depth = all[i].depth > original->deepest ? all[i].depth : original->deepest;
        original->deepest = all[i].depth;
        for (size_t k = 0; k < layer->input_count; k++) {
            if (layer->inputs[k] >= 0) {
                standing *from = &all[layer->inputs[k]];
                from->read = true;
                from->depth = from->depth > all[i].depth + 1 ? from->depth : all[i].depth + 1;
            }
        }
    }
    for (size_t i = 0; i < td_model_output_count(model); i++) {
        walk(model, all, stack, td_model_output_layer(model, i), &visits);
    }
    for (size_t i = 0; i < count; i++) {
        if (!all[i].read) {
            walk(model, all, stack, i, &visits);
        }
    }
}

/* Inputs are no layers of the list, and a layer used again is there once; returns how many are left. */
static size_t merge_uses(const td_model *model, standing *all) {
    size_t count = td_model_layer_count(model), kept = 0;
    for (size_t i = 0; i < count; i++) {
        standing *original = &all[td__keras_original(model, i)];
        original->visit = original->visit < all[i].visit ? original->visit : all[i].visit;
    }
    for (size_t i = 0; i < count; i++) {
        if (td__keras_original(model, i) == i && td_model_layer(model, i)->kind != TD_LAYER_INPUT) {
            all[i].depth = all[i].deepest;
            all[kept++] = all[i];
        }
    }
    return kept;
}

static td_status order_layers(td__keras_plan *plan, const char *path, td_error *error) {
    size_t count = td_model_layer_count(plan->model);
    plan->layers = td__calloc(count + 1, sizeof *plan->layers);
    standing *all = td__calloc(count + 1, sizeof *all);
    size_t *stack = td__calloc(count + 1, sizeof *stack);
    td_status status = TD_OK;
    if (!plan->layers || !all || !stack) {
        status = td_error_set(error, TD_MEMORY, "%s: out of memory", path);
    } else {
        for (size_t i = 0; i < count; i++) {
            all[i].layer = i;
        }
        if (!plan->sequential) {
            order_graph(plan->model, all, stack);
            count = merge_uses(plan->model, all);
            qsort(all, count, sizeof *all, by_depth);
        }
        for (size_t i = 0; i < count; i++) {
            plan->layers[i].layer = all[i].layer;
        }
        plan->count = count;
    }
    td__free(stack);
    td__free(all);
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
