#include "diagnose/rule.h"

#include <math.h>

#define TIMES 3.0

enum { WINDOWS = 50 };

/* The least mean of a fiftieth of the series, as a small batch of easy examples is no fall; or the first loss where none after it is
 * less. */
static double least_mean(const td__series *loss, int64_t *step) {
    double least =
        td__series_least(loss, step) < td__series_first(loss) ? INFINITY : td__series_first(loss);
    for (int i = 0; i < WINDOWS; i++) {
        double mean = td__series_mean(loss, (double)i / WINDOWS, (double)(i + 1) / WINDOWS);
        if (mean < least) {
            least = mean;
            *step = loss->points[loss->count * (size_t)i / WINDOWS].step;
        }
    }
    return least;
}

static void find_divergence(td__case *c) {
    const td__series *loss = td__loss_of(c->history);
    int64_t step = 0;
    double first = td__series_first(loss), last = td__series_mean(loss, 0.9, 1);
    double least = loss->count ? least_mean(loss, &step) : NAN;
    if (loss->count >= 5 && last > TIMES * fabs(least) && last > first) {
        td__found(
            c, NULL, step, "loss", last,
            td__say(c, "loss rose from %.3g (step %lld) to %.3g", least, (long long)step, last));
    }
}

const td__rule td__rule_divergence = {
    .info = {.name = "divergence",
             .symptom = true,
             .meaning = "the loss rises",
             .reads = "loss",
             .statistic =
                 "the mean of the last tenth against the first and the least mean of a fiftieth",
             .threshold = "three times the least and above the first tenth: noise does not get "
                          "that far",
             .remedy = ""},
    .symptom = TD__INDEX_DIVERGENCE,
    .needs = TD__NEEDS_LOSS,
    .find = find_divergence,
    .after = true,
};
