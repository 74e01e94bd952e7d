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

/* Versions 0 and 1: the root is the symbol table entry at the end. */
static void read_old(td__hdf5 *file, td__h5_cursor *cursor, unsigned version) {
    td__h5_skip(cursor, 4); /* versions of free space, root and shared headers */
    file->offset_size = cursor->offset_size = (uint8_t)td__h5_byte(cursor);
    file->length_size = cursor->length_size = (uint8_t)td__h5_byte(cursor);
    if (!is_width(file->offset_size) || !is_width(file->length_size)) {
        cursor->bad = true;
        return;
    }
    td__h5_skip(cursor, version == 0 ? 9 : 13);
    td__h5_skip(cursor, 4u * file->offset_size); /* base, free space, end, driver */
    td__h5_skip(cursor, file->offset_size);      /* the root's name */
    file->root = td__h5_offset(cursor);
}

static void read_new(td__hdf5 *file, td__h5_cursor *cursor) {
    const uint8_t *start = cursor->at - 9;
    file->offset_size = cursor->offset_size = (uint8_t)td__h5_byte(cursor);
    file->length_size = cursor->length_size = (uint8_t)td__h5_byte(cursor);
    if (!is_width(file->offset_size) || !is_width(file->length_size)) {
        cursor->bad = true;
        return;
    }
    td__h5_skip(cursor, 1);                      /* flags */
    td__h5_skip(cursor, 3u * file->offset_size); /* base, extension, end */
    file->root = td__h5_offset(cursor);
    size_t size = (size_t)(cursor->at - start);
    td__h5_skip(cursor, 4);
    if (!cursor->bad && !td__h5_is_sound(start, size)) {
        cursor->bad = true;
    }
}

static td_status read_superblock(td__hdf5 *file, td_error *error) {
    td__h5_cursor cursor = td__h5_at(file, 0, file->size);
    td__h5_skip(&cursor, sizeof signature);
    unsigned version = td__h5_byte(&cursor);
    if (version > 3) {
        return td__h5_unsupported(file, "a superblock newer than version 3", error);
    }
    if (version < 2) {
        read_old(file, &cursor, version);
    } else {
        read_new(file, &cursor);
    }
    if (cursor.bad || file->root == 0 || file->root >= file->size) {
        return td__h5_damaged(file, "the superblock", error);
    }
    return TD_OK;
}

/* The signature is at 0 or, after a user's own block, at 512, 1024, 2048, … */
static bool find_signature(td__hdf5 *file) {
    for (size_t at = 0; at < file->size && file->size - at >= sizeof signature;
         at = at ? at * 2 : 512) {
        if (!memcmp(file->bytes + at, signature, sizeof signature)) {
            file->bytes += at;
            file->size -= at;
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
