#include "diagnose/loop.h"

static void find_batch_norm_of_one(td__case *c) {
    double ones = td__loop_number(c, "batches", "ones");
    double passes = td__loop_number(c, "batches", "passes");
    if (ones < 2 || 2 * ones < passes) {
        return;
    }
    td__suspicion *s = td__loop_error(c, TD_SURE, NULL, 1,
                                      "a larger batch, drop_last=True, or GroupNorm or LayerNorm");
    td__because(s, NULL, 1, ones,
                td__say(c,
                        "%.0f of %.0f batches had one example, and the model normalises over the "
                        "batch",
                        ones, passes));
}

const td__rule td__rule_batch_norm_of_one = {
    .info = {.name = "batch_norm_of_one",
             .meaning = "batch normalisation over a batch of one example",
             .reads = "the loop's batches",
             .statistic =
                 "passes in training mode with one example, of a model with batch normalisation",
             .threshold = "two, and half of those looked at: an example is normalised by itself, "
                          "and in evaluation by something else",
             .remedy = "a larger batch, drop_last=True, GroupNorm or LayerNorm"},
    .title = "batch normalisation of one",
    .explains = TD__VALIDATION_BELOW_TRAINING | TD__OVERFIT_GAP | TD__OSCILLATION | TD__PLATEAU |
                TD__LOSS_FLOOR,
    .needs = TD__NEEDS_LOOP,
    .find = find_batch_norm_of_one,
    .after = true,
};
