#include "diagnose/loop.h"

enum { ENOUGH = 100 };

static void find_clipping_never(td__case *c) {
    double norms = td__loop_number(c, "clipping", "norms");
    double largest = td__loop_number(c, "clipping", "largest");
    double limit = td__loop_number(c, "clipping", "limit");
    if (norms < ENOUGH || largest >= limit / 100) {
        return;
    }
    td__suspicion *s =
        td__loop_error(c, TD_MAYBE, NULL, 1, "a max_norm of a few times the usual norm");
    td__because(s, NULL, 0, largest,
                td__say(c, "max_norm is %.3g, and the largest of %.0f norms was %.3g", limit, norms,
                        largest));
}

const td__rule td__rule_clipping_never = {
    .info = {.name = "clipping_never",
             .meaning = "the limit of clipping is far above every gradient",
             .reads = "the loop's clipping",
             .statistic = "the largest norm before clip_grad_norm_ against its max_norm",
             .threshold = "below a hundredth in a hundred calls: it cannot catch anything. No more "
                          "than a maybe: it does no harm",
             .remedy = "a max_norm of a few times the usual norm"},
    .title = "clipping that never acts",
    .explains = TD__DIVERGENCE | TD__EXPLODING_GRADIENT,
    .needs = TD__NEEDS_LOOP,
    .find = find_clipping_never,
    .after = true,
};
