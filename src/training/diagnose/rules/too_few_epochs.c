#include "diagnose/rule.h"

#define MORE 4.0

static void find_too_few_epochs(td__case *of) {
    if (!of->known || !of->repeated || !of->whole || of->baseline.origin.cause) {
        return;
    }
    td__suspicion *s = td__suspect(of, TD__TUNING, -1,
                                   td__say(of, "train.epochs: %lld (from %lld)",
                                           (long long)(MORE * (double)of->trainer->feed.epochs),
                                           (long long)of->trainer->feed.epochs));
    if (s) {
        s->more = MORE;
        td__edit(s, td__say(of, "train.epochs=%lld",
                            (long long)(MORE * (double)of->trainer->feed.epochs)));
    }
}

const td__rule td__rule_too_few_epochs = {
    .info = {.name = "too_few_epochs",
             .meaning = "training ended while it was still getting better",
             .reads = "train.epochs, the loss over time",
             .statistic = "how far four times as many steps get",
             .threshold = "most of what was missing is won, and the loss was still falling at the "
                          "end",
             .remedy = "train.epochs"},
    .title = "too few epochs",
    .explains = TD__SLOW_CONVERGENCE | TD__EARLY_END | TD__MAJORITY_CLASS | TD__PLATEAU,
    .needs = TD__NEEDS_REPEAT,
    .look = find_too_few_epochs,
    .after = true,
};
