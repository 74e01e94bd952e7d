#include "diagnose/head.h"
#include "diagnose/loop.h"

#include <math.h>
#include <string.h>

#define ENDLESS                                                                                    \
    20.0           /* times the first loss, below 0: logarithms of densities come to rest before */
#define LARGE 10.0 /* a first loss is at least taken for that */
#define LATE 0.3   /* of the fall in the last quarter of the steps: more than in a straight line */

enum { ENOUGH = 8 };

/* A loss that has a least value comes to rest. One that falls faster and faster, far below 0, has none: outputs grow without end. */
static void find_endless_fall(td__case *c) {
    const td__series *loss = td__loss_of(c->history);
    double first = td__series_first(loss), last = td__series_mean(loss, 0.9, 1);
    double fall = td__series_mean(loss, 0, 0.1) - last;
    double late = td__series_mean(loss, 0.65, 0.75) - last;
    if (loss->count < ENOUGH || td__loop_is_adversarial(c) ||
        !(-last > ENDLESS * fmax(fabs(first), LARGE)) || !(late > LATE * fall)) {
        return;
    }
    td__suspicion *s =
        td__loop_error(c, TD_LIKELY, NULL, 1,
                       "a loss that is least where outputs are right; targets and weights of terms "
                       "in the range that it is for");
    td__because(s, "loss", 1, last,
                td__say(c,
                        "the loss falls from %.3g to %.3g, the faster the longer: it has no least "
                        "value",
                        first, last));
}

static void find_wrong_loss(td__case *c) {
    if (c->loop) {
        find_endless_fall(c);
        return;
    }
    if (!c->known || c->layers.last < 0) {
        return;
    }
    const td__train_spec *train = &c->experiment->train;
    td__task_kind task = c->facts.task.kind;
    const td__column *labels = &c->facts.labels.all;
    const char *loss = td_loss_name(train->objective.loss), *why = NULL;
    td__strength strength = TD__STRUCTURE;
    bool never;
    bool binary = train->objective.loss == TD_LOSS_BINARY_CROSSENTROPY;
    if (task == TD__TASK_VALUES && td__is_crossentropy(train->objective.loss) &&
        !td__labels_are_signs(c) && (labels->minimum < 0 || labels->maximum > 1)) {
        why = td__say(c, "%s is for probabilities; the labels are values from %.4g to %.4g", loss,
                      labels->minimum, labels->maximum);
        strength = TD__CONTRADICTION;
    } else if ((why = td__loss_misfit(c, &never)) != NULL) {
        strength = never ? TD__CONTRADICTION : TD__STRUCTURE;
    } else if (task == TD__TASK_CLASSES && binary && c->layers.units == 1) {
        why = td__say(c, "%s knows two classes, the labels have %lld", loss,
                      (long long)c->facts.task.classes);
        strength = TD__CONTRADICTION;
    } else if (task == TD__TASK_CLASSES && binary) {
        why = td__say(c, "%s judges each of %lld classes alone", loss,
                      (long long)c->facts.task.classes);
    } else if (task != TD__TASK_VALUES && !td__takes_probabilities(train->objective.loss)) {
        why = td__say(c, "%s of classes: its gradient vanishes where the network is most wrong",
                      loss);
    } else if (task == TD__TASK_LABELS && !binary) {
        why = td__say(c, "%s wants one class an example, and labels may be present together", loss);
    }
    if (!why) {
        return;
    }
    td__suspicion *s = td__suspect(c, strength, c->layers.last, td__head_text(c));
    td__because(s, NULL, 0, 0, why);
    td__edit_head(c, s);
    if (s && c->baseline.origin.cause && !strcmp(c->baseline.origin.cause, "loss")) {
        s->origin = &c->baseline.origin;
    }
}

const td__rule td__rule_wrong_loss = {
    .info = {.name = "wrong_loss",
             .meaning = "the loss does not suit the task",
             .reads = "train.loss, the labels",
             .statistic = "what the labels are: values, one of several classes, yes or no",
             .threshold =
                 "values under a cross-entropy and more than two classes under a binary "
                 "one cannot be meant, nor labels below 0 under a logarithm (poisson, msle, "
                 "kl_divergence), values under hinge, or one number under cosine_similarity; "
                 "classes under mse or mae, and values of which some are 0 under mape, are "
                 "reported when a trial with another loss does better",
             .remedy = "the loss that the labels call for"},
    .title = "wrong loss",
    .explains = TD__PLATEAU | TD__SLOW_CONVERGENCE | TD__LOSS_FLOOR | TD__CONSTANT_OUTPUT |
                TD__SATURATED_UNITS | TD__ZERO_GRADIENT | TD__VANISHING_GRADIENT | TD__DIVERGENCE |
                TD__MAJORITY_CLASS,
    .one_output = true,
    .each_head = true,
    .needs = TD__NEEDS_EXPERIMENT | TD__NEEDS_LOOP,
    .find = find_wrong_loss,
};
