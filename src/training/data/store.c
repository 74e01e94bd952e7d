/* Rows in memory, or in two files of a cache folder. */
#include "data/store.h"
#include "base/file.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK = 1 << 20 }; /* floats written at a time */

void td__row_store_init(td__row_store *store, const char *folder) {
    *store = (td__row_store){.memory = TD__ROW_STORE_MEMORY, .folder = folder};
    store->inputs.file = store->labels.file = -1;
}

static td_status cannot_write(const td__row_store *store, td_error *error) {
    return td_error_set(error, TD_IO,
                        "cannot write to the cache folder %s: %s; TAPEDECK_CACHE names another one",
                        store->folder, strerror(errno));
}

static bool add_values(td__stream *stream, const float *values, size_t count) {
    if (!td__grow(&stream->values, &stream->capacity, stream->count + count,
                  SIZE_MAX / sizeof(float), sizeof(float))) {
        return false;
    }
    if (count > 0) {
        memcpy(stream->values + stream->count, values, count * sizeof(float));
    }
    stream->count += count;
    stream->total += (int64_t)count;
    return true;
}

/* Writes what is in memory at the end of the stream's file, which begins at start. */
static bool flush(td__stream *stream, int64_t start) {
    int64_t size = (int64_t)sizeof(float);
    int64_t offset = start + (stream->total - (int64_t)stream->count) * size;
    if (!td__write_all(stream->file, stream->values, stream->count * sizeof(float), offset)) {
        return false;
    }
    stream->count = 0;
    return true;
}

/* mkdir -p */
static bool make_folder(const char *folder) {
    char *path = td__strdup(folder);
    bool made = path != NULL;
    for (char *p = path; made && *p; p++) {
        if (*p == '/' && p > path) {
            *p = 0;
            made = mkdir(path, 0777) == 0 || errno == EEXIST;
            *p = '/';
        }
    }
    made = made && (mkdir(path, 0777) == 0 || errno == EEXIST);
    td__free(path);
    return made;
}

int td__row_store_file(const char *folder, char **path) {
    static const char pattern[] = "/parsing-XXXXXX";
    size_t length = strlen(folder);
    char *name = td__calloc(length + sizeof pattern, 1);
    if (!name) {
        errno = ENOMEM;
        return -1;
    }
    if (!make_folder(folder)) {
        td__free(name);
        return -1;
    }
    memcpy(name, folder, length);
    memcpy(name + length, pattern, sizeof pattern);
    int file = mkostemp(name, O_CLOEXEC);
    if (file < 0) {
        td__free(name);
    } else {
        *path = name;
    }
    return file;
}

td_status td__row_store_open(td__row_store *store, td_error *error) {
    if (!store->folder) {
        return td_error_set(error, TD_NOT_FOUND,
                            "no folder for the cache of a large CSV file: set TAPEDECK_CACHE");
    }
    char *labels = NULL;
    if ((store->inputs.file = td__row_store_file(store->folder, &store->path)) < 0 ||
        (store->labels.file = td__row_store_file(store->folder, &labels)) < 0) {
        return cannot_write(store, error);
    }
    unlink(labels); /* needed only while it is open */
    td__free(labels);
    return TD_OK;
}

td_status td__row_store_add(td__row_store *store, const float *inputs, size_t input_count,
                            const float *labels, size_t label_count, td_error *error) {
    if (!add_values(&store->inputs, inputs, input_count) ||
        !add_values(&store->labels, labels, label_count)) {
        return td_error_set(error, TD_MEMORY, "no memory for the parsed rows");
    }
    if (!store->path && store->inputs.count + store->labels.count > store->memory) {
        td_status status = td__row_store_open(store, error);
        if (status) {
            return status;
        }
    }
    if (store->path && (store->inputs.count >= CHUNK || store->labels.count >= CHUNK) &&
        (!flush(&store->inputs, TD__ROW_STORE_HEADER) || !flush(&store->labels, 0))) {
        return cannot_write(store, error);
    }
    return TD_OK;
}

td_status td__row_store_reserve(td__row_store *store, int64_t inputs, td_error *error) {
    td__stream *stream = &store->inputs;
    stream->total = inputs;
    if (!td__grow(&stream->values, &stream->capacity, CHUNK, CHUNK, sizeof(float))) {
        return td_error_set(error, TD_MEMORY, "no memory for the parsed rows");
    }
    int64_t size = TD__ROW_STORE_HEADER + inputs * (int64_t)sizeof(float);
    return ftruncate(stream->file, (off_t)size) ? cannot_write(store, error) : TD_OK;
}

td_status td__row_store_join(td__row_store *store, td_error *error) {
    if (!flush(&store->inputs, TD__ROW_STORE_HEADER) || !flush(&store->labels, 0)) {
        return cannot_write(store, error);
    }
    int64_t size = (int64_t)sizeof(float);
    int64_t left = store->labels.total * size, from = 0;
    int64_t to = TD__ROW_STORE_HEADER + store->inputs.total * size;
    while (left > 0) {
        size_t room = store->inputs.capacity * sizeof(float);
        ssize_t got = pread(store->labels.file, store->inputs.values,
                            (size_t)left < room ? (size_t)left : room, from);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0 || !td__write_all(store->inputs.file, store->inputs.values, (size_t)got, to)) {
            return cannot_write(store, error);
        }
        from += got;
        to += got;
        left -= got;
    }
    return TD_OK;
}

void td__row_store_release(td__row_store *store) {
    if (store->path) {
        unlink(store->path);
        td__free(store->path);
    }
    for (int i = 0; i < 2; i++) {
        td__stream *stream = i ? &store->labels : &store->inputs;
        if (stream->file >= 0) {
            close(stream->file);
        }
        td__free(stream->values);
    }
    td__row_store_init(store, NULL);
}
