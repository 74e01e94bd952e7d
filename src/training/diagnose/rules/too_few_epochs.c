#include "diagnose/rule.h"

#define MORE 4.0
#define MUCH_MORE 16.0

/* So few that even four times as many are few. */
enum { FEW_STEPS = 100, FEW_EPOCHS = 2 };

static void suspect(td__case *c, double more) {
    long long epochs = c->trainer->feed.epochs, many = (long long)(more * (double)epochs);
    /* A hundred updates hardly move weights: that is how the training was made, no tuning. */
    td__strength strength = c->steps <= FEW_STEPS ? TD__STRUCTURE : TD__TUNING;
    td__suspicion *s =
        td__suspect(c, strength, -1, td__say(c, "train.epochs: %lld (from %lld)", many, epochs));
    if (s) {
        s->more = more;
        td__edit(s, td__say(c, "train.epochs=%lld", many));
    }
}

static void find_too_few_epochs(td__case *c) {
    if (!c->known || !c->repeated || !c->whole || c->baseline.origin.cause) {
        return;
    }
    suspect(c, MORE);
    if (c->steps <= FEW_STEPS || c->trainer->feed.epochs <= FEW_EPOCHS) {
        suspect(c, MUCH_MORE);
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
    .find = find_too_few_epochs,
    .after = true,
};
