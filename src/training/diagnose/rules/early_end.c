#include "diagnose/rule.h"

#include <math.h>

static void look(td__case *of) {
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
             .reads = "train.epochs, the last step",
             .statistic = "the last step against those that were planned",
             .threshold = "fewer, without a failure",
             .remedy = ""},
    .symptom = TD__INDEX_EARLY_END,
    .needs = TD__NEEDS_EXPERIMENT,
    .look = look,
    .after = true,
};
