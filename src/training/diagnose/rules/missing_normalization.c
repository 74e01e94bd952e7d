#include "diagnose/model_text.h"

#define DEEP 6 /* layers that learn */

static void find_missing_normalization(td__case *c) {
    if (!c->known || !c->experiment->layer_count) {
        return;
    }
    td__chain chain = td__longest_chain(c);
    const char *edit = chain.count >= DEEP ? td__model_normalized(c, chain) : NULL;
    if (!edit) {
        return;
    }
    td__suspicion *s =
        td__suspect(c, TD__STRUCTURE, chain.first,
                    "batch_normalization between each hidden layer and its activation");
    const td__layer_facts *first = &c->layers.items[chain.first];
    const td__layer_facts *last = &c->layers.items[chain.last];
    td__because(s, NULL, 0, (double)chain.count,
                td__say(c,
                        "%zu layers one after the other, none of them normalised; before "
                        "training the error is %.2g at %s and %.2g at %s",
                        chain.count, last->start.error, last->name, first->start.error,
                        first->name));
    td__edit(s, edit);
    if (s) {
        s->redraw = true; /* weights from a file do not fit other layers … */
        s->severity = c->experiment->weights ? -1 /* … and new ones may be all that helps */
                                             : td__severity((double)chain.count, DEEP);
    }
}

const td__rule td__rule_missing_normalization = {
    .info = {.name = "missing_normalization",
             .meaning = "a deep network without a normalisation layer that it needs",
             .reads = "the layers",
             .statistic = "how many layers that learn follow one another",
             .threshold = "6 and more without normalisation or shortcut: small factors multiply. "
                          "Reported when a trial with batch normalisation does better",
             .remedy = "batch_normalization after each hidden layer"},
    .title = "missing normalisation",
    .explains = TD__VANISHING_GRADIENT | TD__EXPLODING_GRADIENT | TD__PLATEAU | TD__DEAD_RELU |
                TD__SLOW_CONVERGENCE | TD__CONSTANT_OUTPUT | TD__ZERO_GRADIENT |
                TD__SATURATED_UNITS | TD__MAJORITY_CLASS,
    .needs = TD__NEEDS_EXPERIMENT,
    .find = find_missing_normalization,
};
