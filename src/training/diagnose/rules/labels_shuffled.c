#include "diagnose/loop.h"

enum { ENOUGH = 8 };
#define SHARE 0.15

static void look(td__case *of) {
    double again = td__loop_number(of, "labels", "again");
    double changed = td__loop_number(of, "labels", "changed");
    if (changed < ENOUGH || changed < SHARE * again) {
        return;
    }
    td__suspicion *s =
        td__loop_error(of, TD_SURE, NULL, (int64_t)td__loop_number(of, "labels", "since"),
                       "shuffle inputs and labels with one permutation");
    td__because(s, NULL, s ? s->since : 1, changed,
                td__say(of, "of %.0f examples that came again %.0f had another example's label",
                        again, changed));
}

const td__rule td__rule_labels_shuffled = {
    .info = {.name = "labels_shuffled",
             .meaning = "inputs and labels are shuffled apart from each other",
             .reads = "the loop's labels",
             .statistic = "examples that came again with another example's label",
             .threshold = "eight, and 15 % of those that came again: duplicates with doubtful "
                          "labels are fewer. Needs a second epoch",
             .remedy = "shuffle inputs and labels with one permutation"},
    .title = "labels apart from inputs",
    .explains = TD__PLATEAU | TD__LOSS_FLOOR | TD__SLOW_CONVERGENCE | TD__MAJORITY_CLASS |
                TD__CONSTANT_OUTPUT,
    .one_output = true,
    .needs = TD__NEEDS_LOOP,
    .look = look,
    .after = true,
};
