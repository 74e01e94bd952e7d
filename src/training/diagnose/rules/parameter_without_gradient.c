#include "diagnose/loop.h"

/* A gradient of 0, every number of it, does not come by chance while others learn: a function whose derivative is 0 lies between
 * (sign, round, argmax, a comparison). Units that are off have the same effect, and a rule of their own. */
static void find_zero_gradients(td__case *c) {
    double count = td__loop_number(c, "zero_gradients", "count");
    if (count < 1 || (count > 1 && td__loop_is(c, "zero_gradients", "constant")) ||
        td__has_any(c, TD__DEAD_RELU | TD__SATURATED_UNITS)) {
        return;
    }
    /* Without such a function, a factor of 0 may be intended: of an expert that is not chosen, a term that is switched off. */
    td_confidence confidence = td__loop_is(c, "zero_gradients", "flat") ? TD_LIKELY : TD_MAYBE;
    td__suspicion *s = td__loop_error(c, confidence, td__loop_layer(c, "zero_gradients"), 1,
                                      "no sign, round, argmax or comparison on the way to it, or a "
                                      "gradient of your own for it");
    td__because(s, NULL, 1, count,
                td__say(c, "the gradient was 0 in all of %.0f updates: %s",
                        td__loop_number(c, "zero_gradients", "updates"),
                        td__loop_names(c, "zero_gradients", "names")));
}

static void find_parameter_without_gradient(td__case *c) {
    find_zero_gradients(c);
    double count = td__loop_number(c, "without_gradient", "count");
    if (td__loop_updates(c) < 2 || count < 1 || count >= td__loop_number(c, "trainable", NULL)) {
        return;
    }
    td__suspicion *s = td__loop_error(c, TD_LIKELY, td__loop_layer(c, "without_gradient"), 1,
                                      "no .detach() or no_grad() on the way to it, or "
                                      "requires_grad_(False) where it is not used");
    td__because(s, NULL, 1, count,
                td__say(c, "never a gradient, in %lld updates: %s", (long long)td__loop_updates(c),
                        td__loop_names(c, "without_gradient", "names")));
}

const td__rule td__rule_parameter_without_gradient = {
    .info = {.name = "parameter_without_gradient",
             .meaning = "parameters that are to be trained never get a gradient",
             .reads = "the loop's without_gradient, zero_gradients",
             .statistic =
                 "parameters with requires_grad whose grad is None in every update, after two; "
                 "weights whose gradient is 0, every number of it, after eight",
             .threshold =
                 "one: it is not part of what the loss is computed from, or cut off from it",
             .remedy = "use it, no .detach() or no_grad() in forward(), or requires_grad_(False)"},
    .title = "parameter without gradient",
    .explains = TD__UNCHANGED_WEIGHTS | TD__PLATEAU | TD__SLOW_CONVERGENCE | TD__LOSS_FLOOR,
    .needs = TD__NEEDS_LOOP,
    .find = find_parameter_without_gradient,
    .after = true,
};
