/* Several inputs and outputs: which of the data's arrays is which input, and what each output is
 * trained for. */
#include "train/trainer.h"

#include "base/words.h"
#include "data/dataset.h"
#include "nn/kind.h"

#include <stdio.h>
#include <string.h>

/* ---- Inputs ---------------------------------------------------------------------------------- */

enum { LIST = 300 };

/* "a, b, c", as many as fit. */
static const char *list_names(td_names names, char text[LIST]) {
    size_t used = 0;
    *text = 0;
    for (size_t i = 0; i < names.count && used + 80 < LIST; i++) {
        used +=
            (size_t)snprintf(text + used, LIST - used, "%s%.70s", i ? ", " : "", names.items[i]);
    }
    return text;
}

static const char *setting_text(const td__choice *choice, const char *key) {
    for (size_t i = 0; i < choice->count; i++) {
        const td_setting *setting = &choice->settings[i];
        if (!strcmp(setting->key, key) && setting->value.kind == TD_VALUE_TEXT) {
            return setting->value.text;
        }
    }
    return "";
}

/* The model's inputs in their order, from its file or from the experiment: at most TD_MAX_FROM. */
static td_names input_names(const td_trainer *trainer, const char *names[TD_MAX_FROM]) {
    const td_experiment *experiment = trainer->experiment;
    size_t count = 0;
    for (size_t i = 0; trainer->model && i < td_model_input_count(trainer->model); i++) {
        const td_layer_info *layer = td_model_layer(trainer->model, i);
        if (td__layer_kind_of(layer->kind)->role == TD__ROLE_INPUT) {
            names[count++] = layer->name;
        }
    }
    for (size_t i = 0; !trainer->model && i < experiment->layer_count && count < TD_MAX_FROM; i++) {
        if (!strcmp(experiment->layers[i].name, "input")) {
            names[count++] = setting_text(&experiment->layers[i], "name");
        }
    }
    return (td_names){names, count};
}

/* Puts the pieces into the order of the inputs; the list is the trainer's. */
static td_status order_pieces(td_trainer *trainer, const char *key, td_names inputs,
                              td_pieces *pieces, td_piece *ordered, td_error *error) {
    char list[LIST], hint[TD__HINT_ROOM];
    const td__yaml_node *node =
        td__yaml_get(td__yaml_get(td__yaml_root(trainer->experiment->yaml), "data"), key);
    for (size_t i = 0; i < pieces->count; i++) {
        const char *name = pieces->items[i].name;
        size_t at = 0;
        while (at < inputs.count && strcmp(inputs.items[at], name) != 0) {
            at++;
        }
        if (at == inputs.count) {
            return td__experiment_problem(
                trainer->experiment, node, TD_NOT_FOUND, error,
                inputs.count
                    ? "data.%s: the model has no input '%s'%s; it has: %s"
                    : "data.%s: '%s'%s: the model has no `input` layers%s: model: {inputs: "
                      "[NAME, …], layers: […]}",
                key, name, td__word_meant(hint, name, inputs.items, inputs.count),
                list_names(inputs, list));
        }
        ordered[at] = pieces->items[i];
    }
    for (size_t i = 0; i < inputs.count; i++) {
        if (!ordered[i].name) {
            return td__experiment_problem(trainer->experiment, node, TD_NOT_FOUND, error,
                                          "data.%s: the model's input '%s' is missing", key,
                                          inputs.items[i]);
        }
    }
    *pieces = (td_pieces){ordered, inputs.count};
    return TD_OK;
}

td_status td__trainer_order_inputs(td_trainer *trainer, td_data_options *options, td_error *error) {
    const char *names[TD_MAX_FROM] = {0};
    td_names inputs = input_names(trainer, names);
    td_status status = TD_OK;
    if (options->input_pieces.count) {
        status = order_pieces(trainer, "inputs", inputs, &options->input_pieces,
                              trainer->feed.ordered[0], error);
    }
    if (!status && options->validation_input_pieces.count) {
        status = order_pieces(trainer, "validation", inputs, &options->validation_input_pieces,
                              trainer->feed.ordered[1], error);
    }
    return status;
}

/* ---- Outputs --------------------------------------------------------------------------------- */

td_names td__trainer_output_names(const td_trainer *trainer, const char *names[TD_MAX_OUTPUTS]) {
    const td_experiment *experiment = trainer->experiment;
    const td__train_spec *train = &experiment->train;
    if (experiment->outputs.count) {
        return experiment->outputs;
    }
    size_t count = experiment->model_file ? 0 : train->output_loss_count;
    count = count < TD_MAX_OUTPUTS ? count : TD_MAX_OUTPUTS;
    for (size_t i = 0; i < count; i++) {
        names[i] = train->output_losses[i].output;
    }
    return (td_names){names, count};
}

static td_names model_outputs(const td_model *model, const char *names[TD_MAX_OUTPUTS]) {
    size_t count = td_model_output_count(model);
    for (size_t i = 0; i < count; i++) {
        names[i] = td__output_layer(model, i)->name;
    }
    return (td_names){names, count};
}

/* Where a name is among the outputs; -1, with the error set, when it is none of them. */
static ptrdiff_t find_output(const td_trainer *trainer, td_names outputs, const char *what,
                             const char *name, const td__yaml_node *node, td_error *error) {
    char list[LIST], hint[TD__HINT_ROOM];
    for (size_t i = 0; i < outputs.count; i++) {
        if (!strcmp(outputs.items[i], name)) {
            return (ptrdiff_t)i;
        }
    }
    (void)td__experiment_problem(trainer->experiment, node, TD_NOT_FOUND, error,
                                 "%s: the model has no output '%s'%s; it has: %s", what, name,
                                 td__word_meant(hint, name, outputs.items, outputs.count),
                                 list_names(outputs, list));
    return -1;
}

/* Each output's loss and weight. */
static td_status take_losses(td_trainer *trainer, td_names outputs, td_error *error) {
    const td__train_spec *train = &trainer->experiment->train;
    bool taken[TD_MAX_OUTPUTS] = {false};
    for (size_t i = 0; i < outputs.count; i++) {
        trainer->heads[i] = (td__head){.objective = train->objective, .weight = 1};
        taken[i] = train->output_loss_count == 0;
    }
    for (size_t i = 0; i < train->output_loss_count; i++) {
        const td__output_loss *loss = &train->output_losses[i];
        ptrdiff_t at = find_output(trainer, outputs, "train.loss", loss->output, loss->node, error);
        if (at < 0) {
            return TD_NOT_FOUND;
        }
        trainer->heads[at].objective = loss->objective;
        taken[at] = true;
    }
    for (size_t i = 0; i < train->output_weight_count; i++) {
        const td__output_weight *weight = &train->output_weights[i];
        ptrdiff_t at = find_output(trainer, outputs, "train.loss_weights", weight->output,
                                   weight->node, error);
        if (at < 0) {
            return TD_NOT_FOUND;
        }
        trainer->heads[at].weight = weight->weight;
    }
    for (size_t i = 0; i < outputs.count; i++) {
        if (!taken[i]) {
            return td__experiment_problem(trainer->experiment, NULL, TD_NOT_FOUND, error,
                                          "train.loss: the model's output '%s' has none",
                                          outputs.items[i]);
        }
    }
    return TD_OK;
}

/* Each output's part of the labels. */
static td_status take_labels(td_trainer *trainer, td_names outputs, td_error *error) {
    const td_data_info *info = trainer->feed.info;
    if (info->label_piece_count == 0 && outputs.count == 1) {
        return TD_OK;
    }
    if (info->label_piece_count == 0) {
        char list[LIST];
        return td__experiment_problem(trainer->experiment, NULL, TD_INVALID, error,
                                      "data: the model has several outputs (%s), and each is "
                                      "compared with labels of its own: labels: {%s: …, %s: …}",
                                      list_names(outputs, list), outputs.items[0],
                                      outputs.items[1]);
    }
    for (size_t i = 0; i < info->label_piece_count; i++) {
        const td_data_piece *piece = &info->label_pieces[i];
        ptrdiff_t at = find_output(trainer, outputs, "data.labels", piece->name, NULL, error);
        if (at < 0) {
            return TD_NOT_FOUND;
        }
        td__head *head = &trainer->heads[at];
        head->label = piece;
        head->kind = td__head_kind(head->objective.loss, piece->count,
                                   td__output_units(trainer->model, (size_t)at));
    }
    for (size_t i = 0; i < outputs.count; i++) {
        if (!trainer->heads[i].label) {
            return td__experiment_problem(trainer->experiment, NULL, TD_NOT_FOUND, error,
                                          "data.labels: those of the model's output '%s' are "
                                          "missing",
                                          outputs.items[i]);
        }
    }
    return TD_OK;
}

/* Metrics name their output where there are several. */
static td_status check_metrics(const td_trainer *trainer, td_names outputs, td_error *error) {
    const td__train_spec *train = &trainer->experiment->train;
    for (size_t i = 0; i < train->metric_count; i++) {
        const td__metric_spec *metric = &train->metrics[i];
        if (!metric->output && outputs.count > 1) {
            return td__experiment_problem(trainer->experiment, metric->node, TD_INVALID, error,
                                          "train.metrics: %s: of which output? metrics: {%s: [%s]}",
                                          metric->name, outputs.items[0], metric->name);
        }
        if (metric->output && find_output(trainer, outputs, "train.metrics", metric->output,
                                          metric->node, error) < 0) {
            return TD_NOT_FOUND;
        }
    }
    return TD_OK;
}

td_status td__trainer_make_heads(td_trainer *trainer, td_error *error) {
    const td__train_spec *train = &trainer->experiment->train;
    const char *names[TD_MAX_OUTPUTS];
    td_names outputs = model_outputs(trainer->model, names);
    bool by_name = train->output_loss_count || train->output_weight_count ||
                   trainer->feed.info->label_piece_count;
    td_status status = check_metrics(trainer, outputs, error);
    if (status || (outputs.count == 1 && !by_name)) {
        return status;
    }
    if (train->objective.target == TD__TARGET_INPUT) {
        return td__experiment_problem(trainer->experiment, NULL, TD_INVALID, error,
                                      "train.target: input is for a model of one output, and this "
                                      "one has %zu",
                                      outputs.count);
    }
    status = take_losses(trainer, outputs, error);
    status = status ? status : take_labels(trainer, outputs, error);
    trainer->head_count = status ? 0 : outputs.count;
    return status;
}

/* ---- Labels ---------------------------------------------------------------------------------- */

td_status td__trainer_check_head_labels(td_trainer *trainer, td_error *error) {
    const td_experiment *experiment = trainer->experiment;
    for (size_t i = 0; i < trainer->head_count; i++) {
        const td__head *head = &trainer->heads[i];
        const td_layer_info *layer = td__output_layer(trainer->model, i);
        td_loss loss = head->objective.loss;
        int64_t units = td__output_units(trainer->model, i);
        bool classes = head->kind != TD_LABEL_VALUES;
        td__label_range range =
            classes ? (td__label_range){0, (double)units - 1} : td__label_range_of(loss);
        td_error reason = {0};
        if (!head->label || !td__labels_check(trainer->feed.data, head->label->first,
                                              head->label->count, range, classes, &reason)) {
            continue;
        }
        if (classes) {
            return td__experiment_problem(experiment, NULL, reason.status, error,
                                          "data: output '%s': %s: it has %lld units, one for each "
                                          "class",
                                          layer->name, reason.text, (long long)units);
        }
        td__trainer_remark(trainer, NULL, "data: output '%s': %s for train.loss: %s", layer->name,
                           reason.text, td_loss_name(loss));
    }
    return TD_OK;
}
