/* BMP: uncompressed, of 1, 4, 8, 16, 24 and 32 bits a pixel, with a palette or masks; rows from below or from above. */
#include "base/little.h"
#include "data/image.h"

#include <string.h>

enum { FILE_HEADER = 14, CORE_HEADER = 12, INFO_HEADER = 40, RGB = 0, BITFIELDS = 3 };

typedef struct bmp {
    int64_t width, height;
    bool from_above, grey, alpha;
    int bits;
    uint32_t masks[4];      /* red, green, blue, transparency; 0: none */
    const uint8_t *palette; /* blue, green, red and, but in an old header, 0 */
    size_t palette_step, colours, pixels;
} bmp;

static uint32_t load16(const uint8_t *from) {
    return (uint32_t)from[0] | (uint32_t)from[1] << 8;
}

static td_status damaged(const char *what, const char *text, td_error *error) {
    return td_error_set(error, TD_FORMAT, "%s: damaged BMP image (%s)", what, text);
}

static const uint8_t *colour_at(const bmp *b, size_t i) {
    return b->palette + b->palette_step * i;
}

/* Masks of 8 bits, or 5 and 6 of 16. */
static bool is_mask(uint32_t mask) {
    while (mask && !(mask & 1)) {
        mask >>= 1;
    }
    return mask && (mask & (mask + 1)) == 0 && mask <= 255;
}

static td_status read_masks(bmp *b, const td__bytes *bytes, uint32_t header, uint32_t compression,
                            const char *what, td_error *error) {
    static const uint32_t of_16[] = {0x7C00, 0x03E0, 0x001F, 0},
                          of_32[] = {0xFF0000, 0xFF00, 0xFF, 0};
    memcpy(b->masks, b->bits == 16 ? of_16 : of_32, sizeof b->masks);
    if (compression == RGB) {
        return TD_OK;
    }
    int count = header >= 56 ? 4 : 3;
    size_t at = FILE_HEADER + INFO_HEADER;
    if (bytes->size < at + (size_t)count * 4) {
        return damaged(what, "it ends too early", error);
    }
    b->masks[3] = 0;
    for (int i = 0; i < count; i++) {
        b->masks[i] = td__load32(bytes->data + at + (size_t)i * 4);
    }
    b->alpha = b->masks[3] != 0;
    for (int i = 0; i < 3 + b->alpha; i++) {
        if (!is_mask(b->masks[i])) {
            return td_error_set(error, TD_UNSUPPORTED,
                                "%s: a BMP image with unusual masks; convert it to PNG", what);
        }
    }
    return TD_OK;
}

static td_status read_palette(bmp *b, const td__bytes *bytes, uint32_t header, const char *what,
                              td_error *error) {
    uint32_t used = header == CORE_HEADER ? 0 : td__load32(bytes->data + FILE_HEADER + 32);
    size_t begin = FILE_HEADER + (size_t)header;
    b->palette = bytes->data + begin;
    b->palette_step = header == CORE_HEADER ? 3 : 4;
    b->colours = used && used < (1u << b->bits) ? used : (size_t)1 << b->bits;
    if (bytes->size < begin + b->colours * b->palette_step) {
        return damaged(what, "it ends in its palette", error);
    }
    b->grey = true;
    for (size_t i = 0; i < b->colours; i++) {
        const uint8_t *c = colour_at(b, i);
        b->grey = b->grey && c[0] == c[1] && c[1] == c[2];
    }
    return TD_OK;
}

static td_status read_header(const td__bytes *bytes, const char *what, bmp *b, td_error *error) {
    const uint8_t *d = bytes->data;
    *b = (bmp){0};
    if (bytes->size < FILE_HEADER + CORE_HEADER) {
        return damaged(what, "it ends too early", error);
    }
    uint32_t header = td__load32(d + FILE_HEADER), compression = RGB;
    bool core = header == CORE_HEADER;
    if ((!core && header < INFO_HEADER) || header > 1024 || bytes->size < FILE_HEADER + header) {
        return damaged(what, "no header that is known", error);
    }
    b->pixels = td__load32(d + 10);
    if (core) {
        b->width = load16(d + 18);
        b->height = load16(d + 20);
        b->bits = (int)load16(d + 24);
    } else {
        b->width = (int32_t)td__load32(d + 18);
        b->height = (int32_t)td__load32(d + 22);
        b->bits = (int)load16(d + 28);
        compression = td__load32(d + 30);
    }
    b->from_above = b->height < 0;
    b->height = b->from_above ? -b->height : b->height;
    bool masked = b->bits == 16 || b->bits == 32;
    if (compression != RGB && !(compression == BITFIELDS && masked)) {
        return td_error_set(error, TD_UNSUPPORTED,
                            "%s: a compressed BMP image; save it uncompressed, or as PNG", what);
    }
    if (b->bits != 1 && b->bits != 4 && b->bits != 8 && b->bits != 24 && !masked) {
        return damaged(what, "bits of a pixel", error);
    }
    return masked         ? read_masks(b, bytes, header, compression, what, error)
           : b->bits < 24 ? read_palette(b, bytes, header, what, error)
                          : TD_OK;
}

bool td__bmp_is(const td__bytes *bytes) {
    return bytes->size >= 2 && bytes->data[0] == 'B' && bytes->data[1] == 'M';
}

td_status td__bmp_describe(const td__bytes *bytes, const char *what, td__image_size *size,
                           td_error *error) {
    bmp b;
    td_status status = read_header(bytes, what, &b, error);
    if (!status) {
        *size = (td__image_size){b.height, b.width, b.grey ? 1 : 3, b.alpha};
    }
    return status;
}

/* A channel of some bits as one of eight. */
static uint8_t channel(uint32_t pixel, uint32_t mask) {
    while (mask && !(mask & 1)) {
        mask >>= 1;
        pixel >>= 1;
    }
    return (uint8_t)(mask ? (pixel & mask) * 255 / mask : 255);
}

/* Pixel x of a row as red, green, blue, transparency; false: its colour is not in the palette. */
static bool read_pixel(const bmp *b, const uint8_t *row, int64_t x, uint8_t rgba[4]) {
    const uint8_t *from = NULL;
    rgba[3] = 255;
    if (b->bits == 16 || b->bits == 32) {
        uint32_t pixel = b->bits == 16 ? load16(row + 2 * x) : td__load32(row + 4 * x);
        for (int i = 0; i < 4; i++) {
            rgba[i] = channel(pixel, b->masks[i]);
        }
        return true;
    }
    if (b->bits == 24) {
        from = row + 3 * x;
    } else {
        int64_t in_byte = 8 / b->bits;
        int shift = (int)(in_byte - 1 - x % in_byte) * b->bits;
        size_t index = ((size_t)row[x / in_byte] >> shift) & (((size_t)1 << b->bits) - 1);
        if (index >= b->colours) {
            return false;
        }
        from = colour_at(b, index);
    }
    rgba[0] = from[2];
    rgba[1] = from[1];
    rgba[2] = from[0];
    return true;
}

td_status td__bmp_decode(const td__bytes *bytes, const char *what, const td__image_size *size,
                         uint8_t *pixels, td_error *error) {
    bmp b;
    td_status status = read_header(bytes, what, &b, error);
    if (status) {
        return status;
    }
    size_t stride = ((size_t)b.width * (size_t)b.bits + 31) / 32 * 4;
    if (b.height != size->height || b.width != size->width || b.pixels > bytes->size ||
        stride * (size_t)b.height > bytes->size - b.pixels) {
        return damaged(what, "it ends in its pixels", error);
    }
    for (int64_t y = 0; y < b.height; y++) {
        int64_t stored = b.from_above ? y : b.height - 1 - y;
        const uint8_t *row = bytes->data + b.pixels + (size_t)stored * stride;
        for (int64_t x = 0; x < b.width; x++, pixels += size->channels) {
            uint8_t rgba[4];
            if (!read_pixel(&b, row, x, rgba)) {
                return damaged(what, "a colour that is not in its palette", error);
            }
            td__image_put(rgba, size->channels, pixels);
        }
    }
    return TD_OK;
}
