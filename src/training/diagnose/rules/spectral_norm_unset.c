#include "diagnose/loop.h"

static void find_spectral_norm_unset(td__case *c) {
    double count = td__loop_number(c, "spectral", "count");
    if (count < 1) {
        return;
    }
    td__suspicion *s = td__loop_error(
        c, TD_LIKELY, td__loop_layer(c, "spectral"),
        (int64_t)td__loop_number(c, "spectral", "since"),
        "one pass in training mode before the first evaluation; parametrizations.spectral_norm");
    td__because(s, NULL, s ? s->since : 1, count,
                td__say(c,
                        "%.0f layers were evaluated before a training pass, divided by a norm down "
                        "to %.2g of the true one: %s",
                        count, td__loop_number(c, "spectral", "share"),
                        td__loop_names(c, "spectral", "names")));
}

const td__rule td__rule_spectral_norm_unset = {
    .info = {.name = "spectral_norm_unset",
             .meaning = "a layer with spectral_norm is evaluated before its first training pass: "
                        "its norm is not known yet",
             .reads = "the loop's spectral",
             .statistic =
                 "the largest singular value of the weight against what the layer divides by",
             .threshold = "half: power iterations run in training mode only",
             .remedy = "one pass in training mode before the first evaluation; "
                       "parametrizations.spectral_norm"},
    .title = "spectral_norm was not set up",
    .explains = 0,
    .needs = TD__NEEDS_LOOP,
    .find = find_spectral_norm_unset,
    .after = true,
};
