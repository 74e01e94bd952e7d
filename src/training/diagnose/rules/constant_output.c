#include "diagnose/rule.h"

#include <math.h>

static void find_constant_output(td__case *c) {
    if (!c->repeated || c->layers.last < 0) {
        return;
    }
    const td__layer_facts *last = &c->layers.items[c->layers.output_layer];
    if (last->end.units > 0 && last->end.constant == last->end.units) {
        td__found(c, last->name, c->baseline.steps, td__say(c, "%s.output", last->name),
                  last->end.mean,
                  td__say(c, "%s puts out the same for every example (mean %.4g)", last->name,
                          last->end.mean));
    }
}

const td__rule td__rule_constant_output = {
    .info = {.name = "constant_output",
             .symptom = true,
             .meaning = "the network puts out the same for every example",
             .reads = "LAYER.output (std) of the last layer; the outputs themselves where "
                      "the run can be repeated",
             .statistic = "units that do not change over 256 examples",
             .threshold = "all of them, at the end",
             .remedy = ""},
    .symptom = TD__INDEX_CONSTANT_OUTPUT,
    .one_output = true,
    .needs = TD__NEEDS_REPEAT,
    .find = find_constant_output,
    .after = true,
};
