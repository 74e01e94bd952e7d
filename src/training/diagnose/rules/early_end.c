#include "diagnose/rule.h"

#include <math.h>

/* The program failed or was killed: what it had planned does not matter. */
static void look_at_failure(td__case *of) {
    bool failed = of->history->state == TD_RUN_FAILED;
    td__found(of, NULL, of->history->last_step, NULL, (double)of->history->last_step,
              failed ? td__say(of, "the program ended with an error after step %lld",
                               (long long)of->history->last_step)
                     : td__say(of, "the program ended after step %lld without closing the run",
                               (long long)of->history->last_step));
}

static void find_early_end(td__case *of) {
    if (of->history->state == TD_RUN_FAILED || of->history->state == TD_RUN_CRASHED) {
        look_at_failure(of);
        return;
    }
    if (of->trainer && of->history->last_step < of->trainer->feed.steps &&
        of->history->state == TD_RUN_FINISHED) {
        td__found(of, NULL, of->history->last_step, NULL, (double)of->history->last_step,
                  td__say(of, "training ended after %lld of %lld steps",
                          (long long)of->history->last_step, (long long)of->trainer->feed.steps));
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
    .look = find_early_end,
    .after = true,
};
