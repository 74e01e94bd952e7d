#include "base/words.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { LONGEST = 64 }; /* bytes; longer words are not compared */

static size_t min_size(size_t a, size_t b) {
    return a < b ? a : b;
}

static int fold_case(char c) {
    return tolower((unsigned char)c);
}

/* Edits and swaps of neighbours (optimal string alignment), three rows at a time. */
static size_t edit_distance(const char *a, size_t a_length, const char *b, size_t b_length) {
    size_t rows[3][LONGEST + 1];
    size_t *before = rows[0], *above = rows[1], *row = rows[2];
    for (size_t j = 0; j <= b_length; j++) {
        above[j] = j;
    }
    for (size_t i = 1; i <= a_length; i++) {
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t change = fold_case(a[i - 1]) != fold_case(b[j - 1]);
            row[j] = min_size(above[j - 1] + change, min_size(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && fold_case(a[i - 1]) == fold_case(b[j - 2]) &&
                fold_case(a[i - 2]) == fold_case(b[j - 1])) {
                row[j] = min_size(row[j], before[j - 2] + 1);
            }
        }
        size_t *oldest = before;
        before = above;
        above = row;
        row = oldest;
    }
    return above[b_length];
}

/* Returns true when `word` is the candidate without some of its parts (between '_'). It must have two
 * parts or more: a single part would match too many candidates. */
static bool leaves_out_parts(const char *word, const char *candidate) {
    size_t parts = 0;
    for (const char *c = candidate; *word;) {
        size_t length = strcspn(word, "_"), other = strcspn(c, "_");
        if (!*c) {
            return false;
        }
        if (length == other && !strncasecmp(word, c, length)) {
            word += length + (word[length] == '_');
            parts++;
        }
        c += other + (c[other] == '_');
    }
    return parts > 1;
}

const char *td_nearest_word(const char *word, const char *const *candidates, size_t count) {
    size_t length = strlen(word);
    if (length == 0 || length > LONGEST) {
        return NULL;
    }
    const char *nearest = NULL;
    size_t fewest = min_size((length + 2) / 3, length - 1) + 1;
    for (size_t i = 0; i < count; i++) {
        size_t candidate = candidates[i] ? strnlen(candidates[i], LONGEST + 1) : 0;
        if (candidate == 0 || candidate > LONGEST) {
            continue;
        }
        size_t edits = leaves_out_parts(word, candidates[i])
                           ? 1
                           : edit_distance(word, length, candidates[i], candidate);
        if (edits < fewest) {
            fewest = edits;
            nearest = candidates[i];
        }
    }
    return nearest;
}

const char *td__word_meant(char hint[TD__HINT_ROOM], const char *word,
                           const char *const *candidates, size_t count) {
    const char *nearest = candidates ? td_nearest_word(word, candidates, count) : NULL;
    *hint = 0;
    if (nearest) {
        (void)snprintf(hint, TD__HINT_ROOM, "; did you mean '%s'?", nearest);
    }
    return hint;
}

const char *td__word_hint(char hint[TD__HINT_ROOM], const char *word, const char *const *candidates,
                          size_t count) {
    if (*td__word_meant(hint, word, candidates, count)) {
        return hint;
    }
    size_t used = 0;
    for (size_t i = 0; i < count && used < TD__HINT_ROOM; i++) {
        if (candidates[i]) {
            used += (size_t)snprintf(hint + used, TD__HINT_ROOM - used, "%s%s",
                                     used ? ", " : "; there are ", candidates[i]);
        }
    }
    return hint;
}

int td__word_find(const td__words *words, const char *word, const char *where, td_error *error) {
    if (words->synonym && strcmp(word, words->synonym) == 0) {
        word = words->synonym_of;
    }
    for (int i = 0; i < words->count; i++) {
        if (words->words[i] && strcmp(word, words->words[i]) == 0) {
            return i;
        }
    }
    char hint[TD__HINT_ROOM];
    (void)td_error_set(error, TD_NOT_FOUND, "%sthere is no %s '%s'%s", where, words->what, word,
                       td__word_hint(hint, word, words->words, (size_t)words->count));
    return -1;
}
