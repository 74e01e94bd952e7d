/* A saved model forward and back over one batch: what its layers' errors and its parameters'
 * gradients are. */
#include "apply/saved.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/words.h"
#include "deck/glob.h"
#include "pass/pass.h"
#include "tape/tape.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

enum { BATCH = 32, NAME_SIZE = 600 };

struct td_gradients {
    td__saved saved;
    td__objective objective;
    td__pass pass; /* stays open: the tensors are its tape's */
    td_batch batch;
    td_gradient *items;
    char (*names)[NAME_SIZE];
    td_tensor **targets, **gradients; /* of items */
    td_gradients_info info;
    char why[TD__WHY_SIZE];
};

/* ---- What is asked for ----------------------------------------------------------------------- */

static void add_item(td_gradients *g, const char *layer, const char *name, const char *ending,
                     td_tensor *source) {
    size_t at = g->info.count++;
    (void)snprintf(g->names[at], NAME_SIZE, "%s%s", name, ending);
    g->items[at] = (td_gradient){.name = g->names[at], .layer = layer};
    g->targets[at] = source;
}

static void add_layer_gradient(td_gradients *g, size_t which) {
    const td_layer_info *layer = td_model_layer(g->saved.model, which);
    td_tensor *output = td_model_output_at(g->saved.model, which);
    if (td_tensor_dtype(output) == TD_FLOAT32) {
        add_item(g, layer->name, layer->name, ".error", output);
    }
    for (size_t i = 0; i < layer->parameter_count; i++) {
        const td_parameter_info *parameter =
            td_model_parameter_at(g->saved.model, layer->first_parameter + i);
        if (!parameter->moving_average) {
            add_item(g, layer->name, parameter->name, ".gradient", parameter->tensor);
        }
    }
}

static td_status no_such_layer(const td_gradients *g, const char *pattern, td_error *error) {
    size_t count = td_model_layer_count(g->saved.model);
    const char **names = td__calloc(count + 1, sizeof *names);
    for (size_t i = 0; names && i < count; i++) {
        names[i] = td_model_layer(g->saved.model, i)->name;
    }
    char hint[TD__HINT_ROOM];
    td_error_set(error, TD_NOT_FOUND, "no layer '%s'%s", pattern,
                 td__word_meant(hint, pattern, names, count));
    td__free(names);
    return TD_NOT_FOUND;
}

/* After the forward pass: the layers' outputs exist. */
static td_status choose_items(td_gradients *g, const char *layers, td_error *error) {
    td_model *model = g->saved.model;
    size_t count, layer_count = td_model_layer_count(model);
    size_t room = layer_count + td_model_parameter_count(model) + 2;
    char **patterns = td__glob_split(layers ? layers : "*", &count);
    bool *wanted = td__calloc(layer_count + 1, sizeof *wanted);
    g->items = td__calloc(room, sizeof *g->items);
    g->names = td__calloc(room, sizeof *g->names);
    g->targets = td__calloc(room, sizeof(td_tensor *));
    g->gradients = td__calloc(room, sizeof(td_tensor *));
    bool good = patterns && wanted && g->items && g->names && g->targets && g->gradients;
    td_status status = good ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
    for (size_t k = 0; !status && k < count; k++) {
        bool found = layers && !strcmp(patterns[k], "input") && g->info.count == 0;
        if (found && td_model_input_dtype(model) != TD_FLOAT32) {
            status = td_error_set(error, TD_INVALID,
                                  "the model's input is whole numbers, which have no gradient; the "
                                  "first layer's error is that of what it makes of them");
        } else if (found) {
            add_item(g, "input", "input", ".error", g->pass.input);
        }
        for (size_t i = 0; i < layer_count; i++) {
            if (td__glob_match(patterns[k], td_model_layer(model, i)->name)) {
                wanted[i] = found = true;
            }
        }
        if (!found) {
            status = no_such_layer(g, patterns[k], error);
        }
    }
    for (size_t i = 0; !status && i < layer_count; i++) {
        if (wanted[i]) {
            add_layer_gradient(g, i);
        }
    }
    td__free(wanted);
    td__free(patterns);
    return status;
}

/* ---- Running --------------------------------------------------------------------------------- */

static td_status back(td_gradients *g, td_error *error) {
    td_status status = td__pass_backward(&g->pass, g->info.count, g->info.count, g->targets,
                                         g->gradients, NULL, error);
    for (size_t i = 0; !status && i < g->info.count; i++) {
        td_gradient *item = &g->items[i];
        td_tape_name(g->pass.tape, g->gradients[i], item->name);
        g->gradients[i]->gradient = false; /* its name says all of it */
        td_view view = td_view_of(g->gradients[i]);
        item->tensor = g->gradients[i];
        item->disconnected = td_tensor_is_disconnected(g->gradients[i]);
        status = td_stats_of(&view, &item->stats, error);
    }
    return status;
}

static td_status gradients_of_batches(td_gradients *g, const td_gradients_options *options,
                                      td_error *error) {
    if (!td_batches_next(g->saved.batches, &g->batch)) {
        return td_error_set(error, TD_INVALID, "the data has no examples");
    }
    td_tape_set_training(g->pass.tape, options->training);
    td_status status = td__pass_forward(&g->pass, &g->batch, error);
    if (!status) {
        status = choose_items(g, options->layers, error);
    }
    if (!status) {
        bool several = g->pass.head_count > 0;
        g->info.loss =
            several ? "weighted sum of the outputs' losses" : td_loss_name(g->objective.loss);
        g->info.remarks = td_dataset_info(g->saved.data)->remarks;
        g->info.from_logits = !several && g->objective.options.from_logits;
        g->info.why = g->why;
        g->info.value = (double)td_tensor_scalar(g->pass.loss);
        g->info.examples = g->batch.count;
        status = back(g, error);
    }
    return status;
}

static td_status prepare_gradients(td_gradients *g, const char *model, const char *data,
                                   const td_gradients_options *options, td_error *error) {
    td__saved_options opening = TD__SAVED_OPTIONS(options, BATCH, .scaled_labels = true);
    td_status status = td__saved_load(&g->saved, model, error);
    status = status ? status : td__saved_open(&g->saved, data, &opening, error);
    bool several = false;
    status = status ? status
                    : td__saved_choose_loss(&g->saved, data ? data : model, options->loss,
                                            &g->objective, &several, g->why, error);
    status = status ? status : td__pass_init(&g->pass, g->saved.model, &g->objective, NULL, error);
    if (status) {
        return status;
    }
    g->pass.heads = g->saved.heads;
    g->pass.head_count = several ? g->saved.head_count : 0;
    td__tape_limit(g->pass.tape, options->memory > 0 ? (size_t)options->memory : td__memory_half());
    return gradients_of_batches(g, options, error);
}

/* ---- The object ------------------------------------------------------------------------------ */

td_gradients *td_gradients_create(const char *model, const char *data,
                                  const td_gradients_options *options, td_error *error) {
    td_gradients_options all;
    td_error reason = {0};
    (void)td__options(&all, sizeof all, options);
    td_gradients *g = td__calloc(1, sizeof *g);
    td_status status = g ? prepare_gradients(g, model, data, &all, &reason)
                         : td_error_set(&reason, TD_MEMORY, "out of memory");
    if (status) {
        td_error_set(error, status, "%s", reason.text);
        td_gradients_destroy(g);
        return NULL;
    }
    return g;
}

void td_gradients_destroy(td_gradients *g) {
    if (!g) {
        return;
    }
    td__pass_release(&g->pass);
    td__saved_release(&g->saved);
    td__free(g->items);
    td__free(g->names);
    td__free(g->targets);
    td__free(g->gradients);
    td__free(g);
}

const td_gradients_info *td_gradients_about(const td_gradients *gradients) {
    return &gradients->info;
}

const td_gradient *td_gradients_at(const td_gradients *gradients, size_t index) {
    return index < gradients->info.count ? &gradients->items[index] : NULL;
}
