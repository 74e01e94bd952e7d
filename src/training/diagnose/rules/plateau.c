#include "diagnose/rule.h"

#include <math.h>

#define FALL 0.03

static void find_plateau(td__case *of) {
    const td__series *loss = td__loss_of(of->history);
    double first = td__series_mean(loss, 0, 0.05), last = td__series_mean(loss, 0.9, 1);
    if (loss->count >= 10 && first > 0 && last > (1 - FALL) * first && last < 2 * first) {
        td__found(of, NULL, 1, "loss", last,
                  td__say(of, "loss stands still: %.4g at first, %.4g at last", first, last));
    }
}

const td__rule td__rule_plateau = {
    .info = {.name = "plateau",
             .symptom = true,
             .meaning = "the loss stands still from the beginning",
             .reads = "loss",
             .statistic = "the mean of the last tenth against the first records",
             .threshold = "less than 3 % below: nothing is learnt",
             .remedy = ""},
    .symptom = TD__INDEX_PLATEAU,
    .needs = TD__NEEDS_LOSS,
    .look = find_plateau,
    .after = true,
};
