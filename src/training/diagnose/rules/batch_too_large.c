#include "diagnose/rule.h"

#define SHARE 0.25 /* of the data in one batch */
#define USUAL 32
#define FEW 2 /* updates an epoch: that is how the training was made, no tuning */

static void find_batch_too_large(td__case *c) {
    if (!c->known || c->facts.rows < 2 * USUAL ||
        (double)c->trainer->feed.info->batch < SHARE * (double)c->facts.rows ||
        c->trainer->feed.info->batch <= USUAL) {
        return;
    }
    td__suspicion *s = td__suspect(c, c->trainer->feed.batches <= FEW ? TD__STRUCTURE : TD__TUNING,
                                   -1, td__say(c, "data.batch: %d", USUAL));
    td__because(s, NULL, 0, (double)c->trainer->feed.info->batch,
                td__say(c, "batches of %lld of %lld examples: %lld updates an epoch",
                        (long long)c->trainer->feed.info->batch, (long long)c->facts.rows,
                        (long long)c->trainer->feed.batches));
    td__edit(s, td__say(c, "data.batch=%d", USUAL));
    if (s) {
        s->more = (double)((c->facts.rows + USUAL - 1) / USUAL) / (double)c->trainer->feed.batches;
    }
}

const td__rule td__rule_batch_too_large = {
    .info = {.name = "batch_too_large",
             .meaning = "so large that an epoch has too few updates",
             .reads = "data.batch, the number of examples",
             .statistic = "what batches of 32 achieve in as many epochs",
             .threshold =
                 "a quarter of the data in a batch, and batches of 32 win most of what was "
                 "missing",
             .remedy = "data.batch: 32"},
    .title = "batch too large",
    .explains = TD__SLOW_CONVERGENCE | TD__PLATEAU,
    .needs = TD__NEEDS_EXPERIMENT,
    .find = find_batch_too_large,
    .after = true,
};
