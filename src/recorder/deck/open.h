/* How the sink module opens a deck: the deck knows sinks only by this table. */
#ifndef TAPEDECK_DECK_OPEN_H
#define TAPEDECK_DECK_OPEN_H

#include "tapedeck/deck.h"

enum { TD__SMALLEST_QUEUE = 16384 }; /* bytes */

/* sinks ends in NULL and outlives the deck; options may be NULL. */
td_deck *td__deck_open(const char *folder, const td_deck_options *options,
                       const td_sink_class *const *sinks, td_error *error);

#endif
