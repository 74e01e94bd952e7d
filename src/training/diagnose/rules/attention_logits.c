#include "diagnose/rule.h"

#define LARGE 1000.0
#define TIMES 10.0

static void find_attention_logits(td__case *c) {
    const td_run_signal *signal;
    for (size_t at = 0; (signal = td__next_derived(c->history, "max_logit", &at));) {
        const td__series *most = td__series_of(c->history, signal->name, "max");
        double first = td__series_first(most), last = td__series_mean(most, 0.75, 1);
        if (!(last > LARGE && last > TIMES * first)) {
            continue;
        }
        int64_t since = 1;
        for (size_t i = most->count; i-- > 0 && most->points[i].value > LARGE;) {
            since = most->points[i].step;
        }
        td__found(c, signal->info->layer, since, signal->name, last,
                  td__say(c, "the largest score of %s grows from %.3g to %.3g", signal->info->layer,
                          first, last));
    }
}

const td__rule td__rule_attention_logits = {
    .info = {.name = "attention_logits",
             .symptom = true,
             .meaning = "the scores of an attention grow beyond all measure",
             .reads = "ATTENTION.max_logit (max), where a track asks for it",
             .statistic = "the largest score in the last quarter of the records, in the mean, "
                          "against the first",
             .threshold = "beyond 1000 and ten times the first: bfloat16 then rounds scores to "
                          "multiples of 4, and the softmax picks one token",
             .remedy = ""},
    .symptom = TD__INDEX_ATTENTION_LOGITS,
    .needs = TD__NEEDS_LOGITS,
    .find = find_attention_logits,
    .after = true,
};
