#include "run/zip.h"

#include "base/file.h"
#include "base/memory.h"
#include "zip/zip.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 1 << 16 };
static const int64_t small = INT64_C(1) << 31; /* archives below this do without zip64 */

static int is_array(const struct dirent *entry) {
    size_t length = strlen(entry->d_name);
    return length > 4 && strcmp(entry->d_name + length - 4, ".npy") == 0;
}

/* Bytes of all files together. */
static int64_t all_bytes(int folder, struct dirent **entries, int count) {
    int64_t bytes = 0;
    for (int i = 0; i < count; i++) {
        struct stat about;
        bytes += fstatat(folder, entries[i]->d_name, &about, 0) == 0 ? (int64_t)about.st_size : 0;
    }
    return bytes;
}

static void add_file(td__zip_writer *writer, int folder, const char *name) {
    uint8_t piece[PIECE];
    int file = td__file_open(folder, name, O_RDONLY);
    ssize_t got = file < 0 ? -1 : 0;
    td__zip_begin(writer, name);
    while (file >= 0 && writer->good && (got = read(file, piece, sizeof piece)) > 0) {
        td__zip_append(writer, piece, (size_t)got);
    }
    writer->good = writer->good && got >= 0;
    td__zip_end(writer);
    if (file >= 0) {
        close(file);
    }
}

td_status td__zip_arrays(const char *folder, const char *path, td_error *error) {
    struct dirent **entries = NULL;
    int from = td__folder_open(folder, error);
    if (from < 0) {
        return TD_IO;
    }
    int count = scandir(folder, &entries, is_array, alphasort);
    int file = count < 0 ? -1 : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    td_status status = TD_OK;
    if (file < 0) {
        status = td_error_set(error, errno == EEXIST ? TD_EXISTS : TD_IO, "%s: %s", path,
                              td__file_reason(errno));
    } else {
        td__zip_writer writer = {
            .file = file, .good = true, .large = all_bytes(from, entries, count) > small};
        for (int i = 0; i < count && writer.good; i++) {
            add_file(&writer, from, entries[i]->d_name);
        }
        td__zip_finish(&writer);
        writer.good = close(file) == 0 && writer.good;
        if (!writer.good) {
            status = td__file_error(error, path, "write");
            (void)remove(path);
        }
    }
    for (int i = 0; i < count; i++) {
        free(entries[i]); // NOLINT: scandir's
    }
    free(entries); // NOLINT: scandir's
    close(from);
    return status;
}
