#include "diagnose/rule.h"

#include <math.h>

static void find_symmetric_units(td__case *c) {
    for (size_t i = 0; c->repeated && i < c->layers.count; i++) {
        const td__layer_facts *layer = &c->layers.items[i];
        if (layer->learns && !layer->last && layer->start.units > 1 && layer->start.distinct == 1 &&
            layer->kernel_equal) {
            td__found(c, layer->name, 1, td__say(c, "%s.output", layer->name), 1,
                      td__say(c, "all %lld units of %s put out the same",
                              (long long)layer->start.units, layer->name));
            return;
        }
    }
}

const td__rule td__rule_symmetric_units = {
    .info = {.name = "symmetric_units",
             .symptom = true,
             .meaning = "all units of a layer do the same",
             .reads = "the outputs of hidden layers, where the run can be repeated",
             .statistic = "units that differ from the others, over 64 examples",
             .threshold = "one of several: units that start alike get the same gradient",
             .remedy = ""},
    .symptom = TD__INDEX_SYMMETRIC_UNITS,
    .needs = TD__NEEDS_REPEAT,
    .find = find_symmetric_units,
    .after = true,
};
