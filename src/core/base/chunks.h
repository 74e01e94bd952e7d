/* Small allocations that are released together, within a budget: what a parser makes of a file. */
#ifndef TAPEDECK_BASE_CHUNKS_H
#define TAPEDECK_BASE_CHUNKS_H

#include "tapedeck/base.h"

typedef struct td__chunk td__chunk;

/* Initialised with a budget and nothing else; td__chunks_free(chunks.newest) ends it. */
typedef struct td__chunks {
    td__chunk *newest;
    size_t left; /* bytes that may still be allocated */
} td__chunks;

/* Takes bytes from the budget that are allocated elsewhere; TD_RANGE when it is spent. */
TD_NODISCARD td_status td__chunks_charge(td__chunks *chunks, size_t bytes);
/* count * size bytes, zero-filled; alignment is a power of two, at most that of max_align_t. NULL: *reason is
 * TD_RANGE when the budget is spent, TD_MEMORY when memory is exhausted. */
void *td__chunks_take(td__chunks *chunks, size_t count, size_t size, size_t alignment,
                      td_status *reason);
/* Accepts NULL. */
void td__chunks_free(td__chunk *newest);

#endif
