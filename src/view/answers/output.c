#include "answers/output.h"

#include "base/memory.h"
#include "base/number.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const size_t most_bytes = (size_t)96 << 20;

void td__put(td__output *out, const void *data, size_t size) {
    if (out->failed || size > most_bytes - out->size ||
        !td__grow(&out->data, &out->capacity, out->size + size, most_bytes, 1)) {
        out->failed = true;
        return;
    }
    if (size) {
        memcpy(out->data + out->size, data, size);
    }
    out->size += size;
}

void td__put_text(td__output *out, const char *text) {
    td__put(out, text, strlen(text));
}

void td__put_format(td__output *out, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof text) {
        out->failed = true;
        return;
    }
    td__put(out, text, (size_t)length);
}

/* The length of the UTF-8 sequence at text, or 0 when there is none. */
static size_t sequence(const unsigned char *text) {
    static const struct {
        unsigned char mask, lead, least_second, most_second;
        size_t length;
    } forms[] = {
        {0xff, 0xe0, 0xa0, 0xbf, 3}, {0xff, 0xed, 0x80, 0x9f, 3}, {0xff, 0xf0, 0x90, 0xbf, 4},
        {0xff, 0xf4, 0x80, 0x8f, 4}, {0xe0, 0xc0, 0x80, 0xbf, 2}, {0xf0, 0xe0, 0x80, 0xbf, 3},
        {0xfc, 0xf0, 0x80, 0xbf, 4},
    };
    if (*text < 0x80) {
        return 1;
    }
    for (size_t i = 0; *text > 0xc1 && i < sizeof forms / sizeof *forms; i++) {
        if ((*text & forms[i].mask) != forms[i].lead) {
            continue;
        }
        bool good = text[1] >= forms[i].least_second && text[1] <= forms[i].most_second;
        for (size_t k = 2; good && k < forms[i].length; k++) {
            good = (text[k] & 0xc0) == 0x80;
        }
        return good ? forms[i].length : 0;
    }
    return 0;
}

void td__put_json(td__output *out, const char *text) {
    td__put(out, "\"", 1);
    const unsigned char *at = (const unsigned char *)text;
    while (*at) {
        size_t length = sequence(at);
        if (length == 0) {
            td__put_text(out, "\\ufffd");
        } else if (*at == '"' || *at == '\\' || *at < 0x20 || *at == '<') {
            td__put_format(out, "\\u%04x", *at); /* '<': JSON stands inside of a report's page */
        } else {
            td__put(out, at, length);
        }
        at += length ? length : 1;
    }
    td__put(out, "\"", 1);
}

void td__put_number(td__output *out, double number) {
    char text[TD__NUMBER_ROOM];
    if (isnan(number)) {
        td__put_text(out, "null");
    } else if (isinf(number)) {
        td__put_text(out, number > 0 ? "1e999" : "-1e999");
    } else {
        td__put(out, text, td__format_double(text, number));
    }
}

void td__put_double(td__output *out, double number) {
    uint64_t bits;
    uint8_t bytes[8];
    memcpy(&bits, &number, sizeof bits);
    for (int i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)(bits >> 8 * i);
    }
    td__put(out, bytes, sizeof bytes);
}

void td__put_padding(td__output *out) {
    static const uint8_t zeros[8];
    td__put(out, zeros, (8 - out->size % 8) % 8);
}

void td__output_release(td__output *out) {
    td__free(out->data);
    *out = (td__output){0};
}
