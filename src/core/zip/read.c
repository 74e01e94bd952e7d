/* Reading zip archives; see zip.h. Layout: PKWARE's APPNOTE 6.3, sections 4.3 and 4.5.3 (zip64). */
#include "zip/zip.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum {
    LOCAL_SIZE = 30,
    CENTRAL_SIZE = 46,
    END_SIZE = 22,
    LOCATOR_SIZE = 20,
    END64_SIZE = 56,
    MAX_COMMENT = 65535
};
#define LOCAL_MARK 0x04034b50u
#define CENTRAL_MARK 0x02014b50u
#define END_MARK 0x06054b50u
#define LOCATOR_MARK 0x07064b50u
#define END64_MARK 0x06064b50u
#define IN_ZIP64 0xffffffffu

static uint64_t read_little_endian(const unsigned char *at, int bytes) {
    uint64_t value = 0;
    for (int i = bytes; i-- > 0;) {
        value = value << 8 | at[i];
    }
    return value;
}

bool td__is_zip(const void *head, size_t size) {
    uint64_t mark = size >= 4 ? read_little_endian(head, 4) : 0;
    return mark == LOCAL_MARK || mark == END_MARK;
}

static td_status zip_malformed(const td__zip *zip, const char *what, td_error *error) {
    return td_error_set(error, TD_FORMAT, "%s: a damaged zip archive: %s", zip->origin, what);
}

/* Whether [begin, begin + size) lies within the first `end` bytes. */
static bool lies_within(uint64_t begin, uint64_t size, uint64_t end) {
    return begin <= end && size <= end - begin;
}

/* --- the directory ------------------------------------------------------------------------ */

typedef struct directory {
    uint64_t begin, size, count;
} directory;

/* The record that ends the archive, behind which there is nothing but its comment. */
static const unsigned char *find_end(const td__zip *zip) {
    for (size_t comment = 0; comment <= MAX_COMMENT && comment + END_SIZE <= zip->size; comment++) {
        const unsigned char *at = zip->bytes + zip->size - END_SIZE - comment;
        if (read_little_endian(at, 4) == END_MARK && read_little_endian(at + 20, 2) == comment) {
            return at;
        }
    }
    return NULL;
}

static td_status find_directory(const td__zip *zip, directory *found, td_error *error) {
    const unsigned char *end = find_end(zip);
    if (!end) {
        return zip_malformed(zip, "it has no directory; it may have been cut short", error);
    }
    *found = (directory){.count = read_little_endian(end + 10, 2),
                         .size = read_little_endian(end + 12, 4),
                         .begin = read_little_endian(end + 16, 4)};
    uint64_t limit = (uint64_t)(end - zip->bytes);
    if (found->begin == IN_ZIP64 || found->size == IN_ZIP64 || found->count == 0xffff) {
        if (limit < LOCATOR_SIZE || read_little_endian(end - LOCATOR_SIZE, 4) != LOCATOR_MARK) {
            return zip_malformed(zip, "it has no zip64 directory", error);
        }
        uint64_t at = read_little_endian(end - LOCATOR_SIZE + 8, 8);
        limit -= LOCATOR_SIZE;
        if (!lies_within(at, END64_SIZE, limit) ||
            read_little_endian(zip->bytes + at, 4) != END64_MARK) {
            return zip_malformed(zip, "it has no zip64 directory", error);
        }
        *found = (directory){.count = read_little_endian(zip->bytes + at + 32, 8),
                             .size = read_little_endian(zip->bytes + at + 40, 8),
                             .begin = read_little_endian(zip->bytes + at + 48, 8)};
        limit = at;
    }
    if (!lies_within(found->begin, found->size, limit) ||
        found->count > found->size / CENTRAL_SIZE) {
        return zip_malformed(zip, "its directory lies outside of it", error);
    }
    return TD_OK;
}

/* Sizes of 4 GiB and more stand in an extra field, those that are needed and only those. */
static bool read_zip64(td__zip_entry *entry, const unsigned char *extra, size_t size) {
    uint64_t *const fields[] = {&entry->size, &entry->packed, &entry->offset};
    size_t at = 0, length = 0;
    for (; at + 4 <= size; at += 4 + length) {
        length = (size_t)read_little_endian(extra + at + 2, 2);
        if (length > size - at - 4) {
            return false;
        }
        if (read_little_endian(extra + at, 2) == 1) {
            break;
        }
    }
    bool found = at + 4 <= size;
    size_t used = 0;
    for (size_t i = 0; i < 3; i++) {
        if (*fields[i] != IN_ZIP64) {
            continue;
        }
        if (!found || used + 8 > length) {
            return false;
        }
        *fields[i] = read_little_endian(extra + at + 4 + used, 8);
        used += 8;
    }
    return true;
}

/* One entry of the directory and the local header it points to. */
static td_status read_entry(const td__zip *zip, const unsigned char *at, uint64_t room,
                            uint64_t limit, td__zip_entry *entry, uint64_t *used, td_error *error) {
    if (room < CENTRAL_SIZE || read_little_endian(at, 4) != CENTRAL_MARK) {
        return zip_malformed(zip, "its directory has a hole", error);
    }
    size_t name = (size_t)read_little_endian(at + 28, 2),
           extra = (size_t)read_little_endian(at + 30, 2);
    *used = CENTRAL_SIZE + name + extra + read_little_endian(at + 32, 2);
    if (*used > room) {
        return zip_malformed(zip, "its directory is cut short", error);
    }
    *entry = (td__zip_entry){.name = (const char *)at + CENTRAL_SIZE,
                             .name_size = name,
                             .secret = read_little_endian(at + 8, 2) & 1,
                             .method = (unsigned)read_little_endian(at + 10, 2),
                             .checksum = (uint32_t)read_little_endian(at + 16, 4),
                             .packed = read_little_endian(at + 20, 4),
                             .size = read_little_endian(at + 24, 4),
                             .offset = read_little_endian(at + 42, 4)};
    if (!read_zip64(entry, at + CENTRAL_SIZE + name, extra)) {
        return zip_malformed(zip, "a member has no size", error);
    }
    const unsigned char *local = zip->bytes + entry->offset;
    if (!lies_within(entry->offset, LOCAL_SIZE, limit) ||
        read_little_endian(local, 4) != LOCAL_MARK) {
        return zip_malformed(zip, "a member is not where the directory says", error);
    }
    entry->begin = entry->offset + LOCAL_SIZE + read_little_endian(local + 26, 2) +
                   read_little_endian(local + 28, 2);
    if (!lies_within(entry->begin, entry->packed, limit)) {
        return zip_malformed(zip, "a member lies outside of it", error);
    }
    if (read_little_endian(local + 26, 2) != name ||
        memcmp(local + LOCAL_SIZE, entry->name, name) != 0 ||
        read_little_endian(local + 8, 2) != entry->method) {
        return zip_malformed(zip, "a member's header and the directory disagree", error);
    }
    return TD_OK;
}

static int by_offset(const void *left, const void *right) {
    const td__zip_entry *a = left, *b = right;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

static int compare_entries(const void *left, const void *right) {
    const td__zip_entry *a = left, *b = right;
    size_t shorter = a->name_size < b->name_size ? a->name_size : b->name_size;
    int order = memcmp(a->name, b->name, shorter);
    return order ? order : (a->name_size > b->name_size) - (a->name_size < b->name_size);
}

/* Leaves the entries sorted by name. */
static td_status check_entries(td__zip *zip, td_error *error) {
    qsort(zip->entries, zip->count, sizeof *zip->entries, by_offset);
    for (size_t i = 1; i < zip->count; i++) {
        const td__zip_entry *before = &zip->entries[i - 1];
        if (before->begin + before->packed > zip->entries[i].offset) {
            return zip_malformed(zip, "members overlap", error);
        }
    }
    qsort(zip->entries, zip->count, sizeof *zip->entries, compare_entries);
    for (size_t i = 1; i < zip->count; i++) {
        if (compare_entries(&zip->entries[i - 1], &zip->entries[i]) == 0) {
            return zip_malformed(zip, "two members have one name", error);
        }
    }
    return TD_OK;
}

td_status td__zip_open(td__zip *zip, const void *bytes, size_t size, const char *origin,
                       td_error *error) {
    *zip = (td__zip){.bytes = bytes, .size = size, .origin = origin};
    directory found = {0};
    td_status status = find_directory(zip, &found, error);
    if (status) {
        return status;
    }
    zip->entries = td__calloc((size_t)found.count + 1, sizeof *zip->entries);
    if (!zip->entries) {
        return td_error_set(error, TD_MEMORY, "%s: out of memory", origin);
    }
    uint64_t at = 0;
    while (zip->count < found.count && !status) {
        uint64_t used = 0;
        status = read_entry(zip, zip->bytes + found.begin + at, found.size - at, found.begin,
                            &zip->entries[zip->count++], &used, error);
        at += used;
    }
    status = status ? status : check_entries(zip, error);
    if (status) {
        td__zip_release(zip);
    }
    return status;
}

void td__zip_release(td__zip *zip) {
    td__free(zip->entries);
    *zip = (td__zip){0};
}

const td__zip_entry *td__zip_find(const td__zip *zip, const char *name) {
    const td__zip_entry key = {.name = name, .name_size = strlen(name)};
    return bsearch(&key, zip->entries, zip->count, sizeof *zip->entries, compare_entries);
}

/* --- members ------------------------------------------------------------------------------ */

static uint32_t update_checksum(uint32_t so_far, const unsigned char *data, size_t size) {
    const size_t max = (size_t)1 << 30; /* zlib counts in unsigned int */
    for (; size > max; data += max, size -= max) {
        so_far = (uint32_t)crc32(so_far, data, (uInt)max);
    }
    return (uint32_t)crc32(so_far, data, (uInt)size);
}

/* Fills all of out and reads all of the packed bytes, or fails. */
static bool inflate_all(const unsigned char *from, size_t from_size, unsigned char *out,
                        size_t size) {
    const size_t max = (size_t)1 << 30;
    z_stream stream = {.next_in = (unsigned char *)from, .next_out = out};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) {
        return false;
    }
    int result = Z_OK;
    while (result == Z_OK) {
        size_t left = from_size - (size_t)(stream.next_in - from);
        size_t room = size - (size_t)(stream.next_out - out);
        stream.avail_in = (uInt)(left < max ? left : max);
        stream.avail_out = (uInt)(room < max ? room : max);
        result = inflate(&stream, Z_NO_FLUSH);
    }
    bool good = result == Z_STREAM_END && stream.next_in == from + from_size &&
                stream.next_out == out + size;
    inflateEnd(&stream);
    return good;
}

static td_status member_damaged(const td__zip *zip, const char *name, td_error *error) {
    return td_error_set(error, TD_FORMAT, "%s: its %s is damaged", zip->origin, name);
}

static td_status unpack_member(const td__zip *zip, const td__zip_entry *entry, const char *name,
                               td__zip_member *member, td_error *error) {
    unsigned char *out = td__calloc((size_t)entry->size + 1, 1);
    if (!out) {
        return td_error_set(error, TD_MEMORY, "%s: no memory for its %s", zip->origin, name);
    }
    if (!inflate_all(zip->bytes + entry->begin, (size_t)entry->packed, out, (size_t)entry->size) ||
        update_checksum(0, out, (size_t)entry->size) != entry->checksum) {
        td__free(out);
        return member_damaged(zip, name, error);
    }
    *member = (td__zip_member){out, (size_t)entry->size, out};
    return TD_OK;
}

td_status td__zip_read(const td__zip *zip, const char *name, size_t max, bool check,
                       td__zip_member *member, td_error *error) {
    const td__zip_entry *entry = td__zip_find(zip, name);
    if (!entry) {
        return td_error_set(error, TD_NOT_FOUND, "%s: it has no %s", zip->origin, name);
    }
    if (entry->secret || (entry->method != 0 && entry->method != 8)) {
        return td_error_set(error, TD_UNSUPPORTED, "%s: its %s is %s", zip->origin, name,
                            entry->secret ? "encrypted" : "packed in a way that is not supported");
    }
    if (entry->method == 8) {
        if (entry->size > max) {
            return td_error_set(error, TD_RANGE,
                                "%s: its %s unpacks to %llu bytes, more than a file of %zu "
                                "justifies",
                                zip->origin, name, (unsigned long long)entry->size, zip->size);
        }
        return unpack_member(zip, entry, name, member, error);
    }
    const unsigned char *data = zip->bytes + entry->begin;
    if (entry->size != entry->packed ||
        (check && update_checksum(0, data, (size_t)entry->size) != entry->checksum)) {
        return member_damaged(zip, name, error);
    }
    *member = (td__zip_member){data, (size_t)entry->size, NULL};
    return TD_OK;
}

void td__zip_member_release(td__zip_member *member) {
    td__free(member->owned);
    *member = (td__zip_member){0};
}
