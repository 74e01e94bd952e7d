#include "diagnose/loop.h"

/* Of Keras it is not known which gradients there were. Weights as an initializer draws them were trained by nobody. */
static void find_left_out(td__case *c) {
    double drawn = td__loop_number(c, "unchanged", "new");
    td__suspicion *s =
        td__loop_error(c, drawn > 0 ? TD_LIKELY : TD_MAYBE, td__loop_layer(c, "unchanged"), 1,
                       "give them to apply_gradients, or trainable = False where they are to stay");
    td__because(s, NULL, 1, td__loop_number(c, "unchanged", "count"),
                td__say(c, "trainable, and no update changed it while others changed: %s%s",
                        td__loop_names(c, "unchanged", "names"),
                        drawn > 0 ? "; they are as drawn" : ""));
}

static void find_parameter_unchanged(td__case *c) {
    if (td__loop_is(c, "unchanged", "left_out")) {
        find_left_out(c);
        return;
    }
    double count = td__loop_number(c, "unchanged", "count");
    if (count < 1) {
        return;
    }
    td__suspicion *s = td__loop_error(c, TD_LIKELY, td__loop_layer(c, "unchanged"), 1,
                                      "look for what puts the weights back; float32 weights where "
                                      "bfloat16 is too coarse for the step");
    td__because(s, NULL, 1, count,
                td__say(c, "has gradients, and did not change in any update: %s",
                        td__loop_names(c, "unchanged", "names")));
}

const td__rule td__rule_parameter_unchanged = {
    .info = {.name = "parameter_unchanged",
             .meaning = "parameters get gradients and are updated, and stay as they are",
             .reads = "the loop's unchanged",
             .statistic = "parameters whose values are the same after an update although rate "
                          "times gradient is more than a millionth of them",
             .threshold = "two updates, and no other in which they changed: something puts them "
                          "back, or the type is too coarse for the step",
             .remedy =
                 "look for what restores the weights; float32 for what is trained in bfloat16"},
    .title = "parameter that does not change",
    .explains = TD__UNCHANGED_WEIGHTS | TD__PLATEAU | TD__SLOW_CONVERGENCE | TD__LOSS_FLOOR,
    .needs = TD__NEEDS_LOOP,
    .find = find_parameter_unchanged,
    .after = true,
};
