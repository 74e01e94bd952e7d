/* Tables of sorted strings, as LevelDB has them and TensorFlow's checkpoints for their index: blocks of
 * keys and values, each key without what it has in common with the one before. */
#ifndef TAPEDECK_TENSORFLOW_SORTED_H
#define TAPEDECK_TENSORFLOW_SORTED_H

#include "tapedeck/base.h"

enum { TD__SORTED_KEY_MAX = 4096 };

/* key is ended by a 0 that key_size does not count; both are valid during the call. */
typedef td_status td__sorted_each(void *user, const char *key, size_t key_size,
                                  const unsigned char *value, size_t value_size, td_error *error);

bool td__sorted_recognise(const void *bytes, size_t size);
/* Calls each with every pair, in order, until it fails. Checksums are compared. TD_FORMAT, TD_RANGE,
 * TD_UNSUPPORTED, TD_MEMORY; origin is for messages. */
TD_NODISCARD td_status td__sorted_read(const void *bytes, size_t size, const char *origin,
                                       td__sorted_each *each, void *user, td_error *error);

/* Unpacks what Snappy packed into memory for td__free; NULL when it is damaged, or would be larger
 * than most. */
unsigned char *td__snappy_unpack(const unsigned char *packed, size_t size, size_t max,
                                 size_t *unpacked);

#endif
