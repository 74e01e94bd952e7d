#include "diagnose/loop.h"

static void find_nonfinite_label(td__case *of) {
    if (of->loop) {
        td__loop_nonfinite(of, "label", "a label", "remove the example");
        return;
    }
    /* Those of the validation part spoil what training is judged by. */
    bool training = of->facts.labels.all.nonfinite > 0;
    const td__labels *labels = training ? &of->facts.labels : &of->facts.validation_labels;
    if (!of->known || labels->all.nonfinite == 0 ||
        of->experiment->train.objective.target == TD__TARGET_INPUT) {
        return;
    }
    td__origin *origin = td__origin_new(of);
    int64_t row = labels->nonfinite_row, count = labels->all.nonfinite;
    td__suspicion *s =
        td__suspect(of, TD__FACT, -1, td__say(of, "remove row %lld", (long long)row + 1));
    td__because(s, "label", of->baseline.origin.step, (double)count,
                td__say(of, "%lld label%s%s NaN or infinite; the first is in row %lld",
                        (long long)count, count == 1 ? "" : "s",
                        training     ? count == 1 ? " is" : " are"
                        : count == 1 ? " of the validation part is"
                                     : " of the validation part are",
                        (long long)row + 1));
    if (s && origin) {
        origin->cause = "label";
        origin->row = row;
        origin->step = of->baseline.origin.step;
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
    .look = find_nonfinite_label,
};
