#include "diagnose/loop.h"

static void find_parameter_without_optimizer(td__case *c) {
    double outside = td__loop_number(c, "without_optimizer", "count");
    if (td__loop_updates(c) < 2 || outside < 1 || td__loop_number(c, "strangers", NULL) > 0 ||
        td__loop_is(c, "elsewhere", NULL) || td__loop_is(c, "without_optimizer", "unused")) {
        return;
    }
    bool head_alone = td__loop_is(c, "without_optimizer", "leading");
    const char *untrained = td__loop_names(c, "without_optimizer", "new");
    td__suspicion *s = td__loop_error(
        c,
        !head_alone  ? TD_SURE
        : *untrained ? TD_LIKELY
                     : TD_MAYBE,
        td__loop_layer(c, "without_optimizer"), 1,
        "give them to the optimizer, or requires_grad_(False) where they are to stay");
    td__because(s, NULL, 1, outside,
                td__say(c, "in no optimizer, of %.0f that require gradients: %s",
                        td__loop_number(c, "trainable", NULL),
                        td__loop_names(c, "without_optimizer", "names")));
    if (*untrained) {
        td__because(s, NULL, 1, 0,
                    td__say(c, "nobody has trained them before, they are as drawn: %s", untrained));
    }
}

const td__rule td__rule_parameter_without_optimizer = {
    .info = {.name = "parameter_without_optimizer",
             .meaning = "parameters that are to be trained are in no optimizer",
             .reads = "the loop's without_optimizer",
             .statistic = "parameters with requires_grad that no optimizer that has stepped has, "
                          "after two updates",
             .threshold = "one. A maybe where all of them come before those that are trained: a "
                          "head that is trained alone. Not where several layers are trained and "
                          "the rest is as PyTorch draws a new layer's weights",
             .remedy = "give them to the optimizer, or say requires_grad_(False)"},
    .title = "parameter in no optimizer",
    .explains = TD__UNCHANGED_WEIGHTS | TD__PLATEAU | TD__SLOW_CONVERGENCE | TD__LOSS_FLOOR,
    .needs = TD__NEEDS_LOOP,
    .find = find_parameter_without_optimizer,
    .after = true,
};
