/* What conditions remember between steps, as bytes for a checkpoint. */
#ifndef TAPEDECK_DECK_STATE_H
#define TAPEDECK_DECK_STATE_H

#include "tapedeck/deck.h"

/* *bytes is the caller's, to be freed with td__free; NULL and 0 when no track has a condition. Between
 * two steps. */
TD_NODISCARD td_status td__deck_save_state(td_deck *deck, uint8_t **bytes, size_t *size,
                                           td_error *error);
/* Before the first step of a run that goes on, when its tracks have been added. TD_NOT_FOUND,
 * and nothing is changed, when the state is of other tracks. TD_FORMAT when the bytes make no sense: then the deck can only be closed. */
TD_NODISCARD td_status td__deck_restore_state(td_deck *deck, const uint8_t *bytes, size_t size,
                                              td_error *error);

#endif
