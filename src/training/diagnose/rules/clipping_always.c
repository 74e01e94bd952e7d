#include "diagnose/loop.h"

enum { ENOUGH = 20 };
#define ALWAYS 0.9
#define LITTLE                                                                                     \
    0.2 /* that the loss fell by: optimizers that divide by the size of a gradient do well all the same */

static void find_clipping_always(td__case *c) {
    double norms = td__loop_number(c, "clipping", "norms");
    double strong = td__loop_number(c, "clipping", "strong");
    if (norms < ENOUGH || strong < ALWAYS * norms || td__loop_number(c, "clipping", "scaled") > 0) {
        return;
    }
    td__suspicion *s =
        td__loop_error(c, td__loop_fall(c) > LITTLE ? TD_MAYBE : TD_LIKELY, NULL, 1,
                       "a max_norm around the usual norm, or none and a smaller rate");
    td__because(s, NULL, 0, td__loop_number(c, "clipping", "largest"),
                td__say(c,
                        "in %.0f of %.0f calls the norm was more than ten times max_norm %.3g, at "
                        "most %.3g",
                        strong, norms, td__loop_number(c, "clipping", "limit"),
                        td__loop_number(c, "clipping", "largest")));
}

const td__rule td__rule_clipping_always = {
    .info = {.name = "clipping_always",
             .meaning = "clipping cuts every gradient to a small part",
             .reads = "the loop's clipping",
             .statistic = "norms before clip_grad_norm_ against its max_norm",
             .threshold =
                 "more than ten times as large in nine of ten calls, of twenty at least: "
                 "it is to catch the exception; a factor of two or three is usual. A maybe where "
                 "the loss fell by a fifth all the same",
             .remedy = "a max_norm around the usual norm, or none and a smaller rate"},
    .title = "clipping in every step",
    .explains = TD__PLATEAU | TD__SLOW_CONVERGENCE | TD__LOSS_FLOOR,
    .needs = TD__NEEDS_LOOP,
    .find = find_clipping_always,
    .after = true,
};
