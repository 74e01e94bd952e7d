#include "diagnose/loop.h"

static void find_scheduler_before_optimizer(td__case *c) {
    double early = td__loop_number(c, "scheduler", "early");
    if (early < 1) {
        return;
    }
    td__suspicion *s =
        td__loop_error(c, TD_SURE, NULL, 1, "optimizer.step(), then scheduler.step()");
    td__because(s, "learning_rate", 1, early,
                td__say(c, "%.100s stepped %.0f times before the first update",
                        td__loop_text(c, "scheduler", "kind"), early));
}

const td__rule td__rule_scheduler_before_optimizer = {
    .info = {.name = "scheduler_before_optimizer",
             .meaning = "the scheduler steps before the optimizer does: the first value of the "
                        "schedule is skipped",
             .reads = "the loop's scheduler",
             .statistic = "steps of the scheduler before the first update",
             .threshold = "one, unless a GradScaler skipped updates",
             .remedy = "optimizer.step(), then scheduler.step()"},
    .title = "scheduler before optimizer",
    .explains = 0,
    .needs = TD__NEEDS_LOOP,
    .find = find_scheduler_before_optimizer,
    .after = true,
};
