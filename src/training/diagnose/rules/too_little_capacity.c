#include "diagnose/rule.h"

/* Narrower than this, a layer cannot pass on what it gets. */
#define NARROW 4
#define WIDER "32"

static void find_too_little_capacity(td__case *c) {
    td__suspicion *s = NULL;
    if (!c->known || c->experiment->train.objective.target == TD__TARGET_INPUT) {
        return; /* the bottleneck of an autoencoder is meant */
    }
    for (size_t i = 0; i < c->layers.count; i++) {
        const td__layer_facts *layer = &c->layers.items[i];
        if (!layer->learns || layer->last || layer->units > NARROW ||
            layer->kind->role == TD__ROLE_LOOKUP) {
            continue;
        }
        if (!s) {
            s = td__suspect(c, TD__STRUCTURE, (ptrdiff_t)i, "units: " WIDER);
        }
        td__because(s, NULL, 0, (double)layer->units,
                    td__say(c, "%s has %lld unit%s", layer->name, (long long)layer->units,
                            layer->units == 1 ? "" : "s"));
        bool filters = td__layer_has_option(layer->kind, "filters");
        td__edit_layer(c, s, (ptrdiff_t)i, filters ? "filters" : "units", WIDER);
        if (s) { /* a wider layer also learns faster */
            s->doubtful = layer->units > 1;
        }
    }
}

const td__rule td__rule_too_little_capacity = {
    .info = {.name = "too_little_capacity",
             .meaning = "too few units or a bottleneck",
             .reads = "the layers' units",
             .statistic = "units of the narrowest hidden layer",
             .threshold =
                 "4 and fewer: with relu, half of them are off. Reported when a trial with "
                 "32 does better",
             .remedy = "units: 32"},
    .title = "too little capacity",
    .explains = TD__LOSS_FLOOR | TD__PLATEAU | TD__CONSTANT_OUTPUT | TD__DEAD_RELU |
                TD__SLOW_CONVERGENCE | TD__MAJORITY_CLASS,
    .needs = TD__NEEDS_EXPERIMENT,
    .find = find_too_little_capacity,
};
