#include "diagnose/rule.h"

#include <math.h>

#define SHARE 1e-3

static double size_of(td__case *c, const td_run_signal *signal) {
    const td__series *norm = td__series_of(c->history, signal->name, "norm");
    const td__series *count = td__series_of(c->history, signal->name, "count");
    double elements = td__series_first(count);
    return elements > 0 ? td__series_mean(norm, 0, 1) / sqrt(elements) : NAN;
}

static void find_vanishing_gradient(td__case *c) {
    const td_run_signal *first = NULL, *last = NULL, *signal;
    for (size_t at = 0; (signal = td__next_signal(c->history, TD_SIGNAL_ERROR, &at));) {
        first = !first || signal->info->order < first->info->order ? signal : first;
        last = !last || signal->info->order > last->info->order ? signal : last;
    }
    if (!first || first == last) {
        return;
    }
    double front = size_of(c, first), back = size_of(c, last);
    if (back > 0 && front < SHARE * back) {
        td__found(c, first->info->layer, first->first_step, first->name, front,
                  td__say(c, "the error is %.2g at %s and %.2g at %s", back, last->info->layer,
                          front, first->info->layer));
    }
}

const td__rule td__rule_vanishing_gradient = {
    .info = {.name = "vanishing_gradient",
             .symptom = true,
             .meaning = "the error shrinks on its way back through the layers",
             .reads = "LAYER.error (norm, count) of the first and the last layer",
             .statistic = "root mean square of the error at the first layer against the last "
                          "one, in the mean over the run",
             .threshold = "a thousandth: the first layers learn a thousand times more slowly",
             .remedy = ""},
    .symptom = TD__INDEX_VANISHING_GRADIENT,
    .needs = TD__NEEDS_ERRORS,
    .find = find_vanishing_gradient,
    .after = true,
};
