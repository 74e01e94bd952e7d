#include "diagnose/rule.h"

#define USUAL 0.001
#define USUAL_OF_SGD 0.01

static void look(td__case *of) {
    double rate = td__rate_of(of);
    if (!of->known) {
        return;
    }
    const char *optimizer =
        of->experiment->train.optimizer.name ? of->experiment->train.optimizer.name : "adam";
    if (rate == 0) {
        td__suspicion *s = td__suspect(of, TD__CONTRADICTION, -1,
                                       td__say(of, "learning_rate: %.3g (from 0)", 0.01));
        td__because(s, "learning_rate", 1, 0, "the learning rate is 0: no weight ever changes");
        td__edit(s, td__say(of, "train.optimizer.%s.learning_rate=%.9g", optimizer, 0.01));
        return;
    }
    if (of->experiment->train.schedule.name && of->repeated) {
        double last =
            td_schedule_rate(&td_optimizer_settled(of->trainer->learner.optimizer)->schedule, rate,
                             (uint64_t)(of->steps / 2));
        if (last < 1e-3 * rate) {
            td__suspicion *s = td__suspect(of, TD__STRUCTURE, -1, "no learning_rate_schedule");
            td__because(s, "learning_rate", of->steps / 2, last,
                        td__say(of, "halfway the schedule has brought the rate from %.3g to %.3g",
                                rate, last));
            td__edit(s, "train.learning_rate_schedule=constant");
        }
    }
    static const double factors[] = {10, 100, 1e3, 1e4};
    bool plain = td_optimizer_settled(of->trainer->learner.optimizer)->kind == TD_SGD;
    double most = plain ? 10 * USUAL_OF_SGD : 10 * USUAL; /* beyond a hundredfold, of tiny rates */
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        if (i > 1 && rate * factors[i] > most) {
            return;
        }
        td__suspicion *s =
            td__suspect(of, TD__TUNING, -1,
                        td__say(of, "learning_rate: %.3g (from %.3g)", rate * factors[i], rate));
        td__edit(
            s, td__say(of, "train.optimizer.%s.learning_rate=%.9g", optimizer, rate * factors[i]));
    }
}

const td__rule td__rule_learning_rate_too_low = {
    .info = {.name = "learning_rate_too_low",
             .meaning = "steps are too small: the loss falls, but not far enough",
             .reads = "the optimizer's learning_rate, learning_rate_schedule, the loss",
             .statistic = "what ten and a hundred times the rate (of tiny ones up to ten "
                          "thousand) achieve in as many steps; the schedule's rate halfway",
             .threshold =
                 "a rate of 0; a schedule that leaves a thousandth of the rate halfway; or "
                 "a larger rate wins most of what was missing",
             .remedy = "learning_rate: the one that did best"},
    .title = "learning rate too low",
    .explains = TD__SLOW_CONVERGENCE | TD__UNCHANGED_WEIGHTS | TD__PLATEAU | TD__HUGE_LOSS |
                TD__MAJORITY_CLASS | TD__CONSTANT_OUTPUT | TD__VANISHING_GRADIENT,
    .needs = TD__NEEDS_EXPERIMENT,
    .look = look,
    .after = true,
};
