/* WebP, through libwebp. */
#include "pictures.h"

#include <stdio.h>
#include <string.h>
#include <webp/decode.h>

bool webp_is(const uint8_t *bytes, size_t size) {
    return size >= 12 && memcmp(bytes, "RIFF", 4) == 0 && memcmp(bytes + 8, "WEBP", 4) == 0;
}

static bool fail(char *reason, const char *text) {
    (void)snprintf(reason, TD__PICTURE_REASON, "%s", text);
    return false;
}

bool webp_describe(const uint8_t *bytes, size_t size, td__picture *picture, char *reason) {
    WebPBitstreamFeatures found;
    if (WebPGetFeatures(bytes, size, &found) != VP8_STATUS_OK) {
        return fail(reason, "damaged WebP header");
    }
    if (found.has_animation) {
        return fail(reason, "an animation; an example is one picture");
    }
    *picture = (td__picture){found.height, found.width, found.has_alpha ? 4 : 3, 0};
    picture->room = 4 * picture->height * picture->width; /* one that is stored without loss */
    return true;
}

bool webp_decode(const uint8_t *bytes, size_t size, const td__picture *picture, uint8_t *pixels,
                 char *reason) {
    size_t stride = (size_t)(picture->width * picture->channels);
    size_t room = stride * (size_t)picture->height;
    uint8_t *(*into)(const uint8_t *, size_t, uint8_t *, size_t, int) =
        picture->channels == 4 ? WebPDecodeRGBAInto : WebPDecodeRGBInto;
    return into(bytes, size, pixels, room, (int)stride) || fail(reason, "damaged WebP image");
}
