#include "base/text.h"

#include "base/memory.h"

#include <string.h>

/* Unicode's table 3-7. */
size_t td__character(const char *text, size_t length) {
    const uint8_t *bytes = (const uint8_t *)text;
    uint8_t first = bytes[0];
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
        if (bytes[i] < low || bytes[i] > high) {
            return 0;
        }
        low = 0x80;
        high = 0xbf;
    }
    return size;
}

size_t td__clean_text(char *out, const char *text, size_t length) {
    static const char hex[] = "0123456789ABCDEF";
    char *end = out;
    for (size_t i = 0; i < length;) {
        size_t size = td__character(text + i, length - i);
        if (size == 0) {
            uint8_t byte = (uint8_t)text[i++];
            *end++ = '%';
            *end++ = hex[byte >> 4];
            *end++ = hex[byte & 15];
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
