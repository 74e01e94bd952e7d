#include "diagnose/rule.h"

#define ALWAYS 0.9
#define LITTLE 0.2 /* of the gradient's norm that clipping leaves */

static void find_clip_too_small(td__case *c) {
    if (!c->known || !(c->experiment->train.clip_norm > 0)) {
        if (c->known && c->experiment->train.clip_value > 0 &&
            c->experiment->train.clip_value < 0.01) {
            td__suspicion *s = td__suspect(c, TD__STRUCTURE, -1, "no train.clip_value");
            td__because(
                s, NULL, 0, c->experiment->train.clip_value,
                td__say(c, "every gradient is cut to %.3g", c->experiment->train.clip_value));
            td__edit(s, "train.clip_value=1e30");
        }
        return;
    }
    if (c->repeated && (c->baseline.clipped < ALWAYS || c->baseline.cut > LITTLE)) {
        return;
    }
    td__suspicion *s = td__suspect(c, TD__STRUCTURE, -1, "no train.clip_norm, or a larger one");
    if (c->repeated && s) {
        s->severity = td__severity(LITTLE, c->baseline.cut);
        td__because(s, "gradient_norm", 0, c->baseline.cut,
                    td__say(c,
                            "clip_norm %.3g acts in %.0f %% of the steps and leaves %.2g of "
                            "the gradient",
                            c->experiment->train.clip_norm, 100 * c->baseline.clipped,
                            c->baseline.cut));
    }
    td__edit(s, "train.clip_norm=1e30");
}

const td__rule td__rule_clip_too_small = {
    .info = {.name = "clip_too_small",
             .meaning = "gradient clipping leaves nothing of the step",
             .reads = "train.clip_norm, clip_value, the norm of the gradient at each step",
             .statistic = "how often clipping acts, and what it leaves",
             .threshold = "nine steps of ten cut to less than a fifth: clipping is to catch the "
                          "exception. Reported when a trial without does better",
             .remedy = "a clip_norm around the usual norm, or none"},
    .title = "clipping too small",
    .explains = TD__SLOW_CONVERGENCE | TD__PLATEAU | TD__UNCHANGED_WEIGHTS,
    .needs = TD__NEEDS_EXPERIMENT,
    .find = find_clip_too_small,
};
