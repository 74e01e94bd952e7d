#include "diagnose/head.h"
#include "diagnose/loop.h"

#include <math.h>

#define FALL 0.03
#define NOTHING 0.05 /* a score that is none */
#define ALMOST 0.95  /* of the loss of a constant answer */

/* Whether the trained network does no better than a constant answer. A score of 0 is no sign of that where
 * one class is common; a cross-entropy then says more. */
static bool is_constant(const td__case *c) {
    if (!c->repeated || !c->whole || c->baseline.points == 0) {
        return false;
    }
    const td__trial_point *end = &c->baseline.curve[c->baseline.points - 1];
    bool judged = !td__is_crossentropy(c->experiment->train.objective.loss) ||
                  !(end->training.loss < ALMOST * td__constant_loss(&c->facts, &c->facts.labels));
    return judged && end->training.score < NOTHING && c->baseline.score < NOTHING;
}

/* What the recorded loss is when the answer never changes; NaN: not known. */
static double loss_of_constant(const td__case *c) {
    bool known = c->known && td__is_crossentropy(c->experiment->train.objective.loss);
    for (size_t i = 0; i < c->layers.count; i++) { /* penalties are in it */
        known &= c->layers.items[i].penalty_l1 <= 0 && c->layers.items[i].penalty_l2 <= 0;
    }
    return known ? td__constant_loss(&c->facts, &c->facts.labels) : NAN;
}

static void find_plateau(td__case *c) {
    const td__series *loss = td__loss_of(c->history);
    double constant = loss_of_constant(c);
    double first = td__series_mean(loss, 0, 0.05), last = td__series_mean(loss, 0.9, 1);
    if (loss->count >= 10 && first > 0 && last > (1 - FALL) * first && last < 2 * first) {
        td__found(c, NULL, 1, "loss", last,
                  td__say(c, "loss stands still: %.4g at first, %.4g at last", first, last));
    } else if (td__loop_guesses(c)) {
        td__found(c, NULL, 1, "loss", last,
                  td__say(c, "loss is %.4g at last, and %.4g by a guess among %.0f classes", last,
                          log(td__loop_number(c, "head", "columns")),
                          td__loop_number(c, "head", "columns")));
    } else if (loss->count >= 10 && !c->repeated && last > (1 - FALL) * constant) {
        td__found(c, NULL, 1, "loss", last,
                  td__say(c, "loss is %.4g at last, and %.4g by always giving the classes' shares",
                          last, constant));
    } else if (is_constant(c)) {
        td__found(c, NULL, 1, "loss", c->baseline.score,
                  td__say(c, "after %lld steps the network does no better than a constant answer",
                          (long long)c->baseline.steps));
    }
}

const td__rule td__rule_plateau = {
    .info = {.name = "plateau",
             .symptom = true,
             .meaning =
                 "the loss stands still from the beginning, or nothing is learnt all the same",
             .reads = "loss",
             .statistic =
                 "the mean of the last tenth against the first records; of a run repeated, what "
                 "was learnt",
             .threshold = "less than 3 % below: nothing is learnt; or a cross-entropy of a loop "
                          "that ends at that of "
                          "a guess; or a score below 5 % on both parts (a "
                          "cross-entropy less than 5 % below that of the classes' shares)",
             .remedy = ""},
    .symptom = TD__INDEX_PLATEAU,
    .needs = TD__NEEDS_LOSS,
    .find = find_plateau,
    .after = true,
};
