#include "diagnose/rule.h"

#include <math.h>

#define DIFFERENCE 0.15

static void find_noisy_inputs(td__case *c) {
    const td__facts *facts = &c->facts;
    double lower = c->known ? facts->validation_agreement - facts->training_agreement : 0;
    if (!(lower > fmax(DIFFERENCE, facts->chance)) || !td__inputs_are_farther(facts)) {
        return;
    }
    td__suspicion *s = td__suspect(c, TD__FACT, c->layers.first, "inputs without that noise");
    td__because(s, "input", 0, facts->training_distance,
                td__say(c,
                        "nearest neighbours are %.2g apart in training, %.2g in validation, "
                        "and their labels agree to %.0f %% and %.0f %% (0 %%: as by chance)",
                        facts->training_distance, facts->validation_distance,
                        100 * fmax(facts->training_agreement, 0),
                        100 * fmax(facts->validation_agreement, 0)));
}

const td__rule td__rule_noisy_inputs = {
    .info = {.name = "noisy_inputs",
             .meaning = "inputs carry noise that drowns the signal",
             .reads = "inputs and labels of both parts",
             .statistic = "the distance of nearest neighbours, and how alike their "
                          "labels are, within training and within validation",
             .threshold = "30 % farther apart in training than in validation, and their labels 15 "
                          "points less alike (more where there are few examples)",
             .remedy = "cleaner inputs"},
    .title = "noisy inputs",
    .explains = TD__PLATEAU | TD__VALIDATION_BELOW_TRAINING | TD__LOSS_FLOOR | TD__OVERFIT_GAP |
                TD__SLOW_CONVERGENCE | TD__MAJORITY_CLASS,
    .needs = TD__NEEDS_EXPERIMENT,
    .find = find_noisy_inputs,
};
