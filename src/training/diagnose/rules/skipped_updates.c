#include "diagnose/loop.h"

enum { IN_A_ROW = 8, ENOUGH = 200 };
#define SHARE 0.05

static void find_skipped_updates(td__case *c) {
    double calls = td__loop_number(c, "scaler", "calls");
    double skipped = td__loop_number(c, "scaler", "skipped");
    double in_a_row = td__loop_number(c, "scaler", "in_a_row");
    if (in_a_row < IN_A_ROW && (calls < ENOUGH || skipped < SHARE * calls)) {
        return;
    }
    td__suspicion *s =
        td__loop_error(c, in_a_row >= IN_A_ROW ? TD_SURE : TD_LIKELY, NULL,
                       (int64_t)td__loop_number(c, "scaler", "since"),
                       "find what overflows in float16 (a loss that is not finite, large logits); "
                       "bfloat16");
    td__because(
        s, "skipped_steps", s ? s->since : 1, skipped,
        td__say(c, "%.0f of %.0f updates were skipped, %.0f in a row", skipped, calls, in_a_row));
}

const td__rule td__rule_skipped_updates = {
    .info = {.name = "skipped_updates",
             .meaning = "the GradScaler skips updates: scaled gradients overflow",
             .reads = "the loop's scaler",
             .statistic = "updates that were skipped, altogether and in a row",
             .threshold = "eight in a row, or one of twenty in two hundred: at the beginning a few "
                          "are usual, until the scale fits",
             .remedy = "look for what overflows in float16 (a loss that is not finite, sums, large "
                       "logits); bfloat16"},
    .title = "mixed precision overflows",
    .explains = TD__NAN_LOSS | TD__INF_LOSS | TD__UNCHANGED_WEIGHTS | TD__PLATEAU | TD__LOSS_FLOOR |
                TD__EXPLODING_GRADIENT,
    .needs = TD__NEEDS_LOOP,
    .find = find_skipped_updates,
    .after = true,
};
