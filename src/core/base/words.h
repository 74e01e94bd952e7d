/* Words that name values, and the error text for an unknown word. */
#ifndef TAPEDECK_BASE_WORDS_H
#define TAPEDECK_BASE_WORDS_H

#include "tapedeck/base.h"

/* The words of an enumeration: words[i] is value i; NULL where a value has none. */
typedef struct td__words {
    const char *what; /* "activation" */
    const char *const *words;
    int count;
    const char *synonym, *synonym_of; /* "silu" is "swish"; may be NULL */
} td__words;

/* Value of a word; -1 (and the error, with td__word_hint) when it is none. where goes in front of
 * the message. */
int td__word_find(const td__words *words, const char *word, const char *where, td_error *error);

/* "; did you mean 'adam'?", or "; there are sgd, adam" when none is near. Candidates that are NULL
 * are passed over. Returns hint. */
#define TD__HINT_ROOM 1024
const char *td__word_hint(char hint[TD__HINT_ROOM], const char *word, const char *const *candidates,
                          size_t count);
/* The same, and "" when none is near. */
const char *td__word_meant(char hint[TD__HINT_ROOM], const char *word,
                           const char *const *candidates, size_t count);

#endif
