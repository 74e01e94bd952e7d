#include "base/chunks.h"

#include "base/memory.h"

#include <stddef.h>

enum { CHUNK = 16 * 1024 };

struct td__chunk {
    td__chunk *next;
    size_t size, used; /* of what follows */
    max_align_t memory[];
};

void td__chunks_free(td__chunk *newest) {
    for (td__chunk *each = newest, *next; each; each = next) {
        next = each->next;
        td__free(each);
    }
}

td_status td__chunks_charge(td__chunks *chunks, size_t bytes) {
    if (bytes > chunks->left) {
        return TD_RANGE;
    }
    chunks->left -= bytes;
    return TD_OK;
}

static td__chunk *add_chunk(td__chunks *chunks, size_t needed, td_status *reason) {
    size_t size = needed > CHUNK ? needed : CHUNK;
    if (size > chunks->left && needed <= chunks->left) {
        size = needed;
    }
    *reason = td__chunks_charge(chunks, size);
    if (*reason) {
        return NULL;
    }
    td__chunk *chunk = td__calloc(1, sizeof *chunk + size);
    if (!chunk) {
        *reason = TD_MEMORY;
        return NULL;
    }
    chunk->size = size;
    chunk->next = chunks->newest;
    chunks->newest = chunk;
    return chunk;
}

void *td__chunks_take(td__chunks *chunks, size_t count, size_t size, size_t alignment,
                      td_status *reason) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        bytes = SIZE_MAX;
    }
    td__chunk *chunk = chunks->newest;
    size_t at = chunk ? (chunk->used + alignment - 1) & ~(alignment - 1) : 0;
    if (!chunk || at > chunk->size || bytes > chunk->size - at) {
        chunk = add_chunk(chunks, bytes, reason);
        at = 0;
    }
    if (!chunk) {
        return NULL;
    }
    chunk->used = at + bytes;
    return (char *)chunk->memory + at;
}
