#include "diagnose/head.h"
#include "diagnose/loop.h"

#include <math.h>
#include <string.h>

/* Functions that are infinite somewhere: a quotient, a logarithm, a root whose gradient is a quotient. */
static void find_division_by_zero_in_loop(td__case *c) {
    const char *operation = td__loop_operation(c);
    if (!operation || (!td__loop_is_division(c) && !td__loop_is_singular(c))) {
        return;
    }
    const td__origin *origin = td__loop_origin(c);
    bool first = td__loop_number(c, "nonfinite", "updates") == 0;
    td__suspicion *s = td__loop_error(c, first ? TD_SURE : TD_LIKELY, origin ? origin->where : NULL,
                                      (int64_t)td__loop_number(c, "nonfinite", "since"),
                                      "add a small number where it may be 0, or clamp it");
    td__because(s, NULL, origin ? origin->step : 0, NAN, operation);
    if (s) {
        s->origin = origin;
    }
}

static void find_zero_deviation(td__case *c, const td__origin *origin) {
    const char *name = c->layers.items[origin->layer].name;
    td__suspicion *s = td__suspect(c, TD__FACT, origin->layer, "epsilon: 0.001");
    td__because(s, td__say(c, "%s.output", name), origin->step, (double)origin->row,
                td__say(c,
                        "%s divides by a deviation of 0 in step %lld, row %lld, while its inputs "
                        "are finite",
                        name, (long long)origin->step, (long long)origin->row + 1));
    td__edit_layer(c, s, origin->layer, "epsilon", "0.001");
    if (s) {
        s->origin = origin;
        s->since = origin->step;
    }
}

static void find_division_by_zero(td__case *c) {
    if (c->loop) {
        find_division_by_zero_in_loop(c);
        return;
    }
    const td__origin *origin = &c->baseline.origin;
    if (c->repeated && origin->divides) {
        find_zero_deviation(c, origin);
        return;
    }
    if (!c->repeated || !origin->cause || strcmp(origin->cause, "loss") != 0 ||
        !isnan(origin->loss)) {
        return;
    }
    td_loss loss = c->experiment->train.objective.loss;
    if (td__takes_logarithms(loss)) { /* of what is below 0: the head is wrong */
        return;
    }
    bool shares = td__takes_probabilities(loss);
    td__suspicion *s =
        td__suspect(c, TD__FACT, c->layers.last, "outputs that are never all 0: softmax, sigmoid");
    td__because(s, "loss", origin->step, NAN,
                td__say(c,
                        shares ? "the loss is NaN in step %lld while every output is finite: a row "
                                 "whose outputs sum to 0 is divided by its sum"
                               : "the loss is NaN in step %lld while every output is finite",
                        (long long)origin->step));
    if (s) {
        s->origin = origin;
        s->since = origin->step;
    }
}

const td__rule td__rule_division_by_zero = {
    .info =
        {.name = "division_by_zero",
         .meaning = "a normalisation divides by (almost) zero",
         .reads =
             "the loss and the outputs of the step whose loss was NaN; of a loop, the loss's graph",
         .statistic = "whether all outputs are finite; of a loop, the operation that made the NaN",
         .threshold = "a NaN that is made in the loss, or in a normalisation of finite numbers",
         .remedy = "an activation that is never 0 everywhere"},
    .title = "division by zero",
    .explains = TD__NAN_LOSS,
    .needs = TD__NEEDS_REPEAT | TD__NEEDS_LOOP,
    .find = find_division_by_zero,
    .after = true,
};
