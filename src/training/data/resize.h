/* Images scaled to one size. */
#ifndef TAPEDECK_DATA_RESIZE_H
#define TAPEDECK_DATA_RESIZE_H

#include "data/image.h"
#include "tapedeck/data.h"

/* Scales pixels, an image of size `from`, into out, which has room for resize->height x
 * resize->width with the same channels. TD_MEMORY when there is none for the weights. */
TD_NODISCARD td_status td__resize(const td_resize *resize, const td__image_size *from,
                                  const uint8_t *pixels, uint8_t *out, td_error *error);
/* Bytes that this takes beside both images. */
int64_t td__resize_room(const td_resize *resize, const td__image_size *from);

#endif
