#include "diagnose/rule.h"

#include <math.h>

#define RARE 0.25 /* of the share that an equal distribution would give */
#define APART 3.0 /* times as common in validation as in training */
#define POOR 0.75
/* Examples that an equal share of the data would be, for a rare class not to be chance: alone, or where
 * validation shows that it is not rare. */
enum { ENOUGH = 20, ENOUGH_APART = 10 };

static void find_class_imbalance(td__case *c) {
    const td__labels *training = &c->facts.labels, *validation = &c->facts.validation_labels;
    td__task_kind task = c->facts.task.kind;
    int64_t classes =
        training->classes > validation->classes ? training->classes : validation->classes;
    if (!c->known || (task != TD__TASK_CLASSES && task != TD__TASK_BINARY) || classes < 2 ||
        c->facts.rows < ENOUGH_APART * classes) {
        return;
    }
    int64_t rare = 0, apart = 0;
    double equal = 1 / (double)classes, smallest_share = 1;
    for (int64_t i = 0; i < classes && i < TD__MOST_CLASSES; i++) {
        bool is_rare = training->shares[i] < RARE * equal;
        smallest_share = fmin(smallest_share, training->shares[i]);
        rare += is_rare;
        apart += is_rare && validation->shares[i] > APART * training->shares[i];
    }
    double score = td__score_of(c);
    bool poor = apart > 0 ? !(score > 0.9) : score < POOR && rare > 0;
    if (rare == 0 || !poor || (apart == 0 && c->facts.rows < ENOUGH * classes)) {
        return;
    }
    td__suspicion *s = td__suspect(c, apart ? TD__FACT : TD__TUNING, -1,
                                   "more examples of the rare classes, or weights for them");
    td__because(s, "label", 0, smallest_share,
                td__say(c,
                        "%lld of %lld classes have less than a quarter of their even share of "
                        "the training part; the rarest %.2g %%",
                        (long long)rare, (long long)classes, 100 * smallest_share));
    if (apart) {
        td__because(s, "label", 0, (double)apart,
                    td__say(c, "%lld of them are at least three times as common in validation",
                            (long long)apart));
    }
}

const td__rule td__rule_class_imbalance = {
    .info = {.name = "class_imbalance",
             .meaning = "some classes are hardly in the training set",
             .reads = "the labels of both parts, the score",
             .statistic = "the share of each class in training and in validation",
             .threshold = "below a quarter of an even share, and three times as common in "
                          "validation: then the network is judged by what it did not get to see. "
                          "Imbalance that both parts share is no finding by itself",
             .remedy = "more of the rare classes"},
    .title = "class imbalance",
    .explains = TD__MAJORITY_CLASS | TD__VALIDATION_BELOW_TRAINING | TD__OVERFIT_GAP,
    .one_output = true,
    .needs = TD__NEEDS_EXPERIMENT,
    .find = find_class_imbalance,
};
