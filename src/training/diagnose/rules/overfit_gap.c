#include "diagnose/rule.h"

#include <math.h>

#define RISE 1.25

static void find_overfit_gap(td__case *c) {
    const td__series *validation = td__validation_loss_of(c->history);
    int64_t step = 0;
    double min = td__series_least(validation, &step), last = td__series_last(validation);
    double training = td__series_mean(td__loss_of(c->history), 0.9, 1);
    if (validation->count >= 3 && last > RISE * min && min > 0 && last > 2 * training) {
        td__found(c, NULL, step, "val_loss", last,
                  td__say(c,
                          "validation loss rose from %.3g (step %lld) to %.3g, training loss is "
                          "%.3g",
                          min, (long long)step, last, training));
    }
}

const td__rule td__rule_overfit_gap = {
    .info = {.name = "overfit_gap",
             .symptom = true,
             .meaning = "the validation loss rises while the training loss falls",
             .reads = "loss, val_loss",
             .statistic = "the last validation loss against its least",
             .threshold = "a quarter above it, and twice the training loss",
             .remedy = ""},
    .symptom = TD__INDEX_OVERFIT_GAP,
    .needs = TD__NEEDS_VALIDATION_LOSS,
    .find = find_overfit_gap,
    .after = true,
};
