#include "diagnose/loop.h"

#include <math.h>
#include <string.h>

#define SHARE 0.2 /* of the first loss that is penalty */
#define NATIVE_DECAY                                                                               \
    0.5 /* times the rate, each step takes that share of a weight; Adam's steps are of the rate's size */

#define DECAY 0.1           /* of a loop: added to the gradient */
#define DECOUPLED_DECAY 0.9 /* … and of AdamW, which multiplies it by the rate */

static void find_over_regularization_in_loop(td__case *c) {
    double decay = td__loop_number(c, "optimizer", "weight_decay");
    const char *kind = td__loop_text(c, "optimizer", "kind");
    if (decay < (strcmp(kind, "AdamW") ? DECAY : DECOUPLED_DECAY)) {
        return;
    }
    bool poor =
        td__has_any(c, TD__PLATEAU | TD__SHRINKING_WEIGHTS | TD__LOSS_FLOOR | TD__SLOW_CONVERGENCE);
    td__suspicion *s = td__loop_error(c, poor ? TD_LIKELY : TD_MAYBE, NULL, 1, "weight_decay=1e-4");
    td__because(s, NULL, 1, decay, td__say(c, "%s with weight_decay %.3g", kind, decay));
}

/* What the optimizer takes of each weight in each step. */
static void find_decay(td__case *c) {
    double decay = td_optimizer_settled(c->trainer->learner.optimizer)->weight_decay.value;
    if (!(decay >= NATIVE_DECAY)) {
        return;
    }
    td__suspicion *s =
        td__suspect(c, TD__STRUCTURE, -1, td__say(c, "weight_decay: 0.004 (from %.4g)", decay));
    td__because(s, NULL, 0, decay,
                td__say(c, "weight_decay %.4g: each step takes %.2g %% of every weight", decay,
                        100 * fmin(1, decay * td__rate_of(c))));
    td__edit(s, td__say(c, "train.optimizer.%s.weight_decay=0.004",
                        c->experiment->train.optimizer.name ? c->experiment->train.optimizer.name
                                                            : "adam"));
    if (s) {
        s->severity = td__severity(decay, NATIVE_DECAY);
    }
}

static void find_over_regularization(td__case *c) {
    if (c->loop) {
        find_over_regularization_in_loop(c);
        return;
    }
    td__suspicion *s = NULL;
    if (!c->known) {
        return;
    }
    find_decay(c);
    if (c->repeated && c->baseline.penalty < SHARE) {
        return;
    }
    for (size_t i = 0; i < c->layers.count; i++) {
        const td__layer_facts *layer = &c->layers.items[i];
        if (layer->penalty_l1 <= 0 && layer->penalty_l2 <= 0) {
            continue;
        }
        if (!s) {
            s = td__suspect(c, TD__STRUCTURE, (ptrdiff_t)i, "kernel_l1, kernel_l2: 0");
            if (c->repeated) {
                td__because(s, "loss", 1, c->baseline.penalty,
                            td__say(c, "%.0f %% of the first loss is the penalty on weights",
                                    100 * c->baseline.penalty));
            }
        }
        td__because(s, NULL, 0, layer->penalty_l1 + layer->penalty_l2,
                    td__say(c, "%s has kernel_l1 %.3g, kernel_l2 %.3g", layer->name,
                            layer->penalty_l1, layer->penalty_l2));
        td__edit_layer(c, s, (ptrdiff_t)i, "kernel_l1", "0");
        td__edit_layer(c, s, (ptrdiff_t)i, "kernel_l2", "0");
    }
}

const td__rule td__rule_over_regularization = {
    .info = {.name = "over_regularization",
             .meaning = "L1 or L2 so strong that weights cannot grow",
             .reads =
                 "kernel_l1, kernel_l2 of the layers, the first loss with and without penalties; "
                 "weight_decay of the optimizer",
             .statistic = "the share of the first loss that is penalty",
             .threshold = "a fifth and more: the optimizer is busy with the weights' size. Or a "
                          "weight_decay of 0.5 and more. Reported when a trial without does better",
             .remedy = "smaller kernel_l1, kernel_l2"},
    .title = "too much regularisation",
    .explains = TD__SHRINKING_WEIGHTS | TD__PLATEAU | TD__LOSS_FLOOR | TD__SLOW_CONVERGENCE |
                TD__CONSTANT_OUTPUT | TD__VANISHING_GRADIENT | TD__MAJORITY_CLASS | TD__HUGE_LOSS,
    .needs = TD__NEEDS_EXPERIMENT | TD__NEEDS_LOOP,
    .find = find_over_regularization,
};
