#include "diagnose/loop.h"

static void find_gradients_added_up(td__case *c) {
    double count = td__loop_number(c, "added_up", "count");
    if (count < 1) {
        return;
    }
    td__suspicion *s =
        td__loop_error(c, TD_SURE, NULL, (int64_t)td__loop_number(c, "added_up", "since"),
                       "optimizer.zero_grad() once per update");
    td__because(
        s, "stale_gradients", s ? s->since : 1, count,
        td__say(c,
                "in %.0f of the first updates the gradients of the update before were still "
                "there, and the new ones were added",
                count));
}

const td__rule td__rule_gradients_added_up = {
    .info = {.name = "gradients_added_up",
             .meaning =
                 "zero_grad() is missing: each update is made with the sum of all gradients so far",
             .reads = "the loop's added_up",
             .statistic = "updates between which no gradient was cleared",
             .threshold = "one: clearing after several backward passes, as accumulation does, is "
                          "not meant by it",
             .remedy = "optimizer.zero_grad() once per update"},
    .title = "gradients add up",
    .explains = TD__DIVERGENCE | TD__OSCILLATION | TD__EXPLODING_GRADIENT | TD__NAN_LOSS |
                TD__INF_LOSS | TD__PLATEAU | TD__DEAD_RELU | TD__HUGE_ACTIVATIONS | TD__LOSS_FLOOR,
    .needs = TD__NEEDS_LOOP,
    .find = find_gradients_added_up,
    .after = true,
};
