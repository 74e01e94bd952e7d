/* The files of a run beside its database. They are read, not mapped: a file that a resumed run cuts
 * while it is mapped would end the reader. */
#include "base/little.h"
#include "base/memory.h"
#include "base/parse.h"
#include "base/tar.h"
#include "run/run.h"
#include "tensor/npy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEADER_ROOM = 4096, PATH_ROOM = 4096 };
static const size_t max_bytes = (size_t)1 << 33;

/* A file of a run: in its folder, or kept by its database. */
typedef struct run_file {
    int opened; /* -1: the store has it */
    td__store *store;
    const char *name;
    int64_t size;
} run_file;

static td_status open_there(const char *folder, run_file *file, td_error *error) {
    char path[PATH_ROOM];
    struct stat about;
    if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, file->name) >= sizeof path) {
        return td_error_set(error, TD_INVALID, "%s is no file of the run", file->name);
    }
    int opened = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (opened < 0 || fstat(opened, &about) != 0 || !S_ISREG(about.st_mode)) {
        td_status status = errno == ENOENT ? TD_NOT_FOUND : TD_IO;
        td_error_set(error, status, "%s: %s", file->name,
                     opened < 0 ? strerror(errno) : "not a regular file");
        if (opened >= 0) {
            close(opened);
        }
        return status;
    }
    file->opened = opened;
    file->size = about.st_size;
    return TD_OK;
}

/* Names that lead out of the folder are none of a run's. */
static td_status open_in(td_run *run, const char *name, run_file *file, td_error *error) {
    char folder[PATH_ROOM];
    *file = (run_file){.opened = -1, .store = run->store, .name = name};
    if (!td__store_file_inside(name)) {
        return td_error_set(error, TD_INVALID, "%s is no file of the run", name);
    }
    td_status status = td_run_files(run, folder, sizeof folder, error);
    if (!status) {
        return open_there(folder, file, error);
    }
    bool kept = run->store && td__store_file_size(run->store, name, &file->size, NULL) == TD_OK;
    return kept ? TD_OK : status;
}

static void close_file(const run_file *file) {
    if (file->opened >= 0) {
        close(file->opened);
    }
}

static bool read_at(const run_file *file, void *data, size_t size, int64_t offset) {
    if (file->opened < 0) {
        return td__store_file_read(file->store, file->name, offset, size, data, NULL) == TD_OK;
    }
    for (char *to = data; size > 0;) {
        ssize_t got = pread(file->opened, to, size, offset);
        if (got <= 0 && !(got < 0 && errno == EINTR)) {
            return false;
        }
        got = got > 0 ? got : 0;
        to += got;
        size -= (size_t)got;
        offset += got;
    }
    return true;
}

/* ---- NPY ------------------------------------------------------------------------------------ */

static td_status read_header(const run_file *file, td__npy_array *a, td_dtype *dtype,
                             td_error *error) {
    char head[HEADER_ROOM];
    size_t size = file->size < HEADER_ROOM ? (size_t)file->size : HEADER_ROOM;
    bool good = read_at(file, head, size, 0);
    td_status status = td__npy_parse_header(head, good ? size : 0, file->name, a, error);
    if (status) {
        return status;
    }
    for (int i = 0; i < TD_DTYPE_COUNT && !a->fortran; i++) {
        const char *type = td__npy_type((td_dtype)i);
        if (type && strcmp(type, a->type) == 0) {
            *dtype = (td_dtype)i;
            return TD_OK;
        }
    }
    return td_error_set(error, TD_FORMAT, "%s: not an array that a run has written", file->name);
}

/* The record's view and place in the file. */
static td_status locate_record(const run_file *file, int64_t index, td_view *view, int64_t *offset,
                               size_t *bytes, td_error *error) {
    td__npy_array a;
    const char *name = file->name;
    td_status status = read_header(file, &a, &view->dtype, error);
    if (status) {
        return status;
    }
    if (a.shape.rank == 0 || index < 0 || index >= a.shape.dims[0]) {
        return td_error_set(error, TD_NOT_FOUND, "%s: record %lld is not there", name,
                            (long long)index);
    }
    view->shape = (td_shape){.rank = a.shape.rank - 1};
    memcpy(view->shape.dims, a.shape.dims + 1, sizeof(int64_t) * (size_t)view->shape.rank);
    int64_t count;
    status = td_shape_check(&view->shape, view->dtype, &count, error);
    if (status) {
        return status;
    }
    *bytes = (size_t)count * td_dtype_size(view->dtype);
    if (!td__multiply(index, (int64_t)*bytes, offset) ||
        __builtin_add_overflow(*offset, (int64_t)a.start, offset)) {
        return td_error_set(error, TD_FORMAT, "%s: its header is damaged", name);
    }
    return TD_OK;
}

td_status td__run_load_tensor(td_run *run, const char *file, int64_t index, td_view *view,
                              td_error *error) {
    int64_t offset = 0;
    size_t bytes = 0;
    run_file opened;
    td_status status = open_in(run, file, &opened, error);
    if (status) {
        return status;
    }
    status = locate_record(&opened, index, view, &offset, &bytes, error);
    if (!status && ((int64_t)bytes > opened.size || offset > opened.size - (int64_t)bytes)) {
        status = td_error_set(error, TD_FORMAT, "%s is cut short: record %lld is not all there",
                              file, (long long)index);
    }
    if (!status && !td__grow(&run->bytes, &run->bytes_capacity, bytes + 1, max_bytes, 1)) {
        status = td_error_set(error, TD_MEMORY, "out of memory for a tensor");
    }
    if (!status && !read_at(&opened, run->bytes, bytes, offset)) {
        status =
            td_error_set(error, TD_IO, "%s: record %lld cannot be read", file, (long long)index);
    }
    close_file(&opened);
    view->data = run->bytes;
    if (!status) {
        td__little_copy(run->bytes, run->bytes, bytes, td_dtype_size(view->dtype));
    }
    return status;
}

const int64_t *td__run_load_samples(td_run *run, const char *file, int64_t index, int64_t count) {
    char name[PATH_ROOM];
    size_t length = strlen(file), bytes = 0;
    int64_t offset = 0;
    run_file opened;
    if (length < 4 || length + 16 > sizeof name) {
        return NULL;
    }
    (void)snprintf(name, sizeof name, "%.*s.samples.npy", (int)length - 4, file);
    if (open_in(run, name, &opened, NULL)) {
        return NULL;
    }
    td_view view = {0};
    bool good = locate_record(&opened, index, &view, &offset, &bytes, NULL) == TD_OK &&
                view.dtype == TD_INT64 && view.shape.rank == 1 && view.shape.dims[0] == count &&
                td__grow(&run->samples, &run->sample_capacity, (size_t)count + 1,
                         max_bytes / sizeof(int64_t), sizeof(int64_t)) &&
                read_at(&opened, run->samples, bytes, offset);
    close_file(&opened);
    if (!good) {
        return NULL;
    }
    td__little_copy(run->samples, run->samples, bytes, sizeof *run->samples);
    return run->samples;
}

/* Where a picture's bytes are in an archive. */
static td_status locate_picture(const run_file *file, int64_t block, int64_t *offset,
                                int64_t *bytes, td_error *error) {
    char header[TD__TAR_BLOCK], member[TD__TAR_NAME];
    int64_t size = *bytes;
    bool inside = block > 0 && block < size / TD__TAR_BLOCK;
    *offset = inside ? (block + 1) * TD__TAR_BLOCK : 0;
    if (!inside || !read_at(file, header, sizeof header, block * TD__TAR_BLOCK) ||
        !td__tar_parse(header, member, bytes) || *bytes > size - *offset) {
        return td_error_set(error, TD_FORMAT, "%s: the picture at block %lld is not all there",
                            file->name, (long long)block);
    }
    return TD_OK;
}

td_status td__run_load_picture(td_run *run, const char *file, int64_t block, size_t *size,
                               td_error *error) {
    int64_t bytes = 0, offset = 0;
    run_file opened;
    td_status status = open_in(run, file, &opened, error);
    if (status) {
        return status;
    }
    bytes = opened.size;
    size_t length = strlen(file);
    bool packed = length > 4 && strcmp(file + length - 4, ".tar") == 0;
    status = packed ? locate_picture(&opened, block, &offset, &bytes, error) : TD_OK;
    if (!status && !td__grow(&run->bytes, &run->bytes_capacity, (size_t)bytes + 1, max_bytes, 1)) {
        status = td_error_set(error, TD_MEMORY, "out of memory for %s", file);
    } else if (!status && !read_at(&opened, run->bytes, (size_t)bytes, offset)) {
        status = td_error_set(error, TD_IO, "%s cannot be read", file);
    }
    close_file(&opened);
    *size = (size_t)bytes;
    return status;
}
