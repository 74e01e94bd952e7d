#include "diagnose/loop.h"

static void find_nonfinite_input(td__case *of) {
    if (of->loop) {
        td__loop_nonfinite(of, "input", "an input", "remove the example, or fill it in");
        return;
    }
    /* Those of the validation part spoil what training is judged by. */
    bool training = of->facts.inputs.nonfinite > 0;
    int64_t row = training ? of->facts.nonfinite_row : of->facts.validation_nonfinite_row;
    int64_t count = training ? of->facts.inputs.nonfinite : of->facts.validation_nonfinite;
    int64_t column = training ? of->facts.nonfinite_column : of->facts.validation_nonfinite_column;
    if (!of->known || count == 0) {
        return;
    }
    td__origin *origin = td__origin_new(of);
    td__suspicion *s =
        td__suspect(of, TD__FACT, TD__INPUT_LAYER,
                    td__say(of, "remove row %lld, or fill it in", (long long)row + 1));
    td__because(s, "input", of->baseline.origin.step, (double)count,
                td__say(of,
                        "%lld number%s of the %s data %s NaN or infinite; the first is "
                        "in row %lld, column %lld",
                        (long long)count, count == 1 ? "" : "s",
                        training ? "training" : "validation", count == 1 ? "is" : "are",
                        (long long)row + 1, (long long)column));
    if (s && origin) {
        s->unit = column;
        origin->cause = "input";
        origin->row = row;
        origin->step = of->baseline.origin.step;
        s->origin = origin;
        s->since = origin->step;
    }
}

const td__rule td__rule_nonfinite_input = {
    .info = {.name = "nonfinite_input",
             .meaning = "NaN or infinity in the inputs",
             .reads = "the inputs of both parts",
             .statistic = "numbers that are not finite",
             .threshold = "one: it spreads to every weight",
             .remedy = "remove or fill in the rows"},
    .title = "NaN in the inputs",
    .explains = TD__NAN_LOSS | TD__INF_LOSS,
    .needs = TD__NEEDS_EXPERIMENT | TD__NEEDS_LOOP,
    .look = find_nonfinite_input,
};
