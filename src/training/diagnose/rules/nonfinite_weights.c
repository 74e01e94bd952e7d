#include "diagnose/loop.h"

#include <string.h>

static void find_nonfinite_weights_in_loop(td__case *of) {
    if (strcmp(td__loop_text(of, "nonfinite", "what"), "weights") != 0 ||
        td__loop_number(of, "nonfinite", "updates") > 0) {
        return;
    }
    td__suspicion *s =
        td__loop_error(of, TD_SURE, td__loop_layer(of, "nonfinite"), 1, "start from other weights");
    td__because(s, NULL, 1, td__loop_number(of, "nonfinite", "count"),
                td__say(of, "not finite before the first update: %s",
                        td__loop_names(of, "nonfinite", "names")));
    td__origin *origin = td__origin_new(of);
    if (s && origin) {
        origin->cause = "parameter";
        origin->step = 1;
        s->origin = origin;
    }
}

static void find_nonfinite_weights(td__case *of) {
    if (of->loop) {
        find_nonfinite_weights_in_loop(of);
        return;
    }
    if (!of->known) {
        return;
    }
    for (size_t i = 0; i < of->layers.count; i++) {
        const td__layer_facts *layer = &of->layers.items[i];
        if (layer->nonfinite == 0) {
            continue;
        }
        td__origin *origin = td__origin_new(of);
        td__suspicion *s = td__suspect(of, TD__FACT, (ptrdiff_t)i, "start from other weights");
        td__because(s, NULL, 1, (double)layer->nonfinite,
                    td__say(of, "%lld weights of %s are NaN or infinite before the first step",
                            (long long)layer->nonfinite, layer->name));
        if (s && origin) {
            origin->cause = "parameter";
            origin->layer = (ptrdiff_t)i;
            origin->parameter = of->baseline.origin.parameter;
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
    .look = find_nonfinite_weights,
};
