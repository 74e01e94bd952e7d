#include "diagnose/loop.h"
#include "nn/optimizer_role.h"

#define USUAL 0.001
#define USUAL_OF_SGD 0.01

#define WAY 0.05       /* of their size, that weights can have come in all updates together */
#define SHORT_WAY 0.02 /* … that they have come, back and forth */
#define DIVISOR 10.0   /* accumulation divides by the number of its batches */
#define LITTLE 0.2     /* that the loss fell by */
#define STUCK 1e-3     /* of their size, where gradients are 0: no rate makes them move */
#define EARLY 0.4      /* of the updates */

enum { ENOUGH = 40 };

/* A rate that a loop has lowered to nothing while most updates were to come. Schedulers have a rule of their own. */
static bool find_collapsed_rate(td__case *c) {
    double collapsed = td__loop_number(c, "rate_collapsed", "updates");
    double updates = (double)td__loop_updates(c),
           most = td__loop_number(c, "rate_collapsed", "most");
    if (collapsed == 0 || collapsed > EARLY * updates || updates < ENOUGH ||
        td__loop_has(c, "scheduler") || td__loop_is_adversarial(c)) {
        return false;
    }
    td__suspicion *s = td__loop_error(c, TD_LIKELY, NULL, (int64_t)collapsed,
                                      "lower the rate once an epoch, or by less");
    td__because(s, "learning_rate", (int64_t)collapsed, 0.01 * most,
                td__say(c, "after %.0f of %.0f updates the rate was below a hundredth of %.3g",
                        collapsed, updates, most));
    return true;
}

static void find_learning_rate_too_low_in_loop(td__case *c) {
    if (find_collapsed_rate(c)) {
        return;
    }
    double updates = (double)td__loop_updates(c), largest = td__loop_number(c, "steps", "largest");
    double divisor = td__loop_number(c, "head", "divisor"),
           rate = td__loop_number(c, "optimizer", "lr");
    double passes = td__loop_number(c, "batches", "passes");
    bool divided = divisor >= DIVISOR && passes <= td__loop_number(c, "batches", "updates");
    double way = td__loop_number(c, "steps", "way"),
           seen = td__loop_number(c, "steps", "way_updates");
    bool is_stuck = td__has_any(c, TD__ZERO_GRADIENT) && largest * updates < STUCK;
    bool is_short = way > 0 && seen > 0 && way * updates / seen <= SHORT_WAY;
    bool adversarial =
        td__loop_is_adversarial(c); /* its losses say nothing; new weights have far to go */
    bool hardly_begun =
        adversarial ? is_short && largest * updates <= WAY && td__loop_is(c, "steps", "drawn")
                    : td__loop_fall(c) < LITTLE || (is_short && td__loop_falls_on(c));
    if (is_stuck || !(largest > 0) || (largest * updates > WAY && !is_short) || !hardly_begun) {
        return;
    }
    td__suspicion *s = td__loop_error(
        c, td__loop_knows(c) || td__loop_starts_trained(c) ? TD_MAYBE : TD_LIKELY, NULL, 1,
        divided ? td__say(c, "the loss without the division by %.4g", divisor)
                : td__say(c, "lr=%.3g (from %.3g)", 100 * rate, rate));
    td__because(
        s, NULL, 1, largest,
        td__say(
            c,
            "an update changes weights by at most %.2g of their size; in %.0f updates that is %.2g",
            largest, updates, largest * updates));
    if (is_short) {
        td__because(
            s, NULL, (int64_t)seen, way,
            td__say(c, "after %.0f updates weights are %.2g of their size from where they began",
                    seen, way));
    }
    if (divided) {
        td__because(s, NULL, 1, divisor,
                    td__say(c, "the loss is divided by %.4g before backward()", divisor));
    }
}

static void find_learning_rate_too_low(td__case *c) {
    if (c->loop) {
        find_learning_rate_too_low_in_loop(c);
        return;
    }
    double rate = td__rate_of(c);
    if (!c->known) {
        return;
    }
    const char *optimizer =
        c->experiment->train.optimizer.name ? c->experiment->train.optimizer.name : "adam";
    if (rate == 0) {
        td__suspicion *s =
            td__suspect(c, TD__CONTRADICTION, -1, td__say(c, "learning_rate: %.3g (from 0)", 0.01));
        td__because(s, "learning_rate", 1, 0, "the learning rate is 0: no weight ever changes");
        td__edit(s, td__say(c, "train.optimizer.%s.learning_rate=%.9g", optimizer, 0.01));
        return;
    }
    if (c->experiment->train.schedule.name && c->repeated) {
        double last =
            td_schedule_rate(&td_optimizer_settled(c->trainer->learner.optimizer)->schedule, rate,
                             (uint64_t)(c->steps / 2));
        if (last < 1e-3 * rate) {
            td__suspicion *s = td__suspect(c, TD__STRUCTURE, -1, "no learning_rate_schedule");
            td__because(s, "learning_rate", c->steps / 2, last,
                        td__say(c, "halfway the schedule has brought the rate from %.3g to %.3g",
                                rate, last));
            td__edit(s, "train.learning_rate_schedule=constant");
        }
    }
    static const double factors[] = {10, 100, 1e3, 1e4};
    bool plain = td__optimizer_role_of(c->trainer->learner.optimizer) == TD__ONE_RATE;
    double max_rate =
        plain ? 10 * USUAL_OF_SGD : 10 * USUAL; /* beyond a hundredfold, of tiny rates */
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        if (i > 1 && rate * factors[i] > max_rate) {
            return;
        }
        td__suspicion *s =
            td__suspect(c, TD__TUNING, -1,
                        td__say(c, "learning_rate: %.3g (from %.3g)", rate * factors[i], rate));
        td__edit(s,
                 td__say(c, "train.optimizer.%s.learning_rate=%.9g", optimizer, rate * factors[i]));
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
    .needs = TD__NEEDS_EXPERIMENT | TD__NEEDS_LOOP,
    .find = find_learning_rate_too_low,
    .after = true,
    .is_rate = true,
};
