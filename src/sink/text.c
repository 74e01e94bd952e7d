/* Names and texts as they go into files; see text.h. */
#include "sink/text.h"

#include "base/memory.h"

#include <string.h>

/* Bytes of the UTF-8 character at text, 0 when there is none; Unicode's table 3-7. */
static size_t character(const uint8_t *text, size_t length) {
    uint8_t first = text[0];
    if (first < 0x80) {
        return first != 0;
    }
    size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || size > length) {
        return 0;
    }
    uint8_t low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    uint8_t high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    for (size_t i = 1; i < size; i++) {
        if (text[i] < low || text[i] > high) {
            return 0;
        }
        low = 0x80;
        high = 0xbf;
    }
    return size;
}

static size_t escape(char *out, char c) {
    static const char hex[] = "0123456789ABCDEF";
    out[0] = '%';
    out[1] = hex[(uint8_t)c >> 4];
    out[2] = hex[(uint8_t)c & 15];
    return 3;
}

size_t td__clean_text(char *out, const char *text, size_t length) {
    char *end = out;
    for (size_t i = 0; i < length;) {
        size_t size = character((const uint8_t *)text + i, length - i);
        if (size == 0) {
            end += escape(end, text[i++]);
        } else {
            memcpy(end, text + i, size);
            end += size;
            i += size;
        }
    }
    return (size_t)(end - out);
}

char *td__clean_copy(const char *text) {
    size_t length = strlen(text);
    char *copy = td__calloc(3 * length + 1, 1);
    if (copy) {
        td__clean_text(copy, text, length);
    }
    return copy;
}

size_t td__csv_cell(char *out, const char *text, size_t length) {
    char *plain = out + 3 * length; /* cleaned into the second half, quoted from there */
    size_t size = td__clean_text(plain, text, length);
    bool formula = size > 0 && memchr("=+-@\t\r", plain[0], 6) != NULL;
    bool quote = size > 0 && (plain[0] == ' ' || plain[size - 1] == ' ');
    for (size_t i = 0; i < size && !quote; i++) {
        quote = plain[i] == ',' || plain[i] == '"' || plain[i] == '\n' || plain[i] == '\r';
    }
    if (!quote) {
        memmove(out + formula, plain, size);
        out[0] = formula ? '\'' : out[0];
        return size + formula;
    }
    memmove(plain + 3, plain, size); /* room for what comes in front */
    plain += 3;
    char *end = out;
    *end++ = '"';
    if (formula) {
        *end++ = '\'';
    }
    for (size_t i = 0; i < size; i++) {
        if (plain[i] == '"') {
            *end++ = '"';
        }
        *end++ = plain[i];
    }
    *end++ = '"';
    return (size_t)(end - out);
}

char *td__signal_file(char out[TD__SIGNAL_FILE_SIZE], const char *signal) {
    static const char *const names[] = {"metrics", "stats", "predictions", "hashes", "texts"};
    static const char *const endings[] = {".steps", ".samples"};
    td__file_name(out, signal);
    size_t length = strlen(out);
    char *place = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        place = strcmp(out, names[i]) == 0 ? out : place;
    }
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t size = strlen(endings[i]);
        place = length > size && strcmp(out + length - size, endings[i]) == 0 ? out + length - size
                                                                              : place;
    }
    if (place) {
        memmove(place + 3, place + 1, strlen(place));
        escape(place, *place);
    }
    return out;
}
