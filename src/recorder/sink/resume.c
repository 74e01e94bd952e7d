/* A run that goes on; see resume.h. */
#include "sink/resume.h"

#include "base/bytes.h"
#include "base/folder.h"
#include "base/little.h"
#include "base/memory.h"
#include "base/tar.h"
#include "tensor/npy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- folders ---------------------------------------------------------------------------------- */

/* What is done with each file: set is the sink's, or NULL where nothing is reported. */
typedef td_status visit_function(const td__append_set *set, int folder, const char *name,
                                 int64_t step, td_error *error);

/* Calls visit for each file whose name has the ending and is not hidden. */
static td_status visit_files(const td__append_set *set, int folder, const char *ending,
                             visit_function *visit, int64_t step, td_error *error) {
    DIR *entries = td__folder_list(folder);
    if (!entries) {
        return td__file_error(error, "the run's folder", "read");
    }
    td_status status = TD_OK;
    for (struct dirent *entry; !status && (entry = readdir(entries));) {
        if (entry->d_name[0] != '.' && td__ends_in(entry->d_name, ending)) {
            status = visit(set, folder, entry->d_name, step, error);
        }
    }
    closedir(entries);
    return status;
}

/* --- CSV -------------------------------------------------------------------------------------- */

const char *td__csv_line_end(const char *text, const char *end) {
    bool quoted = false;
    for (; text < end; text++) {
        quoted ^= *text == '"';
        if (*text == '\n' && !quoted) {
            return text + 1;
        }
    }
    return end;
}

bool td__csv_has_steps(const char *text, size_t size) {
    static const char start[] = "epoch,step";
    return size >= sizeof start && memcmp(text, start, sizeof start - 1) == 0;
}

/* The number in the line's second cell. */
int64_t td__csv_step(const char *line, const char *end) {
    const char *comma = memchr(line, ',', (size_t)(end - line));
    int64_t step = 0;
    for (const char *at = comma ? comma + 1 : end; at < end && *at >= '0' && *at <= '9'; at++) {
        step = step < INT64_MAX / 10 ? step * 10 + (*at - '0') : INT64_MAX;
    }
    return step;
}

/* Copies the lines that stay to out (when not NULL). Returns their bytes; *first is where in text
 * the first line that goes begins (or size), *prefix whether none after it stays. */
static size_t filter_lines(const char *text, size_t size, int64_t step, char *out, size_t *first,
                           bool *prefix) {
    const char *end = text + size, *line = td__csv_line_end(text, end);
    size_t kept = (size_t)(line - text);
    *first = size;
    *prefix = true;
    if (out) {
        memcpy(out, text, kept);
    }
    for (const char *next; line < end; line = next) {
        next = td__csv_line_end(line, end);
        bool stays = next[-1] == '\n' && td__csv_step(line, next) <= step;
        if (!stays) {
            *first = *first == size ? (size_t)(line - text) : *first;
            continue;
        }
        *prefix &= *first == size;
        if (out) {
            memcpy(out + kept, line, (size_t)(next - line));
        }
        kept += (size_t)(next - line);
    }
    return kept;
}

static td_status filter_file(int folder, int file, const char *name, const char *text, size_t size,
                             int64_t step, td_error *error) {
    size_t first;
    bool prefix;
    size_t kept = filter_lines(text, size, step, NULL, &first, &prefix);
    if (prefix) {
        return first == size || ftruncate(file, (off_t)first) == 0
                   ? TD_OK
                   : td__file_error(error, name, "shorten");
    }
    char *lines = td__calloc(kept, 1);
    if (!lines) {
        return td_error_set(error, TD_MEMORY, "%s: out of memory", name);
    }
    filter_lines(text, size, step, lines, &first, &prefix);
    td_status status = td__file_publish(folder, name, lines, kept, true, error);
    td__free(lines);
    return status;
}

static td_status resume_csv_file(const td__append_set *set, int folder, const char *name,
                                 int64_t step, td_error *error) {
    (void)set;
    td__bytes bytes = {0};
    int file = td__file_open(folder, name, O_RDWR | O_NOFOLLOW);
    if (file < 0) {
        return td__file_error(error, name, "open");
    }
    td_status status =
        td__bytes_map_open(&bytes, file) ? TD_OK : td__file_error(error, name, "read");
    const char *text = (const char *)bytes.data;
    if (!status && td__csv_has_steps(text, bytes.size)) {
        status = filter_file(folder, file, name, text, bytes.size, step, error);
    }
    td__bytes_release(&bytes);
    close(file);
    return status;
}

td_status td__resume_csv(int folder, int64_t step, td_error *error) {
    return visit_files(NULL, folder, ".csv", resume_csv_file, step, error);
}

/* --- NPY -------------------------------------------------------------------------------------- */

/* An array that this program wrote: its header has the count in a field of 21 characters. */
typedef struct array {
    int file; /* -1: there is none */
    const char *name;
    int64_t count, bytes; /* records, and bytes of each */
    int64_t header_bytes, count_at;
} array;

static td_status bad_array(const char *name, td_error *error) {
    return td_error_set(error, TD_FORMAT, "%s: not an array that a run has written", name);
}

static td_status read_header(array *a, td_error *error) {
    char text[1025] = "";
    ssize_t got = pread(a->file, text, sizeof text - 1, 0);
    td__npy_array header;
    if (td__npy_parse_header(text, got > 0 ? (size_t)got : 0, a->name, &header, NULL) ||
        header.shape.rank == 0) {
        return bad_array(a->name, error);
    }
    const char *shape = strstr(text + TD__NPY_PREFIX, "'shape': (");
    char *at = NULL;
    a->header_bytes = (int64_t)header.start;
    a->bytes = strtol(header.type + 2, NULL, 10);
    a->count = header.shape.dims[0];
    bool sane = shape && a->bytes > 0;
    if (sane) {
        shape += strlen("'shape': (");
        a->count_at = shape - text;
        sane = strtoll(shape, &at, 10) == a->count && at - shape == 21;
    }
    for (int32_t i = 1; sane && i < header.shape.rank; i++) {
        sane = td__multiply(a->bytes, header.shape.dims[i], &a->bytes);
    }
    struct stat about;
    int64_t all;
    if (!sane || !td__multiply(a->bytes, a->count, &all) || fstat(a->file, &about) != 0) {
        return bad_array(a->name, error);
    }
    int64_t there =
        about.st_size - a->header_bytes; /* a power cut may leave less than the header says */
    a->count = a->bytes && there / a->bytes < a->count ? there / a->bytes : a->count;
    return TD_OK;
}

static td_status open_array(array *a, int folder, td_error *error) {
    a->file = td__file_open(folder, a->name, O_RDWR | O_NOFOLLOW);
    if (a->file < 0) {
        return errno == ENOENT ? TD_OK : td__file_error(error, a->name, "open");
    }
    return read_header(a, error);
}

static bool write_count(const array *a, int64_t count) {
    char text[32];
    snprintf(text, sizeof text, "%21lld", (long long)count);
    return td__write_all(a->file, text, 21, a->count_at);
}

static bool move_record(const array *a, char *record, int64_t from, int64_t to) {
    size_t size = (size_t)a->bytes;
    return td__read_all(a->file, record, size, (off_t)(a->header_bytes + from * a->bytes)) &&
           td__write_all(a->file, record, size, (off_t)(a->header_bytes + to * a->bytes));
}

/* Keeps the records i < count with steps[i] <= step. The header first shrinks to those that stay
 * where they are, so that it never speaks of a record that is being moved. */
static td_status filter_array(const array *a, const int64_t *steps, int64_t count, int64_t step,
                              td_error *error) {
    int64_t kept = 0;
    while (kept < count && steps[kept] <= step) {
        kept++;
    }
    char *record = td__calloc((size_t)a->bytes, 1);
    if (!record) {
        return td_error_set(error, TD_MEMORY, "%s: out of memory", a->name);
    }
    bool good = write_count(a, kept);
    for (int64_t i = kept; i < count && good; i++) {
        if (steps[i] <= step) {
            good = move_record(a, record, i, kept);
            kept += good;
        }
    }
    good = good && write_count(a, kept) &&
           ftruncate(a->file, (off_t)(a->header_bytes + kept * a->bytes)) == 0;
    td__free(record);
    return good ? TD_OK : td__file_error(error, a->name, "shorten");
}

static td_status filter_arrays(array arrays[3], int64_t step, td_error *error) {
    const array *data = &arrays[0], *steps = &arrays[2];
    if (data->file < 0) {
        return TD_OK;
    }
    int64_t count = steps->count;
    for (size_t i = 0; i < 3; i++) {
        count = arrays[i].file >= 0 && arrays[i].count < count ? arrays[i].count : count;
    }
    int64_t *values = td__calloc((size_t)count, sizeof *values);
    if (!values) {
        return td_error_set(error, TD_MEMORY, "%s: out of memory", steps->name);
    }
    bool good = steps->bytes == (int64_t)sizeof *values &&
                td__read_all(steps->file, values, (size_t)count * sizeof *values,
                             (off_t)steps->header_bytes);
    td_status status = good ? TD_OK : bad_array(steps->name, error);
    td__little_copy(values, values, good ? (size_t)count * sizeof *values : 0, sizeof *values);
    for (size_t i = 0; i < 3 && !status; i++) { /* data, samples, steps */
        if (arrays[i].file >= 0) {
            status = filter_array(&arrays[i], values, count, step, error);
        }
    }
    td__free(values);
    return status;
}

/* Files that no run has written so, as a whole: new ones begin. */
static td_status set_aside(const td__append_set *set, int folder, const array arrays[3],
                           const td_error *reason, td_error *error) {
    char aside[TD__ASIDE_SIZE] = "";
    td_status status = TD_OK;
    for (size_t i = 0; i < 3 && !status; i++) {
        if (faccessat(folder, arrays[i].name, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
            status = td__file_set_aside(folder, arrays[i].name, aside, error);
        }
    }
    td_error problem = {0};
    td_error_set(&problem, TD_FORMAT, "%s; it is set aside as %s, with what belongs to it",
                 reason->text, aside);
    if (!status) {
        td__append_report(set, &problem);
    }
    return status;
}

static td_status resume_series(const td__append_set *set, int folder, const char *steps,
                               int64_t step, td_error *error) {
    char data[256], samples[256];
    int length = (int)(strlen(steps) - strlen(".steps.npy"));
    snprintf(data, sizeof data, "%.*s.npy", length, steps);
    snprintf(samples, sizeof samples, "%.*s.samples.npy", length, steps);
    array arrays[3] = {
        {.file = -1, .name = data}, {.file = -1, .name = samples}, {.file = -1, .name = steps}};
    td_status status = TD_OK;
    td_error reason = {0};
    for (size_t i = 0; i < 3 && !status; i++) {
        status = open_array(&arrays[i], folder, &reason);
    }
    status = status ? status : filter_arrays(arrays, step, &reason);
    for (size_t i = 0; i < 3; i++) {
        if (arrays[i].file >= 0) {
            close(arrays[i].file);
        }
    }
    if (status == TD_FORMAT) {
        return set_aside(set, folder, arrays, &reason, error);
    }
    return status ? td_error_set(error, status, "%s", reason.text) : TD_OK;
}

td_status td__resume_records(int folder, td__records_function *each, void *context,
                             td_error *error) {
    DIR *entries = td__folder_list(folder);
    if (!entries) {
        return td__file_error(error, "the run's folder", "read");
    }
    td_status status = TD_OK;
    for (struct dirent *entry; !status && (entry = readdir(entries));) {
        char data[256];
        array a = {.file = -1, .name = data};
        if (entry->d_name[0] == '.' || !td__ends_in(entry->d_name, ".steps.npy")) {
            continue;
        }
        int length = (int)(strlen(entry->d_name) - strlen(".steps.npy"));
        snprintf(data, sizeof data, "%.*s.npy", length, entry->d_name);
        if (open_array(&a, folder, NULL) == TD_OK && a.file >= 0) {
            status = each(context, data, a.count, error);
        } /* what is no array is set aside when it is opened */
        if (a.file >= 0) {
            close(a.file);
        }
    }
    closedir(entries);
    return status;
}

td_status td__resume_npy(const td__append_set *set, int64_t step, td_error *error) {
    return visit_files(set, set->folder, ".steps.npy", resume_series, step, error);
}

/* --- PNG -------------------------------------------------------------------------------------- */

static td_status resume_picture(const td__append_set *set, int folder, const char *name,
                                int64_t step, td_error *error) {
    (void)set;
    bool later = strncmp(name, "step-", 5) == 0 && strtoll(name + 5, NULL, 10) > step;
    return later && unlinkat(folder, name, 0) != 0 ? td__file_error(error, name, "remove") : TD_OK;
}

/* Cuts an archive behind its last picture that stays. Those of later steps before it stay with it: run.db does not have
 * them, and pictures keep their places. */
static td_status resume_archive(const td__append_set *set, int folder, const char *name,
                                int64_t step, td_error *error) {
    (void)set;
    char block[TD__TAR_BLOCK], member[TD__TAR_NAME];
    int file = td__file_open(folder, name, O_RDWR | O_NOFOLLOW);
    int64_t at = TD__TAR_COMMENT, end = at, size = 0;
    struct stat about;
    if (file < 0) {
        return td__file_error(error, name, "open");
    }
    bool good = fstat(file, &about) == 0;
    while (good && at < about.st_size && td__read_all(file, block, sizeof block, at) &&
           td__tar_parse(block, member, &size) && at + td__tar_space(size) <= about.st_size) {
        at += td__tar_space(size);
        bool later = strncmp(member, "step-", 5) == 0 && strtoll(member + 5, NULL, 10) > step;
        end = later ? end : at;
    }
    bool empty = end == TD__TAR_COMMENT; /* programs would refuse it */
    good = good && (empty                 ? unlinkat(folder, name, 0) == 0
                    : end < about.st_size ? ftruncate(file, end) == 0
                                          : true);
    td_status status = good ? TD_OK : td__file_error(error, name, "shorten");
    close(file);
    return status;
}

static td_status resume_pictures(const td__append_set *set, int images, const char *name,
                                 int64_t step, td_error *error) {
    int folder = openat(images, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0) {
        return TD_OK; /* a file: not ours */
    }
    td_status status = visit_files(set, folder, ".png", resume_picture, step, error);
    close(folder);
    return status;
}

td_status td__resume_png(int folder, int64_t step, td_error *error) {
    int images = openat(folder, "images", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (images < 0) {
        return errno == ENOENT ? TD_OK : td__file_error(error, "images", "open");
    }
    td_status status = visit_files(NULL, images, "", resume_pictures, step, error);
    status = status ? status : visit_files(NULL, images, ".tar", resume_archive, step, error);
    close(images);
    return status;
}
