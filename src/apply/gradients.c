/* A saved model forward and back over one batch: what its layers' errors and its parameters'
 * gradients are. */
#include "apply/saved.h"
#include "base/memory.h"
#include "base/words.h"
#include "deck/glob.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

enum { BATCH = 32, NAME_SIZE = 600, TEXT_SIZE = 160 };

struct td_gradients {
    td__saved saved;
    td_tape *tape;
    td_tensor *input, *truth;
    td_loss loss;
    td_loss_options loss_options;
    td__target target;
    td_gradient *items;
    char (*names)[NAME_SIZE];
    td_tensor **targets, **gradients; /* of items */
    td_gradients_info info;
    char why[TEXT_SIZE];
};

/* ---- The loss ---------------------------------------------------------------------------------
 */

static bool ends_with(const td_model *model, const char *activation) {
    const char *last = td__last_activation(model);
    return last && !strcmp(last, activation);
}

static bool gives_logits(const td_model *model, td_loss loss) {
    const char *probabilities = td__probabilities_by(loss);
    return probabilities && !ends_with(model, probabilities);
}

/* What labels and output most likely mean: *what says why. */
static td_loss likely_loss(const td_model *model, const td_data_info *info, const char **what) {
    const td_layer_info *last = td_model_layer(model, td_model_layer_count(model) - 1);
    int64_t width = last->output.rank ? last->output.dims[last->output.rank - 1] : 1;
    int64_t label_width = info->label.rank ? info->label.dims[info->label.rank - 1] : 1;
    *what = "numbers as labels";
    if (info->label_kind == TD_LABEL_CLASS && width > 1) {
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
    const td_model *model = g->saved.model;
    const td_data_info *info = td_dataset_info(g->saved.data);
    const td_layer_info *last = td_model_layer(model, td_model_layer_count(model) - 1);
    td_shape output = last->output, input = td_model_input_shape(model);
    const char *what;
    g->loss = likely_loss(model, info, &what);
    if (info->label_kind == TD_LABEL_NONE) {
        what = "no labels, an output shaped like the input";
        g->loss = TD_LOSS_MSE;
        g->target = TD__TARGET_INPUT;
        if (!td_shape_equal(&output, &input)) {
            return td_error_set(error, TD_INVALID,
                                "the data has no labels, and so no loss: name their column or "
                                "file (--label, --labels)");
        }
    }
    if (g->loss == TD_LOSS_MSE && info->label_kind == TD_LABEL_VALUES &&
        !td_shape_equal(&output, &info->label) && output.rank == 1 && output.dims[0] > 1) {
        char has[TD_SHAPE_TEXT_SIZE], puts_out[TD_SHAPE_TEXT_SIZE];
        return td_error_set(error, TD_SHAPE,
                            "labels are numbers of shape %s, but the model puts out %s: class "
                            "numbers are stored as integers; otherwise give --loss",
                            td_shape_text(&info->label, has), td_shape_text(&output, puts_out));
    }
    g->loss_options.from_logits = gives_logits(model, g->loss);
    const char *ending = td__probabilities_by(g->loss);
    if (ending) {
        (void)snprintf(g->why, sizeof g->why, "guessed: %s, an output %s %s", what,
                       g->loss_options.from_logits ? "without" : "with", ending);
    } else {
        (void)snprintf(g->why, sizeof g->why, "guessed: %s", what);
    }
    return TD_OK;
}

static td_status choose_loss(td_gradients *g, const char *asked, td_error *error) {
    const td__notes *notes = &g->saved.notes;
    g->loss_options.size = sizeof g->loss_options;
    if (!asked && notes->has_loss) {
        g->loss = notes->loss;
        g->loss_options = notes->loss_options;
        g->target = notes->target;
        (void)snprintf(g->why, sizeof g->why, "as in training");
        return TD_OK;
    }
    if (!asked) {
        return guess_loss(g, error);
    }
    td_status status = td_loss_find(asked, &g->loss, error);
    g->loss_options.from_logits = !status && gives_logits(g->saved.model, g->loss);
    g->target = notes->target;
    (void)snprintf(g->why, sizeof g->why, "as asked for");
    return status;
}

/* The data again, when the loss needs its labels in another form. */
static td_status fit_labels(td_gradients *g, const char *data, td__saved_options *options,
                            td_error *error) {
    td_label_kind found = td_dataset_info(g->saved.data)->label_kind;
    options->label_kind = td__labels_for(g->loss, found);
    if (g->target == TD__TARGET_INPUT || options->label_kind == found) {
        return TD_OK;
    }
    return td__saved_open(&g->saved, data, options, error);
}

/* ---- What is asked for ------------------------------------------------------------------------
 */

static void add_item(td_gradients *g, const char *layer, const char *name, const char *ending,
                     td_tensor *of) {
    size_t at = g->info.count++;
    (void)snprintf(g->names[at], NAME_SIZE, "%s%s", name, ending);
    g->items[at] = (td_gradient){.name = g->names[at], .layer = layer};
    g->targets[at] = of;
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
    const char *nearest = names ? td__nearest_word(pattern, names, count) : NULL;
    td_error_set(error, TD_NOT_FOUND, "no layer '%s'%s%s%s", pattern,
                 nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
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
            add_item(g, "input", "input", ".error", g->input);
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

/* ---- Running ----------------------------------------------------------------------------------
 */

static td_status back(td_gradients *g, td_tensor *loss, td_error *error) {
    td_status status =
        td_tape_gradient(g->tape, loss, g->info.count, g->targets, g->gradients, error);
    for (size_t i = 0; !status && i < g->info.count; i++) {
        td_gradient *item = &g->items[i];
        td_tape_name(g->tape, g->gradients[i], item->name);
        g->gradients[i]->gradient = false; /* its name says all of it */
        td_view view = td_view_of(g->gradients[i]);
        item->tensor = g->gradients[i];
        item->disconnected = td_tensor_is_disconnected(g->gradients[i]);
        status = td_stats_of(&view, &item->stats, error);
    }
    return status;
}

static td_status run(td_gradients *g, const td_gradients_options *options, td_error *error) {
    td_batch batch;
    if (!td_batches_next(g->saved.batches, &batch)) {
        return td_error_set(error, TD_INVALID, "the data has no examples");
    }
    td__head_set(g->input, &batch.input);
    td__head_set(g->truth, g->target == TD__TARGET_INPUT ? &batch.input : &batch.label);
    td_tape_set_training(g->tape, options->training);
    td_tensor *prediction = td_model_forward(g->saved.model, g->tape, g->input);
    if (prediction) {
        td__truth_fit(g->loss, g->truth, prediction);
    }
    td_tensor *loss = td_model_regularize(
        g->saved.model, g->tape,
        td_loss_compute(g->tape, g->loss, prediction, g->truth, &g->loss_options));
    td_status status = td_tape_status(g->tape, error);
    if (!status) {
        status = choose_items(g, options->layers, error);
    }
    if (!status) {
        g->info.loss = td_loss_name(g->loss);
        g->info.remarks = td_dataset_info(g->saved.data)->remarks;
        g->info.from_logits = g->loss_options.from_logits;
        g->info.why = g->why;
        g->info.value = (double)td_tensor_scalar(loss);
        g->info.examples = batch.count;
        status = back(g, loss, error);
    }
    return status;
}

static td_status prepare(td_gradients *g, const char *model, const char *data,
                         const td_gradients_options *options, td_error *error) {
    td__saved_options opening = {.labels = options->labels,
                                 .label = options->label,
                                 .scale = options->scale,
                                 .layout = options->layout,
                                 .batch = options->batch > 0 ? options->batch : BATCH};
    float nothing = 0;
    td_status status = td__saved_load(&g->saved, model, error);
    status = status ? status : td__saved_open(&g->saved, data, &opening, error);
    status = status ? status : choose_loss(g, options->loss, error);
    status = status ? status : fit_labels(g, data, &opening, error);
    if (!status && g->target == TD__TARGET_LABEL && !g->saved.labelled) {
        status = td_error_set(error, TD_INVALID,
                              "%s: no labels, and so no loss: name their column or file (--label, "
                              "--labels)",
                              data);
    }
    if (status) {
        return status;
    }
    g->tape = td_tape_create(NULL, error);
    g->input = td_tensor_borrow("input", TD_FLOAT32, TD_SHAPE(1), &nothing, error);
    g->truth = td_tensor_borrow("label", TD_FLOAT32, TD_SHAPE(1), &nothing, error);
    return g->tape && g->input && g->truth ? run(g, options, error)
                                           : td_error_set(error, TD_MEMORY, "out of memory");
}

/* ---- The object -------------------------------------------------------------------------------
 */

td_gradients *td_gradients_create(const char *model, const char *data,
                                  const td_gradients_options *options, td_error *error) {
    td_gradients_options all = {0};
    td_error reason = {0};
    if (options) {
        memcpy(&all, options, options->size < sizeof all ? options->size : sizeof all);
    }
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
    td_tape_destroy(g->tape);
    td_tensor_destroy(g->input);
    td_tensor_destroy(g->truth);
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
