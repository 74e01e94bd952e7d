/* TIFF, through libtiff: 8 bits a channel in strips or tiles; what libtiff makes colours of (1 bit, YCbCr, separate
 * planes) where it has no transparency. The library is given memory, a limit, and nowhere to print. */
#include "pictures.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tiffio.h>

enum { SIDE_MAXIMUM = 32768, MIB = 1 << 20 };

bool tiff_is(const uint8_t *bytes, size_t size) {
    return size >= 8 && (memcmp(bytes, "II*\0", 4) == 0 || memcmp(bytes, "MM\0*", 4) == 0 ||
                         memcmp(bytes, "II+\0", 4) == 0 || memcmp(bytes, "MM\0+", 4) == 0);
}

/* The bytes as a file that is only read. */
typedef struct source {
    const uint8_t *bytes;
    size_t size, at;
    char *reason;
    bool strict; /* a warning is an error: pixels are being read, and some are missing */
} source;

static tmsize_t read_bytes(thandle_t handle, void *to, tmsize_t size) {
    source *s = handle;
    size_t left = s->at < s->size ? s->size - s->at : 0;
    size_t count = (size_t)size < left ? (size_t)size : left;
    memcpy(to, s->bytes + (left ? s->at : 0), count);
    s->at += count;
    return (tmsize_t)count;
}

static tmsize_t write_bytes(thandle_t handle, void *from, tmsize_t size) {
    (void)handle;
    (void)from;
    (void)size;
    return 0;
}

static toff_t seek_bytes(thandle_t handle, toff_t offset, int from) {
    source *s = handle;
    toff_t base = from == SEEK_CUR ? s->at : from == SEEK_END ? s->size : 0;
    s->at = (size_t)(base + offset);
    return s->at;
}

static int close_bytes(thandle_t handle) {
    (void)handle;
    return 0;
}

static toff_t size_bytes(thandle_t handle) {
    return ((const source *)handle)->size;
}

/* The first error is the reason. */
static int keep_error(TIFF *tiff, void *user, const char *module, const char *format,
                      va_list arguments) {
    source *s = user;
    (void)tiff;
    (void)module;
    if (!*s->reason) {
        (void)vsnprintf(s->reason, TD__PICTURE_REASON, format, arguments);
    }
    return 1;
}

/* Without its palette an image would be read as grey. */
static int take_warning(TIFF *tiff, void *user, const char *module, const char *format,
                        va_list arguments) {
    const source *s = user;
    char text[TD__PICTURE_REASON];
    (void)tiff;
    (void)module;
    (void)vsnprintf(text, sizeof text, format, arguments);
    if (!*s->reason && (s->strict || strstr(text, "ColorMap"))) {
        (void)snprintf(s->reason, TD__PICTURE_REASON, "%s", text);
    }
    return 1;
}

static TIFF *open_tiff(source *s, int64_t memory) {
    TIFFOpenOptions *options = TIFFOpenOptionsAlloc();
    *s->reason = 0;
    if (!options) {
        return NULL;
    }
    TIFFOpenOptionsSetMaxSingleMemAlloc(options, (tmsize_t)memory);
    TIFFOpenOptionsSetErrorHandlerExtR(options, keep_error, s);
    TIFFOpenOptionsSetWarningHandlerExtR(options, take_warning, s);
    TIFF *tiff = TIFFClientOpenExt("picture", "rm", s, read_bytes, write_bytes, seek_bytes,
                                   close_bytes, size_bytes, NULL, NULL, options);
    TIFFOpenOptionsFree(options);
    return tiff;
}

static bool fail(char *reason, const char *text) {
    (void)snprintf(reason, TD__PICTURE_REASON, "%s", text);
    return false;
}

/* What a file has of itself. */
typedef struct layout {
    uint32_t width, height;
    uint16_t bits, samples, photometric, planar, format, extra, orientation, compression;
    bool direct; /* its bytes are the pixels, but for a palette */
    bool alpha;
} layout;

static bool read_layout(TIFF *tiff, layout *l, char *reason) {
    const uint16_t *extras = NULL;
    *l = (layout){0};
    TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &l->width);
    TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &l->height);
    TIFFGetFieldDefaulted(tiff, TIFFTAG_BITSPERSAMPLE, &l->bits);
    TIFFGetFieldDefaulted(tiff, TIFFTAG_SAMPLESPERPIXEL, &l->samples);
    TIFFGetFieldDefaulted(tiff, TIFFTAG_PLANARCONFIG, &l->planar);
    TIFFGetFieldDefaulted(tiff, TIFFTAG_SAMPLEFORMAT, &l->format);
    TIFFGetFieldDefaulted(tiff, TIFFTAG_ORIENTATION, &l->orientation);
    TIFFGetFieldDefaulted(tiff, TIFFTAG_COMPRESSION, &l->compression);
    TIFFGetFieldDefaulted(tiff, TIFFTAG_EXTRASAMPLES, &l->extra, &extras);
    if (!TIFFGetField(tiff, TIFFTAG_PHOTOMETRIC, &l->photometric)) {
        l->photometric = l->samples >= 3 ? PHOTOMETRIC_RGB : PHOTOMETRIC_MINISBLACK;
    }
    if (l->width < 1 || l->height < 1 || l->width > SIDE_MAXIMUM || l->height > SIDE_MAXIMUM) {
        return true; /* reported with the size */
    }
    if (TIFFNumberOfDirectories(tiff) > 1) {
        return fail(reason, "a TIFF file of several pages; an example is one picture");
    }
    if (l->bits > 8 || l->format != SAMPLEFORMAT_UINT) {
        return fail(reason, "a TIFF image of more than 8 bits a channel, or of other numbers than "
                            "whole ones from 0; convert it to 8 bits");
    }
    if (l->orientation != ORIENTATION_TOPLEFT) {
        return fail(reason, "a TIFF image that is stored turned or mirrored; save it upright");
    }
    uint16_t colours = l->photometric == PHOTOMETRIC_RGB ? 3 : 1;
    bool simple = l->photometric == PHOTOMETRIC_RGB || l->photometric == PHOTOMETRIC_MINISBLACK ||
                  l->photometric == PHOTOMETRIC_MINISWHITE || l->photometric == PHOTOMETRIC_PALETTE;
    l->alpha = simple && l->samples == colours + 1;
    l->direct = simple && l->bits == 8 && l->planar == PLANARCONFIG_CONTIG &&
                (l->samples == colours || l->alpha);
    if (l->alpha && (!l->direct || (l->extra && extras && extras[0] == EXTRASAMPLE_ASSOCALPHA) ||
                     l->photometric == PHOTOMETRIC_PALETTE)) {
        return fail(reason, "a TIFF image whose transparency is not stored as 8 bits beside each "
                            "pixel; convert it to PNG");
    }
    if (!l->direct && (l->extra || l->photometric == PHOTOMETRIC_SEPARATED)) {
        return fail(reason, "a TIFF image with other channels than grey or red, green and blue; "
                            "convert it to PNG");
    }
    return true;
}

static int64_t channels_of(const layout *l) {
    bool grey =
        l->photometric == PHOTOMETRIC_MINISBLACK || l->photometric == PHOTOMETRIC_MINISWHITE;
    return (grey ? 1 : 3) + l->alpha;
}

bool tiff_describe(const uint8_t *bytes, size_t size, td__picture *picture, char *reason) {
    source s = {bytes, size, 0, reason, false};
    TIFF *tiff = open_tiff(&s, 16 * MIB + (int64_t)size);
    if (!tiff) {
        return *reason ? false : fail(reason, "damaged TIFF image");
    }
    layout l;
    bool good = read_layout(tiff, &l, reason) && !*reason; /* some errors leave a tag out */
    if (good) {
        *picture = (td__picture){l.height, l.width, channels_of(&l), 0};
        picture->room = 4 * picture->height * picture->width;
    }
    TIFFClose(tiff);
    return good;
}

/* One row of pixels as the file has them. */
static void put_row(const layout *l, uint16_t *const palette[3], bool wide, const uint8_t *from,
                    uint8_t *to, uint32_t count) {
    for (uint32_t i = 0; i < count; i++, from += l->samples) {
        if (l->photometric == PHOTOMETRIC_PALETTE) {
            for (int c = 0; c < 3; c++) {
                *to++ = (uint8_t)(wide ? palette[c][*from] >> 8 : palette[c][*from]);
            }
            continue;
        }
        for (uint16_t c = 0; c < l->samples; c++) {
            bool white = l->photometric == PHOTOMETRIC_MINISWHITE && c == 0;
            *to++ = white ? (uint8_t)(255 - from[c]) : from[c];
        }
    }
}

/* Colours of a palette have 16 bits, but in some files 8. */
static bool is_wide(uint16_t *const palette[3]) {
    bool wide = false;
    for (int i = 0; i < 256; i++) {
        wide = wide || palette[0][i] > 255 || palette[1][i] > 255 || palette[2][i] > 255;
    }
    return wide;
}

static bool decode_direct(TIFF *tiff, const layout *l, int64_t channels, uint8_t *pixels,
                          char *reason) {
    uint16_t *palette[3] = {NULL, NULL, NULL};
    if (l->photometric == PHOTOMETRIC_PALETTE &&
        (!TIFFGetField(tiff, TIFFTAG_COLORMAP, &palette[0], &palette[1], &palette[2]) ||
         !palette[0] || !palette[1] || !palette[2])) {
        return fail(reason, "a TIFF image without its palette");
    }
    bool wide = palette[0] && is_wide(palette), tiled = TIFFIsTiled(tiff) != 0;
    uint32_t across = l->width, down = 0;
    if (tiled) {
        TIFFGetField(tiff, TIFFTAG_TILEWIDTH, &across);
        TIFFGetField(tiff, TIFFTAG_TILELENGTH, &down);
    } else {
        TIFFGetFieldDefaulted(tiff, TIFFTAG_ROWSPERSTRIP, &down);
        down = down > l->height ? l->height : down;
    }
    if (!across || !down || across > SIDE_MAXIMUM + 16 || down > SIDE_MAXIMUM + 16) {
        return fail(reason, "damaged TIFF image: its tiles have no size that can be");
    }
    size_t room = (size_t)across * down * l->samples;
    uint8_t *block = calloc(room, 1);
    bool good = block != NULL;
    for (uint32_t y = 0; good && y < l->height; y += down) {
        for (uint32_t x = 0; good && x < l->width; x += across) {
            uint32_t rows = l->height - y < down ? l->height - y : down;
            uint32_t columns = l->width - x < across ? l->width - x : across;
            tmsize_t wanted = (tmsize_t)((size_t)across * (tiled ? down : rows) * l->samples);
            tmsize_t got =
                tiled ? TIFFReadEncodedTile(tiff, TIFFComputeTile(tiff, x, y, 0, 0), block, wanted)
                      : TIFFReadEncodedStrip(tiff, TIFFComputeStrip(tiff, y, 0), block, wanted);
            good = got == wanted;
            for (uint32_t r = 0; good && r < rows; r++) {
                put_row(l, palette, wide, block + (size_t)r * across * l->samples,
                        pixels + ((size_t)(y + r) * l->width + x) * (size_t)channels, columns);
            }
        }
    }
    free(block);
    return good || *reason ? good : fail(reason, "damaged TIFF image");
}

/* What libtiff makes of it: red, green, blue and 255 for each pixel. */
static bool decode_colours(TIFF *tiff, const layout *l, int64_t channels, uint8_t *pixels,
                           char *reason) {
    size_t count = (size_t)l->width * l->height;
    uint32_t *raster = calloc(count, sizeof *raster);
    bool good = raster && TIFFReadRGBAImageOriented(tiff, l->width, l->height, raster,
                                                    ORIENTATION_TOPLEFT, 1);
    for (size_t i = 0; good && i < count; i++) {
        *pixels++ = (uint8_t)TIFFGetR(raster[i]);
        if (channels == 3) {
            *pixels++ = (uint8_t)TIFFGetG(raster[i]);
            *pixels++ = (uint8_t)TIFFGetB(raster[i]);
        }
    }
    free(raster);
    return good || *reason ? good : fail(reason, "damaged TIFF image");
}

bool tiff_decode(const uint8_t *bytes, size_t size, const td__picture *picture, uint8_t *pixels,
                 char *reason) {
    source s = {bytes, size, 0, reason, false};
    int64_t all = picture->height * picture->width * 4;
    TIFF *tiff = open_tiff(&s, 2 * all + 16 * MIB + (int64_t)size);
    layout l;
    bool good = tiff && read_layout(tiff, &l, reason);
    if (good && (l.height != picture->height || l.width != picture->width ||
                 channels_of(&l) != picture->channels)) {
        good = fail(reason, "it changed while it was read");
    }
    good = good && !*reason;
    s.strict = true;
    good = good &&
           (l.direct ? decode_direct : decode_colours)(tiff, &l, picture->channels, pixels, reason);
    good = good && !*reason;
    if (tiff) {
        TIFFClose(tiff);
    }
    return good || *reason ? good : fail(reason, "damaged TIFF image");
}
