/* What should be said before training, though it can be done. */
#include "train/trainer.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

td_status td__trainer_remark(td_trainer *trainer, td_error *error, const char *format, ...) {
    char text[TD_ERROR_TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return td__names_add(&trainer->remarks, text) < 0
               ? td_error_set(error, TD_MEMORY, "out of memory")
               : TD_OK;
}

td_names td_trainer_remarks(const td_trainer *trainer) {
    return (td_names){(const char *const *)trainer->remarks.items, trainer->remarks.count};
}

static td_status repeat_data(td_trainer *trainer, td_error *error) {
    td_names remarks = trainer->info->remarks;
    td_status status = TD_OK;
    for (size_t i = 0; !status && i < remarks.count; i++) {
        status = td__trainer_remark(trainer, error, "%s", remarks.items[i]);
    }
    return status;
}

/* The labels that a loss is made for; others may be any finite number. */
static const struct {
    bool limited;
    double minimum, maximum;
} ranges[TD_LOSS_COUNT] = {
    [TD_LOSS_BINARY_CROSSENTROPY] = {true, 0, 1},
    [TD_LOSS_BINARY_FOCAL_CROSSENTROPY] = {true, 0, 1},
    [TD_LOSS_CATEGORICAL_CROSSENTROPY] = {true, 0, 1},
    [TD_LOSS_CATEGORICAL_FOCAL_CROSSENTROPY] = {true, 0, 1},
    [TD_LOSS_KL_DIVERGENCE] = {true, 0, 1},
    [TD_LOSS_HINGE] = {true, -1, 1},
    [TD_LOSS_SQUARED_HINGE] = {true, -1, 1},
    [TD_LOSS_CATEGORICAL_HINGE] = {true, 0, 1},
    [TD_LOSS_POISSON] = {true, 0, INFINITY},
    [TD_LOSS_MSLE] = {true, 0, INFINITY},
};

/* A class without an output cannot be trained. What else a loss cannot use is only said: it is for the
 * diagnosis to show what comes of it. */
td_status td__trainer_check_labels(td_trainer *trainer, td_error *error) {
    const td_experiment *experiment = trainer->experiment;
    const td_layer_info *last = td_model_layer(trainer->model, trainer->layer_count - 1);
    td_loss loss = experiment->train.loss;
    td_error reason = {0};
    td_status status = repeat_data(trainer, error);
    if (status || experiment->train.target == TD__TARGET_INPUT) {
        return status;
    }
    if (loss == TD_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY) {
        int64_t units = last->output.rank ? last->output.dims[last->output.rank - 1] : 1;
        return td_dataset_check_labels(trainer->data, 0, (double)units - 1, &reason)
                   ? td__experiment_problem(experiment, NULL, reason.status, error,
                                            "data: %s: layer '%s' has %lld units, one for each "
                                            "class",
                                            reason.text, last->name, (long long)units)
                   : TD_OK;
    }
    bool limited = ranges[loss].limited;
    return td_dataset_check_labels(trainer->data, limited ? ranges[loss].minimum : -INFINITY,
                                   limited ? ranges[loss].maximum : INFINITY, &reason)
               ? td__trainer_remark(trainer, error, "data: %s for train.loss: %s", reason.text,
                                    td_loss_name(loss))
               : TD_OK;
}
