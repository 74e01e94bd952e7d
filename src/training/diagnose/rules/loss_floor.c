#include "diagnose/rule.h"

#include <math.h>

#define FLAT 0.05
#define LEARNT 0.8

static void find_loss_floor(td__case *c) {
    const td__series *loss = td__loss_of(c->history);
    double first = td__series_mean(loss, 0, 0.02), last = td__series_mean(loss, 0.85, 1);
    double before = td__series_mean(loss, 0.6, 0.75), fall = first - last;
    if (loss->count >= 12 && fall > 0.05 * fabs(first) && before - last < FLAT * fall &&
        td__score_of(c) < LEARNT) {
        td__found(c, NULL, loss->points[loss->count * 6 / 10].step, "loss", last,
                  td__say(c, "loss does not get below %.3g", last));
    }
}

const td__rule td__rule_loss_floor = {
    .info = {.name = "loss_floor",
             .symptom = true,
             .meaning = "the loss fell, and then stays where it should not",
             .reads = "loss, score",
             .statistic = "the last third of the loss against its whole fall, and what was "
                          "learnt",
             .threshold = "flat within 5 % of the fall while less than 80 % was learnt",
             .remedy = ""},
    .symptom = TD__INDEX_LOSS_FLOOR,
    .one_output = true,
    .needs = TD__NEEDS_REPEAT,
    .find = find_loss_floor,
    .after = true,
};
