/* Structs of options begin with their size, and grow at the end: a caller built against another
 * version has fewer or more fields. */
#ifndef TAPEDECK_BASE_OPTIONS_H
#define TAPEDECK_BASE_OPTIONS_H

#include "tapedeck/base.h"

#include <string.h>

/* Copies the caller's options to ours, of size bytes: what it does not have is 0, and so is all of it
 * when from is NULL. size == 0 is treated as the size of ours. Returns to. */
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

/* The other direction: copies ours to the caller's struct, at most as many bytes as its size member
 * allows. */
static inline void td__options_give(void *to, const void *from, size_t size) {
    size_t room;
    memcpy(&room, to, sizeof room);
    if (room > sizeof room) {
        memcpy((char *)to + sizeof room, (const char *)from + sizeof room,
               (room < size ? room : size) - sizeof room);
    }
}

/* The number, or what stands for it when it is left out. */
static inline double td__number_or(td_number number, double by_default) {
    return number.set ? number.value : by_default;
}

#endif
