/* The plugin's formats, a file for each library. */
#ifndef TAPEDECK_PICTURES_PICTURES_H
#define TAPEDECK_PICTURES_PICTURES_H

#include "data/pictures.h"

bool webp_is(const uint8_t *bytes, size_t size);
bool webp_describe(const uint8_t *bytes, size_t size, td__picture *picture, char *reason);
bool webp_decode(const uint8_t *bytes, size_t size, const td__picture *picture, uint8_t *pixels,
                 char *reason);
bool tiff_is(const uint8_t *bytes, size_t size);
bool tiff_describe(const uint8_t *bytes, size_t size, td__picture *picture, char *reason);
bool tiff_decode(const uint8_t *bytes, size_t size, const td__picture *picture, uint8_t *pixels,
                 char *reason);

#endif
