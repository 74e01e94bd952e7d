#include "diagnose/rule.h"

#define FEW 60 /* examples */
#define GAP 0.12

static void find_too_little_data(td__case *c) {
    if (!c->known || !c->repeated || c->facts.validation_rows == 0 || c->baseline.points == 0) {
        return;
    }
    const td__trial_point *end = &c->baseline.curve[c->baseline.points - 1];
    double each = c->facts.task.classes > 2 ? 10.0 * (double)c->facts.task.classes : FEW;
    each = each > FEW ? each : FEW;
    if ((double)c->facts.rows > each || end->training.score - end->validation.score < GAP) {
        return;
    }
    td__suspicion *s = td__suspect(c, TD__FACT, -1, "more examples, or data augmentation");
    td__because(s, NULL, 0, (double)c->facts.rows,
                td__say(c, "%lld examples to learn from, %lld to validate with",
                        (long long)c->facts.rows, (long long)c->facts.validation_rows));
    td__because(s, NULL, end->step, end->validation.score,
                td__say(c, "%.0f %% of the training part is learnt, %.0f %% of the validation part",
                        100 * end->training.score, 100 * end->validation.score));
}

const td__rule td__rule_too_little_data = {
    .info = {.name = "too_little_data",
             .meaning = "too few examples",
             .reads = "the number of examples, the scores of both parts",
             .statistic = "examples for each class",
             .threshold = "fewer than 10 a class (60 in all), and the validation part is learnt 12 "
                          "points less than the training part",
             .remedy = "more examples"},
    .title = "too little data",
    .explains = TD__OVERFIT_GAP | TD__VALIDATION_BELOW_TRAINING,
    .needs = TD__NEEDS_REPEAT,
    .find = find_too_little_data,
    .after = true,
};
