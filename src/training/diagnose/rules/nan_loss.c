#include "diagnose/rule.h"

#include <math.h>

static void find_nan_loss(td__case *of) {
    const td__series *loss = td__loss_of(of->history);
    for (size_t i = 0; i < loss->count; i++) {
        if (isnan(loss->points[i].value)) {
            td__found(of, NULL, loss->points[i].step, "loss", NAN,
                      td__say(of, "the loss is NaN in step %lld", (long long)loss->points[i].step));
            return;
        }
    }
}

const td__rule td__rule_nan_loss = {
    .info = {.name = "nan_loss",
             .symptom = true,
             .meaning = "the loss is NaN",
             .reads = "loss",
             .statistic = "the first step whose loss is no number",
             .threshold = "one: no step after it means anything",
             .remedy = ""},
    .symptom = TD__INDEX_NAN_LOSS,
    .needs = TD__NEEDS_LOSS,
    .look = find_nan_loss,
    .after = true,
};
