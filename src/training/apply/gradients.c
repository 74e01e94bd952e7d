/* A saved model forward and back over one batch: what its layers' errors and its parameters'
 * gradients are. */
#include "apply/saved.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/words.h"
#include "data/dataset.h"
#include "deck/glob.h"
#include "pass/pass.h"
#include "tape/tape.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

enum { BATCH = 32, NAME_SIZE = 600, TEXT_SIZE = 160 };

struct td_gradients {
    td__saved saved;
    td__objective objective;
    td__pass pass; /* stays open: the tensors are its tape's */
    td_batch batch;
    td_gradient *items;
    char (*names)[NAME_SIZE];
    td_tensor **targets, **gradients; /* of items */
    td_gradients_info info;
    char why[TEXT_SIZE];
};

/* ---- The loss -------------------------------------------------------------------------------- */

static bool ends_with(const td_model *model, const char *activation) {
    const char *last = td__output_activation(model, 0);
    return last && !strcmp(last, activation);
}

static bool gives_logits(const td_model *model, td_loss loss) {
    const char *probabilities = td__probabilities_by(loss);
    return probabilities && !ends_with(model, probabilities);
}

/* An integer for each row of the output, such as the class of each step. */
static bool are_classes_of_rows(const td_dataset *data, const td_shape *output) {
    td_shape rows = *output;
    rows.rank -= rows.rank > 0;
    return rows.rank > 0 && td__labels_are_whole(data) &&
           td_shape_equal(&rows, &td_dataset_info(data)->label);
}

/* What labels and output most likely mean: *what says why. */
static td_loss likely_loss(const td_model *model, const td_dataset *data, const char **what) {
    const td_data_info *info = td_dataset_info(data);
    const td_layer_info *last = td__output_layer(model, 0);
    int64_t width = last->output.rank ? last->output.dims[last->output.rank - 1] : 1;
    int64_t label_width = info->label.rank ? info->label.dims[info->label.rank - 1] : 1;
    *what = "numbers as labels";
    if (width > 1 &&
        (info->label_kind == TD_LABEL_CLASS || are_classes_of_rows(data, &last->output))) {
        *what = "class labels";
        return TD_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY;
    }
    if (info->label_kind == TD_LABEL_CLASS && (info->classes == 2 || ends_with(model, "sigmoid"))) {
        *what = "two classes as labels";
        return TD_LOSS_BINARY_CROSSENTROPY;
    }
    if (info->label_kind != TD_LABEL_CLASS && width > 1 && label_width == width &&
        ends_with(model, "softmax")) {
        *what = "a label for each class";
        return TD_LOSS_CATEGORICAL_CROSSENTROPY;
    }
    return TD_LOSS_MSE;
}

static td_status guess_loss(td_gradients *g, td_error *error) {
    td__objective *objective = &g->objective;
    const td_model *model = g->saved.model;
    const td_data_info *info = td_dataset_info(g->saved.data);
    const td_layer_info *last = td__output_layer(model, 0);
    td_shape output = last->output, input = td_model_input_shape(model);
    const char *what;
    objective->loss = likely_loss(model, g->saved.data, &what);
    if (info->label_kind == TD_LABEL_NONE) {
        what = "no labels, an output shaped like the input";
        objective->loss = TD_LOSS_MSE;
        objective->target = TD__TARGET_INPUT;
        if (!td_shape_equal(&output, &input)) {
            return td_error_set(error, TD_INVALID,
                                "the data has no labels, and so no loss: name their column or "
                                "file (--label, --labels)");
        }
    }
    if (objective->loss == TD_LOSS_MSE && info->label_kind == TD_LABEL_VALUES &&
        !td_shape_equal(&output, &info->label) && output.rank == 1 && output.dims[0] > 1) {
        char has[TD_SHAPE_TEXT_SIZE], puts_out[TD_SHAPE_TEXT_SIZE];
        return td_error_set(error, TD_BAD_SHAPE,
                            "labels are numbers of shape %s, but the model puts out %s: class "
                            "numbers are stored as integers; otherwise give --loss",
                            td_shape_text(&info->label, has), td_shape_text(&output, puts_out));
    }
    objective->options.from_logits = gives_logits(model, objective->loss);
    const char *ending = td__probabilities_by(objective->loss);
    if (ending) {
        (void)snprintf(g->why, sizeof g->why, "guessed: %s, an output %s %s", what,
                       objective->options.from_logits ? "without" : "with", ending);
    } else {
        (void)snprintf(g->why, sizeof g->why, "guessed: %s", what);
    }
    return TD_OK;
}

static td_status choose_loss(td_gradients *g, const char *asked, td_error *error) {
    const td__notes *notes = &g->saved.notes;
    td__objective *objective = &g->objective;
    objective->options.size = sizeof objective->options;
    if (!asked && notes->has_loss) {
        *objective = notes->objective;
        (void)snprintf(g->why, sizeof g->why, "as in training");
        return TD_OK;
    }
    if (!asked) {
        return guess_loss(g, error);
    }
    td_status status = td_loss_find(asked, &objective->loss, error);
    objective->options.from_logits = !status && gives_logits(g->saved.model, objective->loss);
    objective->target = notes->objective.target;
    (void)snprintf(g->why, sizeof g->why, "as asked for");
    return status;
}

/* ---- What is asked for ----------------------------------------------------------------------- */

static void add_item(td_gradients *g, const char *layer, const char *name, const char *ending,
                     td_tensor *source) {
    size_t at = g->info.count++;
    (void)snprintf(g->names[at], NAME_SIZE, "%s%s", name, ending);
    g->items[at] = (td_gradient){.name = g->names[at], .layer = layer};
    g->targets[at] = source;
}

static void add_layer(td_gradients *g, size_t which) {
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
            add_layer(g, i);
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

static td_status run(td_gradients *g, const td_gradients_options *options, td_error *error) {
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

static td_status prepare(td_gradients *g, const char *model, const char *data,
                         const td_gradients_options *options, td_error *error) {
    const td__objective *objective = &g->objective;
    td__saved_options opening = {.scaled_labels = true,
                                 .labels = options->labels,
                                 .label = options->label,
                                 .scale = options->scale,
                                 .layout = options->layout,
                                 .header = options->header,
                                 .batch = options->batch > 0 ? options->batch : BATCH,
                                 .inputs = options->inputs,
                                 .input_count = options->input_count,
                                 .output_labels = options->output_labels,
                                 .output_label_count = options->output_label_count};
    td_status status = td__saved_load(&g->saved, model, error);
    status = status ? status : td__saved_open(&g->saved, data, &opening, error);
    bool heads = g->saved.head_count && g->saved.heads[0].label && !options->loss;
    if (!status && td_model_output_count(g->saved.model) > 1 && !heads) {
        return td_error_set(error, TD_UNSUPPORTED,
                            "%s: the model has several outputs: gradients are those of the losses "
                            "that it was trained with, and of labels for each (--labels "
                            "OUTPUT=FILE)%s",
                            data ? data : model,
                            options->loss || !g->saved.head_count ? "; losses are those of a run's "
                                                                    "model, and --loss is for one"
                                                                  : "");
    }
    status = status ? status : choose_loss(g, options->loss, error);
    if (!status && objective->target == TD__TARGET_LABEL && !g->saved.labelled) {
        status = td_error_set(error, TD_INVALID,
                              "%s: no labels, and so no loss: name their column or file (--label, "
                              "--labels)",
                              data ? data : model);
    }
    if (!status && objective->target == TD__TARGET_LABEL && !heads) {
        status = td__saved_fit_labels(&g->saved, objective->loss, error);
    }
    status = status ? status : td__pass_init(&g->pass, g->saved.model, objective, NULL, error);
    if (status) {
        return status;
    }
    g->pass.heads = g->saved.heads;
    g->pass.head_count = heads ? g->saved.head_count : 0;
    td__tape_limit(g->pass.tape, options->memory > 0 ? (size_t)options->memory : td__memory_half());
    return run(g, options, error);
}

/* ---- The object ------------------------------------------------------------------------------ */

td_gradients *td_gradients_create(const char *model, const char *data,
                                  const td_gradients_options *options, td_error *error) {
    td_gradients_options all;
    td_error reason = {0};
    (void)td__options(&all, sizeof all, options);
    td_gradients *g = td__calloc(1, sizeof *g);
    td_status status = g ? prepare(g, model, data, &all, &reason)
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
