#include "diagnose/loop.h"

static void find_evaluation_mode(td__case *c) {
    double count = td__loop_number(c, "evaluating", "count");
    if (count < 2) {
        return;
    }
    td__suspicion *s =
        td__loop_error(c, TD_LIKELY, NULL, (int64_t)td__loop_number(c, "evaluating", "since"),
                       "model.train() before the training steps, after every validation");
    td__because(s, "training_mode", s ? s->since : 1, count,
                td__say(c, "%.0f of %lld updates with the model in evaluation mode; it has %s",
                        count, (long long)td__loop_updates(c),
                        td__loop_names(c, "evaluating", "kinds")));
}

const td__rule td__rule_evaluation_mode = {
    .info = {.name = "evaluation_mode",
             .meaning = "the model is in evaluation mode while it is trained",
             .reads = "the loop's evaluating",
             .statistic =
                 "updates with model.training off, of a model with dropout or batch normalisation",
             .threshold = "two",
             .remedy = "model.train() before the training steps, after every validation"},
    .title = "training in evaluation mode",
    .explains = TD__OVERFIT_GAP | TD__DIVERGENCE | TD__OSCILLATION | TD__VALIDATION_BELOW_TRAINING,
    .needs = TD__NEEDS_LOOP,
    .find = find_evaluation_mode,
    .after = true,
};
