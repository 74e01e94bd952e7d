#include "diagnose/head.h"

static void find_wrong_output_units(td__case *c) {
    if (!c->known || c->layers.last < 0 || c->facts.task.kind != TD__TASK_CLASSES ||
        c->layers.units >= c->facts.task.classes) {
        return;
    }
    td__suspicion *s = td__suspect(
        c, TD__CONTRADICTION, c->layers.last,
        td__say(c, "units: %lld, %s", (long long)c->facts.task.classes, td__head_text(c)));
    td__because(s, NULL, 0, (double)c->layers.units,
                td__say(c, "%lld classes, and the last layer has %lld unit%s",
                        (long long)c->facts.task.classes, (long long)c->layers.units,
                        c->layers.units == 1 ? "" : "s"));
    td__edit_head(c, s);
}

const td__rule td__rule_wrong_output_units = {
    .info = {.name = "wrong_output_units",
             .meaning = "the last layer has not as many units as the labels need",
             .reads = "the last layer's units, the labels",
             .statistic = "classes in the labels against units",
             .threshold = "fewer units than classes (two classes need one)",
             .remedy = "a unit for each class, softmax"},
    .title = "wrong number of output units",
    .explains = TD__LOSS_FLOOR | TD__SATURATED_UNITS | TD__PLATEAU | TD__DIVERGENCE |
                TD__CONSTANT_OUTPUT | TD__HUGE_LOSS | TD__ZERO_GRADIENT | TD__MAJORITY_CLASS,
    .one_output = true,
    .needs = TD__NEEDS_EXPERIMENT,
    .find = find_wrong_output_units,
};
