/* NPZ: a zip archive with NPY files in it. The one place that uses libzip for data. */
#include "base/file.h"
#include "base/memory.h"
#include "base/words.h"
#include "data/npy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zip.h>

enum { MEMBERS_SHOWN = 16, NAME_SIZE = 256 };

/* The arrays' names without ".npy", for a message. */
static td_status no_such_array(zip_t *archive, const char *path, const char *wanted,
                               td_error *error) {
    char names[MEMBERS_SHOWN][NAME_SIZE];
    const char *candidates[MEMBERS_SHOWN];
    char list[512] = "";
    size_t count = 0, length = 0;
    zip_int64_t entries = zip_get_num_entries(archive, 0);
    for (zip_int64_t i = 0; i < entries && count < MEMBERS_SHOWN; i++) {
        const char *name = zip_get_name(archive, (zip_uint64_t)i, 0);
        size_t size = name ? strlen(name) : 0;
        if (size > 4 && size < NAME_SIZE && strcmp(name + size - 4, ".npy") == 0) {
            memcpy(names[count], name, size - 4);
            names[count][size - 4] = 0;
            candidates[count] = names[count];
            int added = snprintf(list + length, sizeof list - length, "%s%s", count ? ", " : "",
                                 names[count]);
            length = length + (size_t)added < sizeof list ? length + (size_t)added : length;
            count++;
        }
    }
    const char *nearest = td__nearest_word(wanted, candidates, count);
    return td_error_set(error, TD_NOT_FOUND, "%s: no array '%s'%s%s%s; it has: %s", path, wanted,
                        nearest ? "; did you mean '" : "", nearest ? nearest : "",
                        nearest ? "'?" : "", list);
}

td_status td__zip_unpack(struct zip *archive, uint64_t index, const char *what, int64_t maximum,
                         td__bytes *bytes, td_error *error) {
    zip_file_t *file = zip_fopen_index(archive, index, 0);
    if (!file) {
        return td_error_set(error, TD_FORMAT, "%s: %s", what, zip_strerror(archive));
    }
    uint8_t *data = NULL;
    size_t size = 0, capacity = 0;
    td_status status = TD_OK;
    size_t most = (size_t)maximum + 1; /* tells an array of just the maximum from a larger one */
    for (;;) {
        size_t wanted = size + (1 << 16) < most ? size + (1 << 16) : most;
        if (!td__grow(&data, &capacity, wanted, most, 1)) {
            status = td_error_set(error, TD_MEMORY, "%s: no memory for its content", what);
            break;
        }
        zip_int64_t got = zip_fread(file, data + size, capacity - size);
        if (got < 0) {
            status =
                td_error_set(error, TD_FORMAT, "%s: damaged (%s)", what, zip_file_strerror(file));
        }
        if (got <= 0) {
            break;
        }
        size += (size_t)got;
        if (size == most) {
            status =
                td_error_set(error, TD_RANGE, "%s: more than %lld bytes", what, (long long)maximum);
            break;
        }
    }
    zip_fclose(file);
    if (status) {
        td__free(data);
        return status;
    }
    *bytes = (td__bytes){data, size, false};
    return TD_OK;
}

static td_status read_array(zip_t *archive, const char *path, const char *name, int64_t maximum,
                            td__array *array, int64_t *rows, td__bytes *bytes, td_error *error) {
    char member[NAME_SIZE], what[512];
    int length = snprintf(member, sizeof member, "%s.npy", name);
    zip_int64_t index = -1;
    if (length > 0 && (size_t)length < sizeof member) {
        index = zip_name_locate(archive, member, 0);
    }
    if (index < 0) {
        return no_such_array(archive, path, name, error);
    }
    snprintf(what, sizeof what, "%s: array '%s'", path, name);
    td_status status = td__zip_unpack(archive, (zip_uint64_t)index, what, maximum, bytes, error);
    if (status == TD_RANGE) {
        return td_error_set(error, status,
                            "%s: more than %lld bytes; save it as .npy, which is mapped, or raise "
                            "`memory`",
                            what, (long long)maximum);
    }
    return status ? status : td__npy_parse(array, rows, bytes, what, error);
}

zip_t *td__npz_open(const char *path, td_error *error) {
    int code = 0;
    int file = td__file_open(AT_FDCWD, path, O_RDONLY);
    if (file < 0) {
        td_error_set(error, errno == ENOENT ? TD_NOT_FOUND : TD_IO, "%s: %s", path,
                     td__file_reason(errno));
        return NULL;
    }
    zip_t *archive = zip_fdopen(file, 0, &code);
    if (!archive) {
        close(file);
    }
    if (!archive) {
        zip_error_t reason;
        zip_error_init_with_code(&reason, code);
        td_error_set(error, TD_FORMAT, "%s: %s", path, zip_error_strerror(&reason));
        zip_error_fini(&reason);
    }
    return archive;
}

td_status td__npz_read(td__table *table, const td__request *request, td_error *error) {
    const td_data_options *options = request->options;
    const char *path = request->path, *x = options->x ? options->x : "x",
               *y = options->y ? options->y : "y";
    if (request->labels) {
        return td_error_set(error, TD_INVALID,
                            "%s: the labels of an NPZ file are an array in it: name it as `y`",
                            path);
    }
    zip_t *archive = td__npz_open(path, error);
    if (!archive) {
        return TD_FORMAT;
    }
    td_status status = read_array(archive, path, x, options->memory, &table->input, &table->rows,
                                  &table->bytes[0], error);
    char member[NAME_SIZE];
    snprintf(member, sizeof member, "%s.npy", y);
    if (!status && (options->y || zip_name_locate(archive, member, 0) >= 0)) {
        td__array label = {0};
        int64_t rows = 0;
        status =
            read_array(archive, path, y, options->memory, &label, &rows, &table->bytes[1], error);
        if (!status) {
            status = td__table_take_label(table, label, rows, path, y, error);
        }
    }
    zip_discard(archive);
    return status ? status : td__table_split_columns(table, request, error);
}
