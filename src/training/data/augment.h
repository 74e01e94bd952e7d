/* Images changed at random in each epoch, so that a network sees more of them than there are.
 *
 * What is done to an image is a function of the seed, the epoch and its row alone: not of the batch it
 * is in, of threads or of where training was resumed.
 */
#ifndef TAPEDECK_DATA_AUGMENT_H
#define TAPEDECK_DATA_AUGMENT_H

#include "tapedeck/data.h"

/* Whether there is anything to do. */
bool td__augment_is_on(const td_augment *augment);
/* TD_BAD_SHAPE when examples are no images (height, width, channels), TD_INVALID when labels would have
 * to move with them, TD_RANGE. */
TD_NODISCARD td_status td__augment_check(const td_augment *augment, const td_shape *input,
                                         const td_shape *label, td_error *error);
/* Writes the row's image of this epoch to `to`, (height, width, channels) as `from`, which is another
 * place. */
void td__augment_image(const td_augment *augment, uint64_t seed, uint64_t epoch, int64_t row,
                       const td_shape *shape, const float *from, float *to);

#endif
