/* Arrays that sinks index by td_record.signal_index. */
#ifndef TAPEDECK_DECK_REACH_H
#define TAPEDECK_DECK_REACH_H

#include "base/memory.h"

#include <string.h>

/* Makes room for items[index], items being an array of *count size-byte items; new ones are zero.
 * False when memory is exhausted. */
static inline bool td__signals_reach(void *items, size_t *count, int32_t index, size_t size) {
    size_t had = *count, capacity = had;
    if (!td__grow(items, &capacity, (size_t)index + 1, (size_t)1 << 24, size)) {
        return false;
    }
    if (capacity > had) {
        char *grown;
        memcpy(&grown, items, sizeof grown);
        memset(grown + had * size, 0, (capacity - had) * size);
        *count = capacity;
    }
    return true;
}

#endif
