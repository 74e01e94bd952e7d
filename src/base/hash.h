/* Hashes (FNV-1a). Their values are kept in files and decide random streams: they never change. */
#ifndef TAPEDECK_BASE_HASH_H
#define TAPEDECK_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define TD__HASH_START 0xcbf29ce484222325u

/* Goes on from a hash, TD__HASH_START at first, with further bytes. */
static inline uint64_t td__hash_bytes(uint64_t hash, const void *bytes, size_t size) {
    const unsigned char *from = bytes;
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ from[i]) * 0x100000001b3u;
    }
    return hash;
}

static inline uint64_t td__hash_text(const char *text) {
    return td__hash_bytes(TD__HASH_START, text, strlen(text));
}

#endif
