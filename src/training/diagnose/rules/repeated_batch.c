#include "diagnose/loop.h"

static void find_repeated_batch(td__case *c) {
    double updates = td__loop_number(c, "batches", "updates");
    double repeated = td__loop_number(c, "batches", "repeated");
    double batches = td__loop_number(c, "loader", "batches");
    bool workers =
        td__loop_number(c, "loader", "workers") > 1 && td__loop_is(c, "loader", "stream");
    bool drawn_anew =
        batches == 0 && repeated > 2 && td__loop_number(c, "batches", "copies") == repeated;
    if (updates < 2 || repeated < updates - 1 || workers || !(batches > 1 || drawn_anew)) {
        return;
    }
    /* Of Keras it is not known whether the pipeline has other batches: one may be all data. */
    bool certain = repeated > 2 && !td__loop_is(c, "batches", "passing");
    td__suspicion *s =
        td__loop_error(c,
                       batches < 2 ? TD_MAYBE
                       : certain   ? TD_SURE
                                   : TD_LIKELY,
                       NULL, 1, "for batch in loader: …; next(iter(loader)) begins anew each time");
    td__because(s, NULL, (int64_t)td__loop_number(c, "batches", "since"), repeated,
                td__say(c, "%.0f updates in a row were made with the same batch", repeated + 1));
    if (batches > 1) {
        td__because(s, NULL, 0, batches, td__say(c, "the loader has %.0f", batches));
    }
}

const td__rule td__rule_repeated_batch = {
    .info = {.name = "repeated_batch",
             .meaning = "every update is made with the same batch",
             .reads = "the loop's batches, loader",
             .statistic =
                 "updates whose batches have the fingerprint of those of the update before",
             .threshold = "all of them, while the loader has several batches. Without a loader a "
                          "maybe, from four updates on, when the numbers are the same and the "
                          "memory is not: training with all data at once has both the same",
             .remedy = "iterate over the loader; next(iter(loader)) begins anew"},
    .title = "always the same batch",
    .explains = TD__OVERFIT_GAP | TD__VALIDATION_BELOW_TRAINING,
    .needs = TD__NEEDS_LOOP,
    .find = find_repeated_batch,
    .after = true,
};
