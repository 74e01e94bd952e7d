#include "diagnose/rule.h"

#include <math.h>

static void find_nan_loss(td__case *c) {
    const td__series *loss = td__loss_of(c->history);
    for (size_t i = 0; i < loss->count; i++) {
        if (isnan(loss->points[i].value)) {
            td__found(c, NULL, loss->points[i].step, "loss", NAN,
                      td__say(c, "the loss is NaN in step %lld", (long long)loss->points[i].step));
            return;
        }
    }
    const td__origin *origin = &c->baseline.origin; /* the step may not have been recorded */
    if (c->repeated && origin->cause && isnan(origin->loss)) {
        td__found(c, NULL, origin->step, "loss", (double)origin->loss,
                  td__say(c, "the loss is NaN in step %lld", (long long)origin->step));
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
    .find = find_nan_loss,
    .after = true,
};
