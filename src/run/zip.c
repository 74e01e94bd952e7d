#include "run/zip.h"

#include "base/memory.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_MEMBERS = 65535, LOCAL = 30, CENTRAL = 46, END = 22, PIECE = 1 << 16 };
static const int64_t most_bytes = INT64_C(0xFFFFFFFF);

typedef struct member {
    char *name;
    uint32_t crc, size, offset;
} member;

typedef struct archive {
    FILE *file;
    member *members;
    size_t count;
    int64_t used;
} archive;

/* CRC-32 as zip has it, four bits at a time. */
static uint32_t add_crc(uint32_t crc, const uint8_t *data, size_t size) {
    static const uint32_t table[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac,
                                       0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
                                       0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                       0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return crc;
}

static void put(uint8_t *out, uint32_t value, int bytes) {
    for (int i = 0; i < bytes; i++) {
        out[i] = (uint8_t)(value >> (8 * i));
    }
}

/* The fields that both headers of a member have, from `version needed` on: 26 bytes. */
static void put_common(uint8_t *out, const member *m) {
    put(out, 20, 2);         /* version needed */
    put(out + 2, 0x800, 2);  /* names are UTF-8 */
    put(out + 4, 0, 2);      /* stored */
    put(out + 6, 0, 2);      /* time */
    put(out + 8, 0x5821, 2); /* 2024-01-01 */
    put(out + 10, m->crc, 4);
    put(out + 14, m->size, 4);
    put(out + 18, m->size, 4);
    put(out + 22, (uint32_t)strlen(m->name), 2);
    put(out + 24, 0, 2);
}

static bool write_bytes(archive *a, const void *data, size_t size) {
    a->used += (int64_t)size;
    return a->used <= most_bytes && fwrite(data, 1, size, a->file) == size;
}

static bool write_local(archive *a, const member *m) {
    uint8_t head[LOCAL] = {'P', 'K', 3, 4};
    put_common(head + 4, m);
    return write_bytes(a, head, sizeof head) && write_bytes(a, m->name, strlen(m->name));
}

static bool write_central(archive *a, const member *m) {
    uint8_t head[CENTRAL] = {'P', 'K', 1, 2, 20};
    put_common(head + 6, m);
    put(head + 42, m->offset, 4);
    return write_bytes(a, head, sizeof head) && write_bytes(a, m->name, strlen(m->name));
}

static bool write_end(archive *a) {
    uint8_t end[END] = {'P', 'K', 5, 6};
    uint32_t start = (uint32_t)a->used;
    for (size_t i = 0; i < a->count; i++) {
        if (!write_central(a, &a->members[i])) {
            return false;
        }
    }
    put(end + 8, (uint32_t)a->count, 2);
    put(end + 10, (uint32_t)a->count, 2);
    put(end + 12, (uint32_t)a->used - start, 4);
    put(end + 16, start, 4);
    return write_bytes(a, end, sizeof end);
}

/* Twice through the file: its checksum stands before it. */
static bool add_file(archive *a, const char *folder, member *m) {
    char path[4096];
    static uint8_t piece[PIECE];
    (void)snprintf(path, sizeof path, "%s/%s", folder, m->name);
    FILE *file = fopen(path, "rb");
    size_t got;
    int64_t size = 0;
    uint32_t crc = UINT32_MAX;
    bool good = file != NULL;
    while (good && (got = fread(piece, 1, sizeof piece, file)) > 0) {
        crc = add_crc(crc, piece, got);
        size += (int64_t)got;
    }
    good = good && size <= most_bytes && a->used <= most_bytes;
    m->crc = ~crc;
    m->size = (uint32_t)size;
    m->offset = (uint32_t)a->used;
    good = good && write_local(a, m);
    if (file) {
        rewind(file);
    }
    while (good && (got = fread(piece, 1, sizeof piece, file)) > 0) {
        good = write_bytes(a, piece, got);
    }
    if (file) {
        (void)fclose(file);
    }
    return good;
}

static int is_array(const struct dirent *entry) {
    size_t length = strlen(entry->d_name);
    return length > 4 && strcmp(entry->d_name + length - 4, ".npy") == 0;
}

td_status td__zip_arrays(const char *folder, const char *path, td_error *error) {
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, is_array, alphasort);
    archive a = {.file = count < 0 ? NULL : fopen(path, "wxb")};
    td_status status = TD_OK;
    if (!a.file) {
        status = td_error_set(error, errno == EEXIST ? TD_EXISTS : TD_IO, "%s: %s", path,
                              strerror(errno));
    } else if (count > MOST_MEMBERS) {
        status = td_error_set(error, TD_RANGE, "%s: more than %d arrays", path, MOST_MEMBERS);
    }
    a.members = td__calloc((size_t)(count > 0 ? count : 1), sizeof *a.members);
    bool good = a.members != NULL;
    for (int i = 0; !status && good && i < count; i++) {
        member *m = &a.members[a.count++];
        m->name = entries[i]->d_name;
        good = add_file(&a, folder, m);
    }
    good = good && !status && write_end(&a);
    if (a.file && (fclose(a.file) != 0 || !good) && !status) {
        status = a.used > most_bytes
                     ? td_error_set(error, TD_RANGE,
                                    "%s: an .npz holds at most 4 GiB; use --to npy", path)
                     : td_error_set(error, TD_IO, "%s: cannot write: %s", path, strerror(errno));
        (void)remove(path);
    }
    for (int i = 0; i < count; i++) {
        td__free(entries[i]);
    }
    td__free(entries);
    td__free(a.members);
    return status;
}
