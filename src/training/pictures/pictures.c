#include "pictures.h"

static const td__picture_format formats[] = {
    {"WebP", webp_is, webp_describe, webp_decode},
    {"TIFF", tiff_is, tiff_describe, tiff_decode},
};

__attribute__((visibility("default"))) const td__pictures td_pictures_plugin = {
    TD__PICTURES_VERSION, formats, sizeof formats / sizeof *formats};
