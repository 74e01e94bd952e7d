#include "diagnose/loop.h"

/* Neighbours in the file have the same label this much more often than by chance. */
#define SORTED 0.5
#define SHORT 0.5 /* changes of class in a batch */

enum { FEW = 4 }; /* batches */

/* How much of a batch is one class, against what that would be by chance. */
static void find_unshuffled_data_in_loop(td__case *of) {
    double purity = td__loop_number(of, "classes", "purity");
    double chance = td__loop_number(of, "classes", "chance");
    if (td__loop_number(of, "classes", "batches") < FEW ||
        td__loop_number(of, "classes", "count") < 2 || purity < chance + SORTED * (1 - chance)) {
        return;
    }
    td__suspicion *s = td__loop_error(of, TD_LIKELY, NULL, 1, "DataLoader(…, shuffle=True)");
    td__because(s, NULL, 1, purity,
                td__say(of,
                        "two examples of a batch have the same class in %.0f %% of the cases, two "
                        "of all examples in %.0f %%",
                        100 * purity, 100 * chance));
}

static void find_unshuffled_data(td__case *of) {
    if (of->loop) {
        find_unshuffled_data_in_loop(of);
        return;
    }
    if (!of->known || !of->experiment->data.in_order) {
        return;
    }
    double chance = 0;
    for (int64_t i = 0; i < of->facts.labels.classes && i < TD__MOST_CLASSES; i++) {
        chance += of->facts.labels.shares[i] * of->facts.labels.shares[i];
    }
    bool sorted = of->facts.labels.classes > 1 && of->facts.order > chance + SORTED * (1 - chance);
    /* Runs of one class that are longer than batches: no batch has two classes. */
    bool runs = sorted && (1 - of->facts.order) * (double)of->trainer->feed.info->batch < SHORT;
    td__suspicion *s = td__suspect(of,
                                   runs     ? TD__CONTRADICTION
                                   : sorted ? TD__STRUCTURE
                                            : TD__TUNING,
                                   -1, "data.shuffle: true");
    td__because(s, "label", 0, of->facts.order,
                td__say(of,
                        "data.shuffle is false, and %.0f %% of the rows have the label of the "
                        "row before (%.0f %% by chance)",
                        100 * of->facts.order, 100 * chance));
    td__edit(s, "data.shuffle=true");
}

const td__rule td__rule_unshuffled_data = {
    .info = {.name = "unshuffled_data",
             .meaning = "sorted data, not shuffled",
             .reads = "data.shuffle, the labels in the file's order",
             .statistic = "how often a row has the label of the row before it",
             .threshold = "halfway from chance to always: batches then hold one class. Reported "
                          "when a trial with shuffling does better",
             .remedy = "data.shuffle: true"},
    .title = "sorted data, not shuffled",
    .explains = TD__OSCILLATION | TD__PLATEAU | TD__VALIDATION_BELOW_TRAINING | TD__MAJORITY_CLASS |
                TD__SLOW_CONVERGENCE,
    .needs = TD__NEEDS_EXPERIMENT | TD__NEEDS_LOOP,
    .look = find_unshuffled_data,
};
