/* Any bytes as an HDF5 file; every group, value and text that is accepted lies inside. */
#include "hdf5/hdf5.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

enum { DEPTH = 6, OBJECTS = 300 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct walk {
    td__hdf5 *file;
    int depth, objects;
    volatile uint64_t sum;
} walk;

static void require(bool good) {
    if (!good) {
        abort();
    }
}

static void read_array(walk *at, td__hdf5_object object) {
    td_error error = {0};
    td__hdf5_array array = {0};
    if (td__hdf5_read(at->file, object, "array", &array, &error)) {
        require(error.text[0] && !array.owned);
        return;
    }
    int64_t count;
    require(!td_shape_check(&array.view.shape, array.view.dtype, &count, NULL));
    for (size_t i = 0; i < (size_t)count * td_dtype_size(array.view.dtype); i++) {
        at->sum += ((const uint8_t *)array.view.data)[i];
    }
    td__hdf5_release(&array);
}

static void read_texts(walk *at, td__hdf5_object object) {
    static const char *const names[] = {"name", "names", "fixed", "a3"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        td_error error = {0};
        char **texts = NULL;
        size_t count = 0;
        td_status status = td__hdf5_texts(at->file, object, names[i], &texts, &count, &error);
        require(status ? error.text[0] && !texts : texts || count == 0);
        for (size_t k = 0; k < count; k++) {
            at->sum += strlen(texts[k]);
        }
        td__free(texts);
    }
}

static td_status visit(void *user, const char *name, td__hdf5_object object, td_error *error) {
    walk *at = user;
    at->sum += strlen(name);
    if (object && at->depth < DEPTH && at->objects++ < OBJECTS) {
        at->depth++;
        read_array(at, object);
        read_texts(at, object);
        td_status status = td__hdf5_list(at->file, object, visit, at, error);
        require(!status || error->text[0]);
        at->depth--;
    }
    return TD_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    td_error error = {0};
    walk at = {.file = td__hdf5_open(data, size, "fuzz", &error)};
    if (!at.file) {
        return error.text[0] ? 0 : -1;
    }
    (void)visit(&at, "", td__hdf5_root(at.file), &error);
    td__hdf5_object found = 0;
    if (!td__hdf5_find(at.file, td__hdf5_root(at.file), "/model/./soft", &found, &error) && found) {
        read_array(&at, found);
    }
    td__hdf5_close(at.file);
    return 0;
}
