/* Which decoder an image needs. */
#include "data/image.h"
#include "base/memory.h"
#include "base/plugin.h"
#include "data/pictures.h"

#include <pthread.h>
#include <string.h>

enum { SIDE_MAXIMUM = 32768 };

uint8_t td__luma(const uint8_t *rgb) {
    return (uint8_t)((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16);
}

void td__image_put(const uint8_t rgba[4], int64_t channels, uint8_t *to) {
    if (channels < 3) {
        to[0] = rgba[0] == rgba[1] && rgba[1] == rgba[2] ? rgba[0] : td__luma(rgba);
    } else {
        memcpy(to, rgba, 3);
    }
    if (channels % 2 == 0) {
        to[channels - 1] = rgba[3];
    }
}

/* ---- Formats of the plugin ------------------------------------------------------------------- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const td__pictures *plugin; /* written once, before it is read */
static td_error missing;

static void load_plugin(void) {
    plugin = td__plugin_symbol("pictures", TD__PICTURES_SYMBOL,
                               "libwebp and libtiff (Debian: libwebp-dev, libtiff-dev)", &missing);
    if (plugin && plugin->version != TD__PICTURES_VERSION) {
        td_error_set(&missing, TD_UNSUPPORTED, "libtapedeck-pictures.so is of another version");
        plugin = NULL;
    }
}

/* What the plugin reads is recognised without it, so that an error can name it. */
static bool is_picture(const td__bytes *bytes) {
    const uint8_t *b = bytes->data;
    return bytes->size >= 12 && ((memcmp(b, "RIFF", 4) == 0 && memcmp(b + 8, "WEBP", 4) == 0) ||
                                 memcmp(b, "II*\0", 4) == 0 || memcmp(b, "MM\0*", 4) == 0 ||
                                 memcmp(b, "II+\0", 4) == 0 || memcmp(b, "MM\0+", 4) == 0);
}

static td_status find_format(const td__bytes *bytes, const char *what,
                             const td__picture_format **format, td_error *error) {
    (void)pthread_once(&once, load_plugin);
    for (size_t i = 0; plugin && i < plugin->count; i++) {
        if (plugin->formats[i].is(bytes->data, bytes->size)) {
            *format = &plugin->formats[i];
            return TD_OK;
        }
    }
    return td_error_set(error, TD_UNSUPPORTED, "%s: %s", what,
                        plugin ? "no image that can be read" : missing.text);
}

static td_status describe_picture(const td__bytes *bytes, const char *what, td__picture *picture,
                                  const td__picture_format **format, td_error *error) {
    char reason[TD__PICTURE_REASON] = "";
    td_status status = find_format(bytes, what, format, error);
    return status || (*format)->describe(bytes->data, bytes->size, picture, reason)
               ? status
               : td_error_set(error, TD_FORMAT, "%s: %s", what, reason);
}

static td_status describe(const td__bytes *bytes, const char *what, td__image_size *size,
                          td_error *error) {
    td__picture picture;
    const td__picture_format *format = NULL;
    td_status status = describe_picture(bytes, what, &picture, &format, error);
    if (!status) {
        bool alpha = picture.channels % 2 == 0;
        *size = (td__image_size){picture.height, picture.width, picture.channels - alpha, alpha};
    }
    return status;
}

static int64_t room(const td__bytes *bytes, const td__image_size *size) {
    td__picture picture;
    const td__picture_format *format = NULL;
    bool known = !describe_picture(bytes, "", &picture, &format, NULL);
    return size->height * size->width * 4 + (known ? picture.room : 0);
}

/* The pixels of the file, and then those that are wanted. */
static td_status decode(const td__bytes *bytes, const char *what, const td__image_size *size,
                        uint8_t *pixels, td_error *error) {
    td__picture picture;
    const td__picture_format *format = NULL;
    char reason[TD__PICTURE_REASON] = "";
    td_status status = describe_picture(bytes, what, &picture, &format, error);
    if (status) {
        return status;
    }
    int64_t count = size->height * size->width;
    if (picture.height != size->height || picture.width != size->width) {
        return td_error_set(error, TD_STATE, "%s: it was changed while it was read", what);
    }
    uint8_t *whole = td__calloc((size_t)count, (size_t)picture.channels);
    if (!whole) {
        return td_error_set(error, TD_MEMORY, "%s: no memory", what);
    }
    if (!format->decode(bytes->data, bytes->size, &picture, whole, reason)) {
        status =
            td_error_set(error, TD_FORMAT, "%s: damaged %s image (%s)", what, format->name, reason);
    }
    const uint8_t *from = whole;
    for (int64_t i = 0; !status && i < count; i++, from += picture.channels) {
        bool colour = picture.channels >= 3;
        const uint8_t rgba[4] = {from[0], from[colour], from[2 * colour],
                                 picture.channels % 2 ? 255 : from[picture.channels - 1]};
        td__image_put(rgba, size->channels, pixels + i * size->channels);
    }
    td__free(whole);
    return status;
}

/* ---- All formats ----------------------------------------------------------------------------- */

static bool is_png(const td__bytes *bytes) {
    return bytes->size >= 8 && memcmp(bytes->data, "\x89PNG\r\n\x1A\n", 8) == 0;
}

static bool is_jpeg(const td__bytes *bytes) {
    return bytes->size >= 3 && memcmp(bytes->data, "\xFF\xD8\xFF", 3) == 0;
}

static int64_t no_room(const td__bytes *bytes, const td__image_size *size) {
    (void)bytes;
    (void)size;
    return 0;
}

typedef struct format {
    bool (*is)(const td__bytes *bytes);
    td_status (*describe)(const td__bytes *bytes, const char *what, td__image_size *size,
                          td_error *error);
    td_status (*decode)(const td__bytes *bytes, const char *what, const td__image_size *size,
                        uint8_t *pixels, td_error *error);
    int64_t (*room)(const td__bytes *bytes, const td__image_size *size);
} format;

static const format formats[] = {
    {is_png, td__png_describe, td__png_decode, td__png_room},
    {is_jpeg, td__jpeg_describe, td__jpeg_decode, td__jpeg_room},
    {td__bmp_is, td__bmp_describe, td__bmp_decode, no_room},
    {is_picture, describe, decode, room},
};

static const format *choose(const td__bytes *bytes) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (formats[i].is(bytes)) {
            return &formats[i];
        }
    }
    return NULL;
}

td_status td__image_describe(const td__bytes *bytes, const char *what, td__image_size *size,
                             td_error *error) {
    td__image_size found = {0};
    const format *f = choose(bytes);
    if (!f) {
        return td_error_set(error, TD_FORMAT, "%s: no PNG, JPEG, BMP, WebP or TIFF image", what);
    }
    td_status status = f->describe(bytes, what, &found, error);
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
    const format *f = choose(bytes);
    return f ? f->room(bytes, size) : 0;
}

td_status td__image_decode(const td__bytes *bytes, const char *what, const td__image_size *size,
                           uint8_t *pixels, td_error *error) {
    const format *f = choose(bytes);
    return f ? f->decode(bytes, what, size, pixels, error)
             : td_error_set(error, TD_FORMAT, "%s: no image that can be read", what);
}
