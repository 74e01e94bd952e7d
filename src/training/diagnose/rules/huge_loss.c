#include "diagnose/rule.h"

#include <math.h>

#define HUGE 100.0

static void find_huge_loss(td__case *c) {
    const td__series *loss = td__loss_of(c->history);
    double first = td__series_first(loss);
    if (first > HUGE) {
        td__found(c, NULL, 1, "loss", first, td__say(c, "the first loss is %.3g", first));
    }
}

const td__rule td__rule_huge_loss = {
    .info = {.name = "huge_loss",
             .symptom = true,
             .meaning = "the loss is far larger than a network that knows nothing has",
             .reads = "loss",
             .statistic = "the first loss",
             .threshold = "beyond 100: the logarithm of 10^43 classes, or ten deviations of "
                          "values of variance 1",
             .remedy = ""},
    .symptom = TD__INDEX_HUGE_LOSS,
    .needs = TD__NEEDS_LOSS,
    .find = find_huge_loss,
    .after = true,
};
