/* What the tests of the hdf5 module share: files in memory, and a walk over all of one. */
#ifndef TAPEDECK_TESTS_HDF5_SUPPORT_H
#define TAPEDECK_TESTS_HDF5_SUPPORT_H

#include "test.h"

#include "base/memory.h"
#include "hdf5/hdf5.h"

typedef struct image {
    uint8_t *bytes;
    size_t size, capacity;
} image;

/* A block of exactly the file's size, so that the address sanitizer sees what is read beyond. */
static inline image load_fixture(const char *name) {
    char path[1024];
    snprintf(path, sizeof path, TD_TEST_FOLDER "/fixtures/hdf5/%s", name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    image made = {.size = (size_t)ftell(file)};
    rewind(file);
    made.bytes = malloc(made.size);
    assert_int_equal(fread(made.bytes, 1, made.size, file), made.size);
    fclose(file);
    return made;
}

static inline td_status append(void *user, const void *bytes, size_t size, td_error *error) {
    image *to = user;
    if (to->size + size > to->capacity) {
        return td_error_set(error, TD_IO, "full");
    }
    memcpy(to->bytes + to->size, bytes, size);
    to->size += size;
    return TD_OK;
}

/* Everything that was added, in a block of exactly its size. Drops the maker. */
static inline image finish(td__hdf5_maker *maker) {
    td_error error = {0};
    uint64_t size = 0;
    assert_ok(td__hdf5_size(maker, &size, &error), error);
    image made = {.bytes = malloc(size), .capacity = size};
    assert_ok(td__hdf5_finish(maker, append, &made, &error), error);
    assert_int_equal(made.size, size);
    td__hdf5_drop(maker);
    return made;
}

static inline td__hdf5 *open_image(const image *from) {
    td_error error = {0};
    td__hdf5 *file = td__hdf5_open(from->bytes, from->size, "x.h5", &error);
    if (!file) {
        fail_msg("%s", error.text);
    }
    return file;
}

static inline td__hdf5_object find(td__hdf5 *file, const char *path) {
    td_error error = {0};
    td__hdf5_object found = 0;
    assert_ok(td__hdf5_find(file, td__hdf5_root(file), path, &found, &error), error);
    return found;
}

/* What a walk met. */
typedef struct census {
    td__hdf5 *file;
    int depth, groups, arrays, texts, failures;
    td_error first; /* failure */
    uint64_t sum;   /* of all bytes of all values */
} census;

static inline void note(census *all, const td_error *error) {
    assert_true(error->text[0]);
    all->first = all->failures++ ? all->first : *error;
}

static inline void visit_texts(census *all, td__hdf5_object object) {
    static const char *const names[] = {"name", "names", "fixed", "a3"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        td_error error = {0};
        char **texts = NULL;
        size_t count = 0;
        if (td__hdf5_texts(all->file, object, names[i], &texts, &count, &error)) {
            assert_null(texts);
            note(all, &error);
        }
        for (size_t t = 0; t < count; t++) {
            all->sum += strlen(texts[t]);
            all->texts++;
        }
        td__free(texts);
    }
}

static inline td_status visit(void *user, const char *name, td__hdf5_object object,
                              td_error *unused) {
    (void)unused;
    census *all = user;
    td_error error = {0};
    td__hdf5_array array = {0};
    if (object == 0 || all->depth == 8 || all->groups + all->arrays > 500) {
        return TD_OK;
    }
    all->depth++;
    visit_texts(all, object);
    if (!td__hdf5_read(all->file, object, name, &array, &error)) {
        int64_t count = 0;
        assert_ok(td_shape_check(&array.view.shape, array.view.dtype, &count, &error), error);
        for (size_t i = 0; i < (size_t)count * td_dtype_size(array.view.dtype); i++) {
            all->sum += ((const uint8_t *)array.view.data)[i];
        }
        all->arrays++;
        td__hdf5_release(&array);
    } else if (error.status != TD_DTYPE) {
        assert_null(array.owned);
        note(all, &error);
    } else {
        all->groups++;
        if (td__hdf5_list(all->file, object, visit, all, &error)) {
            note(all, &error);
        }
    }
    all->depth--;
    return TD_OK;
}

/* Opens a file and looks at all of it. */
static inline census take_census(const void *bytes, size_t size) {
    td_error error = {0};
    census all = {.file = td__hdf5_open(bytes, size, "x.h5", &error)};
    if (all.file) {
        (void)visit(&all, "", td__hdf5_root(all.file), &error);
    } else {
        note(&all, &error);
    }
    td__hdf5_close(all.file);
    return all;
}

#endif
