#include "diagnose/head.h"
#include "diagnose/loop.h"

#include <math.h>
#include <string.h>

/* The last layer starts by putting out numbers around 1. What lies fifty times farther takes as many
 * more steps to reach, and its squared error a rate 2500 times smaller. */
#define FAR 50.0
#define NARROW 0.02
#define MISSED 0.2 /* of the targets' size, that outputs are away from them at the end */

/* A loop whose outputs do not get near their targets in the steps there are. */
static void find_unscaled_targets_in_loop(td__case *c) {
    double size = td__loop_number(c, "target", "size");
    const char *loss = td__loop_text(c, "head", "loss");
    bool squared = !strcmp(loss, "mse_loss"),
         summed = !strcmp(td__loop_text(c, "head", "reduction"), "sum");
    bool values = squared || !strcmp(loss, "l1_loss") || !strcmp(loss, "huber_loss") ||
                  !strcmp(loss, "smooth_l1_loss");
    double last = td__loop_has_member(c, "head", "last_loss") /* of several outputs */
                      ? td__loop_number(c, "head", "last_loss")
                      : td__series_mean(td__loss_of(c->history), 0.9, 1);
    double away = squared ? sqrt(last) : last;
    if (!values || summed || size < FAR || !(away > MISSED * size)) {
        return;
    }
    td__suspicion *s =
        td__loop_error(c, TD_LIKELY, td__loop_head_layer(c), 1, "targets of mean 0 and variance 1");
    td__because(
        s, "label", 1, size,
        td__say(c,
                "targets go from %.4g to %.4g (root mean square %.3g), and outputs are %.3g "
                "away from them at the end",
                td__loop_number(c, "target", "minimum"), td__loop_number(c, "target", "maximum"),
                size, away));
}

static void find_unscaled_targets(td__case *c) {
    if (c->loop) {
        find_unscaled_targets_in_loop(c);
        return;
    }
    const td__column *labels = &c->facts.labels.all;
    if (!c->known || c->facts.task.kind != TD__TASK_VALUES || c->layers.last < 0 ||
        c->experiment->train.objective.target == TD__TARGET_INPUT) {
        return;
    }
    bool far = fmax(fabs(labels->mean), labels->deviation) > FAR;
    if (!far && labels->deviation > NARROW) {
        return;
    }
    td__suspicion *s = td__suspect(
        c, TD__STRUCTURE, c->layers.last,
        td__say(c, "scale the labels: (label - %.4g) / %.4g", labels->mean, labels->deviation));
    td__because(s, "label", 0, labels->deviation,
                td__say(c, "labels go from %.4g to %.4g (mean %.4g, deviation %.3g)",
                        labels->minimum, labels->maximum, labels->mean, labels->deviation));
    if (s) {
        s->standardize_labels = true;
        s->severity = far ? td__severity(fmax(fabs(labels->mean), labels->deviation), FAR)
                          : td__severity(NARROW, labels->deviation);
        if (c->layers.output != TD_LINEAR ||
            td__takes_probabilities(c->experiment->train.objective.loss)) {
            td__edit_head(c, s);
        }
    }
}

const td__rule td__rule_unscaled_targets = {
    .info = {.name = "unscaled_targets",
             .meaning = "targets of a regression are far from what a network puts out",
             .reads = "the labels of the training data",
             .statistic = "their mean and deviation",
             .threshold = "mean or deviation beyond 50, or a deviation below 0.02: networks start "
                          "around 0 with a deviation around 1. Reported when a trial with "
                          "standardised labels does better",
             .remedy = "standardise the labels"},
    .title = "targets are not scaled",
    .explains = TD__HUGE_LOSS | TD__SLOW_CONVERGENCE | TD__PLATEAU | TD__EXPLODING_GRADIENT |
                TD__DIVERGENCE | TD__NAN_LOSS | TD__INF_LOSS | TD__OSCILLATION | TD__DEAD_RELU |
                TD__SATURATED_UNITS | TD__HUGE_ACTIVATIONS | TD__CONSTANT_OUTPUT |
                TD__ZERO_GRADIENT,
    .one_output = true,
    .each_loop_head = true,
    .needs = TD__NEEDS_EXPERIMENT | TD__NEEDS_HEAD,
    .find = find_unscaled_targets,
};
