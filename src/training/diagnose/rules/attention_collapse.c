#include "diagnose/rule.h"

/* In nats. At a mean below it at least half of the values are below 0.2: one token has 95 % of the weight. */
#define NARROW 0.1
#define WIDE 0.3

static void find_attention_collapse(td__case *c) {
    const td_run_signal *signal;
    for (size_t at = 0; (signal = td__next_derived(c->history, "entropy", &at));) {
        const td__series *entropy = td__series_of(c->history, signal->name, "mean");
        double widest = td__series_most(entropy, NULL), last = td__series_mean(entropy, 0.75, 1);
        if (!(widest > WIDE && last < NARROW)) {
            continue;
        }
        int64_t since = 1;
        for (size_t i = entropy->count; i-- > 0 && entropy->points[i].value < NARROW;) {
            since = entropy->points[i].step;
        }
        td__found(c, signal->info->layer, since, signal->name, last,
                  td__say(c,
                          "the heads of %s look at one token each: their entropy falls from %.2g "
                          "to %.2g nats",
                          signal->info->layer, widest, last));
    }
}

const td__rule td__rule_attention_collapse = {
    .info = {.name = "attention_collapse",
             .symptom = true,
             .meaning = "the heads of an attention look at one token each",
             .reads = "ATTENTION.entropy (mean), where a track asks for it",
             .statistic = "the mean over heads and examples in the last quarter of the records",
             .threshold = "below 0.1 nats, after 0.3: in half of them at least one token has 95 % "
                          "of the weight",
             .remedy = ""},
    .symptom = TD__INDEX_ATTENTION_COLLAPSE,
    .needs = TD__NEEDS_ENTROPY,
    .find = find_attention_collapse,
    .after = true,
};
