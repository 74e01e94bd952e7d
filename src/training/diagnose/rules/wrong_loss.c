#include "diagnose/head.h"

#include <string.h>

static void find_wrong_loss(td__case *c) {
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
    .needs = TD__NEEDS_EXPERIMENT,
    .find = find_wrong_loss,
};
