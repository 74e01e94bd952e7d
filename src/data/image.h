/* Decoding one image: 8 bits a channel, grey or red, green, blue. */
#ifndef TAPEDECK_DATA_IMAGE_H
#define TAPEDECK_DATA_IMAGE_H

#include "data/bytes.h"

typedef struct td__image_size {
    int64_t height, width;
    int64_t channels; /* 1 grey, 3 colour; transparency does not count */
} td__image_size;

/* From the first bytes, without decoding. what names the image in messages. */
td_status td__image_describe(const td__bytes *bytes, const char *what, td__image_size *size,
                             td_error *error);
/* Into pixels, which has room for size; its channels may differ from the file's: grey is spread to
 * three channels, colour becomes luma (ITU-R 601), transparency is dropped. Height and width must
 * be the file's. */
td_status td__image_decode(const td__bytes *bytes, const char *what, const td__image_size *size,
                           uint8_t *pixels, td_error *error);

/* Bytes that decoding takes beside the pixels: little, unless rows come out of order. */
int64_t td__image_room(const td__bytes *bytes, const td__image_size *size);

/* --- one file for each library ---------------------------------------------------------------- */

td_status td__png_describe(const td__bytes *bytes, const char *what, td__image_size *size,
                           td_error *error);
td_status td__png_decode(const td__bytes *bytes, const char *what, const td__image_size *size,
                         uint8_t *pixels, td_error *error);
int64_t td__png_room(const td__bytes *bytes, const td__image_size *size);
int64_t td__jpeg_room(const td__bytes *bytes, const td__image_size *size);
td_status td__jpeg_describe(const td__bytes *bytes, const char *what, td__image_size *size,
                            td_error *error);
td_status td__jpeg_decode(const td__bytes *bytes, const char *what, const td__image_size *size,
                          uint8_t *pixels, td_error *error);

#endif
