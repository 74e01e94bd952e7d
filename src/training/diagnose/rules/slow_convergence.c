#include "diagnose/rule.h"

#include <math.h>

#define LATE 0.08

static void find_slow_convergence(td__case *c) {
    const td__series *loss = td__loss_of(c->history);
    double first = td__series_mean(loss, 0, 0.02), last = td__series_mean(loss, 0.93, 1);
    double before = td__series_mean(loss, 0.7, 0.77), fall = first - last;
    if (loss->count >= 8 && fall > 0.05 * fabs(first) && before - last > LATE * fall) {
        td__found(c, NULL, loss->points[3 * loss->count / 4].step, "loss", last,
                  td__say(c,
                          "loss was still falling: %.0f %% of its fall from %.3g to %.3g lies in "
                          "the last quarter",
                          100 * (before - last) / fall, first, last));
    }
}

const td__rule td__rule_slow_convergence = {
    .info = {.name = "slow_convergence",
             .symptom = true,
             .meaning = "the loss still falls when training ends",
             .reads = "loss",
             .statistic = "the share of its fall that lies in the last quarter",
             .threshold = "8 % and more, with a fall of 5 % altogether",
             .remedy = ""},
    .symptom = TD__INDEX_SLOW_CONVERGENCE,
    .needs = TD__NEEDS_LOSS,
    .find = find_slow_convergence,
    .after = true,
};
