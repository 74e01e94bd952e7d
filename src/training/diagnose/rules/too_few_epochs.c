#include "diagnose/rule.h"

#define MORE 4.0
#define MUCH_MORE 16.0

/* So few that even four times as many are few. */
enum { FEW_STEPS = 100, FEW_EPOCHS = 2 };

static void suspect(td__case *of, double more) {
    long long epochs = of->trainer->feed.epochs, many = (long long)(more * (double)epochs);
    /* A hundred updates hardly move weights: that is how the training was made, no tuning. */
    td__strength strength = of->steps <= FEW_STEPS ? TD__STRUCTURE : TD__TUNING;
    td__suspicion *s =
        td__suspect(of, strength, -1, td__say(of, "train.epochs: %lld (from %lld)", many, epochs));
    if (s) {
        s->more = more;
        td__edit(s, td__say(of, "train.epochs=%lld", many));
    }
}

static void find_too_few_epochs(td__case *of) {
    if (!of->known || !of->repeated || !of->whole || of->baseline.origin.cause) {
        return;
    }
    suspect(of, MORE);
    if (of->steps <= FEW_STEPS || of->trainer->feed.epochs <= FEW_EPOCHS) {
        suspect(of, MUCH_MORE);
    }
}

const td__rule td__rule_too_few_epochs = {
    .info = {.name = "too_few_epochs",
             .meaning = "training ended while it was still getting better",
             .reads = "train.epochs, the loss over time",
             .statistic =
                 "how far four times as many steps get (sixteen times, of 100 steps or two "
                 "epochs at most)",
             .threshold = "most of what was missing is won, and the loss was still falling at the "
                          "end",
             .remedy = "train.epochs"},
    .title = "too few epochs",
    .explains = TD__SLOW_CONVERGENCE | TD__EARLY_END | TD__MAJORITY_CLASS | TD__PLATEAU,
    .needs = TD__NEEDS_REPEAT,
    .look = find_too_few_epochs,
    .after = true,
};
