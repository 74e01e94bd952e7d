#include "diagnose/rule.h"

#define SMALL 4
#define USUAL "32"

static void find_batch_too_small(td__case *c) {
    if (!c->known || c->trainer->feed.info->batch > SMALL || c->facts.rows < 64) {
        return;
    }
    td__suspicion *s = td__suspect(c, TD__STRUCTURE, -1, "data.batch: " USUAL);
    td__because(s, NULL, 0, (double)c->trainer->feed.info->batch,
                td__say(c, "gradients of %lld example%s are mostly noise",
                        (long long)c->trainer->feed.info->batch,
                        c->trainer->feed.info->batch == 1 ? "" : "s"));
    td__edit(s, "data.batch=" USUAL);
    if (s) {
        s->more = (double)c->trainer->feed.info->batch / 32;
    }
}

const td__rule td__rule_batch_too_small = {
    .info = {.name = "batch_too_small",
             .meaning = "so small that gradients are noise",
             .reads = "data.batch",
             .statistic = "what batches of 32 achieve in as many epochs",
             .threshold = "4 examples and fewer, and batches of 32 do better with fewer steps",
             .remedy = "data.batch: 32"},
    .title = "batch too small",
    .explains = TD__OSCILLATION | TD__DEAD_RELU | TD__PLATEAU | TD__DIVERGENCE | TD__NAN_LOSS |
                TD__INF_LOSS | TD__EXPLODING_GRADIENT | TD__MAJORITY_CLASS,
    .needs = TD__NEEDS_EXPERIMENT,
    .find = find_batch_too_small,
    .after = true,
};
