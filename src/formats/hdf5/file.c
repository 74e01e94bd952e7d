/* The superblock: where the root is and how wide addresses are. */
#include "hdf5/file.h"

#include "base/memory.h"

static const uint8_t signature[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};

td_status td__h5_damaged(const td__hdf5 *file, const char *what, td_error *error) {
    return td_error_set(error, TD_FORMAT, "%s: damaged HDF5 file: %s", file->origin, what);
}

td_status td__h5_unsupported(const td__hdf5 *file, const char *what, td_error *error) {
    return td_error_set(error, TD_UNSUPPORTED, "%s: %s cannot be read", file->origin, what);
}

static bool is_width(uint8_t size) {
    return size == 2 || size == 4 || size == 8;
}

/* How wide offsets and lengths are. */
static void read_widths(td__hdf5 *file, td__h5_cursor *cursor) {
    uint8_t offset = (uint8_t)td__h5_byte(cursor), length = (uint8_t)td__h5_byte(cursor);
    if (!is_width(offset) || !is_width(length)) {
        cursor->bad = true;
        return;
    }
    file->offset_size = cursor->offset_size = offset;
    file->length_size = cursor->length_size = length;
}

/* Versions 0 and 1: the root is the symbol table entry at the end. */
static uint64_t read_old(td__hdf5 *file, td__h5_cursor *cursor, unsigned version) {
    td__h5_skip(cursor, 4); /* versions of free space, root and shared headers */
    read_widths(file, cursor);
    td__h5_skip(cursor, version == 0 ? 9 : 13);
    td__h5_skip(cursor, 2u * file->offset_size); /* base, free space */
    uint64_t end = td__h5_offset(cursor);
    td__h5_skip(cursor, 2u * file->offset_size); /* driver, the root's name */
    file->root = td__h5_offset(cursor);
    return end;
}

/* Versions 2 and 3, with a checksum. */
static uint64_t read_new(td__hdf5 *file, td__h5_cursor *cursor) {
    read_widths(file, cursor);
    td__h5_skip(cursor, 1);                      /* flags */
    td__h5_skip(cursor, 2u * file->offset_size); /* base, extension */
    uint64_t end = td__h5_offset(cursor);
    file->root = td__h5_offset(cursor);
    size_t size = (size_t)(cursor->at - file->bytes);
    td__h5_skip(cursor, 4);
    if (!cursor->bad && !td__h5_is_sound(file->bytes, size)) {
        cursor->bad = true;
    }
    return end;
}

static td_status read_superblock(td__hdf5 *file, td_error *error) {
    td__h5_cursor cursor = td__h5_at(file, 0, file->size);
    td__h5_skip(&cursor, sizeof signature);
    unsigned version = td__h5_byte(&cursor);
    if (version > 3) {
        return td__h5_unsupported(file, "a superblock newer than version 3", error);
    }
    uint64_t end = version < 2 ? read_old(file, &cursor, version) : read_new(file, &cursor);
    if (cursor.bad) {
        return td__h5_damaged(file, "the superblock", error);
    }
    if (end > file->before + file->size) {
        return td_error_set(error, TD_FORMAT,
                            "%s: damaged HDF5 file: cut short, at %zu of %llu bytes", file->origin,
                            file->before + file->size, (unsigned long long)end);
    }
    return file->root == 0 || file->root >= file->size
               ? td__h5_damaged(file, "the superblock", error)
               : TD_OK;
}

/* The signature is at 0 or, after a user's own block, at 512, 1024, 2048, … */
static bool find_signature(td__hdf5 *file) {
    for (size_t at = 0; at < file->size && file->size - at >= sizeof signature;
         at = at ? at * 2 : 512) {
        if (!memcmp(file->bytes + at, signature, sizeof signature)) {
            file->bytes += at;
            file->size -= at;
            file->before = at;
            return true;
        }
    }
    return false;
}

td__hdf5 *td__hdf5_open(const void *bytes, size_t size, const char *origin, td_error *error) {
    td__hdf5 *file = td__calloc(1, sizeof *file);
    if (!file) {
        td_error_set(error, TD_MEMORY, "%s: out of memory", origin);
        return NULL;
    }
    *file = (td__hdf5){
        .bytes = bytes, .size = size, .origin = origin, .offset_size = 8, .length_size = 8};
    td_status status = TD_OK;
    if (!find_signature(file)) {
        status = td_error_set(error, TD_FORMAT, "%s: not an HDF5 file", origin);
    } else {
        status = read_superblock(file, error);
    }
    if (status) {
        td__hdf5_close(file);
        return NULL;
    }
    return file;
}

void td__hdf5_close(td__hdf5 *file) {
    td__free(file);
}

td__hdf5_object td__hdf5_root(const td__hdf5 *file) {
    return file->root;
}
