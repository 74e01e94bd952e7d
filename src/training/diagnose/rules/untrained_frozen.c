#include "diagnose/loop.h"

#define LITTLE 0.1 /* that the loss fell by */

static void find_untrained_frozen(td__case *c) {
    double count = td__loop_number(c, "frozen", "count");
    /* A body that comes before what is trained is often frozen on purpose. */
    bool usual = td__loop_is(c, "frozen", "leading") && !(td__loop_fall(c) < LITTLE);
    if (count < 1 || usual) {
        return;
    }
    td__suspicion *s = td__loop_error(c, TD_LIKELY, td__loop_layer(c, "frozen"), 1,
                                      "requires_grad_(True), or load trained weights");
    td__because(s, NULL, 1, count,
                td__say(c, "not trained, and still as PyTorch draws them for a new layer: %s",
                        td__loop_names(c, "frozen", "names")));
}

const td__rule td__rule_untrained_frozen = {
    .info = {.name = "untrained_frozen",
             .meaning = "layers are frozen although nobody has trained them",
             .reads = "the loop's frozen",
             .statistic = "weights without requires_grad that never change and are uniform within "
                          "1 / sqrt(inputs), as PyTorch draws those of a new layer",
             .threshold =
                 "one: trained weights do not keep to that bound. Not where they come before "
                 "all layers that are trained and the loss falls by a tenth",
             .remedy = "requires_grad_(True), or load trained weights"},
    .title = "untrained layers are frozen",
    .explains = TD__UNCHANGED_WEIGHTS | TD__PLATEAU | TD__SLOW_CONVERGENCE | TD__LOSS_FLOOR,
    .needs = TD__NEEDS_LOOP,
    .find = find_untrained_frozen,
    .after = true,
};
