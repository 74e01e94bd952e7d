#include "diagnose/loop.h"

/* Neighbours in the file have the same label this much more often than by chance. */
#define SORTED 0.5
#define SHORT 0.5 /* changes of class in a batch */

enum { FEW = 4 }; /* batches */

/* How much of a batch is one class, against what that would be by chance. */
static void find_unshuffled_data_in_loop(td__case *c) {
    double purity = td__loop_number(c, "classes", "purity");
    double chance = td__loop_number(c, "classes", "chance");
    if (td__loop_number(c, "classes", "batches") < FEW ||
        td__loop_number(c, "classes", "count") < 2 || purity < chance + SORTED * (1 - chance)) {
        return;
    }
    td__suspicion *s = td__loop_error(c, TD_LIKELY, NULL, 1, "DataLoader(…, shuffle=True)");
    td__because(s, NULL, 1, purity,
                td__say(c,
                        "two examples of a batch have the same class in %.0f %% of the cases, two "
                        "of all examples in %.0f %%",
                        100 * purity, 100 * chance));
}

static void find_unshuffled_data(td__case *c) {
    if (c->loop) {
        find_unshuffled_data_in_loop(c);
        return;
    }
    if (!c->known || !c->experiment->data.in_order) {
        return;
    }
    double chance = 0;
    for (int64_t i = 0; i < c->facts.labels.classes && i < TD__MOST_CLASSES; i++) {
        chance += c->facts.labels.shares[i] * c->facts.labels.shares[i];
    }
    bool sorted = c->facts.labels.classes > 1 && c->facts.order > chance + SORTED * (1 - chance);
    /* Runs of one class that are longer than batches: no batch has two classes. */
    bool runs = sorted && (1 - c->facts.order) * (double)c->trainer->feed.info->batch < SHORT;
    td__suspicion *s = td__suspect(c,
                                   runs     ? TD__CONTRADICTION
                                   : sorted ? TD__STRUCTURE
                                            : TD__TUNING,
                                   -1, "data.shuffle: true");
    td__because(s, "label", 0, c->facts.order,
                td__say(c,
                        "data.shuffle is false, and %.0f %% of the rows have the label of the "
                        "row before (%.0f %% by chance)",
                        100 * c->facts.order, 100 * chance));
    td__edit(s, "data.shuffle=true");
    if (s && sorted) {
        s->severity = (c->facts.order - chance) / (1 - chance);
    }
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
    .find = find_unshuffled_data,
};
