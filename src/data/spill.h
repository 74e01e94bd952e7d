/* Bytes that are made piece by piece: in memory while they are few, else in a file without a name
 * in the cache folder, which is mapped when it is complete. */
#ifndef TAPEDECK_DATA_SPILL_H
#define TAPEDECK_DATA_SPILL_H

#include "data/bytes.h"

/* Bytes kept in memory: 64 MiB. */
#define TD__SPILL_MEMORY ((size_t)64 << 20)

typedef struct td__spill {
    uint8_t *memory; /* all pieces, or room for one */
    size_t piece, count;
    int file; /* -1: all in memory */
} td__spill;

/* For count pieces of so many bytes each, whose product fits size_t. At most TD__SPILL_MEMORY, and
 * no more than memory, are kept there. cache as in the data's options. */
TD_NODISCARD td_status td__spill_init(td__spill *spill, size_t piece, size_t count, size_t memory,
                                      const char *cache, td_error *error);
/* Where piece number index is to be put, and that it has been. */
uint8_t *td__spill_piece(td__spill *spill, size_t index);
TD_NODISCARD td_status td__spill_put(td__spill *spill, size_t index, td_error *error);
/* All of them, once each has been put; the spill is then empty. */
TD_NODISCARD td_status td__spill_take(td__spill *spill, td__bytes *bytes, td_error *error);
/* Accepts one that was taken. */
void td__spill_release(td__spill *spill);

#endif
