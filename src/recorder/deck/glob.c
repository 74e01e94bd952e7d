/* Glob matching without recursion: on a mismatch, the last * takes one byte more. Time is at most
 * the product of the lengths. */
#include "deck/glob.h"

#include "base/memory.h"

#include <string.h>

/* Matches one byte against the set that starts after '['; *pattern is left behind the set. A set
 * that is not closed is a plain '['. */
static bool match_set(const char **pattern, unsigned char byte) {
    const char *p = *pattern + 1;
    bool negated = *p == '!' || *p == '^';
    p += negated;
    const char *first = p;
    bool found = false;
    for (; *p && (*p != ']' || p == first); p++) {
        unsigned char low = (unsigned char)*p, high = low;
        if (p[1] == '-' && p[2] && p[2] != ']') {
            high = (unsigned char)p[2];
            p += 2;
        }
        found = found || (byte >= low && byte <= high);
    }
    if (!*p) {
        *pattern += 1;
        return byte == '[';
    }
    *pattern = p + 1;
    return found != negated;
}

/* Matches one byte that is not a '*'; *pattern is left behind it. */
static bool match_one(const char **pattern, unsigned char byte) {
    switch (**pattern) {
    case '?':
        *pattern += 1;
        return true;
    case '[':
        return match_set(pattern, byte);
    case '\\':
        *pattern += (*pattern)[1] ? 1 : 0;
        break;
    default:
        break;
    }
    bool same = (unsigned char)**pattern == byte;
    *pattern += 1;
    return same;
}

bool td__glob_match(const char *pattern, const char *name) {
    const char *star = NULL, *star_name = NULL;
    while (*name) {
        if (*pattern == '*') {
            star = ++pattern;
            star_name = name;
            continue;
        }
        if (*pattern && match_one(&pattern, (unsigned char)*name)) {
            name++;
            continue;
        }
        if (!star) {
            return false;
        }
        pattern = star;
        name = ++star_name;
    }
    while (*pattern == '*') {
        pattern++;
    }
    return *pattern == 0;
}

const char *td__glob_last_dot(const char *pattern) {
    const char *dot = NULL;
    for (const char *p = pattern; *p; p++) {
        dot = *p == '.' ? p : dot;
        p += *p == '\\' && p[1] ? 1 : 0;
    }
    return dot;
}

/* Whether the last part of a pattern names a word. */
static bool names_word(const char *part, const char *word) {
    return part[strspn(part, "*?")] && td__glob_match(part, word);
}

bool td__glob_derives(const char *pattern, const char *source, bool derived, const char *word) {
    const char *tail = td__glob_last_dot(pattern);
    char stem[512];
    if (!tail || !names_word(tail + 1, word) || (size_t)(tail - pattern) >= sizeof stem) {
        return false;
    }
    memcpy(stem, pattern, (size_t)(tail - pattern));
    stem[tail - pattern] = 0;
    return td__glob_match_signal(stem, source, derived);
}

bool td__glob_match_named(const char *pattern, const char *name) {
    const char *tail = td__glob_last_dot(pattern), *word = strrchr(name, '.');
    return (tail != NULL) == (word != NULL) &&
           names_word(tail ? tail + 1 : pattern, word ? word + 1 : name) &&
           td__glob_match(pattern, name);
}

bool td__glob_match_signal(const char *pattern, const char *name, bool derived) {
    return derived ? td__glob_match_named(pattern, name) : td__glob_match(pattern, name);
}

bool td__glob_is_pattern(const char *pattern) {
    for (const char *p = pattern; *p; p++) {
        if (*p == '*' || *p == '?' || *p == '[') {
            return true;
        }
        p += *p == '\\' && p[1] ? 1 : 0;
    }
    return false;
}

void td__glob_unescape(char *pattern) {
    char *to = pattern;
    for (const char *p = pattern; *p; p++) {
        p += *p == '\\' && p[1] ? 1 : 0;
        *to++ = *p;
    }
    *to = 0;
}

static const char *item_end(const char *item) {
    const char *p = item;
    while (*p && *p != ',') {
        p += *p == '\\' && p[1] ? 2 : 1;
    }
    return p;
}

char **td__glob_split(const char *list, size_t *count) {
    size_t items = 1, length = strlen(list);
    for (size_t i = 0; i < length; i++) {
        items += list[i] == ',';
    }
    char **split = td__calloc(1, (items + 1) * sizeof *split + length + items + 1);
    if (!split) {
        return NULL;
    }
    char *text = (char *)(split + items + 1);
    size_t used = 0;
    for (const char *p = list;; p++) {
        const char *start = p, *end = item_end(p);
        p = end;
        while (start < end && (*start == ' ' || *start == '\t')) {
            start++;
        }
        while (end > start && (end[-1] == ' ' || end[-1] == '\t') &&
               !(end - 1 > start && end[-2] == '\\')) {
            end--;
        }
        if (end > start) {
            split[used++] = text;
            memcpy(text, start, (size_t)(end - start));
            text += end - start + 1;
        }
        if (!*p) {
            break;
        }
    }
    *count = used;
    return split;
}
