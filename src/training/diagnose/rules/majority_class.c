#include "diagnose/rule.h"

#include <math.h>

#define SHARE 0.95

static void find_majority_class(td__case *of) {
    if (!of->repeated || of->baseline.points == 0 || of->facts.labels.classes < 2) {
        return;
    }
    const td__trial_point *end = &of->baseline.curve[of->baseline.points - 1];
    double most = 0;
    for (int64_t i = 0; i < of->facts.labels.classes; i++) {
        most = fmax(most, of->facts.labels.shares[i]);
    }
    if (end->training.highest > SHARE && end->training.highest > most + 0.2) {
        td__found(of, NULL, end->step, "prediction", end->training.highest,
                  td__say(of, "one class is predicted for %.0f %% of the examples",
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
    .look = find_majority_class,
    .after = true,
};
