#include "diagnose/rule.h"

#include <math.h>

static void find_inf_loss(td__case *c) {
    const td__series *loss = td__loss_of(c->history);
    for (size_t i = 0; i < loss->count; i++) {
        if (isinf(loss->points[i].value)) {
            td__found(
                c, NULL, loss->points[i].step, "loss", loss->points[i].value,
                td__say(c, "the loss is infinite in step %lld", (long long)loss->points[i].step));
            return;
        }
    }
    const td__origin *origin = &c->baseline.origin; /* the step may not have been recorded */
    if (c->repeated && origin->cause && isinf(origin->loss)) {
        td__found(c, NULL, origin->step, "loss", (double)origin->loss,
                  td__say(c, "the loss is infinite in step %lld", (long long)origin->step));
    }
}

const td__rule td__rule_inf_loss = {
    .info = {.name = "inf_loss",
             .symptom = true,
             .meaning = "the loss is infinite",
             .reads = "loss",
             .statistic = "the first step whose loss is infinite",
             .threshold = "one",
             .remedy = ""},
    .symptom = TD__INDEX_INF_LOSS,
    .needs = TD__NEEDS_LOSS,
    .find = find_inf_loss,
    .after = true,
};
