#include "diagnose/loop.h"

#define HIGH 0.7
#define HALF 0.5       /* a number that could be tuned */
#define DROWNS 0.9     /* of the deviation, that is noise */
#define VERY_HIGH 0.85 /* of a loop, where no trial can tell */
#define LITTLE 0.1     /* that the loss of a loop fell by */
#define ALMOST_ALL 0.9 /* that is removed: a loop that does well all the same knows its task */
#define MUCH 0.8       /* that its loss then fell by */
#define FEW 3.0        /* units that are left in the mean */

static void find_dropout_too_high_in_loop(td__case *c) {
    double rate = td__loop_number(c, "dropping", "rate");
    bool poor =
        td__has_any(c, TD__PLATEAU | TD__LOSS_FLOOR | TD__OSCILLATION) || td__loop_fall(c) < LITTLE;
    if (rate < HIGH) {
        return;
    }
    poor |= rate >= ALMOST_ALL && !td__loop_knows(c) && td__loop_fall(c) < MUCH;
    td__suspicion *s = td__loop_error(c, poor && rate >= VERY_HIGH ? TD_LIKELY : TD_MAYBE, NULL, 1,
                                      "a rate of 0.2");
    td__because(s, NULL, 1, rate,
                td__say(c, "dropout removes %.0f %% of what it gets: %s", 100 * rate,
                        td__loop_names(c, "dropping", "names")));
}

static void find_dropout_too_high(td__case *c) {
    if (c->loop) {
        find_dropout_too_high_in_loop(c);
        return;
    }
    td__suspicion *s = NULL;
    if (!c->known) {
        return;
    }
    for (size_t i = 0; i < c->layers.count; i++) {
        const td__layer_facts *layer = &c->layers.items[i];
        double left = (1 - layer->rate) * (double)layer->units;
        bool drowned = layer->noise > DROWNS * layer->start.deviation;
        if (!drowned && (layer->rate <= 0 || (layer->rate < HALF && left > FEW))) {
            continue;
        }
        if (!s) {
            s = td__suspect(c, TD__TUNING, (ptrdiff_t)i, drowned ? "stddev: 0" : "rate: 0.2");
        }
        if (s && (drowned || layer->rate >= HIGH || left <= FEW)) {
            s->strength = TD__STRUCTURE;
        }
        if (drowned) {
            td__because(s, NULL, 0, layer->noise,
                        td__say(c, "%s adds noise of deviation %.3g, and puts out %.3g with it",
                                layer->name, layer->noise, layer->start.deviation));
            td__edit_layer(c, s, (ptrdiff_t)i, "stddev", "0");
            continue;
        }
        td__because(s, NULL, 0, layer->rate,
                    td__say(c, "%s removes %.0f %% of what it gets; of %lld units %.3g are left",
                            layer->name, 100 * layer->rate, (long long)layer->units, left));
        td__edit_layer(c, s, (ptrdiff_t)i, "rate", left > FEW || layer->units > 16 ? "0.2" : "0");
    }
}

const td__rule td__rule_dropout_too_high = {
    .info = {.name = "dropout_too_high",
             .meaning = "dropout removes what is to be learnt",
             .reads = "the rates of dropout layers, the units before them, the deviation of noise",
             .statistic = "units that are left in the mean",
             .threshold =
                 "a rate of 0.7 and more, or 3 units left, or added noise that is 90 % of what "
                 "a layer puts out: what remains carries noise. A rate from 0.5 on could be "
                 "tuned. Reported when a trial with 0.2, or without noise, does better",
             .remedy = "rate: 0.2"},
    .title = "dropout too high",
    .explains =
        TD__SLOW_CONVERGENCE | TD__LOSS_FLOOR | TD__PLATEAU | TD__OSCILLATION | TD__MAJORITY_CLASS,
    .needs = TD__NEEDS_EXPERIMENT | TD__NEEDS_LOOP,
    .find = find_dropout_too_high,
};
