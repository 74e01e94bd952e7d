#include "diagnose/loop.h"

#include <stdio.h>

enum { MOST_GROUPS = 256, LONG = 100 };

static void find_zero_learning_rate(td__case *c) {
    int first = -1, groups = 0;
    double zeros = 0, updates = 0;
    bool never = false;
    for (int i = 0; i < MOST_GROUPS; i++) {
        char fact[32];
        (void)snprintf(fact, sizeof fact, "zero_rate_%d", i);
        double all = td__loop_number(c, fact, "of"), last = td__loop_number(c, fact, "in_a_row");
        bool always = all >= 2 && last == all;
        if (!always && !(last >= LONG && 4 * last >= all)) {
            continue;
        }
        first = first < 0 ? i : first;
        zeros = groups ? zeros : last;
        updates = groups++ ? updates : all;
        never |= always;
    }
    if (first < 0) {
        return;
    }
    td__suspicion *s =
        td__loop_error(c, never ? TD_SURE : TD_LIKELY, NULL, (int64_t)(updates - zeros) + 1,
                       "a rate above 0, or requires_grad_(False) for what is to stay");
    td__because(s, "learning_rate", s ? s->since : 1, 0,
                td__say(c, "the rate of group %d%s is 0 in the last %.0f of %.0f updates", first,
                        groups > 1 ? " and others" : "", zeros, updates));
}

const td__rule td__rule_zero_learning_rate = {
    .info = {.name = "zero_learning_rate",
             .meaning = "the learning rate of a group of parameters is 0",
             .reads = "the loop's zero_rate_0 …",
             .statistic = "updates of each group with a rate of exactly 0",
             .threshold = "all of them, two at least; or the last quarter, a hundred at least: a "
                          "schedule that ended too early. The first step of a warm-up is not meant",
             .remedy = "a rate above 0, or requires_grad_(False)"},
    .title = "learning rate 0",
    .explains = TD__UNCHANGED_WEIGHTS | TD__PLATEAU | TD__SLOW_CONVERGENCE | TD__LOSS_FLOOR,
    .needs = TD__NEEDS_LOOP,
    .find = find_zero_learning_rate,
    .after = true,
};
