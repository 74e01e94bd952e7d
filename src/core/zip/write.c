/* Writing a zip archive of stored members; see zip.h. A member's header is written again once its
 * size and checksum are known. */
#include "zip/zip.h"

#include "base/file.h"
#include "base/memory.h"

#include <errno.h>
#include <string.h>
#include <zlib.h>

enum { LOCAL_SIZE = 30, CENTRAL_SIZE = 46, END_SIZE = 22, END64_SIZE = 56, LOCATOR_SIZE = 20 };
enum { LOCAL_EXTRA = 20, CENTRAL_EXTRA = 28, MAX_MEMBERS = 1 << 24 };
enum { VERSION = 20, VERSION64 = 45, UTF8 = 1 << 11, NEW_YEAR_1980 = 1 << 5 | 1 };

static unsigned char *put_little_endian(unsigned char *at, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) {
        *at++ = (unsigned char)(value >> (8 * i));
    }
    return at;
}

static void write_at(td__zip_writer *writer, const void *bytes, size_t size, uint64_t offset) {
    writer->good = writer->good && td__write_all(writer->file, bytes, size, (off_t)offset);
}

/* What the local header and the directory have in common: version to the lengths of name and extra
 * field. Of a large archive the sizes stand in the extra field. */
static unsigned char *put_facts(unsigned char *at, const td__zip_writer *writer,
                                const td__zip_entry *entry, uint64_t extra) {
    bool large = writer->large;
    at = put_little_endian(at, large ? VERSION64 : VERSION, 2);
    at = put_little_endian(at, UTF8, 2);
    at = put_little_endian(at, 0, 2); /* stored */
    at = put_little_endian(at, 0, 2); /* midnight */
    at = put_little_endian(at, NEW_YEAR_1980, 2);
    at = put_little_endian(at, entry->checksum, 4);
    at = put_little_endian(at, large ? UINT32_MAX : entry->packed, 4);
    at = put_little_endian(at, large ? UINT32_MAX : entry->size, 4);
    at = put_little_endian(at, entry->name_size, 2);
    return put_little_endian(at, large ? extra : 0, 2);
}

/* The zip64 extra field, without the offset that only the directory has. */
static unsigned char *put_extra(unsigned char *at, const td__zip_entry *entry, uint64_t size) {
    at = put_little_endian(at, 1, 2);
    at = put_little_endian(at, size - 4, 2);
    at = put_little_endian(at, entry->size, 8);
    return put_little_endian(at, entry->packed, 8);
}

static void write_local(td__zip_writer *writer, const td__zip_entry *entry) {
    unsigned char header[LOCAL_SIZE], extra[LOCAL_EXTRA];
    put_facts(put_little_endian(header, 0x04034b50, 4), writer, entry, LOCAL_EXTRA);
    write_at(writer, header, sizeof header, entry->offset);
    write_at(writer, entry->name, entry->name_size, entry->offset + LOCAL_SIZE);
    if (writer->large) {
        put_extra(extra, entry, LOCAL_EXTRA);
        write_at(writer, extra, sizeof extra, entry->offset + LOCAL_SIZE + entry->name_size);
    }
}

void td__zip_begin(td__zip_writer *writer, const char *name) {
    if (!td__grow(&writer->entries, &writer->capacity, writer->count + 1, MAX_MEMBERS,
                  sizeof *writer->entries)) {
        writer->good = false;
        errno = ENOMEM;
        return;
    }
    td__zip_entry *entry = &writer->entries[writer->count++];
    *entry = (td__zip_entry){.name = name, .name_size = strlen(name), .offset = writer->at};
    write_local(writer, entry);
    writer->at += LOCAL_SIZE + entry->name_size + (writer->large ? LOCAL_EXTRA : 0);
}

void td__zip_append(td__zip_writer *writer, const void *bytes, size_t size) {
    if (!writer->good) {
        return;
    }
    td__zip_entry *entry = &writer->entries[writer->count - 1];
    write_at(writer, bytes, size, writer->at);
    writer->at += size;
    entry->size += size;
    entry->packed = entry->size;
    const unsigned char *at = bytes;
    for (size_t part; size > 0; at += part, size -= part) {
        part = size < (size_t)1 << 30 ? size : (size_t)1 << 30; /* zlib counts in unsigned int */
        entry->checksum = (uint32_t)crc32(entry->checksum, at, (uInt)part);
    }
}

void td__zip_end(td__zip_writer *writer) {
    if (writer->good && !writer->large && writer->at >= UINT32_MAX) {
        writer->good = false;
        errno = EFBIG;
    }
    if (writer->good) {
        write_local(writer, &writer->entries[writer->count - 1]);
    }
}

static void write_central(td__zip_writer *writer, const td__zip_entry *entry) {
    unsigned char header[CENTRAL_SIZE], extra[CENTRAL_EXTRA],
        *at = put_little_endian(header, 0x02014b50, 4);
    at = put_facts(put_little_endian(at, writer->large ? VERSION64 : VERSION, 2), writer, entry,
                   CENTRAL_EXTRA);
    at = put_little_endian(at, 0, 2 + 2 + 2); /* no comment, one disk, binary */
    at = put_little_endian(at, 0, 4);         /* attributes */
    put_little_endian(at, writer->large ? UINT32_MAX : entry->offset, 4);
    write_at(writer, header, sizeof header, writer->at);
    write_at(writer, entry->name, entry->name_size, writer->at + CENTRAL_SIZE);
    writer->at += CENTRAL_SIZE + entry->name_size;
    if (writer->large) {
        put_little_endian(put_extra(extra, entry, CENTRAL_EXTRA), entry->offset, 8);
        write_at(writer, extra, sizeof extra, writer->at);
        writer->at += sizeof extra;
    }
}

/* The zip64 directory's own record, and where that is. */
static void write_end64(td__zip_writer *writer, uint64_t begin) {
    uint64_t end = writer->at;
    unsigned char record[END64_SIZE + LOCATOR_SIZE], *at = put_little_endian(record, 0x06064b50, 4);
    at = put_little_endian(at, END64_SIZE - 12, 8);
    at = put_little_endian(at, VERSION64, 2);
    at = put_little_endian(at, VERSION64, 2);
    at = put_little_endian(at, 0, 8); /* one disk */
    at = put_little_endian(at, writer->count, 8);
    at = put_little_endian(at, writer->count, 8);
    at = put_little_endian(at, end - begin, 8);
    at = put_little_endian(at, begin, 8);
    at = put_little_endian(at, 0x07064b50, 4);
    at = put_little_endian(at, 0, 4);
    at = put_little_endian(at, end, 8);
    put_little_endian(at, 1, 4);
    write_at(writer, record, sizeof record, end);
    writer->at += sizeof record;
}

void td__zip_finish(td__zip_writer *writer) {
    uint64_t begin = writer->at;
    if (writer->good && !writer->large && writer->count >= UINT16_MAX) {
        writer->good = false;
        errno = EFBIG;
    }
    for (size_t i = 0; i < writer->count && writer->good; i++) {
        write_central(writer, &writer->entries[i]);
    }
    uint64_t size = writer->at - begin;
    if (writer->large) {
        write_end64(writer, begin);
    }
    unsigned char header[END_SIZE], *at = put_little_endian(header, 0x06054b50, 4);
    at = put_little_endian(at, 0, 4);
    at = put_little_endian(at, writer->large ? UINT16_MAX : writer->count, 2);
    at = put_little_endian(at, writer->large ? UINT16_MAX : writer->count, 2);
    at = put_little_endian(at, writer->large ? UINT32_MAX : size, 4);
    at = put_little_endian(at, writer->large ? UINT32_MAX : begin, 4);
    put_little_endian(at, 0, 2);
    write_at(writer, header, sizeof header, writer->at);
    writer->at += sizeof header;
    td__free(writer->entries);
    writer->entries = NULL;
}
