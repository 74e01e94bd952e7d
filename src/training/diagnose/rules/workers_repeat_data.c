#include "diagnose/loop.h"

#define SHARE 0.4

static void find_workers_repeat_data(td__case *c) {
    double workers = td__loop_number(c, "loader", "workers");
    double again = td__loop_number(c, "batches", "again");
    double among = td__loop_number(c, "batches", "among");
    bool same =
        td__loop_number(c, "batches", "repeated") >= td__loop_number(c, "batches", "updates") - 1;
    if (workers < 2 || again < 2 || again < SHARE * among ||
        (same && !td__loop_is(c, "loader", "stream"))) {
        return;
    }
    td__suspicion *s = td__loop_error(
        c, TD_SURE, NULL, (int64_t)td__loop_number(c, "batches", "since"),
        "share the data out by torch.utils.data.get_worker_info(), and seed the workers apart");
    td__because(s, NULL, s ? s->since : 1, again,
                td__say(c, "of %.0f batches of an epoch %.0f had been there before; %.0f workers",
                        among, again, workers));
}

const td__rule td__rule_workers_repeat_data = {
    .info =
        {.name = "workers_repeat_data",
         .meaning = "every worker of the data loader gives the same data",
         .reads = "the loop's batches, loader",
         .statistic =
             "batches of an epoch that had come before in it, of a loader with several workers",
         .threshold = "two, and 40 % of those looked at (in the first 16 updates)",
         .remedy =
             "share the data in the workers: torch.utils.data.get_worker_info(); seed them apart"},
    .title = "workers repeat data",
    .explains = TD__OVERFIT_GAP | TD__VALIDATION_BELOW_TRAINING,
    .needs = TD__NEEDS_LOOP,
    .find = find_workers_repeat_data,
    .after = true,
};
