/* Names, of tags or signals: each is stored once and has an index from 0 on. */
#ifndef TAPEDECK_STORE_TAGS_H
#define TAPEDECK_STORE_TAGS_H

#include "tapedeck/base.h"

typedef struct td__tag {
    char *name; /* ends in a 0; a tag's own zeros become %00 */
    size_t length;
    uint64_t hash;
    uint8_t plugin; /* what the reader remembers of it */
    uint32_t user;  /* and its caller: 0 at first */
} td__tag;

/* All zero at first. */
typedef struct td__tags {
    td__tag *tags;
    size_t count, capacity;
    uint32_t *table; /* index + 1 by hash; a power of two, at most half full */
    size_t table_size;
} td__tags;

/* The tag of that name, new or known; NULL when memory is exhausted or there are 2^24 already.
 * Valid until the next call. */
td__tag *td__tags_find(td__tags *tags, const char *name, size_t length);
void td__tags_release(td__tags *tags);

#endif
