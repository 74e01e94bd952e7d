/* The overhead budget: over windows of steps, the deck's cost beside the rest of the step.
 *
 * Above the budget the level goes up: 1 writes histograms for tensors, 2 statistics for both, and
 * from 3 on tensors are recorded in every second, fourth, … of the steps they are wanted in.
 * Scalars are always recorded. A level is left again after some windows so far below the budget
 * that the one below it should fit; twice as many when that turned out to be wrong. */
#include "deck/deck.h"

enum { WINDOW = 16, HIGHEST = 12, PATIENCE = 4, MAX_WAIT = 1024 };

static void change_level(td_deck *deck, int32_t by, double share) {
    static const char *const levels[] = {
        "everything is recorded as asked",
        "tensors are recorded as histograms",
        "tensors and histograms are recorded as statistics",
    };
    td__overhead *budget = &deck->budget;
    budget->level += by;
    budget->calm = 0;
    char thinned[64];
    const char *text = levels[budget->level < 3 ? budget->level : 2];
    if (budget->level >= 3) {
        snprintf(thinned, sizeof thinned, "statistics are taken in one of %d steps",
                 1 << (budget->level - 2));
        text = thinned;
    }
    td__deck_event(deck, TD_EVENT_OVERHEAD, NULL, 0,
                   "recording costs %.1f %% of step time, the budget is %.1f %%: %s", 100 * share,
                   100 * deck->overhead_limit, text);
}

void td__overhead_step(td_deck *deck, uint64_t cost, uint64_t total) {
    td__overhead *budget = &deck->budget;
    budget->cost += cost;
    budget->total += total;
    if (deck->overhead_limit <= 0 || ++budget->steps < WINDOW) {
        return;
    }
    uint64_t rest = budget->total > budget->cost ? budget->total - budget->cost : 1;
    double share = (double)budget->cost / (double)rest;
    budget->cost = budget->total = 0;
    budget->steps = 0;
    if (budget->calm_limit == 0) {
        budget->calm_limit = PATIENCE;
    }
    if (share > deck->overhead_limit && budget->level < HIGHEST) {
        if (budget->lowered && budget->calm_limit < MAX_WAIT) {
            budget->calm_limit *= 2;
        }
        budget->lowered = false;
        change_level(deck, 1, share);
        return;
    }
    budget->calm = share < 0.4 * deck->overhead_limit ? budget->calm + 1 : 0;
    if (budget->level > 0 && budget->calm >= budget->calm_limit) {
        budget->lowered = true;
        change_level(deck, -1, share);
    }
}

bool td__overhead_skips(td_deck *deck) {
    td__overhead *budget = &deck->budget;
    if (budget->level < 3) {
        return false;
    }
    uint64_t one_in = (uint64_t)1 << (budget->level - 2);
    return ++budget->turn % one_in != 0;
}
