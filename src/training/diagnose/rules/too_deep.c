#include "diagnose/model_text.h"

#define DEEP 6

static void find_too_deep(td__case *c) {
    if (!c->known || !c->experiment->layer_count) {
        return;
    }
    td__chain chain = td__longest_chain(c);
    const char *edit = chain.count >= DEEP ? td__model_shallow(c, chain) : NULL;
    if (!edit) {
        return;
    }
    td__suspicion *s = td__suspect(c, TD__STRUCTURE, chain.first, "two hidden layers");
    td__because(s, NULL, 0, (double)chain.count,
                td__say(c, "%zu layers one after the other", chain.count));
    td__edit(s, edit);
    if (s) {
        /* Fewer layers also help where gradients get through. */
        s->doubtful = !td__has_any(c, TD__VANISHING_GRADIENT | TD__EXPLODING_GRADIENT |
                                          TD__DEAD_RELU | TD__SATURATED_UNITS);
        s->redraw = true; /* weights from a file do not fit other layers … */
        s->severity = c->experiment->weights ? -1 /* … and new ones may be all that helps */
                                             : td__severity((double)chain.count, DEEP);
    }
}

const td__rule td__rule_too_deep = {
    .info =
        {.name = "too_deep",
         .meaning = "too many layers for what carries gradients through",
         .reads = "the layers",
         .statistic =
             "how many layers with weights follow one another, without normalisation or shortcut",
         .threshold = "6 and more. Reported when a trial with two hidden layers does better",
         .remedy = "fewer layers"},
    .title = "too deep",
    .explains = TD__VANISHING_GRADIENT | TD__EXPLODING_GRADIENT | TD__PLATEAU | TD__DEAD_RELU |
                TD__SLOW_CONVERGENCE | TD__CONSTANT_OUTPUT | TD__MAJORITY_CLASS,
    .needs = TD__NEEDS_EXPERIMENT,
    .find = find_too_deep,
};
