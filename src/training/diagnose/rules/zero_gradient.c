#include "diagnose/rule.h"

#include <math.h>

#define SHARE 0.9

static void find_zero_gradient(td__case *c) {
    const td_run_signal *signal;
    for (size_t at = 0; (signal = td__next_signal(c->history, TD_SIGNAL_GRADIENT, &at));) {
        const td__series *norm = td__series_of(c->history, signal->name, "norm");
        size_t zeros = 0;
        for (size_t i = 0; i < norm->count; i++) {
            zeros += norm->points[i].high == 0;
        }
        if (norm->count >= 3 && (double)zeros >= SHARE * (double)norm->count) {
            td__found(c, signal->info->layer, signal->first_step, signal->name, 0,
                      td__say(c, "the gradient of %s.%s is 0 in %zu of %zu records",
                              signal->info->layer, signal->info->parameter, zeros, norm->count));
            return;
        }
    }
}

const td__rule td__rule_zero_gradient = {
    .info = {.name = "zero_gradient",
             .symptom = true,
             .meaning = "a parameter gets no gradient at all",
             .reads = "LAYER.PARAMETER.gradient (norm)",
             .statistic = "records whose norm is exactly 0",
             .threshold = "nine of ten: the weights stay as they are",
             .remedy = ""},
    .symptom = TD__INDEX_ZERO_GRADIENT,
    .needs = TD__NEEDS_GRADIENTS,
    .find = find_zero_gradient,
    .after = true,
};
