#include "diagnose/loop.h"

static void find_dropout_in_evaluation(td__case *c) {
    double count = td__loop_number(c, "dropout", "count");
    if (count < 1) {
        return;
    }
    td__suspicion *s = td__loop_error(
        c, TD_LIKELY, NULL, (int64_t)td__loop_number(c, "dropout", "since"),
        "training=self.training for functional.dropout; dropout_p only where self.training");
    td__because(s, NULL, s ? s->since : 1, count,
                td__say(c, "%.100s in a pass of evaluation", td__loop_text(c, "dropout", "what")));
}

const td__rule td__rule_dropout_in_evaluation = {
    .info = {.name = "dropout_in_evaluation",
             .meaning = "dropout acts although the model is in evaluation mode",
             .reads = "the loop's dropout",
             .statistic = "calls of dropout that drop, in the first two passes in evaluation mode "
                          "without gradients",
             .threshold = "one",
             .remedy = "functional.dropout(x, training=self.training), dropout_p=self.p if "
                       "self.training else 0, or nn.Dropout"},
    .title = "dropout in evaluation",
    .explains = TD__VALIDATION_BELOW_TRAINING | TD__OVERFIT_GAP,
    .needs = TD__NEEDS_LOOP,
    .find = find_dropout_in_evaluation,
    .after = true,
};
