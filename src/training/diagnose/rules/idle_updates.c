#include "diagnose/loop.h"

static void find_idle_updates(td__case *c) {
    double count = td__loop_number(c, "idle", "count");
    if (count < 4) {
        return;
    }
    td__suspicion *s = td__loop_error(
        c, TD_LIKELY, td__loop_layer(c, "idle"), (int64_t)td__loop_number(c, "idle", "since"),
        "look at what replaces optimizer.step(): torch.compile, a wrapper, a condition");
    td__because(s, NULL, s ? s->since : 1, count,
                td__say(c, "%.0f updates in a row changed nothing of %s, which has a gradient",
                        count, td__loop_names(c, "idle", "names")));
}

const td__rule td__rule_idle_updates = {
    .info =
        {.name = "idle_updates",
         .meaning =
             "from some step on the optimizer changes no weight, although there are gradients",
         .reads = "the loop's idle",
         .statistic =
             "updates in a row that leave a weight as it was, with a gradient and a rate above 0",
         .threshold = "four, after others that changed it: a compiled or patched step that "
                      "returned early once may do so for ever",
         .remedy = "look at what replaces optimizer.step(): torch.compile, a wrapper, a condition"},
    .title = "updates that change nothing",
    .explains = TD__UNCHANGED_WEIGHTS | TD__PLATEAU | TD__SLOW_CONVERGENCE | TD__LOSS_FLOOR,
    .needs = TD__NEEDS_LOOP,
    .find = find_idle_updates,
    .after = true,
};
