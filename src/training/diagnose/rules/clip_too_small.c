#include "diagnose/rule.h"

#define ALWAYS 0.9
#define LITTLE 0.2 /* of the gradient's norm that clipping leaves */

static void find_clip_too_small(td__case *of) {
    if (!of->known || !(of->experiment->train.clip_norm > 0)) {
        if (of->known && of->experiment->train.clip_value > 0 &&
            of->experiment->train.clip_value < 0.01) {
            td__suspicion *s = td__suspect(of, TD__STRUCTURE, -1, "no train.clip_value");
            td__because(
                s, NULL, 0, of->experiment->train.clip_value,
                td__say(of, "every gradient is cut to %.3g", of->experiment->train.clip_value));
            td__edit(s, "train.clip_value=1e30");
        }
        return;
    }
    if (of->repeated && (of->baseline.clipped < ALWAYS || of->baseline.cut > LITTLE)) {
        return;
    }
    td__suspicion *s = td__suspect(of, TD__STRUCTURE, -1, "no train.clip_norm, or a larger one");
    if (of->repeated) {
        td__because(s, "gradient_norm", 0, of->baseline.cut,
                    td__say(of,
                            "clip_norm %.3g acts in %.0f %% of the steps and leaves %.2g of "
                            "the gradient",
                            of->experiment->train.clip_norm, 100 * of->baseline.clipped,
                            of->baseline.cut));
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
    .look = find_clip_too_small,
};
