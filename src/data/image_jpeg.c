/* JPEG, through libturbojpeg. */
#include "data/image.h"

#include <turbojpeg.h>

td_status td__jpeg_describe(const td__bytes *bytes, const char *what, td__image_size *size,
                            td_error *error) {
    int width = 0, height = 0, subsampling = 0, colours = 0;
    tjhandle handle = tjInitDecompress();
    if (!handle) {
        return td_error_set(error, TD_MEMORY, "%s: no memory", what);
    }
    td_status status = TD_OK;
    if (tjDecompressHeader3(handle, bytes->data, bytes->size, &width, &height, &subsampling,
                            &colours) != 0) {
        status = td_error_set(error, TD_FORMAT, "%s: damaged JPEG header (%s)", what,
                              tjGetErrorStr2(handle));
    } else if (colours == TJCS_CMYK || colours == TJCS_YCCK) {
        status = td_error_set(error, TD_UNSUPPORTED, "%s: a CMYK image; convert it to RGB or grey",
                              what);
    } else {
        *size = (td__image_size){height, width, colours == TJCS_GRAY ? 1 : 3, false};
    }
    tjDestroy(handle);
    return status;
}

/* A progressive image (its frame begins with SOF2) is kept as coefficients of 16 bits until its last
 * scan. */
int64_t td__jpeg_room(const td__bytes *bytes, const td__image_size *size) {
    enum { SOF2 = 0xC2, SOS = 0xDA, COMPONENTS = 3 };
    const uint8_t *b = bytes->data;
    for (size_t at = 2; at + 4 <= bytes->size && b[at] == 0xFF && b[at + 1] != SOS;) {
        if (b[at + 1] == 0xFF) {
            at++; /* padding */
            continue;
        }
        if (b[at + 1] == SOF2) {
            return size->height * size->width * COMPONENTS * (int64_t)sizeof(int16_t);
        }
        at += 2 + (size_t)(b[at + 2] << 8 | b[at + 3]);
    }
    return 0;
}

/* Grey pixels that lie at the beginning, each with a 255 behind it. */
static void make_opaque(uint8_t *pixels, int64_t count) {
    for (int64_t i = count - 1; i >= 0; i--) {
        pixels[2 * i] = pixels[i];
        pixels[2 * i + 1] = 255;
    }
}

td_status td__jpeg_decode(const td__bytes *bytes, const char *what, const td__image_size *size,
                          uint8_t *pixels, td_error *error) {
    tjhandle handle = tjInitDecompress();
    if (!handle) {
        return td_error_set(error, TD_MEMORY, "%s: no memory", what);
    }
    static const int formats[] = {
        [1] = TJPF_GRAY, [2] = TJPF_GRAY, [3] = TJPF_RGB, [4] = TJPF_RGBA};
    td_status status = TD_OK;
    int flags = TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS;
    if (tjDecompress2(handle, bytes->data, bytes->size, pixels, (int)size->width, 0,
                      (int)size->height, formats[size->channels], flags) != 0) {
        status = td_error_set(error, TD_FORMAT, "%s: damaged JPEG image (%s)", what,
                              tjGetErrorStr2(handle));
    } else if (size->channels == 2) {
        make_opaque(pixels, size->height * size->width);
    }
    tjDestroy(handle);
    return status;
}
