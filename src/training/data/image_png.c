/* PNG, through libpng.
 *
 * libpng reports errors by longjmp. Everything that must survive one lives in a decoder owned by
 * the caller of the function that calls setjmp. */
#include "base/memory.h"
#include "data/image.h"

#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

typedef struct decoder {
    png_structp png;
    png_infop info;
    const uint8_t *next; /* not yet read */
    size_t left;
    uint8_t *pixels; /* as libpng delivers them: one row, or all of an interlaced image */
    png_bytep *rows; /* of an interlaced image */
    size_t row_size;
    int channels;
    uint8_t *to;      /* borrowed: where the image goes */
    td_status status; /* of a failure */
    jmp_buf failure;
    char reason[128];
} decoder;

/* Whether a tRNS chunk, which makes some colours transparent, stands before the pixels. */
static bool has_transparent_colours(const td__bytes *bytes) {
    enum { SIGNATURE = 8, AROUND = 12 }; /* bytes; of a chunk beside its data */
    const uint8_t *b = bytes->data;
    for (size_t at = SIGNATURE; at + AROUND <= bytes->size;) {
        if (memcmp(b + at + 4, "tRNS", 4) == 0 || memcmp(b + at + 4, "IDAT", 4) == 0) {
            return b[at + 4] == 't';
        }
        size_t length = (size_t)b[at] << 24 | (size_t)b[at + 1] << 16 | (size_t)b[at + 2] << 8 |
                        (size_t)b[at + 3];
        at += AROUND + length;
    }
    return false;
}

td_status td__png_describe(const td__bytes *bytes, const char *what, td__image_size *size,
                           td_error *error) {
    const uint8_t *b = bytes->data;
    if (bytes->size < 33 || memcmp(b + 12, "IHDR", 4) != 0) {
        return td_error_set(error, TD_FORMAT, "%s: damaged PNG header", what);
    }
    size->width = (int64_t)b[16] << 24 | (int64_t)b[17] << 16 | (int64_t)b[18] << 8 | b[19];
    size->height = (int64_t)b[20] << 24 | (int64_t)b[21] << 16 | (int64_t)b[22] << 8 | b[23];
    size->channels = b[25] & PNG_COLOR_MASK_COLOR ? 3 : 1;
    size->alpha = b[25] & PNG_COLOR_MASK_ALPHA || has_transparent_colours(bytes);
    return TD_OK;
}

static void read_bytes(png_structp png, png_bytep to, size_t size) {
    decoder *d = png_get_io_ptr(png);
    if (size > d->left) {
        png_error(png, "it ends too early");
    }
    memcpy(to, d->next, size);
    d->next += size;
    d->left -= size;
}

static void fail_png(png_structp png, png_const_charp reason) {
    decoder *d = png_get_error_ptr(png);
    snprintf(d->reason, sizeof d->reason, "damaged PNG image: %s", reason);
    d->status = TD_FORMAT;
    longjmp(d->failure, 1);
}

static void ignore_warning(png_structp png, png_const_charp reason) {
    (void)png;
    (void)reason;
}

static bool no_memory(decoder *d) {
    snprintf(d->reason, sizeof d->reason, "no memory");
    d->status = TD_MEMORY;
    return false;
}

/* From one to four channels to one to four: grey or colour, and with an even number transparency. */
static void convert_channels(const uint8_t *from, int channels, int64_t count, uint8_t *to,
                             int64_t wanted) {
    bool colour = channels >= 3;
    for (int64_t i = 0; i < count; i++, from += channels, to += wanted) {
        if (channels == wanted) {
            memcpy(to, from, (size_t)wanted);
            continue;
        }
        if (wanted >= 3) {
            to[0] = from[0];
            to[1] = from[colour ? 1 : 0];
            to[2] = from[colour ? 2 : 0];
        } else {
            to[0] = colour ? td__luma(from) : from[0];
        }
        if (wanted % 2 == 0) {
            to[wanted - 1] = channels % 2 == 0 ? from[channels - 1] : 255;
        }
    }
}

static void put_row(decoder *d, const td__image_size *size, int64_t y, const uint8_t *row) {
    convert_channels(row, d->channels, size->width, d->to + y * size->width * size->channels,
                     size->channels);
}

/* Rows are complete only when the whole image has been read. */
static bool read_interlaced(decoder *d, const td__image_size *size) {
    d->pixels = td__calloc((size_t)size->height, d->row_size);
    d->rows = td__calloc((size_t)size->height, sizeof *d->rows);
    if (!d->pixels || !d->rows) {
        return no_memory(d);
    }
    for (int64_t y = 0; y < size->height; y++) {
        d->rows[y] = d->pixels + (size_t)y * d->row_size;
    }
    png_read_image(d->png, d->rows);
    for (int64_t y = 0; y < size->height; y++) {
        put_row(d, size, y, d->rows[y]);
    }
    return true;
}

static bool read_png_rows(decoder *d, const td__image_size *size) {
    d->pixels = td__calloc(1, d->row_size);
    if (!d->pixels) {
        return no_memory(d);
    }
    for (int64_t y = 0; y < size->height; y++) {
        png_read_row(d->png, d->pixels, NULL);
        put_row(d, size, y, d->pixels);
    }
    return true;
}

/* Reads the image; false with a reason. */
static bool decode(decoder *d, const td__image_size *size) {
    if (setjmp(d->failure)) {
        return false;
    }
    d->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, d, fail_png, ignore_warning);
    d->info = d->png ? png_create_info_struct(d->png) : NULL;
    if (!d->info) {
        return no_memory(d);
    }
    png_set_read_fn(d->png, d, read_bytes);
    png_read_info(d->png, d->info);
    if (png_get_image_height(d->png, d->info) != size->height ||
        png_get_image_width(d->png, d->info) != size->width) {
        png_error(d->png, "two sizes");
    }
    png_set_expand(d->png);
    png_set_scale_16(d->png);
    if (size->channels % 2) {
        png_set_strip_alpha(d->png);
    }
    bool interlaced = png_set_interlace_handling(d->png) > 1;
    png_read_update_info(d->png, d->info);
    d->row_size = png_get_rowbytes(d->png, d->info);
    d->channels = png_get_channels(d->png, d->info);
    if (d->channels < 1 || d->channels > 4) {
        png_error(d->png, "neither grey nor RGB");
    }
    bool read = interlaced ? read_interlaced(d, size) : read_png_rows(d, size);
    if (read) {
        png_read_end(d->png, NULL);
    }
    return read;
}

int64_t td__png_room(const td__bytes *bytes, const td__image_size *size) {
    enum { INTERLACE = 28, COLOURS = 3 };
    bool interlaced = bytes->size > INTERLACE && bytes->data[INTERLACE] != 0;
    int64_t channels = COLOURS + (size->channels % 2 == 0);
    return interlaced ? size->height * (size->width * channels + (int64_t)sizeof(png_bytep)) : 0;
}

td_status td__png_decode(const td__bytes *bytes, const char *what, const td__image_size *size,
                         uint8_t *pixels, td_error *error) {
    decoder *d = td__calloc(1, sizeof *d);
    if (!d) {
        return td_error_set(error, TD_MEMORY, "%s: no memory", what);
    }
    d->next = bytes->data;
    d->left = bytes->size;
    d->to = pixels;
    td_status status = TD_OK;
    if (!decode(d, size)) {
        status = td_error_set(error, d->status, "%s: %s", what, d->reason);
    }
    png_destroy_read_struct(&d->png, &d->info, NULL);
    td__free(d->pixels);
    td__free(d->rows);
    td__free(d);
    return status;
}
