#include "diagnose/rule.h"

#include <math.h>

/* The program failed or was killed: what it had planned does not matter. */
static void look_at_failure(td__case *c) {
    bool failed = c->history->state == TD_RUN_FAILED;
    long long last = (long long)c->history->last_step;
    const char *error = c->failure && *c->failure ? td__say(c, ": %s", c->failure) : "";
    td__found(c, NULL, last, NULL, (double)last,
              failed
                  ? td__say(c, "the program ended with an error after step %lld%s", last, error)
                  : td__say(c, "the program ended after step %lld without closing the run", last));
}

static void find_early_end(td__case *c) {
    if (c->history->state == TD_RUN_FAILED || c->history->state == TD_RUN_CRASHED) {
        look_at_failure(c);
        return;
    }
    if (c->trainer && c->history->last_step < c->trainer->feed.steps &&
        c->history->state == TD_RUN_FINISHED) {
        td__found(c, NULL, c->history->last_step, NULL, (double)c->history->last_step,
                  td__say(c, "training ended after %lld of %lld steps",
                          (long long)c->history->last_step, (long long)c->trainer->feed.steps));
    }
}

const td__rule td__rule_early_end = {
    .info = {.name = "early_end",
             .symptom = true,
             .meaning = "training ended before its last epoch",
             .reads = "train.epochs, the last step, how the run ended",
             .statistic = "the last step against those that were planned",
             .threshold = "fewer; or the program failed or was killed",
             .remedy = ""},
    .symptom = TD__INDEX_EARLY_END,
    .needs = TD__NEEDS_EXPERIMENT,
    .find = find_early_end,
    .after = true,
};
