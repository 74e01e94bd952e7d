/* Reads an HDF5 file with the library and writes all of it anew, for h5py to read.
 *
 *     hdf5_copy FROM TO ATTRIBUTE…
 *
 * Of attributes, those named are copied: lists when their name begins with "list", else texts. */
#include "base/bytes.h"
#include "base/memory.h"
#include "hdf5/hdf5.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARRAYS = 4096, PATH_SIZE = 8192 };

static td__hdf5 *from;
static td__hdf5_maker *maker;
static td__hdf5_array arrays[ARRAYS];
static size_t array_count;
static char **attributes, path[PATH_SIZE];

static void require(td_status status, const td_error *error) {
    if (status) {
        fprintf(stderr, "%s\n", error->text);
        exit(1);
    }
}

static void copy_texts(td__hdf5_object object) {
    for (char **name = attributes; *name; name++) {
        td_error error = {0};
        char **texts = NULL;
        size_t count = 0;
        require(td__hdf5_texts(from, object, *name, &texts, &count, &error), &error);
        if (texts && !strncmp(*name, "list", 4)) {
            td__hdf5_add_texts(maker, path, *name, count, (const char *const *)texts);
        } else if (texts) {
            td__hdf5_add_text(maker, path, *name, texts[0]);
        }
        td__free(texts);
    }
}

static td_status copy(void *user, const char *name, td__hdf5_object object, td_error *error) {
    size_t length = strlen(path);
    snprintf(path + length, sizeof path - length, "/%s", name);
    td_error why = {0};
    td_status status = TD_OK;
    if (array_count == ARRAYS) {
        return td_error_set(error, TD_RANGE, "too many arrays");
    }
    if (!td__hdf5_read(from, object, path, &arrays[array_count], &why)) {
        td__hdf5_add_array(maker, path, arrays[array_count++].view);
    } else {
        td__hdf5_add_group(maker, path);
        status = td__hdf5_list(from, object, copy, user, error);
    }
    copy_texts(object);
    path[length] = 0;
    return status;
}

static td_status put(void *user, const void *bytes, size_t size, td_error *error) {
    return fwrite(bytes, 1, size, user) == size ? TD_OK
                                                : td_error_set(error, TD_IO, "cannot write");
}

int main(int argc, char **argv) {
    td_error error = {0};
    td__bytes bytes = {0};
    FILE *output = argc > 2 ? fopen(argv[2], "wb") : NULL;
    if (!output) {
        return 2;
    }
    attributes = argv + 3;
    require(td__bytes_map(&bytes, argv[1], &error), &error);
    from = td__hdf5_open(bytes.data, bytes.size, "file", &error);
    require(error.status, &error);
    maker = td__hdf5_make();
    require(copy(NULL, "", td__hdf5_root(from), &error), &error);
    uint64_t whole = 0;
    require(td__hdf5_size(maker, &whole, &error), &error);
    require(td__hdf5_finish(maker, put, output, &error), &error);
    if ((uint64_t)ftell(output) != whole || fclose(output)) {
        return 3;
    }
    td__hdf5_drop(maker);
    for (size_t i = 0; i < array_count; i++) {
        td__hdf5_release(&arrays[i]);
    }
    td__hdf5_close(from);
    td__bytes_release(&bytes);
    return 0;
}
