/* What can be computed of a recorded tensor, by the word that its signal's name gets: SOURCE.WORD. */
#ifndef TAPEDECK_DECK_DERIVED_H
#define TAPEDECK_DECK_DERIVED_H

#include "tapedeck/deck.h"

enum { TD__DERIVED_MAX = 8 };

/* A computation of one or several numbers. Runs where the tensor is recorded, without the lock. TD_OK with all
 * values, NaN where one is not defined; TD_NOT_FOUND: they are not defined for such a tensor; otherwise
 * error tells why they are not recorded. */
typedef td_status td__derive(const td_view *view, const td_signal_info *info,
                             double values[TD__DERIVED_MAX], td_error *error);

td__derive td__derive_norms;     /* spectral_norm, stable_rank */
td__derive td__derive_rank;      /* effective_rank */
td__derive td__derive_precision; /* float16_underflow, float16_overflow, … */

typedef struct td__derivation {
    const char *word;
    td__derive *compute;
    int32_t index; /* among its values */
} td__derivation;

/* Whether a pattern, or a condition, means something derived from a signal. */
bool td__pattern_derives(const char *pattern, const char *source, bool derived);
/* Every derivation there is, those of one computation beside each other. */
const td__derivation *td__derivations(size_t *count);

#endif
