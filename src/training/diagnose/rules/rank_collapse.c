#include "diagnose/diagnosis.h"
#include "diagnose/loop.h"

#define COLLAPSED 1.5
#define WIDE 3.0
#define LEARNT 0.5 /* of the first loss: a network that gets below it has what it needs */

/* One direction is all that two classes need: a network that learns may end there. */
static bool has_learnt(td__case *c) {
    const td__series *loss = td__loss_of(c->history);
    return loss->count && td__series_mean(loss, 0.75, 1) < LEARNT * td__series_first(loss);
}

static void find_rank_collapse(td__case *c) {
    const td_run_signal *signal;
    if (has_learnt(c)) {
        return;
    }
    for (size_t at = 0; (signal = td__next_derived(c->history, "effective_rank", &at));) {
        const td__series *rank = td__series_of(c->history, signal->name, NULL);
        double widest = td__series_most(rank, NULL), last = td__series_mean(rank, 0.75, 1);
        if (!td_run_matches("*.output.effective_rank", signal->name) ||
            !(widest > WIDE && last < COLLAPSED)) {
            continue;
        }
        int64_t since = 1;
        for (size_t i = rank->count; i-- > 0 && rank->points[i].value < 2 * COLLAPSED;) {
            since = rank->points[i].step;
        }
        td__suspicion *s = td__loop_error(
            c, TD_MAYBE, td__keep(c, signal->info->layer), since,
            "a smaller learning rate; normalisation or an addition around each block; in a "
            "self-supervised loss a term that keeps the variance");
        td__because(s, td__keep(c, signal->name), since, last,
                    td__say(c,
                            "the outputs of %s span %.2g directions, once %.2g: all examples look "
                            "alike",
                            signal->info->layer, last, widest));
        return;
    }
}

const td__rule td__rule_rank_collapse = {
    .info = {.name = "rank_collapse",
             .meaning = "the representations of a layer become alike",
             .reads = "LAYER.output.effective_rank, where a track asks for it, and the loss",
             .statistic = "the effective rank in the last quarter of the records, in the mean, "
                          "against the largest",
             .threshold = "below 1.5 after more than 3, while the loss stays above half of the "
                          "first: a network that tells two classes apart may end there too. A "
                          "maybe",
             .remedy = "a smaller learning rate, normalisation, an addition around each block"},
    .title = "representations collapse",
    .explains = 0,
    .needs = TD__NEEDS_RANKS,
    .find = find_rank_collapse,
    .after = true,
};
