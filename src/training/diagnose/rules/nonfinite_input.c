#include "diagnose/loop.h"

#include <string.h>

static void find_nonfinite_input(td__case *c) {
    if (c->loop) {
        td__loop_nonfinite(c, "input", "an input", "remove the example, or fill it in");
        return;
    }
    /* Those of the validation part spoil what training is judged by. */
    bool training = c->facts.inputs.nonfinite > 0;
    int64_t row = training ? c->facts.nonfinite_row : c->facts.validation_nonfinite_row;
    int64_t count = training ? c->facts.inputs.nonfinite : c->facts.validation_nonfinite;
    int64_t column = training ? c->facts.nonfinite_column : c->facts.validation_nonfinite_column;
    const td__origin *first = &c->baseline.origin;
    if (c->known && count == 0 && c->repeated && first->cause && !strcmp(first->cause, "input")) {
        td__suspicion *scaled = td__suspect(c, TD__FACT, TD__INPUT_LAYER, "a smaller data.scale");
        td__because(scaled, "input", first->step, (double)first->row,
                    td__say(c,
                            "row %lld of the training data is not finite as the model gets it, "
                            "although the file has finite numbers",
                            (long long)first->row + 1));
        if (scaled) {
            scaled->origin = first;
            scaled->since = first->step;
        }
        return;
    }
    if (!c->known || count == 0) {
        return;
    }
    td__origin *origin = td__origin_new(c);
    td__suspicion *s =
        td__suspect(c, TD__FACT, TD__INPUT_LAYER,
                    td__say(c, "remove row %lld, or fill it in", (long long)row + 1));
    td__because(s, "input", c->baseline.origin.step, (double)count,
                td__say(c,
                        "%lld number%s of the %s data %s NaN or infinite; the first is "
                        "in row %lld, column %lld",
                        (long long)count, count == 1 ? "" : "s",
                        training ? "training" : "validation", count == 1 ? "is" : "are",
                        (long long)row + 1, (long long)column));
    if (s && origin) {
        s->unit = column;
        origin->cause = "input";
        origin->row = row;
        origin->step = c->baseline.origin.step;
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
    .find = find_nonfinite_input,
};
