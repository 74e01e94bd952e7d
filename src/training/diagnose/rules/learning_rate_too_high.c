#include "diagnose/rule.h"

static void look(td__case *of) {
    double rate = td__rate_of(of);
    if (!of->known || !(rate > 0)) {
        return;
    }
    const td__origin *origin = &of->baseline.origin;
    bool blown = of->repeated && origin->cause && origin->grown;
    static const double factors[] = {0.1, 0.01, 0.001};
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        td__suspicion *s =
            td__suspect(of, blown ? TD__STRUCTURE : TD__TUNING, -1,
                        td__say(of, "learning_rate: %.3g (from %.3g)", rate * factors[i], rate));
        td__edit(s,
                 td__say(of, "train.optimizer.%s.learning_rate=%.9g",
                         of->experiment->train.optimizer.name ? of->experiment->train.optimizer.name
                                                              : "adam",
                         rate * factors[i]));
        if (s && blown) {
            td__because(s, "loss", origin->step, (double)origin->loss,
                        td__say(of,
                                "outputs grew from step to step until the loss was %s in step "
                                "%lld",
                                origin->loss > 0 ? "infinite" : "NaN", (long long)origin->step));
            s->origin = origin;
            s->since = 1;
        }
    }
}

const td__rule td__rule_learning_rate_too_high = {
    .info = {.name = "learning_rate_too_high",
             .meaning = "steps are too large: divergence, oscillation, dead units or NaN",
             .reads = "the optimizer's learning_rate, loss, outputs",
             .statistic = "what a tenth, a hundredth and a thousandth of the rate achieve in as "
                          "many steps",
             .threshold = "reported when the loss diverged and the smaller rate does not, or when "
                          "it wins most of what was missing",
             .remedy = "learning_rate: the one that did best"},
    .title = "learning rate too high",
    .explains = TD__DIVERGENCE | TD__OSCILLATION | TD__DEAD_RELU | TD__NAN_LOSS | TD__INF_LOSS |
                TD__EXPLODING_GRADIENT | TD__HUGE_LOSS | TD__PLATEAU | TD__CONSTANT_OUTPUT |
                TD__SATURATED_UNITS | TD__ZERO_GRADIENT | TD__MAJORITY_CLASS | TD__HUGE_ACTIVATIONS,
    .needs = TD__NEEDS_EXPERIMENT,
    .look = look,
    .after = true,
};
