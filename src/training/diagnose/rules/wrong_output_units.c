#include "diagnose/head.h"

static void find_wrong_output_units(td__case *of) {
    if (!of->known || of->layers.last < 0 || of->facts.task.kind != TD__TASK_CLASSES ||
        of->layers.units >= of->facts.task.classes) {
        return;
    }
    td__suspicion *s = td__suspect(
        of, TD__CONTRADICTION, of->layers.last,
        td__say(of, "units: %lld, %s", (long long)of->facts.task.classes, td__head_text(of)));
    td__because(s, NULL, 0, (double)of->layers.units,
                td__say(of, "%lld classes, and the last layer has %lld unit%s",
                        (long long)of->facts.task.classes, (long long)of->layers.units,
                        of->layers.units == 1 ? "" : "s"));
    td__edit_head(of, s);
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
    .look = find_wrong_output_units,
};
