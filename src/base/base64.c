#include "base/base64.h"

#include "base/memory.h"

#include <string.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *td__base64_encode(const void *bytes, size_t size) {
    const unsigned char *from = bytes;
    char *text = td__calloc(size / 3 + 2, 4), *to = text;
    for (size_t i = 0; text && i < size; i += 3, to += 4) {
        size_t left = size - i;
        uint32_t bits = (uint32_t)from[i] << 16 | (left > 1 ? (uint32_t)from[i + 1] << 8 : 0) |
                        (left > 2 ? from[i + 2] : 0);
        to[0] = digits[bits >> 18];
        to[1] = digits[bits >> 12 & 63];
        to[2] = left > 1 ? digits[bits >> 6 & 63] : '=';
        to[3] = left > 2 ? digits[bits & 63] : '=';
    }
    return text;
}

void *td__base64_decode(const char *text, size_t *size) {
    signed char value[256];
    size_t length = strlen(text), padding = 0;
    memset(value, -1, sizeof value);
    for (int i = 0; i < 64; i++) {
        value[(unsigned char)digits[i]] = (signed char)i;
    }
    while (padding < 2 && padding < length && text[length - 1 - padding] == '=') {
        padding++;
    }
    unsigned char *bytes = length % 4 == 0 ? td__calloc(length / 4 + 1, 3) : NULL;
    bool fine = bytes;
    for (size_t i = 0; fine && i < length; i += 4) {
        uint32_t bits = 0;
        for (size_t k = 0; k < 4; k++) {
            int digit = i + k < length - padding ? value[(unsigned char)text[i + k]] : 0;
            fine = fine && digit >= 0;
            bits = bits << 6 | (uint32_t)(digit & 63);
        }
        unsigned char *to = bytes + i / 4 * 3;
        to[0] = (unsigned char)(bits >> 16);
        to[1] = (unsigned char)(bits >> 8);
        to[2] = (unsigned char)bits;
    }
    if (!fine) {
        td__free(bytes);
        return NULL;
    }
    *size = length / 4 * 3 - padding;
    return bytes;
}
