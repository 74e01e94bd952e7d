#include "diagnose/rule.h"

#include <math.h>
#include <string.h>

static void find_division_by_zero(td__case *c) {
    const td__origin *origin = &c->baseline.origin;
    if (!c->repeated || !origin->cause || strcmp(origin->cause, "loss") != 0 ||
        !isnan(origin->loss)) {
        return;
    }
    td__suspicion *s =
        td__suspect(c, TD__FACT, c->layers.last, "outputs that are never all 0: softmax, sigmoid");
    td__because(s, "loss", origin->step, NAN,
                td__say(c,
                        "the loss is NaN in step %lld while every output is finite: a row "
                        "whose outputs sum to 0 is divided by its sum",
                        (long long)origin->step));
    if (s) {
        s->origin = origin;
        s->since = origin->step;
    }
}

const td__rule td__rule_division_by_zero = {
    .info = {.name = "division_by_zero",
             .meaning = "a normalisation divides by (almost) zero",
             .reads = "the loss and the outputs of the step whose loss was NaN",
             .statistic = "whether all outputs are finite",
             .threshold = "a NaN that is made in the loss",
             .remedy = "an activation that is never 0 everywhere"},
    .title = "division by zero",
    .explains = TD__NAN_LOSS,
    .needs = TD__NEEDS_REPEAT,
    .find = find_division_by_zero,
    .after = true,
};
