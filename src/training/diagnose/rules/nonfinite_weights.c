#include "diagnose/loop.h"

#include <string.h>

static void find_nonfinite_weights_in_loop(td__case *c) {
    if (strcmp(td__loop_text(c, "nonfinite", "what"), "weights") != 0 ||
        td__loop_number(c, "nonfinite", "updates") > 0) {
        return;
    }
    td__suspicion *s =
        td__loop_error(c, TD_SURE, td__loop_layer(c, "nonfinite"), 1, "start from other weights");
    td__because(s, NULL, 1, td__loop_number(c, "nonfinite", "count"),
                td__say(c, "not finite before the first update: %s",
                        td__loop_names(c, "nonfinite", "names")));
    td__origin *origin = td__origin_new(c);
    if (s && origin) {
        origin->cause = "parameter";
        origin->step = 1;
        s->origin = origin;
    }
}

static void find_nonfinite_weights(td__case *c) {
    if (c->loop) {
        find_nonfinite_weights_in_loop(c);
        return;
    }
    if (!c->known) {
        return;
    }
    for (size_t i = 0; i < c->layers.count; i++) {
        const td__layer_facts *layer = &c->layers.items[i];
        if (layer->nonfinite == 0) {
            continue;
        }
        td__origin *origin = td__origin_new(c);
        td__suspicion *s = td__suspect(c, TD__FACT, (ptrdiff_t)i, "start from other weights");
        td__because(s, NULL, 1, (double)layer->nonfinite,
                    td__say(c, "%lld weights of %s are NaN or infinite before the first step",
                            (long long)layer->nonfinite, layer->name));
        if (s && origin) {
            origin->cause = "parameter";
            origin->layer = (ptrdiff_t)i;
            origin->parameter = c->baseline.origin.parameter;
            origin->step = 1;
            s->origin = origin;
            s->redraw = true;
        }
        return;
    }
}

const td__rule td__rule_nonfinite_weights = {
    .info = {.name = "nonfinite_weights",
             .meaning = "NaN or infinity in the weights that training starts from",
             .reads = "the weights before the first step",
             .statistic = "numbers that are not finite",
             .threshold = "one: it spreads to every output",
             .remedy = "start from other weights"},
    .title = "NaN in the weights",
    .explains = TD__NAN_LOSS | TD__INF_LOSS,
    .needs = TD__NEEDS_EXPERIMENT | TD__NEEDS_LOOP,
    .find = find_nonfinite_weights,
};
