/* The validation part: its loss and metrics. */
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>

/* Training goes on: it does not depend on this part. */
void td__validation_not_finite(td_trainer *trainer) {
    char subject[80];
    td_error found = {0};
    if (trainer->blamed_validation) {
        return;
    }
    trainer->blamed_validation = true;
    (void)snprintf(subject, sizeof subject, "epoch %lld: val_loss",
                   (long long)trainer->at.epoch + 1);
    td__blame(trainer, &trainer->check, TD_VALIDATION, subject, &found);
    td__trainer_remark(trainer, NULL, "%s", found.text);
}

static td_status measure_all(td_trainer *trainer, td_error *error) {
    td__measures *measures = &trainer->measures;
    td__pass *pass = &trainer->check;
    td_status status = TD_OK;
    td_batches_start(trainer->feed.validation, 1);
    for (td_batch batch; !status && td_batches_next(trainer->feed.validation, &batch);) {
        status = td__pass_forward(pass, &batch, error);
        if (!status) {
            status = td__measure_add(measures, &measures->validation, pass, error);
        }
        if (!status && !isfinite(td_tensor_scalar(pass->loss))) {
            td__validation_not_finite(trainer);
        }
        td__pass_end(pass);
    }
    return status ? status : td__feed_status(trainer->feed.validation, error);
}

td_status td__validate(td_trainer *trainer, td_error *error) {
    td__measures *measures = &trainer->measures;
    td__measure_reset(measures, &measures->validation);
    td_status status = trainer->shards.count > 1 ? td__shards_validate(trainer, error)
                                                 : measure_all(trainer, error);
    td_train_value *progress_values = trainer->progress_values + measures->value_count;
    const double *values = td__measure_read(measures, &measures->validation);
    for (size_t i = 0; !status && i < measures->value_count; i++) {
        progress_values[i].value = values[i];
        (void)td_signal_scalar(trainer->signals.entries[trainer->values.validation + i].signal,
                               values[i]);
    }
    if (!status) {
        td__record_matrices(trainer, &measures->validation, trainer->values.validation_matrices);
    }
    return status;
}
