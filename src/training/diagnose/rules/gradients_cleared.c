#include "diagnose/loop.h"

static void find_gradients_cleared(td__case *c) {
    double cleared = td__loop_number(c, "cleared", "count");
    if (cleared < 2) {
        return;
    }
    td__suspicion *s =
        td__loop_error(c, TD_SURE, NULL, (int64_t)td__loop_number(c, "cleared", "since"),
                       "zero_grad() before backward(), or after step()");
    td__because(
        s, NULL, s ? s->since : 1, cleared,
        td__say(c,
                "in %.0f updates the backward pass had brought gradients, and they were gone "
                "when the optimizer stepped",
                cleared));
}

const td__rule td__rule_gradients_cleared = {
    .info = {.name = "gradients_cleared",
             .meaning = "zero_grad() stands between backward() and step()",
             .reads = "the loop's cleared, updates",
             .statistic =
                 "updates whose gradients are gone or 0 although a backward pass had brought some",
             .threshold = "two",
             .remedy = "zero_grad() before backward(), or after step()"},
    .title = "gradients cleared before the step",
    .explains = TD__UNCHANGED_WEIGHTS | TD__ZERO_GRADIENT | TD__PLATEAU | TD__LOSS_FLOOR,
    .needs = TD__NEEDS_LOOP,
    .find = find_gradients_cleared,
    .after = true,
};
