#include "answers/output.h"

#include "base/memory.h"
#include "base/number.h"
#include "base/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

static const size_t max_bytes = (size_t)96 << 20;

/* Returns false, and marks the output as failed, when there is no room for `size` more bytes. */
static bool make_room(td__output *out, size_t size) {
    out->failed = out->failed || size > max_bytes - out->size ||
                  !td__grow(&out->data, &out->capacity, out->size + size, max_bytes, 1);
    return !out->failed;
}

void td__put(td__output *out, const void *data, size_t size) {
    if (make_room(out, size) && size) {
        memcpy(out->data + out->size, data, size);
        out->size += size;
    }
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

void td__put_json(td__output *out, const char *text) {
    size_t size = TD__JSON_STRING_SIZE(strlen(text));
    if (make_room(out, size)) {
        out->size += td__json_string((char *)out->data + out->size, text);
    }
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

bool td__output_gzip(const td__output *plain, int level, td__output *packed) {
    size_t room = compressBound((uLong)plain->size) + 64;
    uint8_t *data = td__calloc(room, 1);
    z_stream stream = {.next_in = plain->data,
                       .avail_in = (uInt)plain->size,
                       .next_out = data,
                       .avail_out = (uInt)room};
    bool good = data && deflateInit2(&stream, level, Z_DEFLATED, 16 + MAX_WBITS, 8,
                                     Z_DEFAULT_STRATEGY) == Z_OK;
    if (good) {
        good = deflate(&stream, Z_FINISH) == Z_STREAM_END;
        td__put(packed, data, stream.total_out);
        deflateEnd(&stream);
    }
    td__free(data);
    return good && !packed->failed;
}

void td__output_release(td__output *out) {
    td__free(out->data);
    *out = (td__output){0};
}
