/* Help for somebody who mistyped a word. */
#ifndef TAPEDECK_BASE_WORDS_H
#define TAPEDECK_BASE_WORDS_H

#include "tapedeck/base.h"

/* The candidate that word was most likely meant to be: the fewest letters inserted, left out,
 * replaced or swapped with their neighbour, the first of equals, ignoring case. NULL when none is
 * near enough (a third of the letters at most) to be worth suggesting. */
const char *td__nearest_word(const char *word, const char *const *candidates, size_t count);

#endif
