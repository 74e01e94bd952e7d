#include "diagnose/rule.h"

#include <math.h>

#define SWING 0.3
enum { WINDOWS = 24 };

static void find_oscillation(td__case *c) {
    const td__series *loss = td__loss_of(c->history);
    double mean = td__series_mean(loss, 0.5, 1), before = NAN, swings = 0, direction = 0;
    if (loss->count < 2 * WINDOWS || !(mean > 0) || td__series_mean(loss, 0, 0.5) > 1.5 * mean) {
        return;
    }
    for (int i = 0; i < WINDOWS; i++) {
        double at = 0.5 + 0.5 * i / WINDOWS;
        double now = td__series_mean(loss, at, at + 0.5 / WINDOWS);
        double change = now - before;
        if (fabs(change) > SWING * mean) {
            swings += change * direction < 0;
            direction = change;
        }
        before = now;
    }
    if (swings >= WINDOWS / 3.0) {
        td__found(c, NULL, loss->points[loss->count / 2].step, "loss", swings,
                  td__say(c, "loss turned %.0f times by more than 30 %% in the last half", swings));
    }
}

const td__rule td__rule_oscillation = {
    .info = {.name = "oscillation",
             .symptom = true,
             .meaning = "the loss goes up and down without getting anywhere",
             .reads = "loss",
             .statistic = "means of 24 windows over the last half: how often they turn, and by "
                          "how much",
             .threshold = "a third of them turn by more than 30 % of the mean, and the fall "
                          "from the first half is less than that",
             .remedy = ""},
    .symptom = TD__INDEX_OSCILLATION,
    .needs = TD__NEEDS_LOSS,
    .find = find_oscillation,
    .after = true,
};
