#include "diagnose/loop.h"

static void find_broken_weight_tying(td__case *c) {
    const char *names = td__loop_names(c, "untied", "names");
    if (!*names) {
        return;
    }
    bool shared = td__loop_number(c, "untied", "shared") > 0;
    td__suspicion *s = td__loop_error(
        c, TD_LIKELY, NULL, (int64_t)td__loop_number(c, "untied", "since"),
        "tie after moving and loading: head.weight = embedding.weight, no copy, no nn.Parameter()");
    td__because(s, NULL, s ? s->since : 1, 0,
                td__say(c, "%s %s", names,
                        shared
                            ? "are two parameters in the same memory: both gradients are half of "
                              "what it should get"
                            : "began with the same numbers and have parted"));
}

const td__rule td__rule_broken_weight_tying = {
    .info = {.name = "broken_weight_tying",
             .meaning = "weights that were one parameter are two",
             .reads = "the loop's untied",
             .statistic =
                 "parameters that were the same object, or an embedding and an output layer that "
                 "began with the same numbers, against what they are after an update",
             .threshold = "one pair",
             .remedy = "tie after moving and loading: head.weight = embedding.weight, without a "
                       "copy or nn.Parameter()"},
    .title = "tied weights came apart",
    .explains = TD__SLOW_CONVERGENCE | TD__LOSS_FLOOR,
    .needs = TD__NEEDS_LOOP,
    .find = find_broken_weight_tying,
    .after = true,
};
