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

static uint32_t code_point(const char *text, size_t size) {
    static const uint8_t masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t code = (uint8_t)text[0] & masks[size];
    for (size_t i = 1; i < size; i++) {
        code = code << 6 | ((uint8_t)text[i] & 0x3fu);
    }
    return code;
}

/* What a terminal or a page may act on instead of showing it. */
static bool is_hidden(uint32_t code) {
    static const struct {
        uint32_t first, last;
    } ranges[] = {{0x00, 0x1f},     {0x7f, 0x9f},     {0x61c, 0x61c},
                  {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x206f},
                  {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        if (code >= ranges[i].first && code <= ranges[i].last) {
            return true;
        }
    }
    return false;
}

static char *put_hex(char *out, char kind, uint32_t number, int digits) {
    *out++ = '\\';
    *out++ = kind;
    for (int i = digits - 1; i >= 0; i--) {
        *out++ = "0123456789abcdef"[number >> (4 * i) & 15];
    }
    return out;
}

size_t td__json_string(char *out, const char *text) {
    char *end = out;
    *end++ = '"';
    for (size_t left = strlen(text), size; left; text += size, left -= size) {
        size = td__character(text, left);
        uint8_t byte = (uint8_t)*text;
        if (size == 0) {
            end = put_hex(end, 'u', 0xfffd, 4);
            size = 1;
        } else if (byte < 0x20 || byte == '"' || byte == '\\' || byte == '<') {
            end = put_hex(end, 'u', byte, 4);
        } else {
            memcpy(end, text, size);
            end += size;
        }
    }
    *end++ = '"';
    return (size_t)(end - out);
}

size_t td_visible(char *out, const char *text, size_t length, bool lines) {
    char *end = out;
    for (size_t i = 0, size; i < length; i += size) {
        size = td__character(text + i, length - i);
        uint32_t code = size ? code_point(text + i, size) : (uint8_t)text[i];
        bool plain = size && (!is_hidden(code) || (lines && (code == '\n' || code == '\t')));
        size = size ? size : 1;
        if (plain) {
            memcpy(end, text + i, size);
            end += size;
        } else if (size == 1) {
            end = put_hex(end, 'x', code, 2);
        } else {
            end = put_hex(end, code > 0xffff ? 'U' : 'u', code, code > 0xffff ? 8 : 4);
        }
    }
    *end = 0;
    return (size_t)(end - out);
}

void td__print_visible(FILE *stream, const char *text, size_t length) {
    char out[TD_VISIBLE_SIZE(4)];
    for (size_t i = 0, size; i < length; i += size) {
        size = td__character(text + i, length - i);
        size = size ? size : 1;
        (void)fwrite(out, 1, td_visible(out, text + i, size, false), stream);
    }
}

const char *td__bytes_text(char out[TD__BYTES_ROOM], double bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t unit = 0;
    for (; bytes >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++) {
        bytes /= 1024;
    }
    (void)snprintf(out, TD__BYTES_ROOM, bytes < 100 && unit ? "%.1f %s" : "%.0f %s", bytes,
                   units[unit]);
    return out;
}

int td__compare_texts(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}
