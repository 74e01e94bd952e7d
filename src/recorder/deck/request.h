/* Requests to add or remove tracks while the run is written, by another process.
 *
 * A request is the file TD__REQUEST in the run's folder, which comes into being whole and never replaces
 * another: a line "add TRACK" or "remove TRACK" for each change (track_text.h). The writer thread looks for it about
 * once a second, and checks and prepares the changes; the thread that closes a step makes them, so that a step is
 * recorded by the same tracks from its beginning to its end. Each is answered by an event: "added: TRACK", "removed:
 * TRACK" or "refused: TRACK: REASON". Then the file is removed. */
#ifndef TAPEDECK_DECK_REQUEST_H
#define TAPEDECK_DECK_REQUEST_H

#include "tapedeck/deck.h"

#define TD__REQUEST "tracks.request"
enum { TD__REQUEST_SIZE = 1 << 16 }; /* bytes, at most */
#define TD__REQUEST_ADD "add "
#define TD__REQUEST_REMOVE "remove "
#define TD__ANSWER_ADDED "added: "
#define TD__ANSWER_REMOVED "removed: "
#define TD__ANSWER_REFUSED "refused: "

/* A change that has been checked and waits for the end of a step; the deck's lock. */
typedef struct td__change td__change;

/* The writer thread, without the lock. */
void td__requests_look(td_deck *deck);
/* Makes the changes that wait, at the end of a step; lock held, may wait for room. */
void td__requests_apply(td_deck *deck);
/* Removes a request that nobody will answer: of a run that ends, or that an earlier process left. False when
 * one is there still. */
bool td__requests_forget(const td_deck *deck);
void td__requests_release(td_deck *deck);

#endif
