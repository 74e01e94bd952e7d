#include "diagnose/rule.h"

#include <math.h>

#define SHARE 0.5

static void find_saturated_units(td__case *c) {
    for (size_t i = 0; c->repeated && i < c->layers.count; i++) {
        const td__layer_facts *layer = &c->layers.items[i];
        double saturated = fmax(layer->start.saturated, layer->end.saturated);
        if (saturated > SHARE) {
            td__found(
                c, layer->name, layer->start.saturated > SHARE ? 1 : c->baseline.steps,
                td__say(c, "%s.output", layer->name), saturated,
                td__say(c, "%s: %.0f %% of its outputs are saturated (%.0f %% before training)",
                        layer->name, 100 * layer->end.saturated, 100 * layer->start.saturated));
            td__found_unit(c, fmax(layer->end.saturated, 0) > SHARE ? layer->end.first_flat
                                                                    : layer->start.first_flat);
            return;
        }
    }
}

const td__rule td__rule_saturated_units = {
    .info = {.name = "saturated_units",
             .symptom = true,
             .meaning = "sigmoid or tanh units at the end of their range",
             .reads = "the outputs of layers, where the run can be repeated",
             .statistic = "the share of outputs where the derivative is below 0.01",
             .threshold = "half of them: no error gets through",
             .remedy = ""},
    .symptom = TD__INDEX_SATURATED_UNITS,
    .needs = TD__NEEDS_REPEAT,
    .find = find_saturated_units,
    .after = true,
};
