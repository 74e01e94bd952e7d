/* Names and texts as they go into files; see text.h. */
#include "sink/text.h"

#include <string.h>

static size_t escape_character(char *out, char c) {
    static const char hex[] = "0123456789ABCDEF";
    out[0] = '%';
    out[1] = hex[(uint8_t)c >> 4];
    out[2] = hex[(uint8_t)c & 15];
    return 3;
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
        escape_character(place, *place);
    }
    return out;
}
