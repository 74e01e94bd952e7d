/* Pooled memory: buffers are kept when given back, so that a steady state allocates nothing.
 *
 * Sizes come in classes, four to a power of two. In use and kept together stay within the limit
 * whenever what is in use does. Callers hold the deck's lock. */
#ifndef TAPEDECK_DECK_POOL_H
#define TAPEDECK_DECK_POOL_H

#include "tapedeck/base.h"

enum { TD__POOL_CLASSES = 4 * 40 };

typedef struct td__deck_pool {
    size_t limit; /* bytes */
    size_t used;  /* handed out */
    size_t kept;  /* given back and not freed */
    /* Beside the buffers and not in them: a buffer that another core has just read is not touched
     * before it is written anew. */
    struct td__kept_buffers {
        void **buffers;
        size_t count, capacity;
    } kept_of[TD__POOL_CLASSES];
} td__deck_pool;

/* The bytes that a buffer of this size really takes. */
size_t td__deck_pool_size(size_t size);
/* What would be taken next, to bring it into a cache; NULL: not known. */
void *td__deck_pool_peek(const td__deck_pool *pool, size_t size);
/* TD__ALIGNMENT-aligned, not zeroed. NULL when memory is exhausted. */
void *td__deck_pool_take(td__deck_pool *pool, size_t size);
/* size as it was taken. Accepts NULL. */
void td__deck_pool_give(td__deck_pool *pool, void *buffer, size_t size);
void td__deck_pool_release(td__deck_pool *pool);

#endif
