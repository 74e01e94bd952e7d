#include "diagnose/loop.h"

static void find_replicas_drift(td__case *c) {
    td__ranks ranks = td__loop_ranks(c, "fingerprints");
    if (ranks.parted == 0) {
        return;
    }
    td__suspicion *s = td__loop_error(c, TD_SURE, NULL, ranks.parted,
                                      "wrap the model in DistributedDataParallel; change weights "
                                      "on every rank, or before");
    td__because(s, NULL, ranks.parted, ranks.rank,
                td__say(c, "the parameters of rank %d are not those of rank 0, first in step %lld",
                        ranks.rank, (long long)ranks.parted));
}

const td__rule td__rule_replicas_drift = {
    .info = {.name = "replicas_drift",
             .meaning = "the copies of the model on the ranks are no longer the same",
             .reads =
                 "the loop's fingerprints, of this run and of those of the other ranks beside it",
             .statistic = "fingerprints of the parameters after updates 1, 2, 4, 8, …",
             .threshold = "one that differs: replicas get the same updates, bit for bit",
             .remedy = "wrap the model in DistributedDataParallel, and change weights on all ranks "
                       "or before that"},
    .title = "replicas drift apart",
    .explains = TD__SLOW_CONVERGENCE | TD__LOSS_FLOOR,
    .needs = TD__NEEDS_LOOP,
    .find = find_replicas_drift,
    .after = true,
};
