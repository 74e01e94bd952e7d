/* Reading flatbuffers where they lie: a position that is not in the file, or what reaches past its end,
 * reads as nothing and sets `bad`. */
#ifndef TAPEDECK_TFLITE_FLAT_H
#define TAPEDECK_TFLITE_FLAT_H

#include "base/proto.h"

typedef struct td__flat {
    const uint8_t *bytes;
    size_t size;
    bool bad;
} td__flat;

static inline bool td__flat_has(td__flat *flat, size_t at, size_t size) {
    bool has = at <= flat->size && size <= flat->size - at;
    flat->bad = flat->bad || !has;
    return has;
}

static inline uint32_t td__flat_u32(td__flat *flat, size_t at) {
    return td__flat_has(flat, at, 4) ? td__load32(flat->bytes + at) : 0;
}

static inline uint16_t td__flat_u16(td__flat *flat, size_t at) {
    return td__flat_has(flat, at, 2)
               ? (uint16_t)(flat->bytes[at] | (unsigned)flat->bytes[at + 1] << 8)
               : 0;
}

/* What an offset at this position points to; 0: nothing. */
static inline size_t td__flat_follow(td__flat *flat, size_t at) {
    uint32_t offset = at ? td__flat_u32(flat, at) : 0;
    size_t to = at + offset;
    return offset && td__flat_has(flat, to, 4) ? to : 0;
}

/* Where field n of the table at this position is; 0: it is not there. */
static inline size_t td__flat_field(td__flat *flat, size_t table, unsigned n) {
    if (!table) {
        return 0;
    }
    int64_t vtable = (int64_t)table - (int32_t)td__flat_u32(flat, table);
    if (vtable < 0 || !td__flat_has(flat, (size_t)vtable, 4)) {
        flat->bad = true;
        return 0;
    }
    size_t length = td__flat_u16(flat, (size_t)vtable), entry = 4 + 2 * (size_t)n;
    uint16_t offset =
        entry + 2 <= length ? td__flat_u16(flat, (size_t)vtable + entry) : (uint16_t)0;
    return offset ? table + offset : 0;
}

/* A table, text or vector that a field points to; 0: none. */
static inline size_t td__flat_child(td__flat *flat, size_t table, unsigned n) {
    return td__flat_follow(flat, td__flat_field(flat, table, n));
}

static inline int32_t td__flat_int(td__flat *flat, size_t table, unsigned n, int32_t fallback) {
    size_t at = td__flat_field(flat, table, n);
    return at ? (int32_t)td__flat_u32(flat, at) : fallback;
}

static inline int td__flat_byte(td__flat *flat, size_t table, unsigned n, int fallback) {
    size_t at = td__flat_field(flat, table, n);
    return at && td__flat_has(flat, at, 1) ? flat->bytes[at] : fallback;
}

/* Where the elements of a vector begin, and how many there are; 0 and 0: none. */
static inline size_t td__flat_vector(td__flat *flat, size_t table, unsigned n, size_t element,
                                     size_t *count) {
    size_t at = td__flat_child(flat, table, n);
    *count = at ? td__flat_u32(flat, at) : 0;
    if (at && (*count > SIZE_MAX / element || !td__flat_has(flat, at + 4, *count * element))) {
        *count = 0;
    }
    return *count ? at + 4 : 0;
}

#endif
