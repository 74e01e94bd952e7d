#include "diagnose/loop.h"

static void find_stale_optimizer(td__case *c) {
    double strangers = td__loop_number(c, "strangers", NULL);
    double outside = td__loop_number(c, "without_optimizer", "count");
    bool elsewhere = td__loop_is(c, "elsewhere", NULL);
    if ((strangers < 1 && !elsewhere) || outside < 1) {
        return;
    }
    td__suspicion *s = td__loop_error(c, strangers < 1 ? TD_LIKELY : TD_SURE,
                                      td__loop_layer(c, "without_optimizer"), 1,
                                      "make the optimizer after the model is complete and on its "
                                      "device");
    if (strangers < 1) {
        td__because(s, NULL, 1, outside, "the optimizer that was given has no parameter of it");
    } else {
        td__because(
            s, NULL, 1, strangers,
            td__say(c,
                    "the optimizer has %.0f parameters that are not the model's and never get a "
                    "gradient",
                    strangers));
    }
    td__because(s, NULL, 1, outside,
                td__say(c, "in no optimizer: %s", td__loop_names(c, "without_optimizer", "names")));
}

const td__rule td__rule_stale_optimizer = {
    .info =
        {.name = "stale_optimizer",
         .meaning = "the optimizer was made before the model was changed or moved",
         .reads = "the loop's strangers, elsewhere, without_optimizer",
         .statistic = "parameters of the optimizer that the model has not and that never get a "
                      "gradient, while the model has some that are in no optimizer",
         .threshold =
             "one of each: what the optimizer updates is not what the model computes with. Or an "
             "optimizer that watch() was given has no parameter of the model",
         .remedy = "make the optimizer after the model is complete and on its device"},
    .title = "optimizer of another model",
    .explains = TD__UNCHANGED_WEIGHTS | TD__PLATEAU | TD__SLOW_CONVERGENCE | TD__LOSS_FLOOR,
    .needs = TD__NEEDS_LOOP,
    .find = find_stale_optimizer,
    .after = true,
};
