/* Files are little-endian, whatever the machine: the one place that knows the machine's order. */
#ifndef TAPEDECK_BASE_LITTLE_H
#define TAPEDECK_BASE_LITTLE_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Whether values of several bytes lie in memory as they do in a file. */
#define TD__LITTLE_ENDIAN (BYTE_ORDER == LITTLE_ENDIAN)

static inline uint32_t td__load32(const void *from) {
    uint32_t bits;
    memcpy(&bits, from, sizeof bits);
    return le32toh(bits);
}

static inline uint64_t td__load64(const void *from) {
    uint64_t bits;
    memcpy(&bits, from, sizeof bits);
    return le64toh(bits);
}

static inline void td__store32(void *to, uint32_t bits) {
    bits = htole32(bits);
    memcpy(to, &bits, sizeof bits);
}

static inline void td__store64(void *to, uint64_t bits) {
    bits = htole64(bits);
    memcpy(to, &bits, sizeof bits);
}

/* Elements of `size` bytes, `bytes` in all, from the machine's order to a file's, and just so back. `to`
 * is `from`, or apart from it. */
static inline void td__little_copy(void *to, const void *from, size_t bytes, size_t size) {
    const uint8_t *in = from;
    uint8_t *out = to;
    if (TD__LITTLE_ENDIAN || size == 1) {
        if (bytes > 0 && to != from) {
            memcpy(to, from, bytes);
        }
        return;
    }
    for (size_t at = 0; at < bytes; at += size) {
        for (size_t low = at, high = at + size - 1; low < high; low++, high--) {
            uint8_t byte = in[low];
            out[low] = in[high];
            out[high] = byte;
        }
    }
}

#endif
