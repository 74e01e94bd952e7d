/* NPZ: a zip archive with NPY files in it. An array that is stored as it is, is used where it stands in
 * the mapped file. */
#include "base/memory.h"
#include "base/words.h"
#include "data/npy.h"
#include "zip/zip.h"

#include <stdio.h>
#include <string.h>

enum { MEMBERS_SHOWN = 16, NAME_SIZE = 256 };

/* The arrays' names without ".npy", in the order of the file, for a message. */
static td_status no_such_array(const td__zip *zip, const char *wanted, td_error *error) {
    char names[MEMBERS_SHOWN][NAME_SIZE];
    const char *candidates[MEMBERS_SHOWN];
    char list[512] = "";
    size_t count = 0, length = 0;
    for (uint64_t after = 0, next; count < MEMBERS_SHOWN; after = next + 1) {
        const td__zip_entry *first = NULL;
        for (size_t i = 0; i < zip->count; i++) {
            const td__zip_entry *entry = &zip->entries[i];
            first =
                entry->offset >= after && (!first || entry->offset < first->offset) ? entry : first;
        }
        if (!first) {
            break;
        }
        next = first->offset;
        size_t size = first->name_size;
        if (size > 4 && size < NAME_SIZE && memcmp(first->name + size - 4, ".npy", 4) == 0) {
            memcpy(names[count], first->name, size - 4);
            names[count][size - 4] = 0;
            candidates[count] = names[count];
            int added = snprintf(list + length, sizeof list - length, "%s%s", count ? ", " : "",
                                 names[count]);
            length = length + (size_t)added < sizeof list ? length + (size_t)added : length;
            count++;
        }
    }
    char hint[TD__HINT_ROOM];
    if (count == 0) {
        return td_error_set(error, TD_NOT_FOUND,
                            "%s: a zip archive without arrays (.npy) and without a CSV file",
                            zip->origin);
    }
    return td_error_set(error, TD_NOT_FOUND, "%s: no array '%s'%s; it has: %s", zip->origin, wanted,
                        td__word_meant(hint, wanted, candidates, count), list);
}

/* Takes the bytes. */
static td_status open_archive(td__npz *npz, td__bytes bytes, const char *path, td_error *error) {
    *npz = (td__npz){.bytes = bytes};
    td_status status = td__zip_open(&npz->zip, bytes.data, bytes.size, path, error);
    if (status) {
        td__npz_close(npz);
    }
    return status;
}

td_status td__npz_open(td__npz *npz, const char *path, td_error *error) {
    td__bytes bytes = {0};
    td_status status = td__bytes_map(&bytes, path, error);
    return status ? status : open_archive(npz, bytes, path, error);
}

void td__npz_close(td__npz *npz) {
    td__zip_release(&npz->zip);
    td__bytes_release(&npz->bytes);
}

static bool member_name(char member[NAME_SIZE], const char *name) {
    int length = snprintf(member, NAME_SIZE, "%s.npy", name);
    return length > 0 && length < NAME_SIZE;
}

td_status td__npz_array(const td__input *input, const char *name, bool optional, int64_t maximum,
                        td__array *array, int64_t *rows, td__bytes *bytes, td_error *error) {
    char member[NAME_SIZE], what[512];
    td__npz npz;
    const char *path = td__input_path(input);
    td__bytes mapped = {0};
    td_status status = td__input_map(input, &mapped, error);
    status = status ? status : open_archive(&npz, mapped, path, error);
    if (status) {
        return status;
    }
    if (!member_name(member, name) || !td__zip_find(&npz.zip, member)) {
        status = optional ? TD_OK : no_such_array(&npz.zip, name, error);
        td__npz_close(&npz);
        return status;
    }
    (void)snprintf(what, sizeof what, "%s: array '%s'", path, name);
    td__zip_member content = {0};
    status = td__zip_read(&npz.zip, member, (size_t)maximum, true, &content, error);
    if (status == TD_RANGE) {
        status =
            td_error_set(error, status,
                         "%s: more than %lld bytes; save it as .npy, which is mapped, or raise "
                         "`memory`",
                         what, (long long)maximum);
    }
    if (!status) {
        td__bytes inside = {content.data, content.size, false};
        status = td__npy_parse(array, rows, &inside, what, error);
    }
    if (!status && !content.owned) {
        *bytes = npz.bytes;
        npz.bytes = (td__bytes){0};
    } else if (!status) {
        *bytes = (td__bytes){content.data, content.size, false};
    } else {
        td__zip_member_release(&content);
    }
    td__npz_close(&npz);
    return status;
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
    td_status status = td__npz_array(request->input, x, false, options->memory, &table->input,
                                     &table->rows, &table->bytes[0], error);
    td__array label = {0};
    int64_t rows = 0;
    if (!status) {
        status = td__npz_array(request->input, y, !options->y, options->memory, &label, &rows,
                               &table->bytes[1], error);
    }
    if (!status && label.data) {
        status = td__table_take_label(table, label, rows, path, y, error);
    }
    return status ? status : td__table_split_columns(table, request, error);
}
