/* Columns of text: a text is cut into tokens, and each token becomes its number in a vocabulary. As Keras's
 * TextVectorization does it, but for letters beyond ASCII, which become small too. */
#ifndef TAPEDECK_DATA_TEXT_H
#define TAPEDECK_DATA_TEXT_H

#include "data/table.h"

enum {
    TD__TEXT_PADDING = 0, /* ids */
    TD__TEXT_UNKNOWN = 1,
    TD__TEXT_FIRST = 2,
    TD__TEXT_LENGTH_MAXIMUM = 65536, /* ids of a text */
    TD__TEXT_LENGTH_GUESSED = 256,   /* maximum where the options do not set it */
    TD__TEXT_WORDS_MAXIMUM = 1 << 22,
};

/* Zero-initialise but for how and, unless tokens are to be counted, words. */
typedef struct td__text_column {
    td_text how;            /* its numbers; column and words are not looked at */
    const td__names *words; /* borrowed; NULL: tokens are counted */
    td__names found;        /* counted tokens … */
    int64_t *counts;        /* … and how often each is there */
    size_t count_room, found_bytes;
    char *raw, *clean; /* the text at hand, as it is and with small letters */
    size_t raw_room, clean_room;
    int64_t texts, empty, cut, longest, tokens, unknown; /* so far */
} td__text_column;

typedef enum td__text_outcome {
    TD__TEXT_GOOD,
    TD__TEXT_NO_MEMORY,
    TD__TEXT_NOT_UTF8,
    TD__TEXT_TOO_MANY, /* different tokens */
} td__text_outcome;

/* Room for a text of size bytes in raw, and a NUL; false when memory is exhausted. */
bool td__text_room(td__text_column *column, size_t size);
/* Counts the tokens of the text in raw, or writes how.length ids. *place: of a byte that is not UTF-8. */
td__text_outcome td__text_take(td__text_column *column, size_t size, float *ids, size_t *place);
/* The vocabulary of what was counted, which moves into words: the most frequent first, of equals the last in
 * alphabetical order, as Keras has it. False when memory is exhausted. */
bool td__text_settle(td__text_column *column, td__names *words);
/* What was cut, left out or guessed of a column, as a sentence; false: nothing. */
bool td__text_remark(const td__text_column *column, const char *path, const char *name, char *text,
                     size_t size);
void td__text_release(td__text_column *column);

/* The small letter of a letter. */
uint32_t td__lower(uint32_t letter);

#endif
