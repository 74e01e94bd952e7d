#include "diagnose/loop.h"

static void look(td__case *of) {
    td__ranks ranks = td__loop_ranks(of, "batch_fingerprints");
    bool one_batch = td__loop_number(of, "loader", "batches") < 2;
    if (ranks.common < 2 || ranks.parted > 0 || one_batch) {
        return;
    }
    td__suspicion *s = td__loop_error(
        of, TD_LIKELY, NULL, 1, "DistributedSampler for the loader, set_epoch in every epoch");
    td__because(s, NULL, 1, (double)ranks.common,
                td__say(of, "%lld batches of other ranks are those of rank 0, number for number",
                        (long long)ranks.common));
}

const td__rule td__rule_replicas_same_data = {
    .info =
        {.name = "replicas_same_data",
         .meaning = "every rank gets the same batches",
         .reads =
             "the loop's batch_fingerprints, of this run and of those of the other ranks beside it",
         .statistic = "fingerprints of the batches of updates 1, 2, 4, 8, …",
         .threshold = "all the same, two at least: the ranks do the same work",
         .remedy = "DistributedSampler for the loader, with set_epoch in every epoch"},
    .title = "replicas train on the same data",
    .explains = 0,
    .needs = TD__NEEDS_LOOP,
    .look = look,
    .after = true,
};
