#include "diagnose/rule.h"

#include <math.h>

#define GAP 0.2

static void find_validation_below_training(td__case *c) {
    if (!c->repeated || c->baseline.points == 0 || c->facts.validation_rows == 0) {
        return;
    }
    const td__trial_point *end = &c->baseline.curve[c->baseline.points - 1];
    if (end->training.score - end->validation.score > GAP) {
        td__found(
            c, NULL, end->step, NULL, end->validation.score,
            td__say(c, "%.0f %% of the training part is learnt, %.0f %% of the validation part",
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
    .find = find_validation_below_training,
    .after = true,
};
