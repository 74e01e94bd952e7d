/* Which decoder an image needs. */
#include "data/image.h"

#include <string.h>

enum { SIDE_MAXIMUM = 32768 };

static bool is_png(const td__bytes *bytes) {
    return bytes->size >= 8 && memcmp(bytes->data, "\x89PNG\r\n\x1A\n", 8) == 0;
}

static bool is_jpeg(const td__bytes *bytes) {
    return bytes->size >= 3 && memcmp(bytes->data, "\xFF\xD8\xFF", 3) == 0;
}

td_status td__image_describe(const td__bytes *bytes, const char *what, td__image_size *size,
                             td_error *error) {
    td__image_size found = {0};
    td_status status;
    if (is_png(bytes)) {
        status = td__png_describe(bytes, what, &found, error);
    } else if (is_jpeg(bytes)) {
        status = td__jpeg_describe(bytes, what, &found, error);
    } else {
        return td_error_set(error, TD_FORMAT, "%s: neither a PNG nor a JPEG image", what);
    }
    if (status) {
        return status;
    }
    if (found.height < 1 || found.width < 1 || found.height > SIDE_MAXIMUM ||
        found.width > SIDE_MAXIMUM) {
        return td_error_set(error, TD_RANGE,
                            "%s: %lld x %lld pixels; sides of 1 to %d pixels are read", what,
                            (long long)found.width, (long long)found.height, SIDE_MAXIMUM);
    }
    *size = found;
    return TD_OK;
}

int64_t td__image_room(const td__bytes *bytes, const td__image_size *size) {
    return (is_png(bytes) ? td__png_room : td__jpeg_room)(bytes, size);
}

td_status td__image_decode(const td__bytes *bytes, const char *what, const td__image_size *size,
                           uint8_t *pixels, td_error *error) {
    return (is_png(bytes) ? td__png_decode : td__jpeg_decode)(bytes, what, size, pixels, error);
}
