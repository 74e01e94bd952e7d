#include "diagnose/rule.h"

static void find_stopped_too_early(td__case *c) {
    if (!c->known || !c->experiment->train.stop_monitor || !c->history) {
        return;
    }
    const td__train_spec *train = &c->experiment->train;
    bool larger = td__best_of(train, train->stop_monitor, TD__MODE_AUTO, 0).larger;
    bool backwards = train->stop_mode && (train->stop_mode == TD__MODE_MAX) != larger;
    if (c->history->last_step >= c->trainer->feed.steps && !backwards) {
        return;
    }
    td__suspicion *s =
        td__suspect(c, backwards ? TD__CONTRADICTION : TD__STRUCTURE, -1,
                    backwards ? td__say(c, "early_stopping.mode: %s", larger ? "max" : "min")
                              : td__say(c, "early_stopping.patience: %lld (from %lld)",
                                        (long long)(4 * train->stop_patience + 4),
                                        (long long)train->stop_patience));
    td__because(s, train->stop_monitor, c->history->last_step, (double)c->history->last_epoch,
                td__say(c, "early stopping on %s ended training after epoch %lld of %lld",
                        train->stop_monitor, (long long)c->history->last_epoch,
                        (long long)c->trainer->feed.epochs));
    if (backwards) {
        td__because(s, NULL, 0, 0,
                    td__say(c, "its mode waits for %s to %s", train->stop_monitor,
                            larger ? "fall" : "rise"));
        td__edit(s, td__say(c, "train.early_stopping.mode=%s", larger ? "max" : "min"));
    } else {
        td__edit(s, td__say(c, "train.early_stopping.patience=%lld",
                            (long long)(4 * train->stop_patience + 4)));
    }
    if (s && c->steps > 0) {
        s->more = (double)c->trainer->feed.steps / (double)c->steps;
        s->since = c->history->last_step;
    }
}

const td__rule td__rule_stopped_too_early = {
    .info = {.name = "stopped_too_early",
             .meaning = "early stopping ended training before it had begun to work",
             .reads = "train.early_stopping, the last step",
             .statistic = "what the epochs that were not made achieve",
             .threshold = "a mode that waits for the wrong direction; or the rest of the epochs "
                          "wins a good part of what was missing",
             .remedy = "early_stopping.mode, patience"},
    .title = "stopped too early",
    .explains = TD__EARLY_END | TD__SLOW_CONVERGENCE,
    .needs = TD__NEEDS_EXPERIMENT,
    .find = find_stopped_too_early,
    .after = true,
};
