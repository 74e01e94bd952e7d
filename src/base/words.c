/* Edit distance with adjacent swaps (optimal string alignment), three rows at a time. */
#include "tapedeck/base.h"

#include <ctype.h>
#include <string.h>

enum { LONGEST = 64 }; /* bytes; longer words are not compared */

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static int folded(char c) {
    return tolower((unsigned char)c);
}

static size_t distance(const char *a, size_t a_length, const char *b, size_t b_length) {
    size_t rows[3][LONGEST + 1];
    size_t *before = rows[0], *above = rows[1], *row = rows[2];
    for (size_t j = 0; j <= b_length; j++) {
        above[j] = j;
    }
    for (size_t i = 1; i <= a_length; i++) {
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t change = folded(a[i - 1]) != folded(b[j - 1]);
            row[j] = smaller(above[j - 1] + change, smaller(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && folded(a[i - 1]) == folded(b[j - 2]) &&
                folded(a[i - 2]) == folded(b[j - 1])) {
                row[j] = smaller(row[j], before[j - 2] + 1);
            }
        }
        size_t *oldest = before;
        before = above;
        above = row;
        row = oldest;
    }
    return above[b_length];
}

const char *td_nearest_word(const char *word, const char *const *candidates, size_t count) {
    size_t length = strlen(word);
    if (length == 0 || length > LONGEST) {
        return NULL;
    }
    const char *nearest = NULL;
    size_t least = smaller((length + 2) / 3, length - 1) + 1;
    for (size_t i = 0; i < count; i++) {
        size_t candidate = strnlen(candidates[i], LONGEST + 1);
        if (candidate == 0 || candidate > LONGEST) {
            continue;
        }
        size_t edits = distance(word, length, candidates[i], candidate);
        if (edits < least) {
            least = edits;
            nearest = candidates[i];
        }
    }
    return nearest;
}
