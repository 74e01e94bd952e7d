#include "diagnose/loop.h"

static void find_training_mode(td__case *c) {
    double passes = td__loop_number(c, "validation", "passes");
    double training = td__loop_number(c, "validation", "training");
    const char *kinds = td__loop_names(c, "validation", "kinds");
    if (2 * training <= passes || !*kinds) {
        return;
    }
    td__suspicion *s =
        td__loop_error(c, TD_LIKELY, NULL, (int64_t)td__loop_number(c, "validation", "since"),
                       "model.eval() before validation, model.train() after it");
    td__because(s, NULL, s ? s->since : 1, training,
                td__say(c,
                        "%.0f of %.0f passes without gradients with the model in training mode; it "
                        "has %s",
                        training, passes, kinds));
}

const td__rule td__rule_training_mode = {
    .info = {.name = "training_mode",
             .meaning = "the model is in training mode while it is validated",
             .reads = "the loop's validation",
             .statistic = "passes without gradients with model.training on, of a model with "
                          "dropout or batch normalisation, after the first update",
             .threshold = "more than half of them: dropout makes the marks worse, and the "
                          "validation data get into the normalisation",
             .remedy = "model.eval() before validation"},
    .title = "validation in training mode",
    .explains = TD__VALIDATION_BELOW_TRAINING | TD__OVERFIT_GAP,
    .needs = TD__NEEDS_LOOP,
    .find = find_training_mode,
    .after = true,
};
