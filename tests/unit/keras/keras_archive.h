/* Archives for tests: the members of a fixture, one of them changed, zipped again. */
#ifndef TAPEDECK_TESTS_KERAS_ARCHIVE_H
#define TAPEDECK_TESTS_KERAS_ARCHIVE_H

#include "base/bytes.h"
#include "keras/keras.h"
#include "zip/zip.h"

#include <sys/mman.h>
#include <unistd.h>

#define KERAS_FOLDER TD_TEST_FOLDER "/fixtures/models/keras/"

typedef struct archive {
    unsigned char *bytes;
    size_t size;
} archive;

/* All of a fixture; free(bytes). */
static inline archive read_fixture(const char *name) {
    td_error error = {0};
    td__bytes map = {0};
    char path[512];
    snprintf(path, sizeof path, KERAS_FOLDER "%s", name);
    assert_ok(td__bytes_map(&map, path, &error), error);
    archive copy = {malloc(map.size), map.size};
    memcpy(copy.bytes, map.data, map.size);
    td__bytes_release(&map);
    return copy;
}

/* A zip of config.json and model.weights.h5. */
static inline archive make_archive(const char *config, const void *weights, size_t size) {
    int file = memfd_create("archive", MFD_CLOEXEC);
    assert_true(file >= 0);
    td__zip_writer writer = {.file = file, .good = true};
    td__zip_begin(&writer, "config.json");
    td__zip_append(&writer, config, strlen(config));
    td__zip_end(&writer);
    td__zip_begin(&writer, "model.weights.h5");
    td__zip_append(&writer, weights, size);
    td__zip_end(&writer);
    td__zip_finish(&writer);
    assert_true(writer.good);
    archive made = {malloc((size_t)writer.at), (size_t)writer.at};
    assert_int_equal(pread(file, made.bytes, made.size, 0), made.size);
    close(file);
    return made;
}

/* text with the first `from` after `after` replaced by `to`; free. */
static inline char *replace(const char *text, const char *after, const char *from, const char *to) {
    const char *at = strstr(text, after);
    at = at ? strstr(at, from) : NULL;
    if (!at) {
        fail_msg("there is no '%s' after '%s'", from, after);
    }
    size_t size = strlen(text) + strlen(to) + 1;
    char *made = malloc(size);
    snprintf(made, size, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return made;
}

/* The fixture with its configuration changed so. */
static inline archive edit_fixture(const char *name, const char *after, const char *from,
                                   const char *to) {
    td_error error = {0};
    archive whole = read_fixture(name);
    td__zip zip;
    td__zip_member config = {0}, weights = {0};
    assert_ok(td__zip_open(&zip, whole.bytes, whole.size, name, &error), error);
    assert_ok(td__zip_read(&zip, "config.json", 0, true, &config, &error), error);
    assert_ok(td__zip_read(&zip, "model.weights.h5", 0, true, &weights, &error), error);
    char *text = strndup((const char *)config.data, config.size);
    char *edited = replace(text, after, from, to);
    archive made = make_archive(edited, weights.data, weights.size);
    free(edited);
    free(text);
    td__zip_release(&zip);
    free(whole.bytes);
    return made;
}

/* Takes the archive; fails unless it is refused with a text that has this. */
static inline void assert_refused(archive made, td_status status, const char *message) {
    td_error error = {0};
    td_model *model = td__keras_parse("x.keras", made.bytes, made.size, &error);
    free(made.bytes);
    if (model || error.status != status || !strstr(error.text, message)) {
        fail_msg("%s: '%s' does not have '%s'", td_status_text(error.status), error.text, message);
    }
}

#endif
