#include "diagnose/rule.h"

#include <math.h>

#define DIFFERENCE 0.3 /* of the neighbours that agree, validation above training */
#define FARTHER 1.3    /* neighbours of noisy inputs are farther apart */

static void find_bad_labels(td__case *of) {
    const td__facts *facts = &of->facts;
    if (!of->known) {
        return;
    }
    bool validated = facts->validation_rows > 0;
    bool same =
        facts->labels.all.count > 1 && facts->labels.all.minimum == facts->labels.all.maximum &&
        of->experiment->train.objective.target == TD__TARGET_LABEL && facts->labels.width == 1;
    if (same) {
        td__suspicion *s = td__suspect(of, TD__FACT, -1, "labels that were not overwritten");
        td__because(s, "label", 0, facts->labels.all.minimum,
                    td__say(of, "all %lld labels of the training part are %.4g",
                            (long long)facts->rows, facts->labels.all.minimum));
        if (validated &&
            facts->validation_labels.all.maximum > facts->validation_labels.all.minimum) {
            td__because(s, "label", 0, 0, "the validation part has others");
        }
        return;
    }
    double lower = facts->validation_agreement - facts->training_agreement;
    if (lower > DIFFERENCE && facts->training_distance < FARTHER * facts->validation_distance) {
        td__suspicion *s = td__suspect(of, TD__FACT, -1, "check the training labels");
        td__because(s, "label", 0, facts->training_agreement,
                    td__say(of,
                            "the nearest neighbour of a training example has its class in "
                            "%.0f %% of the cases, of a validation example in %.0f %%",
                            100 * facts->training_agreement, 100 * facts->validation_agreement));
    }
}

const td__rule td__rule_bad_labels = {
    .info = {.name = "bad_labels",
             .meaning = "labels are wrong: noise, shuffled, all the same",
             .reads = "inputs and labels of both parts",
             .statistic =
                 "whether labels differ at all; how often nearest neighbours have the same "
                 "class, within training and within validation (400 examples of each)",
             .threshold = "neighbours agree 30 points less often in training, although they are as "
                          "near: the inputs are alike, so the labels are not",
             .remedy = "check the labels"},
    .title = "bad labels",
    .explains = TD__PLATEAU | TD__VALIDATION_BELOW_TRAINING | TD__LOSS_FLOOR | TD__CONSTANT_OUTPUT |
                TD__OVERFIT_GAP | TD__SLOW_CONVERGENCE | TD__MAJORITY_CLASS,
    .one_output = true,
    .needs = TD__NEEDS_EXPERIMENT,
    .look = find_bad_labels,
};
