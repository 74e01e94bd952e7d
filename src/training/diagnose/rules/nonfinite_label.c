#include "diagnose/loop.h"

static void find_nonfinite_label(td__case *c) {
    if (c->loop) {
        td__loop_nonfinite(c, "label", "a label", "remove the example");
        return;
    }
    /* Those of the validation part spoil what training is judged by. */
    bool training = c->facts.labels.all.nonfinite > 0;
    const td__labels *labels = training ? &c->facts.labels : &c->facts.validation_labels;
    if (!c->known || labels->all.nonfinite == 0 ||
        c->experiment->train.objective.target == TD__TARGET_INPUT) {
        return;
    }
    td__origin *origin = td__origin_new(c);
    int64_t row = labels->nonfinite_row, count = labels->all.nonfinite;
    td__suspicion *s =
        td__suspect(c, TD__FACT, -1, td__say(c, "remove row %lld", (long long)row + 1));
    td__because(s, "label", c->baseline.origin.step, (double)count,
                td__say(c, "%lld label%s%s NaN or infinite; the first is in row %lld",
                        (long long)count, count == 1 ? "" : "s",
                        training     ? count == 1 ? " is" : " are"
                        : count == 1 ? " of the validation part is"
                                     : " of the validation part are",
                        (long long)row + 1));
    if (s && origin) {
        origin->cause = "label";
        origin->row = row;
        origin->step = c->baseline.origin.step;
        s->origin = origin;
        s->since = origin->step;
    }
}

const td__rule td__rule_nonfinite_label = {
    .info = {.name = "nonfinite_label",
             .meaning = "NaN or infinity in the labels",
             .reads = "the labels of both parts",
             .statistic = "numbers that are not finite",
             .threshold = "one: it spreads to every weight",
             .remedy = "remove or fill in the rows"},
    .title = "NaN in the labels",
    .explains = TD__NAN_LOSS | TD__INF_LOSS,
    .needs = TD__NEEDS_EXPERIMENT | TD__NEEDS_LOOP,
    .find = find_nonfinite_label,
};
