/* A tensor as a picture.
 *
 * The last two or three dimensions are a tile: [height, width], or [height, width, channels] whose
 * channels lie side by side (more than 8 of a single example in a grid), or [channels, height, width]
 * where the signal says so; what comes before them (the examples of a batch) goes downwards. Three
 * channels without negative values are red, green and blue; a 4-dimensional kernel [h, w, in, out]
 * has its inputs downwards and its outputs side by side. Without negative values the scale runs
 * from black (0, or the least) to white (the greatest); otherwise from blue through white (0) to
 * red, the same distance both ways. NaN is green; infinities have the scale's ends. Small tiles are
 * enlarged as far as all fit; what does not fit TD__PICTURE_SIDE pixels is left out at the right and at the bottom.
 */
#ifndef TAPEDECK_SINK_PICTURE_H
#define TAPEDECK_SINK_PICTURE_H

#include "tapedeck/deck.h"

#define TD__PICTURE_SIDE 4096

/* A PNG file in memory. */
typedef struct td__picture {
    int32_t width, height;
    uint8_t *png; /* to be freed with td__free */
    size_t size;
} td__picture;

typedef enum td__picture_kind {
    TD__PICTURE_TENSOR,
    TD__PICTURE_KERNEL, /* [h, w, in, out] */
    TD__PICTURE_FIRST,  /* […, channels, height, width] */
    /* A picture already: one pixel for each element, nothing enlarged, grey or (three channels) in
     * colour. From 0 to 1 where all values lie there, else from the least to the greatest. */
    TD__PICTURE_EXACT,
} td__picture_kind;

TD_NODISCARD td_status td__picture_make(const td_view *view, td__picture_kind kind,
                                        td__picture *picture, td_error *error);
/* A record's: what it brings along, or made of its view. */
TD_NODISCARD td_status td__picture_of(const td_record *record, td__picture *picture,
                                      td_error *error);
/* Returns true when the signal's name is that of a kernel (or of its gradient or update). */
bool td__picture_is_kernel(const char *signal);

#endif
