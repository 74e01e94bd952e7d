/* What one pass over a tensor yields. */
#ifndef TAPEDECK_DECK_SUMMARY_H
#define TAPEDECK_DECK_SUMMARY_H

#include "deck/plan.h"

enum { TD__MAX_PARTS = 16 };

typedef struct td__summary {
    td_stats stats;
    uint64_t hash;
    td_histogram histogram;
    td_bin bins[TD_HISTOGRAM_BINS];
} td__summary;

void td__summary_copy(td__summary *to, const td__summary *from);

/* What the plan's forms and a probe need of the view, and a copy of its elements (may be NULL). Called and
 * returns with the lock held; the pass itself is made without it. */
void td__summary_take(td_deck *deck, const td__plan *plan, const td_view *view, bool probe,
                      void *copy, td__summary *summary);

#endif
