#include "diagnose/loop.h"

static void find_autocast_ignored(td__case *c) {
    double count = td__loop_number(c, "autocast", "count");
    if (count < 1) {
        return;
    }
    td__suspicion *s =
        td__loop_error(c, TD_LIKELY, td__loop_layer(c, "autocast"),
                       (int64_t)td__loop_number(c, "autocast", "since"),
                       "functions that autocast knows, or torch.amp.custom_fwd(cast_inputs=…)");
    td__because(s, NULL, s ? s->since : 1, count,
                td__say(c, "autocast asks for half precision, and %.0f layers put out float32: %s",
                        count, td__loop_names(c, "autocast", "names")));
}

const td__rule td__rule_autocast_ignored = {
    .info = {.name = "autocast_ignored",
             .meaning = "layers compute in float32 although autocast is on",
             .reads = "the loop's autocast",
             .statistic = "linear and convolution layers whose outputs are float32 while autocast "
                          "asks for half precision",
             .threshold = "one: their arithmetic does not go through what autocast replaces",
             .remedy = "functions that autocast knows, or torch.amp.custom_fwd(cast_inputs=…)"},
    .title = "autocast is ignored",
    .explains = 0,
    .needs = TD__NEEDS_LOOP,
    .find = find_autocast_ignored,
    .after = true,
};
