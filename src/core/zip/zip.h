/* Zip archives: members used where they stand, and an archive of stored members written.
 *
 * The reader believes nothing: every offset and length is checked, members may not overlap, names
 * may not be doubled, and a packed member may unpack to just the size it claims and no more than the
 * caller allows. Nothing is ever extracted to a file.
 */
#ifndef TAPEDECK_ZIP_ZIP_H
#define TAPEDECK_ZIP_ZIP_H

#include "tapedeck/base.h"

typedef struct td__zip_entry {
    const char *name; /* not ended by 0 */
    size_t name_size;
    unsigned method;   /* 0 stored, 8 deflated */
    bool secret;       /* encrypted */
    uint32_t checksum; /* crc-32 of its content */
    uint64_t offset;   /* of its local header */
    uint64_t begin;    /* of its content, packed */
    uint64_t packed, size;
} td__zip_entry;

typedef struct td__zip {
    const unsigned char *bytes;
    size_t size;
    const char *origin; /* for messages, borrowed */
    td__zip_entry *entries;
    size_t count;
} td__zip;

/* Returns true when a file that begins with these bytes is a zip archive, an empty one included. */
bool td__is_zip(const void *head, size_t size);
/* Over memory that stays valid. TD_FORMAT, TD_MEMORY. */
TD_NODISCARD td_status td__zip_open(td__zip *zip, const void *bytes, size_t size,
                                    const char *origin, td_error *error);
void td__zip_release(td__zip *zip);
/* NULL when there is none. */
const td__zip_entry *td__zip_find(const td__zip *zip, const char *name);

typedef struct td__zip_member {
    const unsigned char *data;
    size_t size;
    void *owned; /* NULL: where it stands in the archive */
} td__zip_member;

/* A member's content. Unpacked content is compared with its checksum; a stored one only when `check`
 * is set, because it costs as much as reading it. TD_NOT_FOUND, TD_FORMAT, TD_UNSUPPORTED,
 * TD_RANGE when it would unpack to more than max bytes, TD_MEMORY. */
TD_NODISCARD td_status td__zip_read(const td__zip *zip, const char *name, size_t max, bool check,
                                    td__zip_member *member, td_error *error);
void td__zip_member_release(td__zip_member *member);

/* --- writing ------------------------------------------------------------------------------ */

/* An archive being written to an open file, member after member. The first failure sticks: good
 * turns false and errno has the reason. Times are 1980-01-01, so that the same content is the same file.
 */
typedef struct td__zip_writer {
    int file;
    bool good;
    bool large;  /* members or the archive may reach 4 GiB: zip64, which all readers know */
    uint64_t at; /* where the next byte goes */
    td__zip_entry *entries;
    size_t count, capacity;
} td__zip_writer;

/* name is borrowed until the end. */
void td__zip_begin(td__zip_writer *writer, const char *name);
void td__zip_append(td__zip_writer *writer, const void *bytes, size_t size);
/* Completes the member's header; EFBIG when the archive has reached 4 GiB and is not large. */
void td__zip_end(td__zip_writer *writer);
/* Writes the directory, and releases what the writer holds; also after a failure. */
void td__zip_finish(td__zip_writer *writer);

#endif
