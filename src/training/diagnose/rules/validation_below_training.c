#include "diagnose/rule.h"

#include <math.h>

#define GAP 0.2

static void find_validation_below_training(td__case *of) {
    if (!of->repeated || of->baseline.points == 0 || of->facts.validation_rows == 0) {
        return;
    }
    const td__trial_point *end = &of->baseline.curve[of->baseline.points - 1];
    if (end->training.score - end->validation.score > GAP) {
        td__found(
            of, NULL, end->step, NULL, end->validation.score,
            td__say(of, "%.0f %% of the training part is learnt, %.0f %% of the validation part",
                    100 * fmax(end->training.score, 0), 100 * fmax(end->validation.score, 0)));
    }
}

const td__rule td__rule_validation_below_training = {
    .info = {.name = "validation_below_training",
             .symptom = true,
             .meaning = "the validation part is learnt much less than the training part",
             .reads = "the scores of both parts",
             .statistic = "training score less validation score",
             .threshold = "20 points",
             .remedy = ""},
    .symptom = TD__INDEX_VALIDATION_BELOW_TRAINING,
    .needs = TD__NEEDS_REPEAT,
    .look = find_validation_below_training,
    .after = true,
};
