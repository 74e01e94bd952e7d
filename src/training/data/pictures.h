/* What libtapedeck-pictures.so, a plugin, offers: decoders of formats whose libraries not every machine needs. It calls no
 * function of the library. */
#ifndef TAPEDECK_DATA_PICTURES_H
#define TAPEDECK_DATA_PICTURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TD__PICTURES_SYMBOL "td_pictures_plugin"
#define TD__PICTURES_VERSION 1

enum { TD__PICTURE_REASON = 160 };

/* As the file has it: 1 grey, 2 grey and transparency, 3 colour, 4 colour and transparency. */
typedef struct td__picture {
    int64_t height, width, channels;
    int64_t room; /* bytes that decoding takes beside the pixels, about */
} td__picture;

typedef struct td__picture_format {
    const char *name;
    bool (*is)(const uint8_t *bytes, size_t size);
    /* False, and the reason in TD__PICTURE_REASON bytes. */
    bool (*describe)(const uint8_t *bytes, size_t size, td__picture *picture, char *reason);
    /* Into height * width * channels bytes, as described. */
    bool (*decode)(const uint8_t *bytes, size_t size, const td__picture *picture, uint8_t *pixels,
                   char *reason);
} td__picture_format;

typedef struct td__pictures {
    int version;
    const td__picture_format *formats;
    size_t count;
} td__pictures;

#endif
