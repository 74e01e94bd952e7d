#include "run/events.h"

#include "base/crc32c.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/proto.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEAD = 12, FOOT = 4, FIRST_ROOM = 1 << 20, MAX_FILES = 1 << 20 };
static const uint64_t max_record = (uint64_t)1 << 30;

typedef struct stream {
    const char *name;
    td__read_function *read;
    void *source;
    uint8_t *buffer;
    size_t start, end, capacity; /* what has been read and not used */
    int64_t offset;              /* of start, in the file */
    bool ended;
} stream;

static uint32_t masked_crc(const void *data, size_t size) {
    uint32_t crc = td__crc32c(0, data, size);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static void skip_bytes(stream *s, size_t size) {
    s->start += size;
    s->offset += (int64_t)size;
}

/* Reads until size bytes are there; *there is false when the file ends before. Memory grows with what
 * was read, not with what a length claims. */
static td_status fill_buffer(stream *s, size_t size, bool *there, td_error *error) {
    while (s->end - s->start < size && !s->ended) {
        if (s->start > 0) {
            memmove(s->buffer, s->buffer + s->start, s->end - s->start);
            s->end -= s->start;
            s->start = 0;
        }
        if (s->end == s->capacity &&
            !td__grow(&s->buffer, &s->capacity, s->capacity ? 2 * s->capacity : FIRST_ROOM,
                      2 * (size_t)max_record, 1)) {
            return td_error_set(error, TD_MEMORY, "%s: out of memory for a record", s->name);
        }
        ssize_t got = s->read(s->source, s->buffer + s->end, s->capacity - s->end);
        if (got < 0 && errno != EINTR) {
            return td_error_set(error, TD_IO, "%s: cannot be read: %s", s->name, strerror(errno));
        }
        s->end += got > 0 ? (size_t)got : 0;
        s->ended = got == 0;
    }
    *there = s->end - s->start >= size;
    return TD_OK;
}

static bool is_head(const uint8_t *bytes) {
    return td__load32(bytes + 8) == masked_crc(bytes, 8) && td__load64(bytes) <= max_record;
}

/* Goes on at the next head, or the end. */
static td_status find_head(stream *s, td__problems *problems, td_error *error) {
    int64_t from = s->offset;
    bool there = true;
    td_status status = TD_OK;
    do {
        skip_bytes(s, 1);
        status = fill_buffer(s, HEAD, &there, error);
    } while (!status && there && !is_head(s->buffer + s->start));
    if (!status && !there) {
        skip_bytes(s, s->end - s->start);
    }
    if (!status) {
        td__run_problem(problems, "%s: bytes %lld to %lld are damaged%s", s->name, (long long)from,
                        (long long)s->offset - 1, there ? "; reading goes on after them" : "");
    }
    return status;
}

/* The record whose head is at the stream's start. */
static td_status read_record(td__decoder *decoder, stream *s, td_error *error) {
    uint64_t size = td__load64(s->buffer + s->start);
    size_t whole = HEAD + (size_t)size + FOOT;
    bool there = false;
    td_status status = fill_buffer(s, whole, &there, error);
    if (status) {
        return status;
    }
    if (!there) {
        td__run_problem(decoder->problems,
                        "%s: the record at byte %lld is not all there: %zu of %zu bytes", s->name,
                        (long long)s->offset, s->end - s->start, whole);
        skip_bytes(s, s->end - s->start);
        return TD_OK;
    }
    const uint8_t *data = s->buffer + s->start + HEAD;
    td_error reason; /* large, and not needed for most records */
    reason.status = TD_OK;
    reason.text[0] = 0;
    if (td__load32(data + size) != masked_crc(data, (size_t)size)) {
        td__run_problem(decoder->problems,
                        "%s: the record at byte %lld does not match its checksum and is left out",
                        s->name, (long long)s->offset);
    } else {
        status = td__decode_event(decoder, data, (size_t)size, &reason);
    }
    if (status == TD_FORMAT) {
        td__run_problem(decoder->problems, "%s: in the record at byte %lld %s", s->name,
                        (long long)s->offset, reason.text);
        status = TD_OK;
    } else if (status && error) {
        *error = reason;
    }
    skip_bytes(s, whole);
    return status;
}

td_status td__events_read(td__decoder *decoder, const char *name, td__read_function *read,
                          void *source, td_error *error) {
    stream s = {.name = name, .read = read, .source = source};
    td_status status = TD_OK;
    bool there = true;
    while (!status) {
        status = fill_buffer(&s, HEAD, &there, error);
        if (status || !there) {
            break;
        }
        status = is_head(s.buffer + s.start) ? read_record(decoder, &s, error)
                                             : find_head(&s, decoder->problems, error);
    }
    if (!status && s.end > s.start) {
        td__run_problem(decoder->problems,
                        "%s: the record at byte %lld is not all there: %zu of at least %d bytes",
                        name, (long long)s.offset, s.end - s.start, HEAD + FOOT);
    }
    td__free(s.buffer);
    return status;
}

static ssize_t read_descriptor(void *source, void *buffer, size_t size) {
    return read(*(const int *)source, buffer, size);
}

td_status td__events_read_file(td__decoder *decoder, const char *path, td_error *error) {
    int file = td__file_open(AT_FDCWD, path, O_RDONLY);
    if (file < 0) {
        return td_error_set(error, errno == ENOENT ? TD_NOT_FOUND : TD_IO, "%s: %s", path,
                            td__file_reason(errno));
    }
    const char *slash = strrchr(path, '/');
    (void)posix_fadvise(file, 0, 0, POSIX_FADV_SEQUENTIAL);
    td_status status =
        td__events_read(decoder, slash ? slash + 1 : path, read_descriptor, &file, error);
    close(file);
    return status;
}

bool td__events_is_name(const char *name) {
    return strstr(name, "tfevents") && !strstr(name, ".profile-empty");
}

td_status td__events_list(const char *folder, char ***paths, size_t *count, td_error *error) {
    DIR *opened = opendir(folder);
    if (!opened) {
        return td_error_set(error, errno == ENOENT ? TD_NOT_FOUND : TD_IO, "%s: %s", folder,
                            strerror(errno));
    }
    char **list = NULL;
    size_t used = 0, capacity = 0;
    td_status status = TD_OK;
    for (const struct dirent *entry; !status && (entry = readdir(opened));) {
        if (!td__events_is_name(entry->d_name)) {
            continue;
        }
        size_t size = strlen(folder) + strlen(entry->d_name) + 2;
        char *path = td__calloc(size, 1);
        if (!path || !td__grow(&list, &capacity, used + 1, MAX_FILES, sizeof *list)) {
            td__free(path);
            status = td_error_set(error, TD_MEMORY, "out of memory for a list of files");
            break;
        }
        (void)snprintf(path, size, "%s/%s", folder, entry->d_name);
        list[used++] = path;
    }
    closedir(opened);
    if (used) {
        qsort(list, used, sizeof *list, td__compare_texts);
    }
    for (size_t i = 0; status && i < used; i++) {
        td__free(list[i]);
    }
    if (status) {
        td__free(list);
        return status;
    }
    *paths = list;
    *count = used;
    return TD_OK;
}
