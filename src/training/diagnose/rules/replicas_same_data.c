#include "diagnose/loop.h"

static void find_replicas_same_data(td__case *c) {
    td__ranks ranks = td__loop_ranks(c, "batch_fingerprints");
    bool one_batch = td__loop_number(c, "loader", "batches") < 2;
    if (ranks.same == 0 || one_batch) {
        return;
    }
    td__suspicion *s = td__loop_error(
        c, TD_LIKELY, NULL, 1, "DistributedSampler for the loader, set_epoch in every epoch");
    td__because(s, NULL, 1, (double)ranks.same,
                td__say(c, "%lld batches of rank %d are those of rank %d, number for number",
                        (long long)ranks.same, ranks.pair[1], ranks.pair[0]));
}

const td__rule td__rule_replicas_same_data = {
    .info =
        {.name = "replicas_same_data",
         .meaning = "two ranks get the same batches",
         .reads =
             "the loop's batch_fingerprints, of this run and of those of the other ranks beside it",
         .statistic = "fingerprints of the batches of updates 1, 2, 4, 8, …",
         .threshold =
             "two ranks whose batches are all the same, two at least: they do the same work",
         .remedy = "DistributedSampler for the loader, with set_epoch in every epoch"},
    .title = "replicas train on the same data",
    .explains = 0,
    .needs = TD__NEEDS_LOOP,
    .find = find_replicas_same_data,
    .after = true,
};
