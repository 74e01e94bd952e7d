/* Which loss the outputs of a saved model are compared with labels by. */
#include "apply/saved.h"
#include "data/dataset.h"

#include <stdio.h>
#include <string.h>

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

static td_status guess_loss(const td__saved *saved, td__objective *objective, char *why,
                            td_error *error) {
    const td_model *model = saved->model;
    const td_data_info *info = td_dataset_info(saved->data);
    const td_layer_info *last = td__output_layer(model, 0);
    td_shape output = last->output, input = td_model_input_shape(model);
    const char *what;
    objective->loss = likely_loss(model, saved->data, &what);
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
        (void)snprintf(why, TD__WHY_SIZE, "guessed: %s, an output %s %s", what,
                       objective->options.from_logits ? "without" : "with", ending);
    } else {
        (void)snprintf(why, TD__WHY_SIZE, "guessed: %s", what);
    }
    return TD_OK;
}

static td_status choose_loss(const td__saved *saved, const char *asked, td__objective *objective,
                             char *why, td_error *error) {
    const td__notes *notes = &saved->notes;
    objective->options.size = sizeof objective->options;
    if (!asked && notes->has_loss) {
        *objective = notes->objective;
        (void)snprintf(why, TD__WHY_SIZE, "as in training");
        return TD_OK;
    }
    if (!asked) {
        return guess_loss(saved, objective, why, error);
    }
    td_status status = td_loss_find(asked, &objective->loss, error);
    objective->options.from_logits = !status && gives_logits(saved->model, objective->loss);
    objective->target = notes->objective.target;
    (void)snprintf(why, TD__WHY_SIZE, "as asked for");
    return status;
}

td_status td__saved_choose_loss(td__saved *saved, const char *what, const char *asked,
                                td__objective *objective, bool *several, char *why,
                                td_error *error) {
    *several = saved->head_count && saved->heads[0].label && !asked;
    if (td_model_output_count(saved->model) > 1 && !*several) {
        return td_error_set(error, TD_UNSUPPORTED,
                            "%s: the model has several outputs: they are compared by the losses "
                            "that it was trained with, and with labels for each (--labels "
                            "OUTPUT=FILE)%s",
                            what,
                            asked || !saved->head_count ? "; losses are those of a run's model, "
                                                          "and --loss is for one"
                                                        : "");
    }
    td_status status = choose_loss(saved, asked, objective, why, error);
    if (status || objective->target != TD__TARGET_LABEL) {
        return status;
    }
    if (!saved->labelled) {
        return td_error_set(error, TD_INVALID,
                            "%s: no labels, and so no loss: name their column or file (--label, "
                            "--labels)",
                            what);
    }
    return *several ? TD_OK : td__saved_fit_labels(saved, objective->loss, error);
}
