/* What the tests of the data module share: files made on the spot, data sets opened. */
#ifndef TAPEDECK_TESTS_DATA_SUPPORT_H
#define TAPEDECK_TESTS_DATA_SUPPORT_H

#include "test.h"

#include "tapedeck/data.h"

#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

static char scratch[64];

/* A new folder for files, in `scratch`; it is also the cache folder. */
static inline int make_scratch(void **state) {
    (void)state;
    strcpy(scratch, "/tmp/tapedeck-data-XXXXXX");
    return mkdtemp(scratch) && setenv("TAPEDECK_CACHE", scratch, 1) == 0 ? 0 : -1;
}

static inline int remove_one(const char *path, const struct stat *status, int type,
                             struct FTW *walk) {
    (void)status;
    (void)type;
    (void)walk;
    return remove(path);
}

static inline int remove_scratch(void **state) {
    (void)state;
    return nftw(scratch, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Writes a file into scratch and returns its path, valid until four more were written. */
static inline const char *write_bytes(const char *name, const void *data, size_t size) {
    static char paths[4][512];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", scratch, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    return path;
}

static inline const char *write_text(const char *name, const char *text) {
    return write_bytes(name, text, strlen(text));
}

/* Opens, or fails the test with the error's text. */
static inline td_dataset *open_data(const td_data_options *options) {
    td_error error = {0};
    td_dataset *dataset = td_dataset_open(options, &error);
    if (!dataset) {
        fail_msg("%s", error.text);
    }
    return dataset;
}

/* Expects that opening fails with this status and a text that has each of the words. */
static inline void check_refused(const td_data_options *options, td_status status, td_names words) {
    td_error error = {0};
    td_dataset *dataset = td_dataset_open(options, &error);
    if (dataset) {
        td_dataset_close(dataset);
        fail_msg("opened, but should have been refused");
    }
    for (size_t i = 0; i < words.count; i++) {
        if (!strstr(error.text, words.items[i])) {
            fail_msg("'%s' does not say '%s'", error.text, words.items[i]);
        }
    }
    if (error.status != status) {
        fail_msg("'%s' is status %d, expected %d", error.text, error.status, status);
    }
}

#define assert_refused(options, status, ...) check_refused(options, status, TD_NAMES(__VA_ARGS__))

#endif
