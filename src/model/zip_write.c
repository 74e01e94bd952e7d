/* Writing a zip archive of stored members; see zip.h. A member's header is written again once its
 * size and checksum are known. */
#include "model/zip.h"

#include "base/file.h"

#include <errno.h>
#include <string.h>
#include <zlib.h>

enum { LOCAL_SIZE = 30, CENTRAL_SIZE = 46, END_SIZE = 22 };
enum { VERSION = 20, UTF8 = 1 << 11, NEW_YEAR_1980 = 1 << 5 | 1 };

static unsigned char *put(unsigned char *at, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) {
        *at++ = (unsigned char)(value >> (8 * i));
    }
    return at;
}

static void write_at(td__zip_writer *writer, const void *bytes, size_t size, uint64_t offset) {
    writer->good = writer->good && td__write_all(writer->file, bytes, size, (off_t)offset);
}

/* What the local header and the directory have in common: version to name's length. */
static unsigned char *put_facts(unsigned char *at, const td__zip_entry *entry) {
    at = put(at, VERSION, 2);
    at = put(at, UTF8, 2);
    at = put(at, 0, 2); /* stored */
    at = put(at, 0, 2); /* midnight */
    at = put(at, NEW_YEAR_1980, 2);
    at = put(at, entry->checksum, 4);
    at = put(at, entry->packed, 4);
    at = put(at, entry->size, 4);
    return put(at, entry->name_size, 2);
}

static void write_local(td__zip_writer *writer, const td__zip_entry *entry) {
    unsigned char header[LOCAL_SIZE];
    put(put_facts(put(header, 0x04034b50, 4), entry), 0, 2);
    write_at(writer, header, sizeof header, entry->offset);
    write_at(writer, entry->name, entry->name_size, entry->offset + LOCAL_SIZE);
}

void td__zip_begin(td__zip_writer *writer, const char *name) {
    td__zip_entry *entry = &writer->entries[writer->count++];
    *entry =
        (td__zip_entry){.name = name, .name_size = strlen(name), .offset = writer->at, .begin = 0};
    write_local(writer, entry);
    writer->at += LOCAL_SIZE + entry->name_size;
}

void td__zip_append(td__zip_writer *writer, const void *bytes, size_t size) {
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
    if (writer->good && writer->at >= UINT32_MAX) {
        writer->good = false;
        errno = EFBIG;
    }
    write_local(writer, &writer->entries[writer->count - 1]);
}

void td__zip_finish(td__zip_writer *writer) {
    uint64_t begin = writer->at;
    for (size_t i = 0; i < writer->count; i++) {
        const td__zip_entry *entry = &writer->entries[i];
        unsigned char header[CENTRAL_SIZE], *at = put(header, 0x02014b50, 4);
        at = put_facts(put(at, VERSION, 2), entry);
        at = put(at, 0, 2 + 2 + 2 + 2); /* no extra field, no comment, one disk, binary */
        at = put(at, 0, 4);             /* attributes */
        put(at, entry->offset, 4);
        write_at(writer, header, sizeof header, writer->at);
        write_at(writer, entry->name, entry->name_size, writer->at + CENTRAL_SIZE);
        writer->at += CENTRAL_SIZE + entry->name_size;
    }
    unsigned char header[END_SIZE], *at = put(header, 0x06054b50, 4);
    at = put(at, 0, 4);
    at = put(at, writer->count, 2);
    at = put(at, writer->count, 2);
    at = put(at, writer->at - begin, 4);
    at = put(at, begin, 4);
    put(at, 0, 2);
    write_at(writer, header, sizeof header, writer->at);
    writer->at += sizeof header;
}
