#include "diagnose/rule.h"

static void find_missing_bias(td__case *c) {
    td__suspicion *s = NULL;
    if (!c->known) {
        return;
    }
    for (size_t i = 0; i < c->layers.count; i++) {
        const td__layer_facts *layer = &c->layers.items[i];
        bool normalised =
            i + 1 < c->layers.count && c->layers.items[i + 1].kind->role == TD__ROLE_NORMALIZATION;
        if (!layer->learns || layer->bias || layer->kind->role == TD__ROLE_LOOKUP || normalised) {
            continue;
        }
        if (!s) {
            s = td__suspect(c, TD__STRUCTURE, (ptrdiff_t)i, "use_bias: true");
        }
        td__because(s, NULL, 0, 0, td__say(c, "%s has no bias", layer->name));
        td__edit_layer(c, s, (ptrdiff_t)i, "use_bias", "true");
    }
}

const td__rule td__rule_missing_bias = {
    .info = {.name = "missing_bias",
             .meaning = "layers without bias where one is needed",
             .reads = "use_bias of the layers",
             .statistic = "none: what the file says",
             .threshold = "no bias, and no normalisation that has its own. Reported when a trial "
                          "with biases does better",
             .remedy = "use_bias: true"},
    .title = "missing bias",
    .explains = TD__LOSS_FLOOR | TD__PLATEAU | TD__SLOW_CONVERGENCE | TD__DEAD_RELU,
    .needs = TD__NEEDS_EXPERIMENT,
    .find = find_missing_bias,
};
