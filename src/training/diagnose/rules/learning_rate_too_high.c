#include "diagnose/loop.h"
#include "nn/optimizer_role.h"

#include <string.h>

/* Of a rate beyond a thousand times as much, these are tried as well. */
#define USUAL 0.001
#define USUAL_OF_SGD 0.01

#define PEAK 10.0         /* times the first loss */
#define LITTLE 0.1        /* that the loss fell by */
#define WHOLE 1.0         /* … in the largest update: nothing of the weight is left */
#define PACE 3.0          /* of the size that weights begin with, in half of the updates */
#define PACE_OF_TURNS 1.5 /* … where losses say nothing: small tables may begin with fast steps */
#define VIOLENT 5.0       /* … where losses say nothing */
#define LARGE_STEP 0.3    /* of a weight's size in one update: a thousandth is usual */

static void find_learning_rate_too_high_in_loop(td__case *c) {
    double step = td__loop_number(c, "steps", "median");
    double largest = td__loop_number(c, "steps", "largest");
    /* The steps of LBFGS have the length that its search found. */
    bool searched = !strcmp(td__loop_text(c, "optimizer", "kind"), "LBFGS");
    bool large = !searched && (step >= LARGE_STEP || largest >= WHOLE);
    /* Adam and its kin divide by the gradient's size. */
    bool summed = !strcmp(td__loop_text(c, "head", "reduction"), "sum") &&
                  !strcmp(td__loop_text(c, "optimizer", "kind"), "SGD");
    bool blown = !strcmp(td__loop_text(c, "nonfinite", "what"), "weights") &&
                 td__loop_number(c, "nonfinite", "updates") > 0 && !td__loop_is_singular(c);
    bool poor = td__has_any(c, TD__DIVERGENCE | TD__NAN_LOSS | TD__INF_LOSS | TD__OSCILLATION |
                                   TD__DEAD_RELU | TD__PLATEAU | TD__EXPLODING_GRADIENT |
                                   TD__LOSS_FLOOR | TD__ZERO_GRADIENT);
    const td__series *loss = td__loss_of(c->history);
    poor |= td__loop_fall(c) < LITTLE;
    poor |= td__series_most(loss, NULL) > PEAK * td__series_first(loss) && largest >= WHOLE;
    /* The losses of adversaries say nothing, but no training replaces its weights in update after update. */
    bool fast = td__loop_has_member(c, "steps", "pace")
                    ? td__loop_number(c, "steps", "pace") >= PACE_OF_TURNS
                    : step >= LARGE_STEP;
    bool harmful =
        td__loop_is_adversarial(c) ? fast || largest >= VIOLENT : poor && (summed || large);
    harmful |= !searched && td__loop_number(c, "steps", "pace") >= PACE;
    if (!blown && !harmful) {
        return;
    }
    int64_t since = blown ? (int64_t)td__loop_number(c, "nonfinite", "since") : 1;
    td__suspicion *s = td__loop_error(
        c, TD_LIKELY, NULL, since,
        summed ? "reduction=\"mean\", or a learning rate smaller by the size of a batch"
               : td__say(c, "lr=%.3g (from %.3g); clip_grad_norm_",
                         0.1 * td__loop_number(c, "optimizer", "lr"),
                         td__loop_number(c, "optimizer", "lr")));
    if (summed) {
        td__because(s, NULL, 1, 0, "the loss is the sum over a batch: so are its gradients");
    }
    if (large || harmful) {
        td__because(s, NULL, 1, step,
                    td__say(c, "an update changes weights by %.2g of their size, at most by %.2g",
                            step, largest));
    }
    if (blown) {
        td__because(s, NULL, since, 0,
                    td__say(c, "after %.0f updates these weights were no longer finite: %s",
                            td__loop_number(c, "nonfinite", "updates"),
                            td__loop_names(c, "nonfinite", "names")));
    }
}

static void find_learning_rate_too_high(td__case *c) {
    if (c->loop) {
        find_learning_rate_too_high_in_loop(c);
        return;
    }
    double rate = td__rate_of(c);
    if (!c->known || !(rate > 0)) {
        return;
    }
    const td__origin *origin = &c->baseline.origin;
    bool blown = c->repeated && origin->cause && origin->grown;
    bool plain = td__optimizer_role_of(c->trainer->learner.optimizer) == TD__ONE_RATE;
    double usual = plain ? USUAL_OF_SGD : USUAL;
    const double smaller[] = {0.1 * rate, 0.01 * rate, 0.001 * rate, 10 * usual, usual};
    for (size_t i = 0; i < sizeof smaller / sizeof *smaller; i++) {
        if (i > 2 && smaller[i] >= smaller[2]) {
            return;
        }
        td__suspicion *s =
            td__suspect(c, blown ? TD__STRUCTURE : TD__TUNING, -1,
                        td__say(c, "learning_rate: %.3g (from %.3g)", smaller[i], rate));
        td__edit(s,
                 td__say(c, "train.optimizer.%s.learning_rate=%.9g",
                         c->experiment->train.optimizer.name ? c->experiment->train.optimizer.name
                                                             : "adam",
                         smaller[i]));
        if (s && blown) {
            td__because(s, "loss", origin->step, (double)origin->loss,
                        td__say(c,
                                "outputs grew from step to step until the loss was %s in step "
                                "%lld",
                                origin->loss > 0 ? "infinite" : "NaN", (long long)origin->step));
            s->origin = origin;
            s->layer = origin->layer >= 0 ? origin->layer : c->layers.last;
            s->since = 1;
        }
    }
}

const td__rule td__rule_learning_rate_too_high = {
    .info = {.name = "learning_rate_too_high",
             .meaning = "steps are too large: divergence, oscillation, dead units or NaN",
             .reads = "the optimizer's learning_rate, loss, outputs",
             .statistic =
                 "what a tenth, a hundredth and a thousandth of the rate achieve in as many steps; "
                 "of a rate beyond that, the usual one and ten times as much",
             .threshold = "reported when the loss diverged and the smaller rate does not, or when "
                          "it wins most of what was missing",
             .remedy = "learning_rate: the one that did best"},
    .title = "learning rate too high",
    .explains = TD__DIVERGENCE | TD__OSCILLATION | TD__DEAD_RELU | TD__NAN_LOSS | TD__INF_LOSS |
                TD__EXPLODING_GRADIENT | TD__HUGE_LOSS | TD__PLATEAU | TD__CONSTANT_OUTPUT |
                TD__SATURATED_UNITS | TD__ZERO_GRADIENT | TD__MAJORITY_CLASS |
                TD__HUGE_ACTIVATIONS | TD__ATTENTION_COLLAPSE | TD__ATTENTION_LOGITS,
    .needs = TD__NEEDS_EXPERIMENT | TD__NEEDS_LOOP,
    .find = find_learning_rate_too_high,
    .after = true,
    .is_rate = true,
};
