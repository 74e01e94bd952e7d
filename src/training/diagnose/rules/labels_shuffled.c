#include "diagnose/loop.h"

enum { ENOUGH = 8 };
#define SHARE 0.15
#define FALL 0.2

/* Pairs, episodes and tasks in turn give an example another label each time, and are learnt all the same:
 * labels that are drawn anew cannot be. */
static bool is_learnt(const td__case *c) {
    const td__series *loss = td__loss_of(c->history);
    double early = td__series_mean(loss, 0.05, 0.15), last = td__series_mean(loss, 0.9, 1);
    return loss->count >= ENOUGH && early > 0 && last < (1 - FALL) * early;
}

/* A reshape to swapped lengths keeps the order of the numbers: those of one example get to another. */
static void find_reshaped(td__case *c) {
    if (!td__loop_has_member(c, "head", "swapped")) {
        return;
    }
    td__suspicion *s = td__loop_error(c, TD_LIKELY, td__loop_head_layer(c), 1,
                                      "transpose or permute instead of reshape or view");
    td__because(
        s, NULL, 1, 0,
        td__say(
            c, "between the layer and the loss %s: a reshape does not swap axes, it mixes examples",
            td__loop_reshaped(c)));
}

static void find_labels_shuffled(td__case *c) {
    find_reshaped(c);
    double again = td__loop_number(c, "labels", "again");
    double changed = td__loop_number(c, "labels", "changed");
    if (changed < ENOUGH || changed < SHARE * again) {
        return;
    }
    td__suspicion *s =
        td__loop_error(c,
                       is_learnt(c) || td__loop_has_episodes(c) ||
                               td__loop_is(c, "of_choices", NULL) || td__loop_has(c, "nonfinite")
                           ? TD_MAYBE
                           : TD_SURE,
                       NULL, (int64_t)td__loop_number(c, "labels", "since"),
                       "shuffle inputs and labels with one permutation");
    td__because(s, NULL, s ? s->since : 1, changed,
                td__say(c, "of %.0f examples that came again %.0f had another example's label",
                        again, changed));
}

const td__rule td__rule_labels_shuffled = {
    .info = {.name = "labels_shuffled",
             .meaning = "inputs and labels are shuffled apart from each other",
             .reads = "the loop's labels",
             .statistic = "examples that came again with another example's label",
             .threshold =
                 "eight, and 15 % of those that came again: duplicates with doubtful "
                 "labels are fewer. Needs a second epoch. A maybe where the loss falls by a fifth "
                 "after the first tenth: pairs, episodes and tasks in turn do that",
             .remedy = "shuffle inputs and labels with one permutation"},
    .title = "labels apart from inputs",
    .explains = TD__PLATEAU | TD__LOSS_FLOOR | TD__SLOW_CONVERGENCE | TD__MAJORITY_CLASS |
                TD__CONSTANT_OUTPUT,
    .one_output = true,
    .needs = TD__NEEDS_LOOP,
    .find = find_labels_shuffled,
    .after = true,
};
