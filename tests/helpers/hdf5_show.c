/* Prints what the library finds in an HDF5 file, for comparison with what h5py finds.
 *
 *     hdf5_show FILE ATTRIBUTE…
 *
 * A line for each object, and one for each of the named attributes that it has:
 *
 *     group PATH
 *     array PATH DTYPE DIM,DIM,… VALUES        as hexadecimal bytes
 *     texts PATH ATTRIBUTE TEXT TEXT …         in hexadecimal, each with a '.' before it
 *     refused PATH STATUS SENTENCE
 */
#include "base/bytes.h"
#include "base/memory.h"
#include "hdf5/hdf5.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 16, PATH_SIZE = 8192 };

typedef struct walk {
    td__hdf5 *file;
    char **attributes;
    int attribute_count;
    char path[PATH_SIZE];
    int depth;
} walk;

static void print_hex(const void *bytes, size_t size) {
    for (size_t i = 0; i < size; i++) {
        printf("%02x", ((const unsigned char *)bytes)[i]);
    }
}

static td_status refused(const walk *at, const td_error *error) {
    printf("refused %s %d %s\n", at->path, (int)error->status, error->text);
    return TD_OK;
}

static void show_array(const walk *at, const td_view *view) {
    int64_t count = 0;
    if (td_shape_check(&view->shape, view->dtype, &count, NULL)) {
        abort();
    }
    printf("array %s %s ", at->path, td_dtype_name(view->dtype));
    for (int32_t i = 0; i < view->shape.rank; i++) {
        printf("%s%lld", i ? "," : "", (long long)view->shape.dims[i]);
    }
    printf(" ");
    print_hex(view->data, (size_t)count * td_dtype_size(view->dtype));
    printf("\n");
}

static void show_texts(const walk *at, td__hdf5_object object) {
    for (int i = 0; i < at->attribute_count; i++) {
        td_error error = {0};
        char **texts = NULL;
        size_t count = 0;
        if (td__hdf5_texts(at->file, object, at->attributes[i], &texts, &count, &error)) {
            refused(at, &error);
        } else if (texts) {
            printf("texts %s %s", at->path, at->attributes[i]);
            for (size_t t = 0; t < count; t++) {
                printf(" .");
                print_hex(texts[t], strlen(texts[t]));
            }
            printf("\n");
        }
        td__free(texts);
    }
}

static td_status show(void *user, const char *name, td__hdf5_object object, td_error *unused) {
    (void)unused;
    walk *at = user;
    td_error error = {0};
    size_t length = strlen(at->path);
    snprintf(at->path + length, sizeof at->path - length, "/%s", name);
    td__hdf5_array array = {0};
    if (++at->depth > DEPTH || object == 0) {
        printf("nothing %s\n", at->path);
    } else if (!td__hdf5_read(at->file, object, at->path, &array, &error)) {
        show_array(at, &array.view);
        td__hdf5_release(&array);
        show_texts(at, object);
    } else if (error.status != TD_DTYPE) {
        refused(at, &error);
    } else {
        printf("group %s\n", at->path);
        show_texts(at, object);
        if (td__hdf5_list(at->file, object, show, at, &error)) {
            refused(at, &error);
        }
    }
    at->depth--;
    at->path[length] = 0;
    return TD_OK;
}

int main(int argc, char **argv) {
    td_error error = {0};
    td__bytes bytes = {0};
    static walk at;
    if (argc < 2 || td__bytes_map(&bytes, argv[1], &error)) {
        return 2;
    }
    at.file = td__hdf5_open(bytes.data, bytes.size, "file", &error);
    at.attributes = argv + 2;
    at.attribute_count = argc - 2;
    if (at.file) {
        show(&at, "", td__hdf5_root(at.file), NULL);
    } else {
        refused(&at, &error);
    }
    td__hdf5_close(at.file);
    td__bytes_release(&bytes);
    return 0;
}
