/* Loading and streaming files. */
#include "data/bytes.h"
#include "base/file.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

struct td__input {
    char *path;
    gzFile file;           /* NULL over memory */
    int descriptor;        /* file's */
    const uint8_t *memory; /* what is left of it */
    size_t left;
    int64_t total; /* read so far */
    struct stat stat;
    td__input *next; /* of several files */
    td__input *at;   /* of the first one: which is being read; NULL: the first */
    bool skips, ends_line;
    struct stat all; /* of the first one: all files as one */
    char *title;
};

/* Anything but a regular file could block, or end anywhere. */
static td_status open_regular(const char *path, int *descriptor, struct stat *status,
                              td_error *error) {
    int opened = td__file_open(AT_FDCWD, path, O_RDONLY);
    if (opened < 0 || fstat(opened, status) != 0) {
        td_status reason = td__cannot_open(error, path);
        if (opened >= 0) {
            close(opened);
        }
        return reason;
    }
    *descriptor = opened;
    return TD_OK;
}

/* Reads what is left of it into memory; TD_RANGE when that is more than maximum bytes. */
static td_status load_stream(td__input *input, td__bytes *bytes, int64_t maximum, td_error *error) {
    uint8_t *data = NULL;
    size_t size = 0, capacity = 0;
    size_t max =
        (size_t)maximum + 1; /* distinguishes a file of just the maximum from a larger one */
    td_status status = TD_OK;
    while (!status) {
        size_t wanted = size + (1 << 20) < max ? size + (1 << 20) : max, got = 0;
        if (!td__grow(&data, &capacity, wanted, max, 1)) {
            status = td_error_set(error, TD_MEMORY, "%s: no memory for its content", input->path);
            break;
        }
        status = td__input_read(input, data + size, capacity - size, &got, error);
        size += got;
        if (!status && size == max) {
            status =
                td_error_set(error, TD_RANGE,
                             "%s has more than %lld bytes unpacked; unpack it to a file, which "
                             "is mapped, or raise `memory`",
                             input->path, (long long)maximum);
        }
        if (size < capacity) {
            break;
        }
    }
    if (status) {
        td__free(data);
        return status;
    }
    *bytes = (td__bytes){.data = data, .size = size};
    return TD_OK;
}

td_status td__input_map(const td__input *input, td__bytes *bytes, td_error *error) {
    return td__bytes_map_open(bytes, input->descriptor)
               ? TD_OK
               : td_error_set(error, TD_IO, "%s: cannot be mapped: %s", input->path,
                              td__file_reason(errno));
}

td_status td__input_bytes(td__input *input, td__bytes *bytes, int64_t maximum, td_error *error) {
    td_status status = td__input_map(input, bytes, error);
    if (!status && bytes->size >= 2 && bytes->data[0] == 0x1F && bytes->data[1] == 0x8B) {
        td__bytes_release(bytes);
        status = td__input_rewind(input, error);
        status = status ? status : load_stream(input, bytes, maximum, error);
    }
    return status;
}

td_status td__bytes_get(td__bytes *bytes, const char *path, int64_t maximum, td_error *error) {
    td__input *input = NULL;
    td_status status = td__input_open(&input, path, error);
    status = status ? status : td__input_bytes(input, bytes, maximum, error);
    td__input_close(input);
    return status;
}

td_status td__input_memory(td__input **input, const char *path, const void *data, size_t size,
                           td_error *error) {
    td__input *opened = td__calloc(1, sizeof *opened);
    char *copy = td__strdup(path);
    if (!opened || !copy) {
        td__free(opened);
        td__free(copy);
        td_error_set(error, TD_MEMORY, "%s: no memory to read it", path);
        return TD_MEMORY;
    }
    *opened = (td__input){.path = copy, .memory = data, .left = size};
    *input = opened;
    return TD_OK;
}

td_status td__input_open(td__input **input, const char *path, td_error *error) {
    td__input *opened = NULL;
    td_status status = td__input_memory(&opened, path, NULL, 0, error);
    if (status) {
        return status;
    }
    int descriptor = -1;
    status = open_regular(path, &descriptor, &opened->stat, error);
    if (!status) {
        opened->file = gzdopen(descriptor, "rb");
        opened->descriptor = descriptor;
        if (!opened->file) {
            close(descriptor);
            status = td_error_set(error, TD_MEMORY, "%s: no memory to read it", path);
        } else {
            gzbuffer(opened->file, 1 << 17);
        }
    }
    if (status) {
        td__input_close(opened);
        return status;
    }
    *input = opened;
    return TD_OK;
}

/* Reads the first line of both; whether they are equal, but for how they end. */
static bool have_same_line(gzFile a, gzFile b) {
    for (;;) {
        int first = gzgetc(a), second = gzgetc(b);
        first = first == '\r' ? gzgetc(a) : first;
        second = second == '\r' ? gzgetc(b) : second;
        if (first != second || first == '\n' || first < 0) {
            return first == second && first >= 0;
        }
    }
}

static void skip_line(gzFile file) {
    for (int c = gzgetc(file); c >= 0 && c != '\n'; c = gzgetc(file)) {
    }
}

/* All files as one: any that changes makes it another. */
static void add_stat(struct stat *all, const struct stat *one) {
    all->st_size += one->st_size;
    all->st_mtim.tv_sec = all->st_mtim.tv_sec * 31 + one->st_mtim.tv_sec;
    all->st_mtim.tv_nsec = (all->st_mtim.tv_nsec * 31 + one->st_mtim.tv_nsec) & 0x3fffffff;
}

td_status td__input_append(td__input *input, const char *path, bool headers, td_error *error) {
    td__input *added = NULL, *last = input;
    td_status status = td__input_open(&added, path, error);
    if (status) {
        return status;
    }
    if (headers) {
        bool same = have_same_line(input->file, added->file);
        if (gzrewind(input->file) != 0 || !same) {
            td__input_close(added);
            return td_error_set(error, TD_FORMAT,
                                "%s does not begin with the line that %s begins with; files of one "
                                "data set have the same header (`header: false` where they have "
                                "none)",
                                path, input->path);
        }
    }
    size_t files = 1, room = strlen(input->path) + 40;
    char *title = td__calloc(room, 1);
    if (!title) {
        td__input_close(added);
        return td_error_set(error, TD_MEMORY, "%s: no memory to read it", path);
    }
    if (!input->next) {
        input->all = input->stat;
    }
    for (; last->next; last = last->next) {
        files++;
    }
    last->next = added;
    added->skips = headers;
    add_stat(&input->all, &added->stat);
    (void)snprintf(title, room, "%s and %zu more file%s", input->path, files,
                   files == 1 ? "" : "s");
    td__free(input->title);
    input->title = title;
    return TD_OK;
}

const char *td__input_title(const td__input *input) {
    return input->title ? input->title : input->path;
}

static td_status read_file(td__input *input, void *buffer, size_t size, size_t *got,
                           td_error *error) {
    unsigned max = size > (1u << 30) ? 1u << 30 : (unsigned)size;
    int count = gzread(input->file, buffer, max);
    int code = Z_OK;
    const char *text = gzerror(input->file, &code);
    if (count < 0 || (count == 0 && code != Z_OK && code != Z_STREAM_END)) {
        if (code == Z_ERRNO) {
            return td_error_set(error, TD_IO, "%s: %s", input->path, strerror(errno));
        }
        return td_error_set(error, TD_FORMAT, "%s: damaged gzip file (%s)", input->path,
                            code == Z_BUF_ERROR ? "it ends too early" : text);
    }
    input->total += count;
    if (!gzdirect(input->file) && input->total > TD__UNPACKED_MAXIMUM) {
        return td_error_set(error, TD_RANGE,
                            "%s: unpacks to more than %lld GiB; unpack it yourself", input->path,
                            (long long)(TD__UNPACKED_MAXIMUM >> 30));
    }
    *got = (size_t)count;
    return TD_OK;
}

static td_status read_one(td__input *input, void *buffer, size_t size, size_t *got,
                          td_error *error) {
    size_t total = 0;
    if (!input->file) {
        total = size < input->left ? size : input->left;
        if (total > 0) {
            memcpy(buffer, input->memory, total);
            input->memory += total;
            input->left -= total;
        }
    }
    while (input->file && total < size) {
        size_t count = 0;
        td_status status = read_file(input, (char *)buffer + total, size - total, &count, error);
        if (status) {
            return status;
        }
        if (count == 0) {
            break;
        }
        total += count;
    }
    *got = total;
    return TD_OK;
}

/* As read_one of each file, one after the other. */
td_status td__input_read(td__input *input, void *buffer, size_t size, size_t *got,
                         td_error *error) {
    char *bytes = buffer;
    size_t total = 0, part = 0;
    td_status status = TD_OK;
    input->at = input->at ? input->at : input;
    for (;;) {
        status = read_one(input->at, bytes + total, size - total, &part, error);
        total += status ? 0 : part;
        input->ends_line = total ? bytes[total - 1] == '\n' : input->ends_line;
        if (status || total == size || !input->at->next) {
            break;
        }
        if (!input->ends_line) { /* there is room: total < size */
            bytes[total++] = '\n';
            input->ends_line = true;
        }
        input->at = input->at->next;
    }
    *got = status ? 0 : total;
    return status;
}

td_status td__input_rewind(td__input *input, td_error *error) {
    td_status status = TD_OK;
    for (td__input *file = input->next; file && !status; file = file->next) {
        status = gzrewind(file->file) == 0
                     ? TD_OK
                     : td_error_set(error, TD_IO, "%s: cannot be read again: %s", file->path,
                                    td__file_reason(errno));
        if (!status && file->skips) {
            skip_line(file->file);
        }
        file->total = 0;
    }
    if (status) {
        return status;
    }
    input->at = NULL;
    input->total = 0;
    return gzrewind(input->file) == 0 ? TD_OK
                                      : td_error_set(error, TD_IO, "%s: cannot be read again: %s",
                                                     input->path, td__file_reason(errno));
}

const char *td__input_path(const td__input *input) {
    return input->path;
}

bool td__input_is_plain(const td__input *input) {
    return input->file && !input->next && gzdirect(input->file);
}

td_status td__input_read_at(const td__input *input, void *buffer, size_t size, int64_t offset,
                            td_error *error) {
    if (td__read_all(input->descriptor, buffer, size, (off_t)offset)) {
        return TD_OK;
    }
    int reason = errno;
    td_status changed = td__input_unchanged(input, error);
    return changed ? changed : td_error_set(error, TD_IO, "%s: %s", input->path, strerror(reason));
}

td_status td__input_seek(td__input *input, int64_t offset, td_error *error) {
    return gzseek(input->file, (z_off_t)offset, SEEK_SET) == (z_off_t)offset
               ? TD_OK
               : td_error_set(error, TD_IO, "%s: cannot be read from byte %lld on: %s", input->path,
                              (long long)offset, td__file_reason(errno));
}

int td__input_descriptor(const td__input *input) {
    return input->file ? fcntl(input->descriptor, F_DUPFD_CLOEXEC, 0) : -1;
}

const struct stat *td__input_stat(const td__input *input) {
    return input->next ? &input->all : &input->stat;
}

td_status td__input_unchanged(const td__input *input, td_error *error) {
    struct stat now;
    const struct stat *then = &input->stat;
    if (!input->file) {
        return TD_OK;
    }
    td_status others = input->next ? td__input_unchanged(input->next, error) : TD_OK;
    if (others) {
        return others;
    }
    if (stat(input->path, &now) != 0 || now.st_size != then->st_size ||
        now.st_mtim.tv_sec != then->st_mtim.tv_sec ||
        now.st_mtim.tv_nsec != then->st_mtim.tv_nsec || now.st_ino != then->st_ino) {
        return td_error_set(error, TD_STATE, "%s was changed while it was read; try again",
                            input->path);
    }
    return TD_OK;
}

void td__input_close(td__input *input) {
    if (!input) {
        return;
    }
    td__input_close(input->next);
    td__free(input->title);
    if (input->file) {
        gzclose_r(input->file);
    }
    td__free(input->path);
    td__free(input);
}
