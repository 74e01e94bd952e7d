/* Files of models that other programs wrote: what they predict, copies of them that are changed, and
 * refusals. Define FOLDER first, as for saved_model.h; the group of tests needs make_folder and
 * remove_folder (folder.h). */
#ifndef TAPEDECK_TESTS_MODEL_FILE_H
#define TAPEDECK_TESTS_MODEL_FILE_H

#include "folder.h"
#include "saved_model.h"
#include "tapedeck/apply.h"

typedef struct file_bytes {
    unsigned char *data;
    size_t size;
} file_bytes;

/* A path in the scratch folder; valid until the fourth call after this one. */
static inline const char *scratch(const char *name) {
    static char paths[4][128];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof *paths, "%s/%s", folder, name);
    return path;
}

static inline void write_file(const char *path, const void *data, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* All bytes of a fixture; free(data). */
static inline file_bytes read_fixture_file(const char *name) {
    char path[512];
    snprintf(path, sizeof path, FOLDER "%s", name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    file_bytes bytes = {malloc(1 << 20), 0};
    bytes.size = fread(bytes.data, 1, 1 << 20, file);
    assert_true(bytes.size > 0 && bytes.size < 1 << 20);
    assert_int_equal(fclose(file), 0);
    return bytes;
}

/* The model NAME.EXTENSION predicts for NAME.x.npy what is in NAME.y.npy. */
static inline void assert_file_predicts(const char *name, const char *extension, double near) {
    td_error error = {0};
    char model[512], x[512];
    snprintf(model, sizeof model, FOLDER "%s%s", name, extension);
    snprintf(x, sizeof x, FOLDER "%s.x.npy", name);
    td_predict_options options = {.size = sizeof options, .to = scratch("y.npy")};
    td_prediction result = {0};
    assert_ok(td_predict(model, x, &options, &result, &error), error);
    td_tensor *got = read_array(scratch("y.npy")), *want = read_npy(name, "y");
    assert_int_equal(td_tensor_count(got), td_tensor_count(want));
    assert_int_equal(result.examples, td_tensor_shape(want).dims[0]);
    const float *a = td_tensor_data(got), *b = td_tensor_data(want);
    for (int64_t i = 0; i < td_tensor_count(got); i++) {
        assert_close(a[i], b[i], near, near);
    }
    td_tensor_destroy(got);
    td_tensor_destroy(want);
}

/* Bytes in a file of this name are refused with a text that has `message`. */
static inline void assert_bytes_refused(const char *name, const void *data, size_t size,
                                        const char *message) {
    td_error error = {0};
    write_file(scratch(name), data, size);
    td_model *model = td_model_load(scratch(name), &error);
    if (model || !error.status || !strstr(error.text, message)) {
        td_model_destroy(model);
        fail_msg("%s: '%s' does not have '%s'", td_status_text(error.status), error.text, message);
    }
}

/* Bytes in a file of this name are loaded, or refused with a reason. */
static inline void assert_bytes_survived(const char *name, const void *data, size_t size) {
    td_error error = {0};
    write_file(scratch(name), data, size);
    td_model *model = td_model_load(scratch(name), &error);
    assert_true(model || (error.status && error.text[0]));
    td_model_destroy(model);
}

#endif
