/* Structs of options begin with their size, and grow at the end: a caller built against another
 * version has fewer or more fields. */
#ifndef TAPEDECK_BASE_OPTIONS_H
#define TAPEDECK_BASE_OPTIONS_H

#include "tapedeck/base.h"

#include <string.h>

/* Copies the caller's options to ours, of size bytes: what it does not have is 0, and so is all of it
 * when from is NULL. A size of 0 was forgotten, not meant: it is taken for ours. Returns to. */
static inline const void *td__options(void *to, size_t size, const void *from) {
    size_t given = size;
    memset(to, 0, size);
    if (from) {
        memcpy(&given, from, sizeof given);
        memcpy(to, from, given && given < size ? given : size);
    }
    memcpy(to, &size, sizeof size);
    return to;
}

/* The way out: copies ours to the caller's struct, as much as it says it holds. */
static inline void td__options_give(void *to, const void *from, size_t size) {
    size_t room;
    memcpy(&room, to, sizeof room);
    if (room > sizeof room) {
        memcpy((char *)to + sizeof room, (const char *)from + sizeof room,
               (room < size ? room : size) - sizeof room);
    }
}

#endif
