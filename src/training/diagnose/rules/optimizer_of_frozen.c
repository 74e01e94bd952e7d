#include "diagnose/loop.h"

static void find_optimizer_of_frozen(td__case *c) {
    double count = td__loop_number(c, "frozen_optimizer", "count");
    if (count < 2) {
        return;
    }
    td__suspicion *s = td__loop_error(
        c, TD_SURE, NULL, (int64_t)td__loop_number(c, "frozen_optimizer", "since"),
        "requires_grad_(True) for what is to be trained, and an optimizer that has it");
    td__because(
        s, NULL, s ? s->since : 1, count,
        td__say(c, "%.0f updates, and none of the optimizer's %.0f parameters requires a gradient",
                count, td__loop_number(c, "frozen_optimizer", "parameters")));
}

const td__rule td__rule_optimizer_of_frozen = {
    .info = {.name = "optimizer_of_frozen",
             .meaning = "no parameter of the optimizer requires a gradient: nothing is learnt",
             .reads = "the loop's frozen_optimizer",
             .statistic = "updates of an optimizer that has parameters of the model, none of which "
                          "requires a gradient",
             .threshold = "two: batch normalisation still adapts, so the loss moves a little",
             .remedy =
                 "requires_grad_(True) for what is to be trained, and an optimizer that has it"},
    .title = "the optimizer has frozen parameters only",
    .explains = TD__UNCHANGED_WEIGHTS | TD__PLATEAU | TD__SLOW_CONVERGENCE | TD__LOSS_FLOOR,
    .needs = TD__NEEDS_LOOP,
    .find = find_optimizer_of_frozen,
    .after = true,
};
