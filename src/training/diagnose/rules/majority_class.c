#include "diagnose/rule.h"

#include <math.h>

#define SHARE 0.95

static void find_majority_class(td__case *c) {
    if (!c->repeated || c->baseline.points == 0 || c->facts.labels.classes < 2) {
        return;
    }
    const td__trial_point *end = &c->baseline.curve[c->baseline.points - 1];
    double largest_share = 0;
    for (int64_t i = 0; i < c->facts.labels.classes; i++) {
        largest_share = fmax(largest_share, c->facts.labels.shares[i]);
    }
    if (end->training.highest > SHARE && end->training.highest > largest_share + 0.2) {
        td__found(c, NULL, end->step, "prediction", end->training.highest,
                  td__say(c, "one class is predicted for %.0f %% of the examples",
                          100 * end->training.highest));
    }
}

const td__rule td__rule_majority_class = {
    .info = {.name = "majority_class",
             .symptom = true,
             .meaning = "one class is predicted for nearly everything",
             .reads = "predictions, where the run can be repeated",
             .statistic = "the share of the most frequent prediction against that of the most "
                          "frequent class",
             .threshold = "95 % and more, 20 points above the class",
             .remedy = ""},
    .symptom = TD__INDEX_MAJORITY_CLASS,
    .one_output = true,
    .needs = TD__NEEDS_REPEAT,
    .find = find_majority_class,
    .after = true,
};
