#include "diagnose/loop.h"

static void find_random_state_lost(td__case *c) {
    double repeated = td__loop_number(c, "resumed", "repeated");
    double skipped = td__loop_number(c, "resumed", "skipped");
    if (repeated < 1 && skipped < 1) {
        return;
    }
    int64_t since = (int64_t)td__loop_number(c, "resumed", "since");
    td__suspicion *s = td__loop_error(c, repeated > 0 ? TD_SURE : TD_LIKELY, NULL, since,
                                      "keep the states of random generators in the checkpoint "
                                      "(torch.get_rng_state()) and set them when training goes on");
    td__because(s, NULL, since, repeated + skipped,
                repeated > 0
                    ? td__say(c,
                              "step %lld of the resumed run began with the random state of step "
                              "%.0f: what was random then is repeated",
                              (long long)since, td__loop_number(c, "resumed", "of"))
                    : td__say(c,
                              "step %lld of the resumed run did not begin with the random state "
                              "that the step before it left",
                              (long long)since));
}

const td__rule td__rule_random_state_lost = {
    .info = {.name = "random_state_lost",
             .meaning = "a resumed training repeats or skips randomness",
             .reads = "the loop's resumed",
             .statistic = "fingerprints of the random generators in the first 8 steps after "
                          "resuming, beside those of the steps before",
             .threshold = "one that an earlier step had, where states differ from step to step; "
                          "likely: within an epoch, one that is not what the last step left, where "
                          "nine in ten are",
             .remedy = "keep the states of random generators in the checkpoint, and set them"},
    .title = "random state not restored",
    .explains = TD__OVERFIT_GAP,
    .needs = TD__NEEDS_LOOP,
    .find = find_random_state_lost,
    .after = true,
};
