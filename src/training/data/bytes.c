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

#include "zip/zip.h"

struct td__input {
    char *path;
    gzFile file;           /* NULL over memory */
    int descriptor;        /* file's */
    const uint8_t *memory; /* what is left of it */
    size_t left;
    size_t size;            /* all of memory */
    char *archive;          /* of a member of one: its path; descriptor is open on it */
    td__zip_member content; /* … unpacked, which memory points into */
    td__bytes packed;       /* the archive */
    int64_t total;          /* read so far */
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
    *opened = (td__input){.path = copy, .memory = data, .left = size, .size = size};
    *input = opened;
    return TD_OK;
}

size_t td__archive_length(const char *path) {
    const char *found = strstr(path, ".zip/");
    struct stat about;
    if (!found || stat(path, &about) == 0) {
        return 0;
    }
    return (size_t)(found - path) + strlen(".zip");
}

/* A folder, or what macOS puts beside a file. */
static bool is_beside(const td__zip_entry *entry) {
    return !entry->name_size || entry->name[entry->name_size - 1] == '/' ||
           (entry->name_size > 9 && memcmp(entry->name, "__MACOSX/", 9) == 0);
}

/* The member's name, or why there is not just one; NULL and no error for an archive of arrays. */
static td_status choose_member(const td__zip *zip, const char *wanted, char **name,
                               td_error *error) {
    char list[400] = "";
    size_t count = 0, used = 0;
    const td__zip_entry *only = NULL;
    for (size_t i = 0; i < zip->count; i++) {
        const td__zip_entry *entry = &zip->entries[i];
        if (entry->name_size > 4 && !memcmp(entry->name + entry->name_size - 4, ".npy", 4)) {
            return TD_OK;
        }
        if (is_beside(entry)) {
            continue;
        }
        only = entry;
        int wrote = snprintf(list + used, sizeof list - used, "%s%.*s", count++ ? ", " : "",
                             (int)(entry->name_size < 60 ? entry->name_size : 60), entry->name);
        used = used + (size_t)wrote < sizeof list ? used + (size_t)wrote : sizeof list - 1;
    }
    if (!count && !wanted) {
        return TD_OK; /* of arrays, without any */
    }
    char shown[4 * sizeof list];
    for (char *c = list; *c; c++) { /* names are other people's */
        *c = (unsigned char)*c < ' ' ? '?' : *c;
    }
    (void)snprintf(shown, sizeof shown, "%s", list);
    if (wanted ? !td__zip_find(zip, wanted) : count != 1) {
        return td_error_set(error, wanted ? TD_NOT_FOUND : TD_FORMAT, "%s: %s%.60s%s; it has: %s%s",
                            zip->origin, wanted ? "no member '" : "a zip archive of several files",
                            wanted ? wanted : "", wanted ? "'" : "", shown,
                            count > 1 && !wanted ? ": name one, ARCHIVE.zip/MEMBER" : "");
    }
    *name = td__calloc(wanted ? strlen(wanted) + 1 : only->name_size + 1, 1);
    if (*name) {
        memcpy(*name, wanted ? wanted : only->name, wanted ? strlen(wanted) : only->name_size);
    }
    return *name ? TD_OK : td_error_set(error, TD_MEMORY, "%s: no memory", zip->origin);
}

/* Of an open archive the member, in memory. */
static td_status take_member(td__input *input, const char *wanted, bool *taken, td_error *error) {
    td__zip zip = {0};
    char *name = NULL;
    td_status status =
        td__zip_open(&zip, input->packed.data, input->packed.size, input->archive, error);
    status = status ? status : choose_member(&zip, wanted, &name, error);
    if (!status && name) {
        status = td__zip_read(&zip, name, TD__ZIP_MEMBER_MAXIMUM, true, &input->content, error);
        input->memory = input->content.data;
        input->left = input->size = input->content.size;
        *taken = true;
    }
    td__free(name);
    td__zip_release(&zip);
    return status;
}

/* Whether the open file is a zip archive that a member is taken of, and that done. */
static td_status try_archive(td__input *input, const char *wanted, bool *taken, td_error *error) {
    uint8_t head[4] = {0};
    *taken = false;
    bool zip = input->stat.st_size >= 4 && td__read_all(input->descriptor, head, 4, 0) &&
               td__is_zip(head, 4);
    if (!zip) {
        return wanted ? td_error_set(error, TD_FORMAT, "%s is no zip archive", input->archive)
                      : TD_OK;
    }
    if (!td__bytes_map_open(&input->packed, input->descriptor)) {
        return td_error_set(error, TD_IO, "%s: cannot be mapped: %s", input->archive,
                            td__file_reason(errno));
    }
    td_status status = take_member(input, wanted, taken, error);
    if (!*taken) {
        td__bytes_release(&input->packed);
    }
    return status;
}

td_status td__input_open(td__input **input, const char *path, td_error *error) {
    td__input *opened = NULL;
    size_t archive = td__archive_length(path);
    td_status status = td__input_memory(&opened, path, NULL, 0, error);
    if (status) {
        return status;
    }
    int descriptor = -1;
    bool taken = false;
    opened->archive = td__strdup(path);
    if (!opened->archive) {
        td__input_close(opened);
        return td_error_set(error, TD_MEMORY, "%s: no memory to read it", path);
    }
    opened->archive[archive ? archive : strlen(path)] = 0;
    status = open_regular(opened->archive, &descriptor, &opened->stat, error);
    opened->descriptor = descriptor;
    if (!status) {
        status = try_archive(opened, archive ? path + archive + 1 : NULL, &taken, error);
    }
    if (!taken) {
        td__free(opened->archive);
        opened->archive = NULL;
        if (status && descriptor >= 0) {
            close(descriptor);
        }
    }
    if (!status && !taken) {
        opened->file = gzdopen(descriptor, "rb");
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

static int next_byte(td__input *input) {
    if (input->file) {
        return gzgetc(input->file);
    }
    return input->left ? (input->left--, *input->memory++) : -1;
}

/* To the beginning of one file. */
static bool rewind_one(td__input *input) {
    input->memory = input->file ? NULL : input->memory - (input->size - input->left);
    input->left = input->size;
    return !input->file || gzrewind(input->file) == 0;
}

/* Reads the first line of both; whether they are equal, but for how they end. */
static bool have_same_line(td__input *a, td__input *b) {
    for (;;) {
        int first = next_byte(a), second = next_byte(b);
        first = first == '\r' ? next_byte(a) : first;
        second = second == '\r' ? next_byte(b) : second;
        if (first != second || first == '\n' || first < 0) {
            return first == second && first >= 0;
        }
    }
}

static void skip_line(td__input *file) {
    for (int c = next_byte(file); c >= 0 && c != '\n'; c = next_byte(file)) {
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
        bool same = have_same_line(input, added);
        if (!rewind_one(input) || !same) {
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
        status = rewind_one(file) ? TD_OK
                                  : td_error_set(error, TD_IO, "%s: cannot be read again: %s",
                                                 file->path, td__file_reason(errno));
        if (!status && file->skips) {
            skip_line(file);
        }
        file->total = 0;
    }
    if (status) {
        return status;
    }
    input->at = NULL;
    input->total = 0;
    return rewind_one(input) ? TD_OK
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
    return input->file || input->archive ? fcntl(input->descriptor, F_DUPFD_CLOEXEC, 0) : -1;
}

const struct stat *td__input_stat(const td__input *input) {
    return input->next ? &input->all : &input->stat;
}

td_status td__input_unchanged(const td__input *input, td_error *error) {
    struct stat now;
    const struct stat *then = &input->stat;
    if (!input->file && !input->archive) {
        return TD_OK;
    }
    td_status others = input->next ? td__input_unchanged(input->next, error) : TD_OK;
    if (others) {
        return others;
    }
    if (stat(input->archive ? input->archive : input->path, &now) != 0 ||
        now.st_size != then->st_size || now.st_mtim.tv_sec != then->st_mtim.tv_sec ||
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
    if (input->archive && input->descriptor >= 0) {
        close(input->descriptor);
    }
    td__zip_member_release(&input->content);
    td__bytes_release(&input->packed);
    td__free(input->archive);
    td__free(input->path);
    td__free(input);
}
