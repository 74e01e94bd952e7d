/* Tracks as text, for requests to a run that is being written and for lists of tracks:
 *
 *     WHAT { every N [epochs] | at N,N | start N | end N | sample N | history N | form WORDS | to SINKS
 *            | metrics } [ when CONDITION ]
 *
 * The words are those of td_track and of experiment files; a condition takes the rest of the text. In WHAT a
 * blank that is part of a name has a \ before it. */
#ifndef TAPEDECK_DECK_TRACK_TEXT_H
#define TAPEDECK_DECK_TRACK_TEXT_H

#include "tapedeck/deck.h"

enum { TD__TRACK_TEXT = 500 }; /* bytes that a track as text may have, where it is read */

typedef struct td__track_text {
    td_track track; /* what it points to is the text's */
    char *words;
    int64_t *steps;
} td__track_text;

/* TD_INVALID with what is wrong. Afterwards, whatever it returned, release. */
TD_NODISCARD td_status td__track_parse(const char *text, td__track_text *parsed, td_error *error);
void td__track_text_release(td__track_text *parsed);
/* The track as text, the same for all ways to write it; td__free. NULL when memory is exhausted. */
char *td__track_print(const td_track *track);
/* What is wrong with its numbers, as td_deck_track_with has it. */
TD_NODISCARD td_status td__track_check(const td_track *given, td_error *error);

#endif
