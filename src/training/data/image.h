/* Decoding one image: 8 bits a channel, grey or red, green, blue, with or without transparency. */
#ifndef TAPEDECK_DATA_IMAGE_H
#define TAPEDECK_DATA_IMAGE_H

#include "data/bytes.h"

typedef struct td__image_size {
    int64_t height, width;
    int64_t channels; /* 1 grey, 3 colour; wanted pixels may have transparency behind: 2, 4 */
    bool alpha;       /* the file has transparency */
} td__image_size;

/* From the first bytes, without decoding. what names the image in messages. */
td_status td__image_describe(const td__bytes *bytes, const char *what, td__image_size *size,
                             td_error *error);
/* Into pixels, which has room for size; its channels may differ from the file's: grey is spread to
 * three channels, colour becomes luma (ITU-R 601). Transparency is dropped with 1 or 3 channels;
 * with 2 or 4 an image without is opaque (255). Height and width must be the file's. */
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

bool td__bmp_is(const td__bytes *bytes);
td_status td__bmp_describe(const td__bytes *bytes, const char *what, td__image_size *size,
                           td_error *error);
td_status td__bmp_decode(const td__bytes *bytes, const char *what, const td__image_size *size,
                         uint8_t *pixels, td_error *error);

/* The grey of a colour: ITU-R 601, as Pillow rounds it. */
uint8_t td__luma(const uint8_t *rgb);
/* A pixel of red, green, blue and transparency as one of these channels. */
void td__image_put(const uint8_t rgba[4], int64_t channels, uint8_t *to);

#endif
