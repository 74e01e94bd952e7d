#include "data/text.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOUND_BYTES_MAXIMUM ((size_t)256 << 20) /* of all different tokens of a column */

void td__text_release(td__text_column *column) {
    td__names_release(&column->found);
    td__free(column->counts);
    td__free(column->raw);
    td__free(column->clean);
    *column = (td__text_column){0};
}

bool td__text_room(td__text_column *column, size_t size) {
    /* A small letter may take one byte more than its capital, which has two or more. */
    return td__grow(&column->raw, &column->raw_room, size + 1, SIZE_MAX / 4, 1) &&
           td__grow(&column->clean, &column->clean_room, size + size / 2 + 8, SIZE_MAX / 4, 1);
}

/* ---- Letters --------------------------------------------------------------------------------- */

static uint32_t decode(const char *text, size_t length) {
    static const unsigned char first_bits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t letter = (unsigned char)text[0] & first_bits[length];
    for (size_t i = 1; i < length; i++) {
        letter = letter << 6 | ((unsigned char)text[i] & 0x3F);
    }
    return letter;
}

static size_t encode(uint32_t letter, char *to) {
    static const unsigned char marks[] = {0, 0, 0xC0, 0xE0, 0xF0};
    size_t length = letter < 0x80 ? 1 : letter < 0x800 ? 2 : letter < 0x10000 ? 3 : 4;
    for (size_t i = length; i-- > 1; letter >>= 6) {
        to[i] = (char)(0x80 | (letter & 0x3F));
    }
    to[0] = (char)(marks[length] | letter);
    return length;
}

static bool is_punctuation(char c) {
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
           (c >= '{' && c <= '~');
}

/* The text at raw with small letters and without punctuation; used receives its size. */
static bool make_clean(const td__text_column *column, size_t size, size_t *used, size_t *place) {
    const td_text *how = &column->how;
    const char *raw = column->raw;
    char *to = column->clean;
    for (size_t i = 0, length; i < size; i += length) {
        length = td__character_length(raw + i);
        if (!length) {
            *place = i;
            return false;
        }
        bool small =
            how->lower == TD_LOWER_UNICODE || (how->lower == TD_LOWER_ASCII && length == 1);
        if (length == 1 && !how->punctuation && is_punctuation(raw[i])) {
            continue;
        }
        uint32_t letter = decode(raw + i, length);
        to += encode(small ? td__lower(letter) : letter, to);
    }
    *to = 0;
    *used = (size_t)(to - column->clean);
    return true;
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

static bool is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* The next token from *next on, before end; NULL: there is none. Its size in *size. */
static char *next_token(td_tokens kind, char **next, const char *end, size_t *size) {
    char *from = *next;
    while (kind == TD_TOKENS_WORDS && from < end && is_space(*from)) {
        from++;
    }
    if (from >= end) {
        return NULL;
    }
    size_t length = kind == TD_TOKENS_CHARACTERS ? td__character_length(from) : 1;
    while (kind == TD_TOKENS_WORDS && from + length < end && !is_space(from[length])) {
        length++;
    }
    *next = from + length;
    *size = length;
    return from;
}

static td__text_outcome count_token(td__text_column *column, const char *token, size_t size) {
    size_t before = column->found.count;
    column->found.maximum = TD__TEXT_WORDS_MAXIMUM;
    int64_t number = td__names_add(&column->found, token);
    bool new = column->found.count > before;
    column->found_bytes += new ? size : 0;
    if (number < 0 || column->found_bytes > FOUND_BYTES_MAXIMUM) {
        bool full = before >= TD__TEXT_WORDS_MAXIMUM || number >= 0;
        return full ? TD__TEXT_TOO_MANY : TD__TEXT_NO_MEMORY;
    }
    if (!td__grow(&column->counts, &column->count_room, column->found.count, TD__TEXT_WORDS_MAXIMUM,
                  sizeof *column->counts)) {
        return TD__TEXT_NO_MEMORY;
    }
    column->counts[number] = (new ? 0 : column->counts[number]) + 1;
    return TD__TEXT_GOOD;
}

static int64_t find_token(const td__text_column *column, const char *token) {
    if (column->how.tokens == TD_TOKENS_BYTES) {
        return TD__TEXT_FIRST + (unsigned char)*token;
    }
    int64_t number = td__names_find(column->words, token);
    return number < 0 ? TD__TEXT_UNKNOWN : TD__TEXT_FIRST + number;
}

td__text_outcome td__text_take(td__text_column *column, size_t size, float *ids, size_t *place) {
    bool bytes = column->how.tokens == TD_TOKENS_BYTES;
    int64_t count = 0, length = column->how.length;
    char *next = bytes ? column->raw : column->clean;
    column->raw[size] = 0;
    if (!bytes && !make_clean(column, size, &size, place)) {
        return TD__TEXT_NOT_UTF8;
    }
    const char *end = next + size;
    for (char *token; (token = next_token(column->how.tokens, &next, end, &size)); count++) {
        char behind = token[size];
        td__text_outcome outcome = TD__TEXT_GOOD;
        token[size] = 0;
        if (ids) {
            int64_t id = find_token(column, token);
            column->unknown += id == TD__TEXT_UNKNOWN;
            if (count < length) {
                ids[count] = (float)id;
            }
        } else if (!bytes) {
            outcome = count_token(column, token, size);
        }
        token[size] = behind;
        if (outcome) {
            return outcome;
        }
    }
    for (int64_t i = count; ids && i < length; i++) {
        ids[i] = TD__TEXT_PADDING;
    }
    column->texts++;
    column->tokens += count;
    column->empty += count == 0;
    column->cut += count > length;
    column->longest = count > column->longest ? count : column->longest;
    return TD__TEXT_GOOD;
}

/* ---- Vocabulary ------------------------------------------------------------------------------ */

typedef struct counted {
    const char *text;
    int64_t count;
} counted;

static int by_count(const void *a, const void *b) {
    const counted *x = a, *y = b;
    return x->count != y->count ? (x->count < y->count) - (x->count > y->count)
                                : strcmp(y->text, x->text);
}

bool td__text_settle(td__text_column *column, td__names *words) {
    size_t count = column->found.count, most = TD__TEXT_WORDS_MAXIMUM;
    if (column->how.vocabulary > TD__TEXT_FIRST &&
        (uint64_t)(column->how.vocabulary - TD__TEXT_FIRST) < most) {
        most = (size_t)(column->how.vocabulary - TD__TEXT_FIRST);
    }
    counted *all = td__calloc(count + 1, sizeof *all);
    if (!all) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        all[i] = (counted){column->found.items[i], column->counts[i]};
    }
    qsort(all, count, sizeof *all, by_count);
    bool good = true;
    words->maximum = TD__TEXT_WORDS_MAXIMUM;
    for (size_t i = 0; good && i < count && i < most; i++) {
        good = all[i].count < column->how.min_count || td__names_add(words, all[i].text) >= 0;
    }
    td__free(all);
    return good;
}

bool td__text_remark(const td__text_column *column, const char *path, const char *name, char *text,
                     size_t size) {
    static const char *const nouns[] = {[TD_TOKENS_WORDS] = "words",
                                        [TD_TOKENS_CHARACTERS] = "characters",
                                        [TD_TOKENS_BYTES] = "bytes"};
    const char *noun = nouns[column->how.tokens];
    char cut[160] = "", unknown[160] = "", empty[80] = "";
    if (column->cut) {
        (void)snprintf(cut, sizeof cut, "; %lld of %lld texts have more than %lld %s and are cut",
                       (long long)column->cut, (long long)column->texts,
                       (long long)column->how.length, noun);
    }
    if (column->unknown) {
        (void)snprintf(unknown, sizeof unknown,
                       "; %lld of %lld %s are not in its vocabulary of %zu (id %d)",
                       (long long)column->unknown, (long long)column->tokens, noun,
                       column->words->count, TD__TEXT_UNKNOWN);
    }
    if (column->empty) {
        (void)snprintf(empty, sizeof empty, "; %lld of %lld texts have no %s",
                       (long long)column->empty, (long long)column->texts, noun);
    }
    (void)snprintf(text, size, "%.300s, column '%.60s': %s%s%s", path, name,
                   *cut       ? cut + 2
                   : *unknown ? unknown + 2
                              : empty + (*empty ? 2 : 0),
                   *cut ? unknown : "", *cut || *unknown ? empty : "");
    return *cut || *unknown || *empty;
}
