/* What the readers of this folder share: the file, a cursor over its bytes, and the budget that
 * makes every walk end.
 *
 * No pointer into the file is made but by td__h5_at and the cursor's own functions, which check it.
 * Walks over trees, blocks and heaps spend a budget of as many bytes as the file has: the parts of
 * a sound file do not overlap, so only a file that leads back to itself runs out of it.
 */
#ifndef TAPEDECK_HDF5_FILE_H
#define TAPEDECK_HDF5_FILE_H

#include "hdf5/hdf5.h"

#include <string.h>

struct td__hdf5 {
    const uint8_t *bytes; /* from the superblock on; addresses count from here */
    size_t size;
    size_t before;      /* bytes of the file that are not its own, before the superblock */
    const char *origin; /* borrowed */
    uint8_t offset_size, length_size;
    td__hdf5_object root;
};

/* An address that says: nothing there. */
#define TD__H5_NONE UINT64_MAX

/* Bytes being read. What reaches past the end reads as zero and sets bad. */
typedef struct td__h5_cursor {
    const uint8_t *at, *end;
    uint8_t offset_size, length_size;
    bool bad;
} td__h5_cursor;

static inline size_t td__h5_left(const td__h5_cursor *cursor) {
    return (size_t)(cursor->end - cursor->at);
}

/* The next size bytes; NULL when there are fewer. */
static inline const uint8_t *td__h5_take(td__h5_cursor *cursor, uint64_t size) {
    const uint8_t *taken = cursor->at;
    if (cursor->bad || size > td__h5_left(cursor)) {
        cursor->bad = true;
        return NULL;
    }
    cursor->at += size;
    return taken;
}

/* A little-endian number of size <= 8 bytes. */
static inline uint64_t td__h5_number(td__h5_cursor *cursor, unsigned size) {
    const uint8_t *bytes = td__h5_take(cursor, size);
    uint64_t value = 0;
    for (unsigned i = size; bytes && i-- > 0;) {
        value = value << 8 | bytes[i];
    }
    return value;
}

static inline unsigned td__h5_byte(td__h5_cursor *cursor) {
    return (unsigned)td__h5_number(cursor, 1);
}

static inline uint64_t td__h5_offset(td__h5_cursor *cursor) {
    uint64_t value = td__h5_number(cursor, cursor->offset_size);
    uint64_t none = TD__H5_NONE >> (64 - 8 * cursor->offset_size);
    return cursor->bad || value == none ? TD__H5_NONE : value;
}

static inline uint64_t td__h5_length(td__h5_cursor *cursor) {
    return td__h5_number(cursor, cursor->length_size);
}

static inline void td__h5_skip(td__h5_cursor *cursor, uint64_t size) {
    (void)td__h5_take(cursor, size);
}

/* Skips the four bytes that say what a part of the file is; bad when they are others. */
static inline void td__h5_expect(td__h5_cursor *cursor, const char magic[4]) {
    const uint8_t *bytes = td__h5_take(cursor, 4);
    if (!bytes || memcmp(bytes, magic, 4) != 0) {
        cursor->bad = true;
    }
}

/* The next size bytes as a cursor of their own. */
static inline td__h5_cursor td__h5_sub(td__h5_cursor *cursor, uint64_t size) {
    td__h5_cursor part = *cursor;
    td__h5_skip(cursor, size);
    part.end = cursor->bad ? part.at : part.at + size;
    part.bad = cursor->bad;
    return part;
}

/* A cursor over size bytes at an address; bad when the file does not have them. */
static inline td__h5_cursor td__h5_at(const td__hdf5 *file, uint64_t address, uint64_t size) {
    bool good = address <= file->size && size <= file->size - address;
    const uint8_t *at = file->bytes + (good ? address : 0);
    return (td__h5_cursor){at, good ? at + size : at, file->offset_size, file->length_size, !good};
}

/* The same up to the file's end, for parts whose size is yet to be read. */
static inline td__h5_cursor td__h5_from(const td__hdf5 *file, uint64_t address) {
    return td__h5_at(file, address, address < file->size ? file->size - address : 1);
}

/* False when the budget does not have size bytes left. */
static inline bool td__h5_spend(uint64_t *budget, uint64_t size) {
    if (size > *budget) {
        return false;
    }
    *budget -= size;
    return true;
}

/* TD_FORMAT and TD_UNSUPPORTED with one sentence: "m.h5: damaged HDF5 file: WHAT". */
td_status td__h5_damaged(const td__hdf5 *file, const char *what, td_error *error);
td_status td__h5_unsupported(const td__hdf5 *file, const char *what, td_error *error);

/* Jenkins' lookup3, and whether the four bytes after a part are its checksum. */
uint32_t td__h5_checksum(const uint8_t *bytes, size_t size);
bool td__h5_is_sound(const uint8_t *bytes, size_t size);

#endif
