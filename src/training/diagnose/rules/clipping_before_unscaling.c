#include "diagnose/loop.h"

static void find_clipping_before_unscaling(td__case *c) {
    double scaled = td__loop_number(c, "clipping", "scaled");
    if (scaled < 1) {
        return;
    }
    td__suspicion *s =
        td__loop_error(c, TD_SURE, NULL, (int64_t)td__loop_number(c, "clipping", "since"),
                       "scaler.unscale_(optimizer) before clipping");
    td__because(
        s, NULL, s ? s->since : 1, td__loop_number(c, "clipping", "largest"),
        td__say(c,
                "in %.0f of %.0f calls the gradients were still scaled: norms of up to %.3g, "
                "cut to %.3g",
                scaled, td__loop_number(c, "clipping", "calls"),
                td__loop_number(c, "clipping", "largest"),
                td__loop_number(c, "clipping", "limit")));
}

const td__rule td__rule_clipping_before_unscaling = {
    .info = {.name = "clipping_before_unscaling",
             .meaning = "gradients are clipped while they carry the GradScaler's scale",
             .reads = "the loop's clipping",
             .statistic = "calls of clip_grad_norm_ or clip_grad_value_ without scaler.unscale_ "
                          "since the update before",
             .threshold = "one: scaled by thousands, every gradient is cut",
             .remedy = "scaler.unscale_(optimizer) before clipping"},
    .title = "clipping before unscaling",
    .explains = TD__PLATEAU | TD__SLOW_CONVERGENCE | TD__LOSS_FLOOR,
    .needs = TD__NEEDS_LOOP,
    .find = find_clipping_before_unscaling,
    .after = true,
};
