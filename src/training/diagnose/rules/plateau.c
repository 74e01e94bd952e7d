#include "diagnose/head.h"

#include <math.h>

#define FALL 0.03
#define NOTHING 0.05 /* a score that is none */
#define ALMOST 0.95  /* of the loss of a constant answer */

/* What a cross-entropy is when the answer is always the shares of the classes. */
static double loss_of_shares(const td__labels *labels) {
    double sum = 0;
    for (int64_t i = 0; i < labels->classes && i < TD__MOST_CLASSES; i++) {
        double share = labels->shares[i];
        sum -= share > 0 ? share * log(share) : 0;
    }
    return sum;
}

/* Whether the trained network does no better than a constant answer. A score of 0 is no sign of that where
 * one class is common; a cross-entropy then says more. */
static bool is_constant(const td__case *of) {
    if (!of->repeated || !of->whole || of->baseline.points == 0) {
        return false;
    }
    const td__trial_point *end = &of->baseline.curve[of->baseline.points - 1];
    td__task_kind task = of->facts.task.kind;
    bool classes = task == TD__TASK_CLASSES || task == TD__TASK_BINARY;
    bool judged = !classes || !td__is_crossentropy(of->experiment->train.objective.loss) ||
                  end->training.loss > ALMOST * loss_of_shares(&of->facts.labels);
    return judged && end->training.score < NOTHING && of->baseline.score < NOTHING;
}

static void find_plateau(td__case *of) {
    const td__series *loss = td__loss_of(of->history);
    double first = td__series_mean(loss, 0, 0.05), last = td__series_mean(loss, 0.9, 1);
    if (loss->count >= 10 && first > 0 && last > (1 - FALL) * first && last < 2 * first) {
        td__found(of, NULL, 1, "loss", last,
                  td__say(of, "loss stands still: %.4g at first, %.4g at last", first, last));
    } else if (is_constant(of)) {
        td__found(of, NULL, 1, "loss", of->baseline.score,
                  td__say(of, "after %lld steps the network does no better than a constant answer",
                          (long long)of->baseline.steps));
    }
}

const td__rule td__rule_plateau = {
    .info = {.name = "plateau",
             .symptom = true,
             .meaning =
                 "the loss stands still from the beginning, or nothing is learnt all the same",
             .reads = "loss",
             .statistic =
                 "the mean of the last tenth against the first records; of a run repeated, what "
                 "was learnt",
             .threshold =
                 "less than 3 % below: nothing is learnt; or a score below 5 % on both parts (a "
                 "cross-entropy less than 5 % below that of the classes' shares)",
             .remedy = ""},
    .symptom = TD__INDEX_PLATEAU,
    .needs = TD__NEEDS_LOSS,
    .look = find_plateau,
    .after = true,
};
