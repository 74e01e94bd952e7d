#include "diagnose/loop.h"

static void find_train_not_called(td__case *c) {
    double count = td__loop_number(c, "train_not_called", "count");
    if (count < 1) {
        return;
    }
    td__suspicion *s = td__loop_error(c, TD_LIKELY, td__loop_layer(c, "train_not_called"),
                                      (int64_t)td__loop_number(c, "train_not_called", "since"),
                                      "model.train() before training");
    td__because(s, NULL, s ? s->since : 1, count,
                td__say(c,
                        "its train() would change whether %.0f parameters are trained or in which "
                        "mode modules are, as of %s",
                        count, td__loop_names(c, "train_not_called", "names")));
}

const td__rule td__rule_train_not_called = {
    .info = {.name = "train_not_called",
             .meaning = "train() of a module does more than set the mode, and has not been called",
             .reads = "the loop's train_not_called",
             .statistic = "parameters and modules that train(), called on a copy without memory, "
                          "would freeze or set",
             .threshold = "one, at the first update: frozen stages are frozen there",
             .remedy = "model.train() before training"},
    .title = "train() was not called",
    .explains = 0,
    .needs = TD__NEEDS_LOOP,
    .find = find_train_not_called,
    .after = true,
};
